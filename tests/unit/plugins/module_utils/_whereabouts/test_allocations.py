# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as a leaked address, and what is left alone. The writing is tested against a real API server."""

from __future__ import annotations

import copy
import datetime
import ipaddress
import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts import allocations as wb
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts.pools import SEEN, PoolsError, manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of

Json = t.Any
NOW = datetime.datetime(2026, 11, 21, 3, 0, 0)
CONTAINER = "3f1c9be2a7d0"


def pod(
    name: str = "w", *ips: str, phase: str = "Running", ready: bool = True, node: str = "gpu-1", **more: Json
) -> Json:
    status = [{"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.9"], "default": True}]
    status += [{"name": "t/rail0", "interface": f"net{number}", "ips": [ip]} for number, ip in enumerate(ips, 1)]
    annotations = {wb.STATUS_KEYS[0]: json.dumps(status)}
    return {
        "metadata": {"namespace": "t", "name": name, "uid": "u1", "annotations": annotations, **more},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def node(name: str = "gpu-1", ready: str = "True") -> Json:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def pool(allocations: Json, name: str = "10.100.0.0-28", text: str = "10.100.0.0/28") -> Json:
    return {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"namespace": "kube-system", "name": name, "resourceVersion": "7", "uid": "p"},
        "spec": {"range": text, "allocations": allocations},
    }


def entry(podref: str = "t/w", ifname: str = "net1", container: str = CONTAINER) -> Json:
    return {"id": container, "podref": podref, "ifname": ifname}


def reservation(name: str, podref: str = "t/w") -> Json:
    return {
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"namespace": "kube-system", "name": name, "uid": "r"},
        "spec": {"podref": podref, "ifname": "net1"},
    }


class Server:
    """Keeps what was written."""

    def __init__(self, pools: Json, reservations: Json = (), pods: Json = (), nodes: Json = None) -> None:
        self.lists = {"ippools": list(pools), "overlappingrangeipreservations": list(reservations)}
        self.lists.update(pods=list(pods), nodes=[node()] if nodes is None else nodes)
        self.done: list[tuple[str, str]] = []
        self.conflict = False

    def items(self, path: str, doing: str) -> Json:
        return copy.deepcopy(self.lists[path.rsplit("/", 1)[1]])

    def replace(self, path: str, body: Json, doing: str) -> Json:
        if self.conflict:
            raise ApiError(f"{doing}: the server answered 409", 409, "Conflict")
        kind, name = path.rsplit("/", 2)[1:]
        self.done.append(("replace", name))
        self.lists[kind] = [body if row["metadata"]["name"] == name else row for row in self.lists[kind]]
        return body

    def delete(self, path: str, doing: str, *, uid: str = "") -> Json:
        assert uid
        kind, name = path.rsplit("/", 2)[1:]
        self.done.append(("delete", name))
        self.lists[kind] = [row for row in self.lists[kind] if row["metadata"]["name"] != name]
        return {}


def run(server: Server, minutes: float = 0, check: bool = False, **more: Json) -> Json:
    params = options_of("whereabouts_pools", **{"reclaim": True, **more})
    return manage(params, check, t.cast("t.Any", server), NOW + datetime.timedelta(minutes=minutes))


# pool's name, range, nodes, network
NAMES = [
    ("10.0.0.0-24", "10.0.0.0/24", [], ""),
    ("fast-10.0.0.0-24", "10.0.0.0/24", [], "fast"),
    ("gpu-1-10.0.0.0-24", "10.0.0.0/24", ["gpu-1"], ""),
    ("fast-gpu-1-10.0.0.0-24", "10.0.0.0/24", ["gpu-1"], "fast"),
    ("fd00--0-64", "fd00::/64", [], ""),
    ("net-fd00---64", "fd00::/64", [], "net"),
]


@pytest.mark.parametrize(("name", "text", "nodes", "network"), NAMES)
def test_the_network_in_a_pool_name(name: str, text: str, nodes: list[str], network: str) -> None:
    assert wb.network_of(name, text, nodes) == network


