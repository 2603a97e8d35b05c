# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the switches of each kind are asked for."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import elements, value

KINDS = value("__switch_telemetry_known")
# gNMI path conventions: names, and keys in brackets (openconfig/reference, rpc/gnmi/gnmi-path-conventions.md).
PATH = re.compile(r"(/[A-Za-z][A-Za-z0-9_-]*(\[[a-z-]+=(PORT|\*)\])?)+|/COUNTERS/PORT(/Queues)?")


def test_the_kinds() -> None:
    assert sorted(KINDS) == ["arista", "cumulus", "juniper", "openconfig", "sonic"]
    assert KINDS["arista"]["paths"] == KINDS["openconfig"]["paths"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_well_formed(kind: str) -> None:
    about = KINDS[kind]
    assert set(about) <= {"port", "encoding", "auth_scheme", "target", "paths"}
    assert 0 < about["port"] < 65536
    assert about["encoding"] in ("json", "json_ietf")
    paths = [entry["path"] for entry in about["paths"]]
    assert len(paths) == len(set(paths)) > 0
    for entry in about["paths"]:
        assert set(entry) == {"path", "source"}
        assert PATH.fullmatch(entry["path"]), entry
        assert entry["path"].count("PORT") == 1
        assert re.fullmatch(r"https://\S+|openconfig-[a-z-]+", entry["source"])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_path_is_within_another(kind: str) -> None:
    """Two subscriptions that overlap would send a leaf twice."""
    paths = [entry["path"] for entry in KINDS[kind]["paths"]]
    # The virtual path of a SONiC port has its counters, and not its queues.
    inside = [(a, b) for a in paths for b in paths if a != b and b.startswith(a + "/")]
    assert inside == ([("/COUNTERS/PORT", "/COUNTERS/PORT/Queues")] if kind == "sonic" else [])


def covers(kind: str, leaf: str) -> bool:
    """Whether one of the paths is that of a leaf, or of what it is in."""
    wanted: list[t.Any] = elements(leaf)["elem"]
    return any(
        wanted[: len(asked)] == asked for asked in (elements(entry["path"])["elem"] for entry in KINDS[kind]["paths"])
    )


# kind, what it is for, leaf
LEAVES = [
    ("openconfig", "/interfaces/interface[name=PORT]/state/counters/in-octets"),
    ("openconfig", "/interfaces/interface[name=PORT]/ethernet/state/counters/in-mac-pause-frames"),
    ("openconfig", "/qos/interfaces/interface[interface-id=PORT]/output/queues/queue[name=*]/state/dropped-pkts"),
    ("cumulus", "/qos/interfaces/interface[interface-id=PORT]/output/queues/queue[name=*]/state/ecn-marked-pkts"),
    (
        "cumulus",
        "/qos/interfaces/interface[interface-id=PORT]/state/switch-priority[priority=*]/counters/in-pause-pkts",
    ),
    ("sonic", "/COUNTERS/PORT/SAI_PORT_STAT_PFC_3_RX_PKTS"),
    ("sonic", "/COUNTERS/PORT/Queues/PORT:3/SAI_QUEUE_STAT_DROPPED_PACKETS"),
    ("juniper", "/interfaces/interface[name=PORT]/state/counters/in-pause-pkts"),
]


@pytest.mark.parametrize(("kind", "leaf"), LEAVES)
def test_what_matters_is_asked_for(kind: str, leaf: str) -> None:
    assert covers(kind, leaf)
