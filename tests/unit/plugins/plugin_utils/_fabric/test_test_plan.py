# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests a node runs in a round."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.fabric_tests import fabric_tests
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.test_plan import PlanError, plan_tests
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.vocabulary import CUDA, TESTS, WANTED
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

BOTH = ["rping", "ib_write_bw", "ib_write_bw_cm"]
SIDES = (("a", "server"), ("b", "client"))
PAIRS = [{"client": "b", "server": "a"}, {"client": "c", "server": "d"}]


def rail(number: int, host: str, **more: t.Any) -> dict[str, t.Any]:
    address = "10.90.%d.%d" % (number, ord(host) - 96)
    ends = {"device": "mlx5_%d" % number, "port": 1, "gid_index": 3, "ipv4": address}
    return {"rail": number, "state": "ACTIVE", **ends, **more}


def nodes(**more: t.Any) -> dict[str, t.Any]:
    free = {"reachable": True, "problems": [], "busy": []}
    return {
        name: {**free, "address": name + ".example", "rails": [rail(0, name), rail(1, name)], **more.get(name, {})}
        for name in "abcd"
    }


def test_both_sides_have_the_same_tests_with_their_own_devices() -> None:
    given = nodes(a={"rails": [rail(0, "a", gid_index=5, device="rocep7s0"), rail(1, "a", port=2)]})
    server, client = (plan_tests(given, PAIRS, host, side, BOTH) for host, side in SIDES)
    assert client[0] == {
        "id": "0-0-rping", "client": "b", "server": "a", "rail": 0, "test": "rping", "address": "10.90.0.1",
        "source": "10.90.0.2", "tcp_port": 18515, "device": "mlx5_0", "port": 1, "gid_index": 3, "cpus": None, "gpu": None,
        "dmabuf": True, "pings": 5,
        "seconds": 3, "bytes": 65536, "queue_pairs": 1, "service_level": None,
        "traffic_class": None,
    }  # fmt: skip
    own = {"device", "port", "gid_index", "gpu", "dmabuf", "cpus"}
    shared_by_server, shared_by_client = (
        [{key: value for key, value in test.items() if key not in own} for test in side] for side in (server, client)
    )
    assert shared_by_server == shared_by_client
    ends = [(test["device"], test["port"], test["gid_index"]) for test in server]
    assert ends == [("rocep7s0", 1, 5)] * 3 + [("mlx5_1", 2, 3)] * 3
    assert [test["tcp_port"] for test in server] == list(range(18515, 18521))
    assert len({test["id"] for test in server}) == 6


@pytest.mark.parametrize(("host", "side", "number"), [("a", "client", 0), ("b", "server", 0), ("d", "server", 6)])
def test_each_node_has_its_side_only(host: str, side: str, number: int) -> None:
    assert len(plan_tests(nodes(), PAIRS, host, side, BOTH)) == number


@pytest.mark.parametrize(
    "fields",
    [{"reachable": False}, {"problems": ["rping is not installed"]}, {"busy": ["mlx5_0 is in use"]}, {"rails": []}],
)
@pytest.mark.parametrize("who", ["a", "b"])
def test_nodes_that_cannot_take_part_have_none(who: str, fields: dict[str, t.Any]) -> None:
    given = nodes(**{who: fields})
    assert plan_tests(given, PAIRS, "a", "server", BOTH) == []
    assert plan_tests(given, PAIRS, "b", "client", BOTH) == []
    assert len(plan_tests(given, PAIRS, "c", "client", BOTH)) == 6


def test_rails_that_are_not_active_at_both_ends_have_none() -> None:
    given = nodes(a={"rails": [rail(0, "a", state="DOWN"), rail(1, "a")]}, b={"rails": [rail(0, "b")]})
    assert plan_tests(given, PAIRS, "a", "server", BOTH) == []


V6 = ("2001:db8::1", "2001:db8::2")


@pytest.mark.parametrize(("host", "exchange"), [("192.0.2.7", "192.0.2.7"), (None, V6[0])])
def test_an_ipv6_fabric(host: str | None, exchange: str) -> None:
    """perftests before 23.07 exchange their parameters over IPv4 only, and ib_write_bw needs no address of the rail."""
    rails = [{"rails": [rail(0, name, ipv4=None, ipv6=ipv6)]} for name, ipv6 in zip("ab", V6, strict=True)]
    given = nodes(a={**rails[0], "address": host}, b=rails[1])
    addresses = {test["test"]: test["address"] for test in plan_tests(given, PAIRS, "b", "client", BOTH)}
    assert addresses == {"rping": V6[0], "ib_write_bw": exchange, "ib_write_bw_cm": V6[0]}
    assert {test["source"] for test in plan_tests(given, PAIRS, "b", "client", BOTH)} == {V6[1]}


