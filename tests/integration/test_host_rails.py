# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_rails on two cards in one network, in a network namespace of its own: who answers, and by which card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import compare
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rails as host_rails
from ansible_collections.rdmaops.gpu_fabric.tests.integration.test_pyroute2 import RELEASES, ip
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, rails, skip_or_fail, waiting
from ansible_collections.rdmaops.gpu_fabric.tests.support.environment import (
    create,
    interpreter,
    link_checkout,
    site_packages,
)

Json = dict[str, t.Any]
RAILS = [
    {
        "netdev": "rail0",
        "addresses": ["10.9.0.11/24"],
        "mtu": 4200,
        "routes": [{"to": "10.8.0.0/16", "via": "10.9.0.1"}],
    },
    {"netdev": "rail1", "addresses": ["10.9.0.12/24", "fd09::12/64"], "mtu": 4200},
]
# Stands in for the programs of systemd, and records the commands that reload it.
RUN = """
import json, os, sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rails
root, check_mode, params = sys.argv[1], sys.argv[2] == "check", json.loads(sys.argv[3])
host, calls = rails.Host(root), []
answers = {"systemctl": "active", "networkctl": "  Network File: n/a\\n         State: routable (unmanaged)\\n"}
host.services.ask = lambda *argv: None if "NetworkManager.service" in argv else answers.get(argv[0])
host.services.tell = lambda *argv: os._exit(0) if sys.argv[2] == "die" else calls.append(argv)
try:
    result = rails.manage(params, check_mode, host)
except FabricError as exc:
    result = {"msg": str(exc)}
print(json.dumps({**result, "calls": calls}, default=str))
"""
# What the host does when it boots: systemd-networkd and systemd-sysctl, in a mount namespace with the files. In a
# read-only sysfs, as containers have it, networkd does not wait for udev.
BOOT = """
set -e
mount -o remount,bind,ro /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network /run/systemd/netif
mount --bind "$1/etc/systemd/network" /etc/systemd/network
mount --bind "$1/etc/sysctl.d" /etc/sysctl.d
/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf
exec timeout 60 /lib/systemd/systemd-networkd
"""