@pytest.mark.parametrize(
    ("network", "address", "name"),
    [("", "10.0.0.1", "10.0.0.1"), ("fast", "10.0.0.1", "fast-10.0.0.1"), ("", "fd00::", "fd00--0")],
)
def test_the_name_of_a_reservation(network: str, address: str, name: str) -> None:
    assert wb.reservation_name(network, ipaddress.ip_address(address)) == name


def test_offsets_count_from_the_address_as_written() -> None:
    result, _why = wb.read_pool(pool({"2": entry()}, text="10.100.0.1/28"), [])
    assert result is not None
    assert str(result.allocations[0].address) == "10.100.0.3"
    assert result.size == 14


# pods, nodes, state, part of why
JUDGED: list[tuple[Json, Json, str, str]] = [
    ([], [node()], "leaked", "the pod t/w does not exist"),
    ([], [node(), node("gpu-2", "Unknown")], "held", "may still run on a node that is not ready (gpu-2)"),
    ([pod("w", "10.100.0.3")], [node()], "live", ""),
    ([pod("w", "10.100.0.3")], [node(ready="False")], "live", ""),
    ([pod("w", "10.100.0.9")], [node()], "leaked", "the pod t/w that is there now (uid u1) has other addresses"),
    ([pod("w", "10.100.0.9")], [node(ready="False")], "held", "is on node gpu-1, which is not ready"),
    ([pod("w", phase="Pending")], [node()], "held", "the pod t/w is not up: Pending"),
    ([pod("w", phase="Succeeded")], [node()], "held", "the pod t/w is not up: Succeeded"),
    ([pod("w", ready=False)], [node()], "held", "the pod t/w is not up: not ready"),
    ([pod("w", annotations={})], [node()], "held", "the pod t/w is not up: no readable network-status"),
    ([pod("w", annotations={wb.STATUS_KEYS[0]: "{"})], [node()], "held", "no readable network-status"),
    ([pod("w", deletionTimestamp="x")], [node()], "held", "is being deleted"),
    ([pod("other", "10.100.0.3")], [node()], "leaked", "the pod t/w does not exist"),
]


@pytest.mark.parametrize(("pods", "nodes", "state", "why"), JUDGED)
def test_what_counts_as_leaked(pods: Json, nodes: Json, state: str, why: str) -> None:
    server = Server([pool({"3": entry()})], pods=pods, nodes=nodes)
    for minutes in (0, 5, 20):
        result = run(server, minutes)
        states = {row["address"]: "leaked" for row in result["leaked"]}
        states.update((row["address"], "held") for row in result["held"])
        assert states.get("10.100.0.3", "live") == state
        texts = [row["why"] for row in result["leaked"] + result["held"]]
        assert (why in texts[0]) if texts else not why
    # What was leaked all the time is freed by the third look, and nothing else ever.
    assert server.lists["ippools"][0]["spec"]["allocations"] == ({} if state == "leaked" else {"3": entry()})


def test_without_consent_nothing_is_written() -> None:
    server = Server([pool({"3": entry()})], [reservation("10.100.0.3")])
    for minutes in (0, 60):
        result = run(server, minutes, reclaim=False)
        assert result["changed"] is False
        assert result["actions"] == []
        assert result["leaked"][0]["first_seen"] is None
        assert result["clean"] is False
    assert server.done == []