def test_service_level_and_traffic_class() -> None:
    (first, _second) = plan_tests(nodes(), PAIRS, "a", "server", ["rping"])
    assert (first["service_level"], first["traffic_class"]) == (None, None)
    options = {"service_level": "3", "traffic_class": 106}
    (first, _second) = fabric_tests(nodes(), PAIRS, "a", "server", ["rping"], **options)
    assert (first["service_level"], first["traffic_class"]) == (3, 106)


def test_queue_pairs_and_the_cpus_of_each_end() -> None:
    given = nodes(a={"placements": [{"rail": 1, "cpus": "28-55"}]}, b={"placements": [{"rail": 1, "cpus": "0-3"}]})
    for (host, side), cpus in zip(SIDES, ("28-55", "0-3"), strict=True):
        first, second = plan_tests(given, PAIRS, host, side, ["ib_write_bw"], queue_pairs=4)
        assert (first["cpus"], second["cpus"]) == (None, cpus)
        assert (first["queue_pairs"], second["queue_pairs"]) == (4, 4)


def placements(*addresses: str | None, **more: t.Any) -> dict[str, t.Any]:
    return {"placements": [{"rail": rail, "gpu": gpu, "dmabuf": True, **more} for rail, gpu in enumerate(addresses)]}


def test_memory_of_gpus_needs_gpus_at_both_ends() -> None:
    near = {"a": placements("0000:18:00.0", "0000:99:00.0"), "b": placements("0000:06:00.0", None)}
    given = nodes(a=near["a"], b=placements("0000:06:00.0", "0000:06:00.0", dmabuf=False))
    server, client = (plan_tests(given, PAIRS, host, side, [CUDA]) for host, side in SIDES)
    ends = [[(test["rail"], test["gpu"], test["dmabuf"]) for test in tests] for tests in (server, client)]
    assert ends == [
        [(0, "0000:18:00.0", True), (1, "0000:99:00.0", True)],
        [(0, "0000:06:00.0", False), (1, "0000:06:00.0", False)],
    ]
    assert [test["rail"] for test in plan_tests(nodes(**near), PAIRS, "a", "server", [CUDA])] == [0]
    assert plan_tests(nodes(a=near["a"]), PAIRS, "a", "server", [CUDA]) == []


def test_tests_of_one_end_have_no_other() -> None:
    both, own = (plan_tests(nodes(), PAIRS, "a", "server", tests) for tests in (("memlock", "rping"), ("rping",)))
    assert both == own


@pytest.mark.parametrize(("protocol", "link_layer"), [("roce", "Ethernet"), (None, "Ethernet"), ("roce", None)])
@pytest.mark.parametrize("who", ["a", "b"])
def test_roce_without_a_gid_of_its_network_device_has_none(who: str, protocol: str | None, link_layer: str) -> None:
    """perftest would take GID 0, a path that NCCL never takes."""
    bare = {"ipv4": None, "gid_index": None, "protocol": protocol, "link_layer": link_layer}
    given = nodes(**{who: {"rails": [rail(0, who, **bare), rail(1, who)]}})
    for host, side in SIDES:
        assert {test["rail"] for test in plan_tests(given, PAIRS, host, side, BOTH)} == {1}


def test_infiniband_without_addresses_has_nothing_that_needs_them() -> None:
    bare = {"ipv4": None, "gid_index": None}
    given = nodes(a={"rails": [rail(0, "a", **bare)]}, b={"rails": [rail(0, "b", **bare)]})
    (only,) = plan_tests(given, PAIRS, "b", "client", BOTH)
    assert (only["test"], only["address"], only["gid_index"]) == ("ib_write_bw", "a.example", None)


def test_what_is_wrong_is_said() -> None:
    error = message_of(PlanError, plan_tests, nodes(), PAIRS, "a", "left", TESTS)
    assert error == "Building the tests of a: side is 'left', but must be one of server, client"
    error = message_of(AnsibleFilterError, fabric_tests, nodes(), PAIRS, "a", "server", ["nccl"])
    assert "Building the tests of a: unknown test 'nccl'. There are: " + ", ".join(WANTED) in error
    for given, pairs in (({}, PAIRS), (nodes(), [{}]), (nodes(), ["a"])):
        with pytest.raises(AnsibleFilterError, match="does not have the shape"):
            fabric_tests(given, pairs, "a", "server", ["rping"])  # type: ignore[arg-type]
