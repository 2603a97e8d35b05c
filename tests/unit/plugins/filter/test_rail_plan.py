# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a cluster's rails: equal on all nodes or refused, ranges that never overlap and do not move."""

from __future__ import annotations

import copy
import ipaddress
import json
import time
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rail_plan import rail_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any
NETWORK = "10.100.0.0/16"


def device(number: int, netdev: str | None = "", pci: str | None = "", **more: Json) -> Json:
    netdev = f"ens{number}" if netdev == "" else netdev
    pci = f"0000:{0x10 + number:02x}:00.0" if pci == "" else pci
    place = {"pci_address": pci, "numa_node": number // 4, "node_guid": f"0c42:a103:0065:{number:04x}", "pod": None}
    netns = {"inode": 4026531840, "name": None, "initial": not more.pop("away", False)}
    port = {"port": 1, "state": more.pop("state", "ACTIVE"), "link_layer": "Ethernet", "netdev": netdev}
    return {"name": f"mlx5_{number}", "protocol": "roce", **place, "netns": netns, "ports": [port], **more}


def interface(name: str, *uses: str, **more: Json) -> Json:
    unknown = dict.fromkeys(("pci_address", "numa_node", "master"))
    return {"name": name, **unknown, "addresses": [], "uses": list(uses), **more}


def node(*devices: Json, interfaces: Json = None) -> Json:
    return {"devices": list(devices), "interfaces": interfaces, "cni": None}


def cluster(nodes: int, rails: int) -> Json:
    return {f"gpu-{number}": node(*(device(rail) for rail in range(rails))) for number in range(nodes)}


def ranges(plan: Json) -> list[str]:
    return [rail["range"] for rail in plan["rails"]]


def test_two_nodes_with_two_rails() -> None:
    plan = rail_plan(cluster(2, 2), NETWORK)
    assert plan["select"] == "name"
    assert [(rail["name"], rail["selector"], rail["range"]) for rail in plan["rails"]] == [
        ("rail0", {"device": "ens0"}, "10.100.0.0/29"),
        ("rail1", {"device": "ens1"}, "10.100.0.8/29"),
    ]
    assert plan["expected_pods"] == 2
    assert plan["attachments"][0]["name"] == "rail0"
    assert plan["attachments"][0]["ipam"]["range"] == "10.100.0.0/29"
    assert plan["table"].splitlines()[0] == "2 rails on 2 nodes out of 10.100.0.0/16, for 2 pods and growth 2:"
    assert plan["table"].splitlines()[2].split() == [
        *("0", "rail0", "device", "ens0", "0000:10:00.0", "0", "10.100.0.0/29", "6", "new")
    ]


def test_rails_are_in_the_order_of_their_places() -> None:
    # ens10 comes before ens9 on the bus, and its name after it.
    info = {"a": node(device(9, pci="0000:5e:00.0"), device(10, pci="0000:5d:00.0"))}
    assert [rail["netdev"] for rail in rail_plan(info, NETWORK)["rails"]] == ["ens10", "ens9"]


def test_soft_roce_takes_the_place_of_its_network_device() -> None:
    places = {"ens5": "0000:00:09.0", "ens7": "0000:00:03.0"}
    devices = [device(0, netdev="ens7", pci=None), device(1, netdev="ens5", pci=None)]
    info = {"a": node(*devices, interfaces=[interface(name, pci_address=place) for name, place in places.items()])}
    rails = rail_plan(info, NETWORK)["rails"]
    assert [(rail["netdev"], rail["pci_address"]) for rail in rails] == list(reversed(places.items()))


def test_the_pci_address_is_taken_where_names_differ() -> None:
    info = cluster(3, 2)
    for port in info["gpu-1"]["devices"]:
        port["ports"][0]["netdev"] = "eth" + port["name"][-1]
    plan = rail_plan(info, NETWORK)
    assert plan["select"] == "pci"
    assert [rail["selector"] for rail in plan["rails"]] == [{"pciBusID": "0000:10:00.0"}, {"pciBusID": "0000:11:00.0"}]


def test_a_node_that_is_wired_otherwise_is_named() -> None:
    info = cluster(4, 2)
    info["gpu-3"]["devices"][1] = device(1, netdev="ens1f1", pci="0000:5e:00.0")
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK) == (
        "Could not plan the rails: nodes differ: gpu-3 has rail 1 at 0000:5e:00.0 (ens1f1), the others at "
        "0000:11:00.0 (ens1). One attachment serves all nodes, so a rail needs the same name or the same PCI address on "
        "each of them. Fix the node, leave out the port with exclude, name the network devices alike (systemd.link(5)), "
        "or let a device plugin choose and set resources"
    )


