# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates of claims for the rails of a plan, judged by the same lint that a site's run uses."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rail_claims import rail_claims
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rail_plan import rail_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims import lint, slices, template
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims.choice import Surroundings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._claims.selectors import Evaluator
from ansible_collections.rdmaops.gpu_fabric.tests.support import claim_boards as boards
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any
EIGHT = [{"name": f"rail{number}", "selector": {"device": f"rail{number}"}} for number in range(8)]
BY_PCI = [{"name": "rail0", "selector": {"pciBusID": "0000:07:00.0"}}]
BY_RESOURCE = [{"name": "rail0", "selector": {"resourceName": "nvidia.com/rail0"}}]


def named(plan: Json) -> dict[str, Json]:
    return {raw["metadata"]["name"]: raw for raw in plan["templates"]}


def status(raw: Json, layout: str) -> str:
    pieces = boards.board("a", layout)
    published = slices.published(pieces, ["a"])
    around = Surroundings({**boards.CLASSES, "dranet": boards.CLASSES["dra.net"]}, Evaluator(), {}, ())
    return lint.check(template.read(raw), published.nodes, around).status


def test_each_rail_has_a_template_and_so_has_each_shape() -> None:
    shapes = [{"name": "node", "gpus": 8}, {"name": "two", "rails": ["rail1", "rail0"]}]
    plan = named(rail_claims(EIGHT, shapes, namespace="ml"))
    assert list(plan) == [*(rail["name"] for rail in EIGHT), "node", "two"]
    assert {raw["metadata"]["namespace"] for raw in plan.values()} == {"ml"}
    devices = plan["two"]["spec"]["spec"]["devices"]
    assert [request["name"] for request in devices["requests"]] == ["rail1", "rail0"]
    assert "constraints" not in devices
    assert "config" not in devices
    assert len(plan["node"]["spec"]["spec"]["devices"]["constraints"]) == 8


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ({"gpus": 8}, "pairs", "possible"),
        ({"gpus": 8}, "switches", "possible"),
        ({"gpus": 8}, "apart", "impossible"),
        ({"gpus": 8, "align": "resource.kubernetes.io/numaNode"}, "apart", "possible"),
        ({"gpus": 8, "align": ""}, "apart", "possible"),
        ({"gpus": 8, "rails": ["rail0", "rail1", "rail2", "rail3"]}, "half", "possible"),
        ({"gpus": 4, "rails": ["rail0", "rail1", "rail2", "rail3"]}, "half", "possible"),
        ({"gpus": 1, "gpu_class": "mig.nvidia.com"}, "pairs", "impossible"),
    ],
)
def test_gpus_sit_beside_their_rails(shape: Json, layout: str, expected: str) -> None:
    assert status(named(rail_claims(EIGHT, [{"name": "node", **shape}]))["node"], layout) == expected


def test_a_rail_is_found_by_its_pci_address_where_the_plan_does_so() -> None:
    plan = rail_claims(BY_PCI)
    selector = plan["templates"][0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]
    assert 'device.attributes["dra.net"].pciAddress == "0000:07:00.0"' in selector["cel"]["expression"]
    assert plan["filter"] == (
        '"dra.net/pciAddress" in attributes && attributes["dra.net/pciAddress"].StringValue == "0000:07:00.0"'
    )


def test_dranet_publishes_nothing_but_the_rails() -> None:
    assert rail_claims(EIGHT[:1])["filter"] == (
        '"dra.net/ifName" in attributes && attributes["dra.net/ifName"].StringValue == "rail0" || '
        '!("dra.net/ifName" in attributes) && !("dra.net/rdmaDevice" in attributes)'
    )
    assert rail_claims([]) == {"templates": [], "filter": "false"}


def test_parameters_are_those_of_the_shape_and_of_all() -> None:
    shapes = [{"name": "slow", "parameters": {"interface": {"mtu": 1500}}}]
    plan = named(rail_claims(EIGHT[:2], shapes, parameters={"interface": {"mtu": 9000}, "routes": []}))
    configs = {name: raw["spec"]["spec"]["devices"]["config"] for name, raw in plan.items()}
    (one,) = configs["rail0"]
    assert one == {
        "requests": ["rail0"],
        "opaque": {"driver": "dra.net", "parameters": {"interface": {"mtu": 9000}, "routes": []}},
    }
    (slow,) = configs["slow"]
    assert slow["requests"] == ["rail0", "rail1"]
    assert slow["opaque"]["parameters"] == {"interface": {"mtu": 1500}, "routes": []}


REFUSED: list[tuple[Json, Json, str]] = [
    ("rail0", [], "the input must be the rails of a plan, not 'rail0'"),
    (BY_RESOURCE, [], "the rail rail0 is chosen by the resource nvidia.com/rail0 of a device plugin"),
    (EIGHT, [{"gpus": 8}], "a shape is a dictionary with a name"),
    (EIGHT, [{"name": "node", "gpu": 8}], "the shape node has gpu; it can have name, rails, gpus, gpu_class, align"),
    (EIGHT, [{"name": "node", "rails": ["rail9"]}], "the shape node has rail9, which the plan has no rail of"),
    (EIGHT, [{"name": "rail0"}], "rail0 is the name of more than one template"),
]


@pytest.mark.parametrize(("rails", "shapes", "text"), REFUSED)
def test_what_cannot_be_claimed_is_refused(rails: Json, shapes: Json, text: str) -> None:
    from ansible.errors import AnsibleError

    assert text in message_of(AnsibleError, rail_claims, rails, shapes)


def test_a_plan_without_a_network_has_rails_and_no_attachments() -> None:
    port = {
        "port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": "rail0", "rate_gbps": 10.0,
        "physical_state": "LINK_UP", "gids": [], "netdev_mtu": 1500, "active_mtu": 1024,
    }  # fmt: skip
    device = {"name": "rxe0", "pci_address": None, "numa_node": None, "node_guid": "1", "ports": [port]}
    device |= {"driver": "rdma_rxe", "protocol": "RoCE", "netns": {"inode": 1, "name": None}, "pod": None}
    interface = {"name": "rail0", "pci_address": "0000:00:04.0", "numa_node": 0, "uses": [], "addresses": []}
    plan = rail_plan({"a": {"devices": [device], "interfaces": [interface]}}, "")
    assert [rail["name"] for rail in plan["rails"]] == ["rail0"]
    assert plan["attachments"] == []
    assert plan["table"].splitlines() == [
        "1 rails on 1 nodes, with the addresses of the host:",
        "rail  template  selected by   PCI address   NUMA",
        "0     rail0     device rail0  0000:00:04.0  0",
    ]