def test_freed_after_two_sightings_with_its_reservation() -> None:
    server = Server(
        [pool({"1": entry("t/live"), "3": entry()})], [reservation("10.100.0.3")], [pod("live", "10.100.0.1")]
    )
    virgin = run(server, 0, check=True)
    assert virgin["actions"] == ["Record which addresses of pool 10.100.0.0-28 have lost their pod, and since when"]
    assert server.done == []
    assert run(server, 0)["actions"] == virgin["actions"]
    assert run(server, 9.9)["changed"] is False
    assert run(server, 9.9)["leaked"][0]["wait_s"] == 6
    actions = ["Free 10.100.0.3 (t/w) of pool 10.100.0.0-28", "Delete the OverlappingRangeIPReservation 10.100.0.3"]
    assert run(server, 10, check=True)["actions"] == actions
    result = run(server, 10)
    assert result["actions"] == actions
    assert result["resources"][0]["live"] == "1 leaked"
    assert server.done == [("replace", "10.100.0.0-28"), ("replace", "10.100.0.0-28"), ("delete", "10.100.0.3")]
    assert server.lists["ippools"][0]["spec"]["allocations"] == {"1": entry("t/live")}
    assert SEEN not in server.lists["ippools"][0]["metadata"]["annotations"]
    again = run(server, 11)
    assert (again["changed"], again["clean"]) == (False, True)


def test_another_sandbox_or_another_pod_begins_the_wait_anew() -> None:
    server = Server([pool({"3": entry()})])
    run(server, 0)
    server.lists["ippools"][0]["spec"]["allocations"]["3"]["id"] = "another"
    assert run(server, 11)["leaked"][0]["first_seen"] is None
    server.lists["pods"] = [pod("w", "10.100.0.9")]
    assert run(server, 22)["leaked"][0]["first_seen"] is None
    server.lists["pods"] = [pod("w", "10.100.0.9", uid="u2")]
    assert run(server, 33)["leaked"][0]["first_seen"] is None
    assert server.lists["ippools"][0]["spec"]["allocations"]
    assert run(server, 44)["actions"] == ["Free 10.100.0.3 (t/w) of pool 10.100.0.0-28"]


def test_a_pod_that_came_back_is_forgotten() -> None:
    server = Server([pool({"3": entry()})])
    run(server, 0)
    server.lists["pods"] = [pod("w", "10.100.0.3")]
    assert run(server, 5)["changed"] is True
    assert SEEN not in server.lists["ippools"][0]["metadata"]["annotations"]
    server.lists["pods"] = []
    assert run(server, 11)["leaked"][0]["first_seen"] is None
    assert server.lists["ippools"][0]["spec"]["allocations"]


@pytest.mark.parametrize("note", ["{", "[]", '{"3": 1}', '{"3": {"since": "yesterday"}}'])
def test_a_note_that_cannot_be_read_is_none(note: str) -> None:
    raw = pool({"3": entry()})
    raw["metadata"]["annotations"] = {SEEN: note}
    assert run(Server([raw]), 60)["leaked"][0]["first_seen"] is None


def test_a_note_from_the_future_is_none() -> None:
    server = Server([pool({"3": entry()})])
    run(server, 60)
    assert run(server, 0)["leaked"][0]["first_seen"] is None


def test_dead_nodes_hold_nothing() -> None:
    server = Server([pool({"3": entry()})], nodes=[node(), node("gpu-2", "Unknown")])
    assert run(server)["nodes_not_ready"] == ["gpu-2"]
    assert run(server, dead_nodes=["gpu-2"])["leaked"][0]["podref"] == "t/w"


def test_whoever_was_faster_wins() -> None:
    server = Server([pool({"3": entry()})])
    server.conflict = True
    assert message_of(PoolsError, run, server) == (
        "Record which addresses of pool 10.100.0.0-28 have lost their pod, and since when: it was changed in the meantime, "
        "so nothing was done to it. Pods come and go: run again"
    )


def test_a_reservation_of_another_pod_stays() -> None:
    server = Server([pool({"3": entry()})], [reservation("10.100.0.3", "t/other")], [pod("other", "10.100.0.3")])
    run(server, 0)
    assert run(server, 10)["actions"] == ["Free 10.100.0.3 (t/w) of pool 10.100.0.0-28"]