FEWER = "gpu-1 has 1 rails, the others 2: it lacks 0000:11:00.0 (ens1)"
# what one node of three has otherwise, what the message says of it
ODD = [
    (node(device(0), device(1, state="DOWN")), FEWER + ": the port is DOWN"),
    (node(device(0), device(1, netdev=None)), FEWER + ": it has no network device"),
    (node(device(0)), FEWER),
    (node(device(0), device(1), device(2)), "gpu-1 has 3 rails, the others 2: it also has 0000:12:00.0 (ens2)"),
    (
        node(device(0), device(1), interfaces=[interface("ens0"), interface("ens1", "bond bond0")]),
        FEWER + ": the host uses it (bond bond0)",
    ),
]


@pytest.mark.parametrize(("odd", "text"), ODD)
def test_what_one_node_lacks_is_said(odd: Json, text: str) -> None:
    info = {**cluster(3, 2), "gpu-1": odd}
    assert f"nodes differ: {text}. " in message_of(AnsibleFilterError, rail_plan, info, NETWORK)


def test_what_all_nodes_use_themselves_is_left_out_and_said() -> None:
    used = node(device(0), device(1), interfaces=[interface("ens0", "default_route"), interface("ens1")])
    info = {"a": used, "b": used}
    plan = rail_plan(info, NETWORK)
    assert [rail["netdev"] for rail in plan["rails"]] == ["ens1"]
    assert "Left out: ens0 on all nodes: the host uses it (default_route)." in plan["table"]
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK, include=["ens0"]) == (
        "Could not plan the rails: include names ens0 of a, and the host uses it (default_route). A pod must not get it: "
        "remove it from include"
    )


@pytest.mark.parametrize("exclude", ["mlx5_1", "ens1", "0C42:A103:0065:0001"])
def test_the_adapter_for_storage_is_excluded(exclude: str) -> None:
    plan = rail_plan(cluster(2, 3), NETWORK, exclude=[exclude])
    assert [rail["netdev"] for rail in plan["rails"]] == ["ens0", "ens2"]
    assert plan["excluded"][0] == {"node": "gpu-0", "device": "ens1", "why": f"it is excluded by {exclude!r}"}


def test_a_rail_on_another_numa_node_is_noted() -> None:
    info = cluster(3, 1)
    info["gpu-2"]["devices"][0]["numa_node"] = 1
    assert rail_plan(info, NETWORK)["notes"] == ["ens0 has a different NUMA node on gpu-2 than elsewhere."]


def sub_function(sfnum: int, number: int, netdev: str = "") -> Json:
    """A sub-function of the card at 0000:08:00.0, whose auxiliary devices are numbered in the order of their making."""
    auxiliary = {"auxiliary_device": f"mlx5_core.sf.{number}"}
    return device(number, netdev or f"enp8s0f0s{sfnum}", pci="0000:08:00.0", **auxiliary)


def test_sub_functions_are_selected_by_name() -> None:
    # The numbers of auxiliary devices differ from node to node.
    info = {
        "a": node(sub_function(88, 4), sub_function(89, 5)),
        "b": node(sub_function(88, 7), sub_function(89, 6)),
    }
    plan = rail_plan(info, NETWORK)
    assert [attachment.get("device") for attachment in plan["attachments"]] == ["enp8s0f0s88", "enp8s0f0s89"]
    assert [rail["auxiliary_device"] for rail in plan["rails"]] == ["mlx5_core.sf.4", "mlx5_core.sf.5"]
    assert plan["notes"] == []


