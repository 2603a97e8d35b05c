# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims against boards: which can be satisfied, and the sentence for each that cannot."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims import lint, slices, template
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims.choice import Surroundings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims.selectors import Evaluator
from ansible_collections.rdmaops.gpu_fabric.tests.support import claim_boards as boards
from ansible_collections.rdmaops.gpu_fabric.tests.support.claim_boards import Raw, board, pairs, rail, request
from ansible_collections.rdmaops.gpu_fabric.tests.support.claim_cases import (
    GPU,
    IMPOSSIBLE,
    POSSIBLE,
    claimed,
    in_pod,
    opaque,
)

EVALUATE = Evaluator()


def check(
    raw: Raw, pieces: t.Sequence[Raw], claims: t.Sequence[Raw] = (), nodes: t.Sequence[str] = ("a",)
) -> lint.Result:
    published = slices.published(pieces, nodes)
    drivers = tuple(sorted({device.driver for devices in published.nodes.values() for device in devices}))
    around = Surroundings(boards.CLASSES, EVALUATE, slices.in_use(claims), drivers)
    return lint.check(template.read(raw), published.nodes, around)


@pytest.mark.parametrize("name", POSSIBLE)
def test_claims_that_have_a_solution(name: str) -> None:
    raw, pieces = POSSIBLE[name]
    result = check(raw, pieces, [claimed("pci-0000-10-00-0")])
    assert (result.status, result.findings) == ("possible", [])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_claims_that_no_device_satisfies(name: str) -> None:
    raw, pieces, code, sentence = IMPOSSIBLE[name]
    result = check(raw, pieces)
    (finding,) = result.findings
    assert (result.status, finding.level, finding.code, finding.nodes) == ("impossible", "error", code, ("a",))
    assert sentence in str(finding)
    assert str(finding).startswith("%s, ml/worker: on 1 of 1 nodes (a), " % code)
    assert len(str(finding)) < 600


