# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role writes and takes away, and what gNMIc makes of a configuration before it is put in place.

The service itself needs systemd: the files are what is looked at here, and what its command does is in test_collecting.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import play
from ansible_collections.rdmaops.gpu_fabric.tests.integration.switch_telemetry.written import places, role
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import program
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import rescued

LEAF: dict[str, t.Any] = {"name": "leaf-1", "address": "192.0.2.1", "ports": ["Ethernet1/1"], "credentials": "fabric"}
PASSWORD = "correct-horse"
# gNMIc takes long to build, where its release cannot be had.
pytestmark = pytest.mark.long

GIVEN: dict[str, t.Any] = {
    "switch_telemetry_credentials": {"fabric": {"username": "reader", "password": PASSWORD}},
    "switch_telemetry_targets": [LEAF],
}


@pytest.fixture(autouse=True)
def usable() -> None:
    need_root()
    need_tool("unshare")


def changed(output: str) -> int:
    match = re.search(r"changed=(\d+)", output)
    assert match, output
    return int(match[1])


def files(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(directory.iterdir()) if path.is_file()}


def test_four_steps_and_back(tmp_path: Path) -> None:
    here, work = tmp_path / "here", tmp_path / "work"
    given = {**GIVEN, **places(here)}

    planned = play(work, role(**given), check=True)
    assert planned.rc == 0, planned.output
    # Directory, credentials, and configuration with unit.
    assert changed(planned.output) == 3
    assert "+ExecStart=" in planned.output
    assert not here.exists()

    # The second time changes nothing.
    done = play(work, role("config.yml", **given), role("config.yml", **given))
    assert done.rc == 0, done.output
    assert changed(done.output) == 3
    before = files(here)
    assert sorted(before) == ["credentials.env", "gnmic.yaml", "switch_telemetry.service"]
    for run in (planned, done):
        assert PASSWORD not in run.output
        assert "reader" not in run.output

    again = play(work, role(**given), check=True)
    assert changed(again.output) == 0, again.output
    gone = role(**{**given, "switch_telemetry_state": "absent"})
    # Unit and directory are one task. What is new is a difference, and in check mode only that.
    would = play(work, gone, role(**{**given, "switch_telemetry_sample_interval": 30}), check=True)
    assert changed(would.output) == 2, would.output
    assert "+    sample-interval: 30s" in would.output
    assert files(here) == before
    removed = play(work, gone, gone)
    assert changed(removed.output) == 1, removed.output
    assert not here.exists()


def test_from_an_archive_and_back(tmp_path: Path) -> None:
    archive = tmp_path / "gnmic_0.45.0_Linux_x86_64.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(program("gnmic"), "gnmic")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    here, work = tmp_path / "here", tmp_path / "work"
    given = {
        **GIVEN,
        **places(here),
        "switch_telemetry_program": "",
        "switch_telemetry_url": str(archive),
        "switch_telemetry_checksum": f"sha256:{digest}",
    }
    # Without a program there is no verdict, and nothing else stops a check.
    planned = play(work, role(**given), check=True)
    assert planned.rc == 0, planned.output
    assert changed(planned.output) == 4
    assert not (tmp_path / "lib").exists()
    steps = [role("program.yml", **given), role("config.yml", **given)]
    done = play(work, *steps, *steps)
    assert done.rc == 0, done.output
    assert changed(done.output) == 4
    assert (tmp_path / "lib" / "gnmic").stat().st_mode & 0o111 == 0o111
    gone = role(**{**given, "switch_telemetry_state": "absent"})
    removed = play(work, gone, gone)
    assert changed(removed.output) == 2, removed.output
    assert not (tmp_path / "lib" / "gnmic").exists()


# What differs in the target, the site's own vendor, and gNMIc's own words
REFUSED: list[tuple[dict[str, t.Any], dict[str, t.Any], str]] = [
    ({"ca_file": "/nowhere/ca.pem"}, {}, "stat /nowhere/ca.pem: no such file or directory"),
    (
        {"vendor": "mine"},
        {"paths": [{"path": "/interfaces/interface[name=PORT/state", "source": "mine"}]},
        "invalid value: malformed xpath",
    ),
    (
        {"vendor": "mine"},
        {"paths": [{"path": "/interfaces/PORT", "source": "mine"}], "encoding": "xml"},
        "option Encoding: invalid value: xml",
    ),
    (
        {"cert_file": "/etc/hostname", "key_file": "/etc/hostname"},
        {},
        'failed to initialize target "leaf-1": tls: failed to find any PEM data in certificate input',
    ),
]


def test_what_gnmic_refuses_replaces_nothing(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    common = {**GIVEN, **places(here)}
    tried = []
    for target, mine, _said in REFUSED:
        vendors = {"switch_telemetry_vendors": {"mine": mine} if mine else {}}
        tried.append(role("config.yml", **{**common, **vendors, "switch_telemetry_targets": [{**LEAF, **target}]}))
    done = play(tmp_path / "work", *map(rescued, tried))
    assert f"rescued={len(REFUSED)} " in done.output, done.output
    for _target, _mine, expected in REFUSED:
        assert f"rejects the new configuration: {expected}" in unquoted(done.output)
    assert f"{here}/gnmic.yaml is unchanged." in done.output
    assert files(here) == {}


def unquoted(text: str) -> str:
    return text.replace('\\"', '"').replace("Error: ", "").replace("[gnmic] ", "")


def test_what_cannot_run_is_refused_in_check_mode_as_well(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    given = {**GIVEN, **places(here)}
    tried = [
        role("config.yml", **{**given, "switch_telemetry_program": "/nowhere/gnmic"}),
        role("config.yml", **{**given, "switch_telemetry_targets": [{**LEAF, "ca_file": "/nowhere/ca.pem"}]}),
    ]
    done = play(tmp_path / "work", *map(rescued, tried), check=True)
    assert "rescued=2 " in done.output, done.output
    assert "there is no /nowhere/gnmic. Install it, or leave switch_telemetry_program empty" in done.output
    assert "stat /nowhere/ca.pem: no such file or directory. " in done.output
    assert files(here) == {}