# The card itself is a rail of its own, by its address.
PARENT = device(0, "enp8s0f0np0", pci="0000:08:00.0")
IN_PARENT = (
    "enp8s0f0s88 of a is the network device of a sub-function, and pciBusID is the address of its parent, whose own "
    "network device host-device would move. Give sub-functions the same names on all nodes (systemd.link(5)) and "
    "select them by name, or let a device plugin choose and set resources"
)


def test_sub_functions_are_not_selected_by_the_address_of_their_parent() -> None:
    info = {"a": node(PARENT, sub_function(88, 4)), "b": node(PARENT, sub_function(99, 4))}
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK, select="pci") == (
        f"Could not plan the rails: {IN_PARENT}"
    )
    text = message_of(AnsibleFilterError, rail_plan, info, NETWORK)
    assert "nodes differ: b has rail 1 at 0000:08:00.0/mlx5_core.sf.4 (enp8s0f0s99), the others at" in text
    assert text.endswith(IN_PARENT)


def test_an_attachment_of_the_parent_is_in_a_pod_though_a_sub_function_is_not() -> None:
    kept = [{"name": "rail7", "range": "10.100.0.0/29", "selector": {"pciBusID": "0000:08:00.0"}}]
    info = {"a": node(sub_function(88, 4), device(0, "net1", pci="0000:08:00.0", away=True))}
    plan = rail_plan(info, NETWORK, existing=kept)
    assert [(rail["name"], rail["selector"]) for rail in plan["rails"]] == [
        ("rail0", {"device": "enp8s0f0s88"}),
        ("rail7", {"pciBusID": "0000:08:00.0"}),
    ]


def test_sub_functions_of_a_device_plugin_need_a_capability() -> None:
    info = {"a": node(sub_function(88, 4))}
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK, resources=["nvidia.com/sf"]) == (
        "Could not plan the rails: enp8s0f0s88 of a is the network device of a sub-function, and without the "
        "capability deviceID Multus passes its auxiliary device to host-device as pciBusID, so pods do not start. Set "
        "options to {'capabilities': {'deviceID': true}}"
    )
    capable = {"capabilities": {"deviceID": True}}
    plan = rail_plan(info, NETWORK, resources=["nvidia.com/sf"], options=capable)
    assert plan["attachments"][0]["capabilities"] == {"deviceID": True}


BOND = device(0, "bond0", name="mlx5_bond_0")
BOND_ROWS = [
    interface("bond0", kind="bond", can_change_netns=False),
    interface("ens1", "bond bond0", master="bond0"),
]


def test_a_bond_is_not_given_to_a_pod() -> None:
    info = {"a": node(BOND, interfaces=BOND_ROWS)}
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK) == (
        "Could not plan the rails: bond0 of a is a bond, which the kernel does not move to another network namespace, "
        "so host-device cannot give it to a pod. Set plugin to macvlan or ipvlan, by which a pod gets a network device "
        "on bond0; its RDMA device stays with the host, where pods can use it in mode shared. Or leave out bond0 with "
        "exclude"
    )
    plan = rail_plan(info, NETWORK, plugin="macvlan")
    assert plan["attachments"][0]["master"] == "bond0"


def test_a_device_that_the_kernel_keeps_is_not_given_to_a_pod() -> None:
    """The network device of an mlx5 PF in switchdev mode."""
    info = {"a": node(PARENT, interfaces=[interface("enp8s0f0np0", can_change_netns=False)])}
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK) == (
        "Could not plan the rails: enp8s0f0np0 of a is a netns-immutable device (as that of a physical function of mlx5 in "
        "switchdev mode), which the kernel does not move to another network namespace, so host-device cannot give it to a "
        "pod. Set plugin to macvlan or ipvlan, by which a pod gets a network device on enp8s0f0np0; its RDMA device stays "
        "with the host, where pods can use it in mode shared. Or leave out enp8s0f0np0 with exclude"
    )
    assert rail_plan(info, NETWORK, plugin="macvlan")["attachments"][0]["master"] == "enp8s0f0np0"
    info["a"]["interfaces"][0]["can_change_netns"] = None
    assert rail_plan(info, NETWORK)["rails"][0]["netdev"] == "enp8s0f0np0"


