# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""devlink parameters, from the shape that devlink -j prints (iproute2 6.15, devlink/devlink.c: pr_out_param)."""

from __future__ import annotations

import json

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.modules.devlink_param import DevlinkError, decide, parse_show
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

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