# What only the scheduler can say.
UNKNOWN: dict[str, tuple[Raw, list[Raw], str, str]] = {
    "a card in a pod": (
        boards.template(rail(0)),
        in_pod(board("a"), "pci-0000-10-00-0"),
        "device_in_use",
        "request rail0: the claim ml/worker-0-net has the device pci-0000-10-00-0, of which dra.net publishes no "
        "dra.net/ifName meanwhile",
    ),
    "an expression that is not evaluated here": (
        boards.template(
            request("gpu", GPU, 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0')
        ),
        board("a"),
        "expression_unknown",
        "request gpu: an expression cannot be evaluated here",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_claims_of_which_nothing_is_known(name: str) -> None:
    raw, pieces, code, sentence = UNKNOWN[name]
    result = check(raw, pieces, [claimed("pci-0000-10-00-0")])
    (finding,) = result.findings
    assert (result.status, finding.level, finding.code) == ("unknown", "warning", code)
    assert sentence in str(finding)


def test_a_node_that_is_unlike_the_others_is_named() -> None:
    pieces = [piece for node in "abc" for piece in board(node)] + board("d", "apart")
    result = check(pairs(8), pieces, nodes="abcd")
    (finding,) = result.findings
    assert result.nodes == {"a": "possible", "b": "possible", "c": "possible", "d": "impossible"}
    assert (result.status, finding.level, finding.nodes) == ("possible", "warning", ("d",))
    assert "on 1 of 4 nodes (d), requests gpu0, nic0 cannot have one value" in finding.problem


def test_nodes_with_the_same_fault_are_counted_in_one_sentence() -> None:
    names = ["n%d" % number for number in range(64)]
    began = time.monotonic()
    result = check(pairs(8), [piece for node in names for piece in board(node, "apart")], nodes=names)
    (finding,) = result.findings
    assert "on 64 of 64 nodes (n0, n1, n2, n3 and 60 more), " in finding.problem
    assert time.monotonic() - began < 20


def test_a_pool_that_is_being_written_is_unknown() -> None:
    whole, cards = board("a")
    cards["spec"]["pool"]["resourceSliceCount"] = 2
    published = slices.published([whole, cards], ["a"])
    assert {device.driver for device in published.nodes["a"]} == {GPU}
    assert published.unknown == {
        "a": ["pool a of dra.net has 1 of its 2 ResourceSlices; the driver is writing them, or has stopped"]
    }


def test_a_pool_for_selected_nodes_is_unknown_and_one_for_all_is_everywhere() -> None:
    one, other = board("a")
    for piece in (one, other):
        del piece["spec"]["nodeName"]
    one["spec"]["allNodes"] = True
    other["spec"]["nodeSelector"] = {"nodeSelectorTerms": []}
    published = slices.published([one, other], ["a", "b"])
    assert [len(devices) for devices in published.nodes.values()] == [8, 8]
    assert published.unknown == {
        "": ["pool a of dra.net is for nodes that a selector chooses, which is not looked at here"]
    }


PARAMETERS: dict[str, tuple[Raw, str]] = {
    "a key of another version": ({"interface": {"mtuBytes": 9000}}, "interface.mtuBytes is not a parameter of dranet"),
    "a long name": (
        {"interface": {"name": "enp_training_rail0"}},
        "interface.name enp_training_rail0 has 18 characters, and an interface name has 15 at most",
    ),
    "two ways to an address": (
        {"interface": {"dhcp": True, "addresses": ["10.0.0.1/24"]}},
        "interface.dhcp and interface.addresses exclude each other",
    ),
    "an address without a length": (
        {"interface": {"addresses": ["10.0.0.1"]}},
        "interface.addresses: '10.0.0.1' is not an address with a prefix length",
    ),
    "a small MTU": ({"interface": {"mtu": 60}}, "interface.mtu is 60, below 68"),
    "rules beside a VRF": (
        {"interface": {"vrf": {"name": "rail"}}, "rules": [{"table": 100}]},
        "rules are not taken where interface.vrf is set",
    ),
    "a route's key": ({"routes": [{"dst": "10.0.0.0/8"}]}, "routes[0].dst is not a parameter of dranet"),
    "a rule's network": (
        {"rules": [{"source": "10.0.0.1", "table": 100}]},
        "rules[0].source: '10.0.0.1' is not an address with a prefix length",
    ),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_dranet_refuses(name: str) -> None:
    parameters, sentence = PARAMETERS[name]
    result = check(boards.template(rail(0), config=[opaque("dra.net", ["rail0"], **parameters)]), board("a"))
    (finding,) = result.findings
    assert (finding.level, finding.code, finding.problem) == ("error", "parameters", sentence)


def test_parameters_for_a_driver_that_none_of_the_devices_has() -> None:
    raw = boards.template(request("gpu", GPU), rail(0), config=[opaque("dra.net", ["gpu"], interface={"mtu": 9000})])
    (finding,) = check(raw, board("a")).findings
    assert finding.code == "wrong_driver"
    assert finding.problem == (
        "parameters for the driver dra.net are for request gpu, whose devices are of gpu.nvidia.com, which does not read them"
    )


def test_good_parameters_for_all_requests() -> None:
    parameters = {
        "interface": {"name": "net1", "mtu": 9000, "addresses": ["10.0.0.1/24"]},
        "routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.254", "table": 100}],
        "rules": [{"source": "10.0.0.1/32", "table": 100, "priority": 100}],
    }
    raw = boards.template(request("gpu", GPU), rail(0), config=[opaque("dra.net", **parameters)])
    assert check(raw, board("a")).findings == []


def test_a_request_as_before_v1_is_refused() -> None:
    raw = boards.template({"name": "gpu", "deviceClassName": GPU})
    with pytest.raises(template.TemplateError, match="request gpu has neither exactly nor firstAvailable"):
        template.read(raw)