def test_a_member_of_a_bond_is_not_given_to_a_pod() -> None:
    info = {"a": node(device(0, "ens1"), interfaces=BOND_ROWS)}
    assert message_of(AnsibleFilterError, rail_plan, info, NETWORK, include=["ens1"]) == (
        "Could not plan the rails: include names ens1 of a, and the host uses it (bond bond0). A pod must not get it: "
        "remove it from include. A pod can get a network device on bond0 instead, if that is a rail (plugin macvlan or "
        "ipvlan, in mode shared)"
    )


def test_resources_need_no_equal_names() -> None:
    info = cluster(2, 2)
    info["gpu-1"]["devices"] = [device(5), device(6)]
    plan = rail_plan(info, NETWORK, resources=["rdma/rail_a", "rdma/rail_b"])
    assert [rail["selector"] for rail in plan["rails"]] == [{"resourceName": f"rdma/rail_{name}"} for name in "ab"]
    assert plan["attachments"][1]["resource_name"] == "rdma/rail_b"
    with pytest.raises(AnsibleFilterError, match="resources has 3 names for 2 rails. Give one for each rail"):
        rail_plan(info, NETWORK, resources=["a", "b", "c"])
    info["gpu-1"]["devices"].pop()
    with pytest.raises(AnsibleFilterError, match="nodes differ: gpu-1 has 1 rails, the others 2"):
        rail_plan(info, NETWORK, resources=["a"])


def nad(rail: Json) -> Json:
    """An attachment as the API server has it."""
    plugin = {"type": "host-device", **rail["selector"], "ipam": {"type": "whereabouts", "range": rail["range"]}}
    config = json.dumps({"cniVersion": "1.0.0", "plugins": [plugin]})
    return {"metadata": {"name": rail["name"]}, "spec": {"config": config}}


def test_a_range_too_small_is_not_changed() -> None:
    first = rail_plan(cluster(2, 1), NETWORK)
    assert message_of(AnsibleFilterError, rail_plan, cluster(7, 1), NETWORK, existing=first["rails"]) == (
        "Could not plan the rails: the range 10.100.0.0/29 of rail0 has 6 addresses, and 7 pods are expected. A range in "
        "use is not changed: remove the attachment rail0 when no pod has it, and it is planned again; or expect fewer pods"
    )


def test_a_new_rail_in_the_middle_renames_nothing() -> None:
    info = cluster(2, 3)
    first = rail_plan(info, NETWORK, exclude=["ens1"])
    second = rail_plan(info, NETWORK, existing=[nad(rail) for rail in first["rails"]])
    assert [(rail["netdev"], rail["name"], rail["range"], rail["kept"]) for rail in second["rails"]] == [
        ("ens0", "rail0", "10.100.0.0/29", True),
        ("ens1", "rail2", "10.100.0.16/29", False),
        ("ens2", "rail1", "10.100.0.8/29", True),
    ]


def test_devices_in_pods_keep_their_attachments() -> None:
    first = rail_plan(cluster(2, 2), NETWORK)
    info = cluster(2, 2)
    # As rdma_info shows it: in the pod's namespace, by the name that the interface has there.
    info["gpu-0"]["devices"][0] = device(0, netdev="net1", away=True)
    plan = rail_plan(info, NETWORK, existing=first["rails"])
    assert ranges(plan) == ranges(first)
    assert plan["notes"] == ["Devices are in pods, so they were not compared, on gpu-0."]
    for name in info:
        info[name]["devices"] = [device(rail, netdev=f"net{rail + 1}", away=True) for rail in range(2)]
    everywhere = rail_plan(info, NETWORK, existing=[nad(rail) for rail in first["rails"]])
    assert [(rail["name"], rail["selector"], rail["range"]) for rail in everywhere["rails"]] == [
        (rail["name"], rail["selector"], rail["range"]) for rail in first["rails"]
    ]
    message = "on every node devices are in pods, at least 2, and only 0 of the existing attach"
    with pytest.raises(AnsibleFilterError, match=message):
        rail_plan(info, NETWORK)


