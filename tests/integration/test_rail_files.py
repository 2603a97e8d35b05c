# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of host_rails, read by netplan and NetworkManager of Debian: all of a rail is in what they make of these."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rail_managers, rail_model
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import copy_of, inside, mounted

pytestmark = pytest.mark.long

RAILS = rail_model.rails(
    [
        {
            "netdev": "rail0",
            "addresses": ["10.1.0.11/24"],
            "mtu": 9000,
            "routes": [{"to": "10.0.0.0/8", "via": "10.1.0.1"}],
        },
        {
            "netdev": "rail1",
            "addresses": ["10.1.0.12/24", "fd01::12/64"],
            "table": 200,
            "routes": [{"to": "fd00::/8", "via": "fd01::1"}],
        },
    ]
)
# A section's name, and its keys with their values.
Section = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("network", tmp_path_factory.mktemp("root") / "debian")


def sections(text: str) -> list[Section]:
    """What a file in the syntax of systemd or of a keyfile says, in an order of its own."""
    result: list[tuple[str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        if line.startswith("["):
            result.append((line, []))
        elif line and not line.startswith("#"):
            key, _equal, value = line.partition("=")
            result[-1][1].append((key, value))
    return sorted((name, tuple(sorted(keys))) for name, keys in result if keys)


def write(root: Path, path: str, text: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{HEADER}\n{text}\n")
    place.chmod(0o600)


def common(sections_: t.Iterable[Section]) -> list[Section]:
    """Sections without what does not matter here.

    netplan writes the scope of IPv6 routes, which have none, and link-local addresses, which networkd has by default.
    From 1.1 on, it tells systemd-networkd-wait-online itself what is not required.
    """
    result = []
    for name, keys in sections_:
        ipv6 = any(":" in value for _key, value in keys)
        usual = {("RequiredForOnline", "no"), ("LinkLocalAddressing", "ipv6"), *([("Scope", "link")] if ipv6 else [])}
        result.append((name, tuple(pair for pair in keys if pair not in usual)))
    return sorted(section for section in result if section[1])


def test_netplan_makes_of_its_file_what_networkd_is_given_otherwise(root: Path) -> None:
    write(root, "/etc/netplan/90-rdmaops-rails.yaml", rail_managers.netplan(RAILS))
    output = inside(root, "sh", "-c", "netplan generate && tail -n +1 /run/systemd/network/*.network")
    made = dict(part.split(" <==\n", 1) for part in output.split("==> ")[1:])
    for rail in RAILS:
        found = sections(made[f"/run/systemd/network/10-netplan-{rail.netdev}.network"])
        assert common(found) == common(sections(rail_managers.networkd(rail)))


@pytest.mark.parametrize("infiniband", [False, True])
@pytest.mark.parametrize("rail", RAILS, ids=lambda rail: rail.netdev)
def test_network_manager_keeps_all_of_its_file(root: Path, rail: rail_model.Rail, infiniband: bool) -> None:
    """nmcli reads the file as NetworkManager does, and writes what it has understood."""
    text = rail_managers.network_manager(rail, infiniband)
    # The value that is there already: modify needs one.
    argv = ["chroot", str(root), "nmcli", "--offline", "connection", "modify", "connection.autoconnect-priority", "100"]
    done = subprocess.run(
        mounted(root, argv), input=f"{HEADER}\n{text}\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sections(done.stdout) == sections(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("network: {version: 2}", False),
        ("network: {version: 2, renderer: networkd}", False),
        ("network: {version: 2, renderer: NetworkManager}", True),
        # That is for the devices of its own file.
        ("network: {version: 2, ethernets: {renderer: NetworkManager}}", False),
    ],
)
def test_what_netplan_has_network_manager_configure(root: Path, text: str, expected: bool) -> None:
    write(root, "/etc/netplan/90-rdmaops-rails.yaml", rail_managers.netplan(RAILS))
    write(root, "/etc/netplan/01-desktop.yaml", text)
    host = rail_managers.Host(str(root))
    # Its programs are those of the root. mypy refuses that a method is replaced.
    host.ask = lambda *argv: inside(root, *argv)  # type: ignore[method-assign]
    assert host.has_netplan
    assert host.netplan_has_network_manager is expected
    output = inside(root, "sh", "-c", "netplan generate && find /run -name 'netplan-rail0.*'")
    assert output == ("/run/NetworkManager/system-connections/netplan-rail0.nmconnection\n" if expected else "")
