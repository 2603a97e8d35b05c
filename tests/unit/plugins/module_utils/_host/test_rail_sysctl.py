# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's settings of rails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rail_model, rail_sysctl
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._sysctl import config

RAILS = rail_model.rails(
    [
        {"netdev": "eth1.100", "addresses": ["10.1.0.11/24"]},
        {"netdev": "eth2", "addresses": ["fd01::12/64"]},
    ]
)
VALUES = {"arp_ignore": 1}
KEY = "net/ipv4/conf/eth1.100/arp_ignore"
OURS = {"/etc/sysctl.d/zz-rdmaops-rails.conf": f"{KEY} = 1\n"}


class Host(rail_sysctl.Host):
    def __init__(self, files: dict[str, str], live: dict[str, int], unreadable: bool = False) -> None:
        super().__init__()
        self.files, self.live, self.unreadable = files, live, unreadable

    def tree(self, instead: object = None) -> config.Tree:
        files = {**self.files, **(instead if isinstance(instead, dict) else {})}
        lines = [
            line for path in sorted(files, key=lambda path: Path(path).name) for line in config.parse(path, files[path])
        ]
        return config.Tree(config.evaluate(lines), [("/etc/sysctl.d", "Input/output error")] if self.unreadable else [])

    def value(self, key: str) -> int | None:
        return self.live.get(key.split("/")[3])


def test_the_file() -> None:
    """A rail without IPv4 has none of them, and the dot of a VLAN is part of its name."""
    assert rail_sysctl.content(RAILS, VALUES) == f"{KEY} = 1"
    (line,) = config.parse("x", rail_sysctl.content(RAILS, VALUES))
    assert line.key == KEY


@pytest.mark.parametrize(
    ("files", "live", "expected"),
    [
        ({}, {"eth1.100": 0, "all": 0}, ("drift", None, 0, None)),
        (OURS, {"eth1.100": 1, "all": 0}, ("in_sync", 1, 1, 1)),
        (OURS, {"eth1.100": 0, "all": 1}, ("in_sync", 1, 1, 1)),
        (OURS, {"eth1.100": 0, "all": 0}, ("drift", 1, 0, 1)),
        (OURS, {"all": 0}, ("unknown", 1, None, 1)),
        ({"/etc/sysctl.d/50.conf": f"{KEY}=2"}, {"eth1.100": 1, "all": 0}, ("drift", 2, 1, 2)),
        ({"/etc/sysctl.d/50.conf": "net.ipv4.conf.*.arp_ignore=1"}, {"eth1.100": 1, "all": 1}, ("in_sync", 1, 1, 1)),
    ],
)
def test_states(files: dict[str, str], live: dict[str, int], expected: tuple[object, ...]) -> None:
    settings, conflicts = rail_sysctl.settings(RAILS, VALUES, Host(files, live))
    assert conflicts == []
    (row,) = map(rail_sysctl.shown, settings)
    configured = row["configured"] and int(row["configured"]["value"])
    assert (row["status"], configured, row["live"], row["next_boot"]) == expected
    assert row["name"] == "net.ipv4.conf.eth1.100.arp_ignore"


def test_what_cannot_be_read_is_not_known() -> None:
    settings, _conflicts = rail_sysctl.settings(RAILS, VALUES, Host(OURS, {"eth1.100": 1, "all": 0}, unreadable=True))
    (row,) = map(rail_sysctl.shown, settings)
    assert (row["status"], row["next_boot"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("files", "live", "expected"),
    [
        (
            {"/etc/sysctl.d/zzz.conf": f"# x\n{KEY} = 0"}, {},
            f"/etc/sysctl.d/zzz.conf:2 ({KEY} = 0) is read after /etc/sysctl.d/zz-rdmaops-rails.conf",
        ),
        (
            {"/etc/sysctl.d/50.conf": "net.ipv4.conf.all.arp_ignore=8"}, {},
            "/etc/sysctl.d/50.conf:1 (net.ipv4.conf.all.arp_ignore=8) is for all devices, and the kernel uses the larger value",
        ),
        ({}, {"eth1.100": 1, "all": 8}, "net.ipv4.conf.all.arp_ignore is 8 now, and the kernel uses the larger value"),
    ],
)  # fmt: skip
def test_conflicts(files: dict[str, str], live: dict[str, int], expected: str) -> None:
    _settings, conflicts = rail_sysctl.settings(RAILS, VALUES, Host(files, {"eth1.100": 1, "all": 0, **live}))
    assert conflicts == [expected]