def test_a_rail_may_be_in_pods_on_every_node() -> None:
    first = rail_plan(cluster(2, 2), NETWORK)
    info = cluster(2, 2)
    for name in info:
        info[name]["devices"][1] = device(1, netdev="net1", away=True)
    plan = rail_plan(info, NETWORK, existing=first["rails"])
    names = [(rail["name"], rail["range"]) for rail in plan["rails"]]
    assert names == [("rail0", "10.100.0.0/29"), ("rail1", "10.100.0.8/29")]


def test_a_network_device_may_move_to_a_pod_between_the_two_looks() -> None:
    """The RDMA device was still on the host, with its network device, which the next look no longer has."""
    first = rail_plan(cluster(2, 1), NETWORK)
    moving = node(device(0), interfaces=[interface("eth0")])
    away = node(device(0, "net1", away=True), interfaces=[interface("eth0")])
    for info in ({"gpu-1": moving, "gpu-2": away}, {"gpu-1": moving, "gpu-2": node(device(0))}):
        for options in ({}, {"include": ["ens0"]}):
            assert ranges(rail_plan(info, NETWORK, existing=first["rails"], **options)) == ranges(first)


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_network_device_that_is_included_may_be_in_a_pod_under_another_name(everywhere: bool) -> None:
    """host-device renames it to net1; which of those in pods it is cannot be told, how many are missing can."""
    options = {"include": ["ens0", "ens1"]}
    before = rail_plan(cluster(2, 3), NETWORK, **options)
    busy = node(device(0, "net1", away=True), device(1), device(2))
    info = {"gpu-1": busy, "gpu-2": busy if everywhere else node(device(0), device(1), device(2))}
    after = rail_plan(info, NETWORK, existing=[nad(rail) for rail in before["rails"]], **options)
    assert sorted(ranges(after)) == sorted(ranges(before))
    assert {entry["device"]: entry["why"] for entry in after["excluded"]} == {"ens2": "include does not name it"}
    # What is in a pod and cannot be meant is not counted.
    other = node(device(0), device(1), device(2, "net1", away=True))
    info = {"gpu-1": other, "gpu-2": other}
    same = rail_plan(info, NETWORK, existing=[nad(rail) for rail in before["rails"]], **options)
    assert ranges(same) == ranges(before)
    assert {entry["device"]: entry["why"] for entry in same["excluded"]} == {"mlx5_2": "include does not name it"}


def test_networks_of_the_nodes_are_avoided() -> None:
    interfaces = [interface("ens0"), interface("eth0", addresses=["10.100.0.5/24", "fe80::1/64", "10.100.9.1/32"])]
    plan = rail_plan({"a": node(device(0), interfaces=interfaces)}, NETWORK, avoid=["10.100.1.0/24"])
    assert ranges(plan) == ["10.100.2.0/30"]


def test_a_network_that_is_too_small_says_so() -> None:
    assert message_of(AnsibleFilterError, rail_plan, cluster(100, 8), "10.0.0.0/24") == (
        "Could not plan the rails: 10.0.0.0/24 has no room for 8 rails of 200 addresses (/24 each: 100 pods, growth 2). "
        "Give a larger network, expect fewer pods, or lower growth"
    )


# options, part of the message
BAD: list[tuple[dict[str, Json], str]] = [
    ({"network": "10.0.0.1/8"}, "network is '10.0.0.1/8', which is not a valid network"),
    ({"expected_pods": 0}, "expected_pods is 0; it must be a number from 1"),
    ({"growth": 0.5}, "growth is 0.5; it must be between 1 and 1000"),
    ({"select": "guid"}, "select is 'guid'; it must be one of auto, name, pci, resource"),
    ({"select": "resource"}, "select is resource, but resources is empty"),
    ({"prefix": "Rail_"}, "prefix is 'Rail_'"),
    ({"avoid": ["x"]}, "avoid is 'x', which is not a valid network"),
]


