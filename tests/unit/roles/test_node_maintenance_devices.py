# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA devices node_maintenance misses after a reboot."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = t.Any
ADDRESS = "0000:07:00.0"


def device(name: str, guid: str | None, auxiliary: str | None = None, address: str | None = ADDRESS) -> Json:
    return {"name": name, "pci_address": address, "auxiliary_device": auxiliary, "node_guid": guid}


def guid(number: int) -> str:
    return f"0c42:a103:0065:{number:04x}"


ZERO = "0000:0000:0000:0000"
CARD = device("mlx5_0", guid(1))
SUB = device("mlx5_2", guid(2), "mlx5_core.sf.4")
SUBS = [CARD, SUB, device("mlx5_3", guid(3), "mlx5_core.sf.5")]
SOFT = device("rxe0", guid(9), address=None)

# before, after, the places and names of those that are missed
REBOOTS: dict[str, tuple[list[Json], list[Json], list[tuple[str, str]]]] = {
    "all are back under other names": (
        [*SUBS, SOFT],
        [{**row, "name": f"ibp{number}"} for number, row in enumerate([*SUBS, SOFT])],
        [],
    ),
    "a sub-function is not": (SUBS, SUBS[:2], [(f"{ADDRESS} mlx5_core.sf.5", "mlx5_3")]),
    "no sub-function is": (
        SUBS, [CARD], [(f"{ADDRESS} mlx5_core.sf.4", "mlx5_2"), (f"{ADDRESS} mlx5_core.sf.5", "mlx5_3")],
    ),
    "the function is not, its sub-functions are": (SUBS, SUBS[1:], [(ADDRESS, "mlx5_0")]),
    "two devices of one function": ([CARD, device("mlx5_1", guid(8))], [CARD], [(ADDRESS, "mlx5_1")]),
    "a device without a PCI address": ([CARD, SOFT], [CARD], [(guid(9), "rxe0")]),
    # The kernel has counted them in another order.
    "sub-functions of other numbers": (
        SUBS,
        [CARD, device("mlx5_2", guid(3), "mlx5_core.sf.4"), device("mlx5_3", guid(2), "mlx5_core.sf.7")],
        [],
    ),
    "a sub-function in the place of another": (
        SUBS, [CARD, device("mlx5_2", guid(3), "mlx5_core.sf.4")], [(f"{ADDRESS} mlx5_core.sf.4", "mlx5_2")],
    ),
    "a card with a new GUID": ([CARD], [device("mlx5_0", guid(7))], []),
    "sub-functions with random GUIDs": ([CARD, SUB], [CARD, {**SUB, "node_guid": guid(7)}], []),
    "the GUID at another address": ([CARD], [{**CARD, "pci_address": "0000:08:00.0"}], [(ADDRESS, "mlx5_0")]),
    **{
        f"GUIDs that are {number}": (
            [{**row, "node_guid": number} for row in SUBS],
            [{**row, "node_guid": number} for row in SUBS[:2]],
            [(f"{ADDRESS} mlx5_core.sf.5", "mlx5_3")],
        )
        for number in (ZERO, None)
    },
    "no device was there": ([], [CARD], []),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "missed"), REBOOTS.values(), ids=REBOOTS)
def test_what_is_missed(before: list[Json], after: list[Json], missed: list[tuple[str, str]]) -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    looks = [{"__node_maintenance_devices": {"devices": devices}} for devices in (before, after)]
    expected = role.task("remember.yml", "Record them", "__node_maintenance_expected_devices", **looks[0])
    missing = role.value("__node_maintenance_missing", **looks[1], __node_maintenance_expected_devices=expected)
    assert [(place, name) for place, _guid, name in missing] == missed


def test_the_message_has_names_and_places() -> None:
    role = values(COLLECTION / "roles/node_maintenance")
    text = role.task(
        "devices.yml", "Report what is missing", "msg",
        __node_maintenance_devices={"devices": [CARD], "unreadable": []},
        __node_maintenance_expected_devices=[["0000:07:00.0 mlx5_core.sf.4", f"{ADDRESS} {guid(2)}", "mlx5_2"]],
    )  # fmt: skip
    assert text.startswith("here came back without the RDMA devices mlx5_2 (0000:07:00.0 mlx5_core.sf.4) after ")
