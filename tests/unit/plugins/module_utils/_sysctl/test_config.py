# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""sysctl.d as systemd-sysctl reads it. tests/integration/test_sysctl_oracle.py compares with the program."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._sysctl import config

KEY = "net/ipv4/conf/rail0/arp_ignore"


def value(*texts: str, key: str = KEY) -> str | None:
    lines = [line for number, text in enumerate(texts) for line in config.parse(f"/etc/sysctl.d/{number}.conf", text)]
    line = config.winner(config.evaluate(lines), key)
    return line and line.value


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.conf.rail0.arp_ignore", KEY),
        ("net/ipv4/conf/rail0/arp_ignore", KEY),
        ("net.ipv4.conf.eth0/100.arp_ignore", "net/ipv4/conf/eth0.100/arp_ignore"),
        ("net/ipv4/conf/eth0.100/arp_ignore", "net/ipv4/conf/eth0.100/arp_ignore"),
        ("vm", "vm"),
    ],
)
def test_keys_are_paths(key: str, path: str) -> None:
    assert config.normalized(key) == path


def test_a_line_and_its_place() -> None:
    (line,) = config.parse(
        "/etc/sysctl.d/a.conf", "# x\n; y = 1\n\nno assignment\n\tnet.ipv4.conf.rail0.arp_ignore=1 \n"
    )
    assert line == ("/etc/sysctl.d/a.conf", 5, "\tnet.ipv4.conf.rail0.arp_ignore=1 ", KEY, "1")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([f"{KEY}=1", f"{KEY}=2"], "2"),
        ([f"-{KEY} = 1"], "1"),
        (["net.ipv4.conf.*.arp_ignore=2"], "2"),
        (["net.ipv4.conf.rail?.arp_ignore=2", "net.ipv4.conf.*.arp_ignore=3"], "3"),
        # A pattern that is repeated keeps its place.
        (["net.ipv4.conf.*.arp_ignore=3", "net.ipv4.conf.rail?.arp_ignore=2", "net.ipv4.conf.*.arp_ignore=3"], "2"),
        # A key of its own beats patterns, wherever it is.
        ([f"{KEY}=1", "net.ipv4.conf.*.arp_ignore=2"], "1"),
        # Without a value, it is left out of patterns.
        (["net.ipv4.conf.*.arp_ignore=2", f"-{KEY}"], None),
        ([f"{KEY}=1", f"-{KEY}"], None),
        (["net.ipv4.*.arp_ignore=2", "net.ipv4.conf.all.arp_ignore=2"], None),
        ([], None),
    ],
)
def test_who_wins(texts: list[str], expected: str | None) -> None:
    assert value(*texts) == expected


def test_a_file_hides_its_namesakes_and_the_last_name_wins(tmp_path: Path) -> None:
    for path, text in {
        "etc/sysctl.d/50-a.conf": f"{KEY}=1",
        "usr/lib/sysctl.d/50-a.conf": f"{KEY}=8",
        "run/sysctl.d/40-b.conf": f"{KEY}=2",
        "usr/lib/sysctl.d/90-masked.conf": f"{KEY}=3",
        "etc/sysctl.d/95-no-suffix": f"{KEY}=4",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "etc/sysctl.d/90-masked.conf").symlink_to("/dev/null")
    (tmp_path / "etc/sysctl.d/99-dangling.conf").symlink_to("../sysctl.conf")
    tree = config.read(str(tmp_path))
    assert tree == ([("/etc/sysctl.d/50-a.conf", 1, f"{KEY}=1", KEY, "1")], [])
    (tmp_path / "etc/sysctl.conf").write_text(f"{KEY}=5")
    line = t.cast(config.Assignment, config.winner(config.read(str(tmp_path)).assignments, KEY))
    assert (line.path, line.value) == ("/etc/sysctl.d/99-dangling.conf", "5")


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc/sysctl.d").mkdir(parents=True)
    (tmp_path / "etc/sysctl.d/a.conf").write_text(f"{KEY}=1")

    def refuse(_path: str) -> str:
        raise config.FileError("Reading it: Permission denied")

    monkeypatch.setattr(config, "read_text", refuse)
    assert config.read(str(tmp_path)) == ([], [("/etc/sysctl.d/a.conf", "Reading it: Permission denied")])
