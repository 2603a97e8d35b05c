# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""devlink parameters, from the shape that devlink -j prints (iproute2 6.15, devlink/devlink.c: pr_out_param)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.modules import devlink_param
from ansible_collections.rdmaops.gpu_fabric.plugins.modules.devlink_param import DevlinkError, decide, parse_show
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import module_arguments

HANDLE = "pci/0000:07:00.0"
ROCE = [{"name": "enable_iwarp", "value": False}, {"name": "enable_roce", "value": True}]


def show(roce: bool, iwarp: bool) -> str:
    """Return what devlink prints for one adapter; hand-made, there is none to record from."""
    rows = [("enable_roce", "runtime", roce), ("enable_iwarp", "runtime", iwarp), ("enable_sriov", "permanent", True)]
    parameters = [
        {"name": name, "type": "generic", "values": [{"cmode": cmode, "value": value}]} for name, cmode, value in rows
    ]
    return json.dumps({"param": {HANDLE: parameters}})


def test_the_one_that_goes_is_switched_off_first() -> None:
    done: list[tuple[str, str, bool]] = []
    decision, result = decide([HANDLE], parse_show(show(False, True)), ROCE, lambda *call: done.append(call))
    assert decision.actions == [f"Set enable_iwarp of {HANDLE} to false", f"Set enable_roce of {HANDLE} to true"]
    assert done == []
    decision.carry_out()
    assert done == [(HANDLE, "enable_iwarp", False), (HANDLE, "enable_roce", True)]
    assert [item["status"] for item in result["resources"]] == ["drift", "drift"]


def test_in_sync_is_no_change() -> None:
    decision, result = decide([HANDLE], parse_show(show(True, False)), ROCE, lambda *call: pytest.fail(str(call)))
    assert decision.result() == {"changed": False, "actions": [], "diff": []}
    assert result["devices"] == {HANDLE: {"enable_roce": True, "enable_iwarp": False}}


def test_a_parameter_that_is_not_there_is_refused() -> None:
    desired = [{"name": "enable_sriov", "value": True}]
    assert message_of(DevlinkError, decide, [HANDLE], parse_show(show(True, False)), desired, lambda *call: None) == (
        f"Setting enable_sriov of {HANDLE}: the device has no such parameter at runtime; it has enable_iwarp, enable_roce"
    )


def test_no_device_is_nothing_to_do() -> None:
    decision, result = decide([], {}, ROCE, lambda *call: None)
    assert not decision.changed
    assert result["resources"] == []


@pytest.mark.parametrize("text", ["{", "[]", '{"param": {"pci/x": [{"values": [{"cmode": "runtime", "value": 1}]}]}}'])
def test_junk_is_an_error(text: str) -> None:
    with pytest.raises(DevlinkError, match=r"^Reading what devlink printed: "):
        parse_show(text)


# What devlink of iproute2 6.15 does if the parameters of another device cannot be read: the dump of all devices fails,
# and a request for one parameter of a healthy device does not.
DEVLINK = """#!/bin/sh
case "$*" in
  "-j dev param show") echo "kernel answers: Input/output error" >&2; exit 1 ;;
  "-j dev param show pci/0000:07:00.0 name enable_roce") echo '{roce}' ;;
  "-j dev param show pci/0000:07:00.0 name enable_iwarp") echo '{iwarp}' ;;
  *) echo "kernel answers: Invalid argument" >&2; exit 1 ;;
esac
"""


def one(name: str, value: bool) -> str:
    values = [{"cmode": "runtime", "value": value}]
    return json.dumps({"param": {HANDLE: [{"name": name, "type": "generic", "values": values}]}})


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with one adapter of the driver ice."""
    (tmp_path / "drivers/ice/0000:07:00.0").mkdir(parents=True)
    program = tmp_path / "bin/devlink"
    program.parent.mkdir()
    program.write_text(DEVLINK.format(roce=one("enable_roce", True), iwarp=one("enable_iwarp", False)))
    program.chmod(0o755)
    monkeypatch.setattr(devlink_param, "PCI_DRIVERS", str(tmp_path / "drivers"))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def run(capsys: pytest.CaptureFixture[str], *params: dict[str, object]) -> dict[str, object]:
    with module_arguments({"driver": "ice", "params": params}), pytest.raises(SystemExit):
        devlink_param.main()
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.usefixtures("adapter")
def test_another_device_whose_parameters_cannot_be_read_does_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, *ROCE)
    assert result.get("msg") is None
    assert (result["changed"], result["devices"]) == (False, {HANDLE: {"enable_roce": True, "enable_iwarp": False}})


@pytest.mark.usefixtures("adapter")
def test_the_device_itself_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, {"name": "enable_rocee", "value": True})["msg"] == (
        f"Running devlink -j dev param show {HANDLE} name enable_rocee: exit status 1: kernel answers: Invalid argument. "
        "Check with 'devlink dev param show' that the device has this parameter"
    )