def test_a_reservation_without_an_allocation() -> None:
    server = Server([], [reservation("fast-10.100.0.3")])
    assert run(server, reclaim=False)["actions"] == []
    first = run(server)
    assert first["leaked"][0]["reservation"] == "fast-10.100.0.3"
    assert first["resources"][0]["status"] == "drift"
    assert run(server, 10, reclaim=False)["actions"] == []
    assert run(server, 10)["actions"] == ["Delete the OverlappingRangeIPReservation fast-10.100.0.3"]
    assert server.lists["overlappingrangeipreservations"] == []


def test_duplicates() -> None:
    pools = [
        pool({"3": entry("t/a")}),
        pool({"3": entry("t/b")}, "10.100.0.0-24", "10.100.0.0/24"),
        pool({"3": entry("t/c")}, "other-10.100.0.0-24", "10.100.0.0/24"),
    ]
    pods = [pod("a", "10.100.0.3"), pod("b", "10.100.0.3"), pod("c", "10.100.0.99")]
    duplicates = run(Server(pools, pods=pods), reclaim=False)["duplicates"]
    assert [(row["address"], row["of"], row["holders"]) for row in duplicates] == [
        ("10.100.0.3", "allocations", ["t/a (net1) in pool 10.100.0.0-28", "t/b (net1) in pool 10.100.0.0-24"]),
        ("10.100.0.3", "pods", ["t/a (net1)", "t/b (net1)"]),
    ]


def test_exhausted_and_not_recorded() -> None:
    pods = [pod(f"w{number}", f"10.100.0.{number}") for number in range(1, 15)]
    full = {str(number): entry(f"t/w{number}") for number in range(1, 14)}
    result = run(Server([pool(full)], pods=pods), reclaim=False)
    assert result["pools"][0] == {
        "name": "10.100.0.0-28",
        "network_name": "",
        "range": "10.100.0.0/28",
        "size": 14,
        "used": 13,
        "free": 1,
        "share": 0.9286,
        "leaked": 0,
        "exhausted": True,
    }
    assert result["unrecorded"] == [
        {"pool": "10.100.0.0-28", "address": "10.100.0.14", "pod": "t/w14", "interface": "net1"}
    ]
    assert result["resources"][0]["live"] == "13 of 14 addresses used, addresses not recorded"


def test_an_offset_of_thousands_of_digits() -> None:
    offset = "9" * 5000
    read, _why = wb.read_pool(pool({offset: entry()}), {"n"})
    assert [row["why"] for row in read.malformed] == [f"the offset {offset} is outside of 10.100.0.0/28"]


def test_malformed_entries_are_told_and_kept() -> None:
    broken = {"x": entry(), "99": entry(), "2": entry("nobody"), "4": {"id": "", "podref": "t/w"}}
    server = Server([pool(broken), pool({}, "bad", "10.0.0/33")])
    for minutes in (0, 20):
        result = run(server, minutes)
        assert sorted((row["pool"], row["offset"], row["why"]) for row in result["malformed"] if row["offset"]) == [
            ("10.100.0.0-28", "2", "podref is 'nobody' and not NAMESPACE/NAME"),
            ("10.100.0.0-28", "4", "it has no container id"),
            ("10.100.0.0-28", "99", "the offset 99 is outside of 10.100.0.0/28"),
            ("10.100.0.0-28", "x", "the offset 'x' is not a number, and whereabouts ignores it"),
        ]
        assert result["malformed"][0] == {
            "pool": "bad",
            "offset": None,
            "address": None,
            "why": "range is '10.0.0/33', which is not a network",
        }
    assert server.done == []


def test_no_whereabouts_is_no_verdict() -> None:
    server = Server([])
    server.items = lambda path, doing: None  # type: ignore[method-assign]
    result = run(server)
    assert (result["installed"], result["clean"], result["resources"]) == (False, None, [])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"reclaim_after": 59}, "reclaim_after is 59 seconds; it must be at least 60"),
        ({"exhausted_share": 0.0}, "exhausted_share is 0.0; it must be above 0"),
    ],
)
def test_bad_options(more: Json, text: str) -> None:
    with pytest.raises(PoolsError, match=text):
        run(Server([]), **more)