class Network:
    """A host with two rails, and a peer, on one switch. The host's files are below a directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.python = root, sys.executable
        self.host, self.peer, self.switch = (f"rdmaops-{name}-{os.getpid()}" for name in ("host", "peer", "switch"))

    def connect(self) -> None:
        for name in (self.host, self.peer, self.switch):
            ip("netns", "add", name)
        ip("-n", self.switch, "link", "add", "fabric", "mtu", "9000", "type", "bridge")
        for space, name in ((self.host, "rail0"), (self.host, "rail1"), (self.peer, "port")):
            end = f"to-{name}"
            ip("-n", self.switch, "link", "add", end, "type", "veth", "peer", "name", name, "netns", space)
            ip("-n", self.switch, "link", "set", end, "mtu", "9000", "master", "fabric", "up")
        ip("-n", self.switch, "link", "set", "fabric", "up")
        ip("-n", self.peer, "address", "add", "10.9.0.21/24", "dev", "port")
        ip("-n", self.peer, "link", "set", "port", "up")

    def within(self, space: str, script: str, *arguments: str) -> str:
        argv = ["ip", "netns", "exec", space, self.python, "-c", script, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, mode: str = "", **params: t.Any) -> Json:
        # The namespace's Python need not have Ansible.
        checked = compare.checked(host_rails.ARGUMENTS, {"rails": RAILS, **params})
        output = self.within(self.host, RUN, str(self.root), mode, json.dumps(checked))
        return t.cast(Json, json.loads(output or "{}"))

    def answering(self, address: str) -> list[str]:
        """The cards of the host that answer when the peer asks who has an address."""
        links = json.loads(ip("-n", self.host, "-json", "link"))
        names = {link["address"]: link["ifname"] for link in links}
        output = self.within(self.peer, rails.ARP, "port", "10.9.0.21", address, "1")
        return sorted(names[mac] for mac in output.split())

    def sent(self, source: str) -> dict[str, int]:
        return t.cast(dict[str, int], json.loads(self.within(self.host, rails.SEND, source, "10.9.0.21")))

    def boot(self) -> subprocess.Popen[bytes]:
        """Remove all that is live, and start what configures the rails when a host boots."""
        for netdev in ("rail0", "rail1"):
            ip("-n", self.host, "address", "flush", "dev", netdev)
            ip("-n", self.host, "link", "set", netdev, "mtu", "1500", "down")
        for family, address in (("-4", "10.9.0.11"), ("-4", "10.9.0.12"), ("-6", "fd09::12")):
            ip("-n", self.host, family, "rule", "del", "from", address)
        argv = ["ip", "netns", "exec", self.host, "unshare", "--mount", "bash", "-c", BOOT, "boot", str(self.root)]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def remove(self) -> None:
        for name in (self.host, self.peer, self.switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Network]:
    need_root()
    network = Network(tmp_path)
    try:
        network.connect()
        yield network
    finally:
        network.remove()


def statuses(result: Json) -> dict[str, str]:
    return {row["name"]: row["status"] for row in result["resources"]}


def test_rails_in_one_network_keep_apart(fabric: Network) -> None:
    for netdev, address in (("rail0", "10.9.0.11/24"), ("rail1", "10.9.0.12/24")):
        ip("-n", fabric.host, "address", "add", address, "dev", netdev)
        ip("-n", fabric.host, "link", "set", netdev, "up")
    # Both cards answer for each address, and what comes from the second one leaves by the first.
    assert fabric.answering("10.9.0.12") == ["rail0", "rail1"]
    wrong = fabric.sent("10.9.0.12")
    assert wrong["rail0"] >= 100 > wrong["rail1"], wrong

    assert "msg" not in fabric.run()

    for rail, address in (("rail0", "10.9.0.11"), ("rail1", "10.9.0.12")):
        assert fabric.answering(address) == [rail]
        counts = fabric.sent(address)
        other = "rail1" if rail == "rail0" else "rail0"
        assert counts[rail] >= 100, counts
        assert counts[other] <= 5, counts


def test_the_service_brings_the_same_when_the_host_boots(fabric: Network) -> None:
    for program in ("systemd-networkd", "systemd-sysctl"):
        if not Path("/lib/systemd", program).exists():
            skip_or_fail(f"{program} is not installed")
    fabric.run()
    booted = fabric.boot()
    try:
        waiting.wait_for(lambda: not fabric.run("check")["changed"], 50, pause=0.5)
    finally:
        booted.terminate()
        booted.wait(30)
    assert set(statuses(fabric.run("check")).values()) == {"in_sync"}
    assert fabric.answering("10.9.0.12") == ["rail1"]
    assert fabric.sent("10.9.0.12")["rail1"] >= 100


def test_check_run_again_and_check(fabric: Network) -> None:
    check = fabric.run("check")
    assert set(statuses(check).values()) == {"drift"}
    assert not list(fabric.root.rglob("*rdmaops*"))
    assert "10.9.0.11" not in ip("-n", fabric.host, "address")
    run = fabric.run()
    assert run["actions"] == check["actions"]
    assert run["diff"] == check["diff"]
    assert run["calls"] == [["networkctl", "reload"]]
    files = sorted(str(path.relative_to(fabric.root)) for path in fabric.root.rglob("*") if path.is_file())
    assert files == [
        "etc/sysctl.d/zz-rdmaops-rails.conf",
        "etc/systemd/network/05-rdmaops-rail0.network",
        "etc/systemd/network/05-rdmaops-rail1.network",
    ]
    for mode in ("", "check"):
        again = fabric.run(mode)
        assert (again["changed"], again["actions"], again["diff"], again["calls"]) == (False, [], [], [])
        assert set(statuses(again).values()) == {"in_sync"}


def test_a_run_that_ends_before_the_reload_is_made_up_for(fabric: Network) -> None:
    fabric.run()
    rails = [{**RAILS[0], "mtu": 9000}, RAILS[1]]
    assert fabric.run("die", rails=rails) == {}
    assert "MTUBytes=9000" in (fabric.root / "etc/systemd/network/05-rdmaops-rail0.network").read_text()
    ip("-n", fabric.host, "link", "set", "rail0", "mtu", "9000")
    for mode, calls in (("check", []), ("", [["networkctl", "reload"]])):
        result = fabric.run(mode, rails=rails)
        assert (result["changed"], result["actions"]) == (True, ["Have networkd read its files again"])
        assert {name for name, status in statuses(result).items() if status == "drift"} == {"rail0", "rail1"}
        assert result["calls"] == calls
    assert not fabric.run("check", rails=rails)["changed"]


@pytest.mark.long
@pytest.mark.parametrize(("release", "python"), RELEASES)
def test_every_release_of_pyroute2(
    fabric: Network, release: str, python: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    venv = tmp_path_factory.mktemp("pyroute2")
    create(venv, interpreter(python), [f"pyroute2=={release}"])
    link_checkout(site_packages(venv))
    fabric.python = str(venv / "bin/python")
    assert fabric.run()["changed"]
    assert not fabric.run()["changed"]
    ip("-n", fabric.host, "rule", "add", "from", "10.9.0.99", "table", "101", "priority", "5")
    ip("-n", fabric.host, "route", "add", "10.7.0.0/16", "dev", "rail0", "table", "100")
    repaired = fabric.run()
    if release == "0.5.14":
        assert repaired["msg"].endswith("Install a newer pyroute2, or do it by hand"), repaired
        return
    assert len(repaired["actions"]) == 2
    assert not fabric.run("check")["changed"]


def test_changes_by_others_are_drift_and_are_repaired(fabric: Network) -> None:
    fabric.run()
    ip("-n", fabric.host, "rule", "del", "from", "10.9.0.12")
    ip("-n", fabric.host, "route", "del", "10.8.0.0/16", "table", "100")
    ip("-n", fabric.host, "link", "set", "rail1", "mtu", "1500")
    ip("-n", fabric.host, "rule", "add", "from", "10.9.0.99", "table", "101", "priority", "5")
    subprocess.run(
        ["ip", "netns", "exec", fabric.host, "sysctl", "-qw", "net.ipv4.conf.rail0.arp_ignore=0"],
        check=True,
        timeout=60,
    )
    run = fabric.run()
    assert run["actions"] == [
        "Add a route to 10.8.0.0/16 via 10.9.0.1 by rail0 to table 100",
        "Set the MTU of rail1 from 1500 to 4200 bytes",
        "Remove the rule that packets from 10.9.0.99 use table 101",
        "Add the rule that packets from 10.9.0.12 use table 101",
        "Set net.ipv4.conf.rail0.arp_ignore to 1",
    ]
    assert {name for name, status in statuses(run).items() if status == "drift"} == {
        "rail0", "rail1", "net.ipv4.conf.rail0.arp_ignore",
    }  # fmt: skip
    assert not fabric.run("check")["changed"]


def test_a_rail_in_a_pod_is_unknown_and_its_file_is_kept(fabric: Network) -> None:
    fabric.run()
    ip("-n", fabric.host, "link", "set", "rail1", "netns", fabric.peer)
    result = fabric.run("check")
    assert not result["changed"]
    assert statuses(result)["rail1"] == "unknown"
    assert result["rails"][1]["mtu"] is None
    assert statuses(result)["net.ipv4.conf.rail1.arp_ignore"] == "unknown"


def test_a_table_of_others_is_refused(fabric: Network) -> None:
    ip("-n", fabric.host, "rule", "add", "from", "10.7.0.1", "table", "101")
    message = (
        "Configuring the rails: table 101, that of rail rail1, is used by a rule for 10.7.0.1. Remove these, or choose other"
        " values"
    )
    assert fabric.run()["msg"] == message
    assert not list(fabric.root.rglob("*"))
    assert "msg" not in fabric.run(rails=[{**RAILS[0]}, {**RAILS[1], "table": 200}])


def test_the_file_of_a_rail_that_is_no_longer_listed_is_removed(fabric: Network) -> None:
    fabric.run()
    result = fabric.run(rails=RAILS[:1])
    path = fabric.root / "etc/systemd/network/05-rdmaops-rail1.network"
    assert f"Remove {path}" in result["actions"]
    assert not path.exists()
    # The other rail's file is as it was.
    assert statuses(result)["rail0"] == "in_sync"


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (
            ["route", "add", "default", "dev", "rail0"],
            "Configuring rail rail0: it has the default route of the host, which",
        ),
        (
            ["link", "add", "bridge0", "type", "bridge"],
            "Configuring rail rail0: it is a member of bridge0. Name that device",
        ),
        (
            ["link", "delete", "rail0"],
            "Configuring rail rail0: the host has no network device of that name. If it is in a",
        ),
    ],
)
def test_devices_that_are_refused(fabric: Network, setup: list[str], message: str) -> None:
    ip("-n", fabric.host, "link", "set", "rail0", "up")
    ip("-n", fabric.host, *setup)
    if "bridge0" in setup:
        ip("-n", fabric.host, "link", "set", "rail0", "master", "bridge0")
    assert fabric.run()["msg"].startswith(message)
    assert not list(fabric.root.rglob("*"))
