# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyroute2, by which network_device moves a device, from 0.5.14 to the newest.

Each release moves real network devices between two namespaces of the test's own. Namespaces that others make by it are
found by name, entered, and have the links that it says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter, survey
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.environment import (
    create,
    interpreter,
    link_checkout,
    site_packages,
)

COUNTER = itertools.count()
# The release, and a Python of its time.
RELEASES = [("0.5.14", "3.8"), ("0.6.13", "3.9"), ("0.7.12", "3.11"), ("0.8.1", "3.12"), ("0.9.7", "3.13")]
MAKE = """
import json, sys
from pyroute2 import NetNS, netns
name = sys.argv[1]
netns.create(name)
space = NetNS(name)
space.link("set", index=1, mtu=4200)
links = {dict(one["attrs"])["IFLA_IFNAME"]: dict(one["attrs"])["IFLA_MTU"] for one in space.get_links()}
space.close()
print(json.dumps(links))
"""
# The cards of the namespace, NAME=ADDRESS, are given: no network device that can be made here has a PCI address.
MOVE = """
import sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey, target
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import pci_netdevs
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import netdev
home, away, device, address, name = sys.argv[1:6]
cards = [pci_netdevs.Netdev(*card.split("=")) for card in sys.argv[6:]]
pci_netdevs.netdevs = lambda: cards
target.initial = lambda: target.resolve("netns", home)
(space,) = [space for space in survey.survey().namespaces if space.name == away]
try:
    netdev.Host().take(space, pci_netdevs.Netdev(device, address), name)
except netdev.DeviceError as exc:
    print(exc)
"""
CARD, OTHER = "0000:07:00.0", "0000:08:00.0"


def links() -> dict[str, int]:
    return {name: int(Path("/sys/class/net", name, "mtu").read_text()) for _index, name in socket.if_nameindex()}


def ip(*words: str) -> str:
    done = subprocess.run([need_tool("ip"), *words], capture_output=True, text=True, timeout=60)
    if "Unknown device type" in done.stderr:
        skip_or_fail(f"making a network device: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout


class Namespaces:
    """One that stands in for the host's, and another one with the network devices net1 and net2."""

    def __init__(self, python: Path | str) -> None:
        self.python = python
        number = f"{os.getpid()}-{next(COUNTER)}"
        self.home, self.away = f"rdmaops-home-{number}", f"rdmaops-away-{number}"

    def names(self, name: str) -> list[str]:
        return sorted(link["ifname"] for link in json.loads(ip("-n", name, "-json", "link")))

    def move(self, device: str, address: str, name: str, *cards: str) -> str:
        """Move a network device home, and return the message if it is not moved."""
        argv = [self.python, "-c", MOVE, self.home, self.away, device, address, name, *cards]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def namespaces(python: Path | str) -> t.Iterator[Namespaces]:
    need_root()
    made = Namespaces(python)
    try:
        for name in (made.home, made.away):
            ip("netns", "add", name)
        ip("-n", made.away, "link", "add", "net1", "type", "veth", "peer", "name", "net2")
        yield made
    finally:
        for name in (made.home, made.away):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)


def devices_are_moved(spaces: Namespaces) -> None:
    cards = [f"net1={CARD}", f"net2={OTHER}"]
    # It is not the card that was looked for; there is none of that name; the kernel keeps it where it is.
    for device, address, reason in (
        ("net1", OTHER, "it is no longer in its network namespace under that name. Run again"),
        ("net3", CARD, "it is no longer in its network namespace under that name. Run again"),
        ("lo", CARD, "the kernel refused to move or rename it: Invalid argument"),
    ):
        message = spaces.move(device, address, "rail0", *cards, f"lo={CARD}", f"net3={CARD}")
        assert message == f"Taking the network device {device} ({address}) back to the host as rail0: {reason}"
    assert spaces.names(spaces.away) == ["lo", "net1", "net2"]

    # The name that it gets is one of its alternative names.
    ip("-n", spaces.away, "link", "property", "add", "dev", "net1", "altname", "rail0")
    assert spaces.move("net1", CARD, "rail0", *cards) == ""
    assert (spaces.names(spaces.home), spaces.names(spaces.away)) == (["lo", "rail0"], ["lo", "net2"])
    # The kernel moves it and only then finds that the name is taken (do_setlink() in net/core/rtnetlink.c).
    message = spaces.move("net2", OTHER, "rail0", *cards)
    assert message.endswith("as rail0: the kernel refused to move or rename it: File exists")
    assert (spaces.names(spaces.home), spaces.names(spaces.away)) == (["lo", "net2", "rail0"], ["lo"])


def test_network_devices_are_moved() -> None:
    with namespaces(sys.executable) as spaces:
        devices_are_moved(spaces)


@pytest.mark.long
@pytest.mark.parametrize(("release", "python"), RELEASES)
def test_every_release(release: str, python: str, tmp_path: Path) -> None:
    need_root()
    create(tmp_path / "venv", interpreter(python), [f"pyroute2=={release}"])
    link_checkout(site_packages(tmp_path / "venv"))
    with namespaces(tmp_path / "venv/bin/python") as spaces:
        devices_are_moved(spaces)

    name = f"pyroute2-{os.getpid()}-{release}"
    try:
        argv: list[t.Any] = [tmp_path / "venv/bin/python", "-I", "-c", MAKE, name]
        made = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert made.returncode == 0, made.stderr
        entries = [space for space in survey.survey().namespaces if space.name == name]
        assert [space.inode for space in entries] == [os.stat(f"/run/netns/{name}").st_ino]
        assert enter.within(entries[0], links, sysfs=True) == json.loads(made.stdout)
        assert json.loads(made.stdout)["lo"] == 4200
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)