@pytest.mark.parametrize(("options", "text"), BAD)
def test_bad_options(options: dict[str, Json], text: str) -> None:
    assert text in message_of(AnsibleFilterError, rail_plan, cluster(1, 1), **{"network": NETWORK, **options})


@pytest.mark.parametrize("info", [{}, [], {"a": 1}, {"a": {"devices": []}}])
def test_nothing_to_plan(info: Json) -> None:
    with pytest.raises((AnsibleFilterError, AnsibleTypeError), match="Could not plan the rails"):
        rail_plan(info, NETWORK)


def test_no_usable_port_says_why() -> None:
    with pytest.raises(AnsibleFilterError, match="no node has a port that can be a rail. a: ens0: the port is DOWN"):
        rail_plan({"a": node(device(0, state="DOWN"))}, NETWORK)


def test_a_thousand_nodes_in_two_seconds() -> None:
    info = cluster(1000, 8)
    for name in info:
        info[name]["interfaces"] = [interface(f"ens{rail}", addresses=["10.90.0.1/24"]) for rail in range(8)]
    began = time.process_time()
    plan = rail_plan(info, NETWORK)
    assert time.process_time() - began < 2
    assert ranges(plan)[-1] == "10.100.56.0/21"


@given(
    nodes=st.integers(1, 40),
    more=st.integers(0, 60),
    rails=st.integers(1, 9),
    per_node=st.integers(1, 3),
    growth=st.floats(1, 4),
    taken=st.lists(st.tuples(st.integers(0, 255), st.integers(18, 28)), max_size=6),
)
def test_ranges_never_overlap_and_never_move(
    nodes: int, more: int, rails: int, per_node: int, growth: float, taken: list[tuple[int, int]]
) -> None:
    avoid = [str(ipaddress.ip_network((f"10.100.{third}.0", size), strict=False)) for third, size in taken]
    options = {"pods_per_node": per_node, "growth": growth, "avoid": avoid}
    try:
        first = rail_plan(cluster(nodes, rails), NETWORK, **options)
    except AnsibleFilterError as exc:
        assert "has no room" in str(exc)  # noqa: PT017
        return
    space = ipaddress.ip_network(NETWORK)
    mine = [ipaddress.ip_network(text) for text in ranges(first)]
    assert len(mine) == rails
    for network in mine:
        assert network.subnet_of(space)  # type: ignore[arg-type]
        assert network.num_addresses - 2 >= nodes * per_node * growth
    for number, network in enumerate(mine):
        assert not any(network.overlaps(other) for other in mine[:number])
        assert not any(network.overlaps(ipaddress.ip_network(text)) for text in avoid)
    before = copy.deepcopy(first)
    grown = cluster(nodes + more, rails)
    room = first["rails"][0]["addresses"]
    for existing in (first["rails"], [nad(rail) for rail in first["rails"]]):
        if (nodes + more) * per_node <= room:
            again = rail_plan(grown, NETWORK, **options, existing=existing)
            assert ranges(again) == ranges(first)
            assert [rail["name"] for rail in again["rails"]] == [rail["name"] for rail in first["rails"]]
            assert all(rail["kept"] for rail in again["rails"])
        else:
            with pytest.raises(AnsibleFilterError, match="A range in use is not changed"):
                rail_plan(grown, NETWORK, **options, existing=existing)
    assert first == before


@given(nodes=st.integers(3, 12), rails=st.integers(1, 8), data=st.data())
def test_the_one_odd_node_is_named(nodes: int, rails: int, data: st.DataObject) -> None:
    info = cluster(nodes, rails)
    odd = data.draw(st.sampled_from(sorted(info)))
    rail = data.draw(st.integers(0, rails - 1))
    info[odd]["devices"][rail] = device(rail, netdev="other", pci="0000:f0:00.0")
    message = message_of(AnsibleFilterError, rail_plan, info, NETWORK)
    assert [name for name in info if f"{name} has rail" in message] == [odd]
