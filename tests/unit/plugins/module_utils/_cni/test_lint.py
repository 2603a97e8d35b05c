# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with attachments, by themselves and against a cluster."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import lint as cni_lint
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.lint_model import (
    CODES,
    Attachment,
    Report,
    Surroundings,
)


def node(address: str, **allocatable: str) -> dict[str, t.Any]:
    return {
        "metadata": {},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": "gpu"}],
            "allocatable": {"cpu": "4", **allocatable},
        },
    }


INTERFACE: dict[str, t.Any] = {"mtu": 9000, "pci_address": None, "master": None, "addresses": [], "uses": []}


def interface(name: str, mac: str, **more: t.Any) -> dict[str, t.Any]:
    return {**INTERFACE, "name": name, "mac": "00:00:00:00:00:" + mac, **more}


PLUGINS = ["host-device", "macvlan", "sriov", "rdma", "whereabouts", "host-local", "static"]
STORAGE = {"master": "bond0", "addresses": ["10.2.0.5/24"], "uses": ["storage mount /data"]}
INFO: dict[str, t.Any] = {
    "devices": [{"name": "mlx5_0", "pci_address": "0000:07:00.0", "ports": [{"netdev": "ens192"}]}],
    "interfaces": [
        interface("ens160", "01", mtu=1500, addresses=["10.1.0.1/24"], uses=["default_route"]),
        interface("ens192", "02", pci_address="0000:07:00.0"),
        interface("ens224", "03", pci_address="0000:08:00.0", **STORAGE),
        {"name": "ens256", "mtu": 9000, "addresses": ["10.1.0.1/24"], "uses": []},
    ],
    "cni": {"bin_dir": "/opt/cni/bin", "plugins": PLUGINS},
}
BONDED = {
    "gpu-1": {
        **INFO,
        "interfaces": [
            interface("ens1f0", "05", master="bond0", uses=["bond bond0"]),
            interface("ens1f1", "05", master="bond0", uses=["bond bond0"]),
            interface("bond0", "05", kind="bond", can_change_netns=False),
        ],
    }
}
KEPT = {"gpu-1": {**INFO, "interfaces": [interface("ens192", "02", can_change_netns=False)]}}
# A function with a sub-function, which has the only RDMA device, and one that only a sub-function is left of.
SUB_FUNCTIONS = {
    "gpu-1": {
        **INFO,
        "devices": [
            {
                "name": "mlx5_2",
                "pci_address": "0000:08:00.0",
                "auxiliary_device": "mlx5_core.sf.4",
                "ports": [{"netdev": "enp8s0f0s88"}],
            }
        ],
        "interfaces": [
            interface("enp8s0f0s88", "06", pci_address="0000:08:00.0", auxiliary_device="mlx5_core.sf.4"),
            interface("enp8s0f0np0", "07", pci_address="0000:08:00.0", auxiliary_device=None),
            interface("enp9s0f0s88", "08", pci_address="0000:09:00.0", auxiliary_device="mlx5_core.sf.5"),
        ],
    }
}
AROUND = Surroundings(
    others=[],
    nodes={"gpu-1": node("10.1.0.1", **{"nvidia.com/rail0": "1", "nvidia.com/none": "0"})},
    targets=["gpu-1"],
    pod_networks=["10.244.0.0/24"],
    service_networks=["10.96.0.0/16"],
    node_info={"gpu-1": INFO},
    expected_pods={},
    settled=set(),
    why={"nodes": "nodes are forbidden", "others": "others are forbidden", "range_overlaps_pods": "no podCIDRs"},
)
WHEREABOUTS = {"type": "whereabouts", "range": "10.100.100.0/24"}
DEVICE: dict[str, t.Any] = {"cniVersion": "0.3.1", "type": "host-device", "device": "ens192", "ipam": WHEREABOUTS}


def nic(name: str = "nic0", resource_name: str | None = None, **config: t.Any) -> Attachment:
    made = {key: value for key, value in {**DEVICE, **config}.items() if value is not None}
    return Attachment("default", name, made, resource_name)


def chain(version: str, *plugins: dict[str, t.Any]) -> Attachment:
    return Attachment("default", "nic0", {"cniVersion": version, "plugins": list(plugins)})


def ranged(name: str, text: str, **ipam: t.Any) -> Attachment:
    device = None if name == "nic0" else "0000:07:00.0"
    more: dict[str, t.Any] = {} if device is None else {"device": None, "pciBusID": device}
    return nic(name, ipam={"type": "whereabouts", "range": text, **ipam}, **more)


def lint(wanted: list[Attachment], ignored: t.Container[str] = (), **around: t.Any) -> Report:
    report = Report(ignored)
    before = copy.deepcopy((wanted, around))
    cni_lint.check(wanted, AROUND._replace(**around), report)
    assert (wanted, around) == before
    return report


def test_what_is_right_is_passed() -> None:
    report = lint([nic()], expected_pods={"default/nic0": 200})
    assert (report.findings, report.not_checked) == ([], [])


def wrong(code: str, sentence: str, *wanted: Attachment, **around: t.Any) -> tuple[t.Any, ...]:
    return code, sentence, list(wanted), around


WRONG = [
    wrong(
        "range_too_small",
        "range_too_small, default/nic0: 10.100.100.0/30 holds 2 addresses and 3 pods are expected. 10.100.100.0/29 would "
        "fit (6 addresses)",
        ranged("nic0", "10.100.100.0/30"),
        expected_pods={"default/nic0": 3},
    ),
    wrong(
        "range_too_small",
        "A network of at least /29 elsewhere (10.100.100.0/29 would overlap 10.100.100.4/30)",
        ranged("nic0", "10.100.100.0/30"),
        expected_pods={"default/nic0": 3},
        pod_networks=["10.100.100.4/30"],
    ),
    wrong(
        "range_too_small",
        "holds 0 addresses and a pod needs one",
        ranged("nic0", "10.100.100.0/24", exclude=["10.100.100.0/25", "10.100.100.128/25"]),
    ),
    wrong(
        "range_too_small",
        "Fewer exclusions, or range_start and range_end further apart: 10.100.100.0/24 has 254 addresses in total",
        ranged("nic0", "10.100.100.0/24", range_end="10.100.100.2"),
        expected_pods={"default/nic0": 3},
    ),
    wrong(
        "range_overlap",
        "10.100.100.0/28 overlaps 10.100.100.8/29 of default/nic1 at 10.100.100.9: two pods may get the same address",
        ranged("nic0", "10.100.100.0/28"),
        ranged("nic1", "10.100.100.8/29"),
    ),
    wrong(
        "range_overlap",
        "both use the whereabouts pool 10.100.100.0-28",
        ranged("nic0", "10.100.100.0/28"),
        ranged("nic1", "10.100.100.0/28"),
    ),
    wrong(
        "range_overlap",
        "overlaps 10.100.100.0/24 of other/theirs at 10.100.100.1",
        nic(),
        others=[Attachment("other", "theirs", {"type": "macvlan", "ipam": WHEREABOUTS})],
    ),
    wrong(
        "range_overlaps_pods",
        "10.244.0.0/16 overlaps the pod network 10.244.0.0/24 at 10.244.0.1",
        ranged("nic0", "10.244.0.0/16"),
    ),
    wrong(
        "range_overlaps_services",
        "10.96.3.0/24 overlaps the service network 10.96.0.0/16 at 10.96.3.1",
        ranged("nic0", "10.96.3.0/24"),
    ),
    wrong(
        "range_overlaps_nodes",
        "10.1.0.0/24 contains 10.1.0.1, the address of node gpu-1. Exclude: [10.1.0.1/32], or another range",
        ranged("nic0", "10.1.0.0/24"),
    ),
    wrong(
        "range_overlaps_nodes",
        "10.2.0.0/24 contains 10.2.0.5, the address of ens224 on node gpu-1",
        ranged("nic0", "10.2.0.0/24"),
    ),
    wrong("duplicate_name", "default/nic0: it is listed more than once", nic(), nic()),
    wrong("invalid_name", "the name Nic0 cannot be used in a pod's annotation", nic("Nic0")),
    wrong("invalid_name", "at most 63", nic("n" * 64)),
    wrong("unknown_key", "Did you mean device?", nic(devcie="x")),
    wrong("cni_version", "2.0.0 is not a CNI version", nic(cniVersion="2.0.0")),
    wrong(
        "cni_version",
        "CNI version 0.2.0 does not support plugin lists",
        chain("0.2.0", {"type": "host-device", "device": "ens192"}),
    ),
    wrong(
        "interface_name",
        "device enp129s0f0np0v12 has 16 characters, and an interface name can have at most 15",
        nic(device="enp129s0f0np0v12"),
    ),
    wrong(
        "interface_name", "master 'a b' is not a valid interface name", nic(type="macvlan", device=None, master="a b")
    ),
    wrong(
        "several_devices", "device and pciBusID are set, and host-device uses only device", nic(pciBusID="0000:07:00.0")
    ),
    wrong("missing_key", "host-device has no device selector", nic(device=None)),
    wrong("missing_key", "sriov has no virtual function selector", nic(type="sriov", device=None)),
    wrong("missing_key", "would use the interface of the node's default route", nic(type="macvlan", device=None)),
    wrong(
        "duplicate_device",
        "default/nic1: its device ens192 is also used by default/nic0, and a device can be in only one pod at a time",
        nic("nic0"),
        nic("nic1", ipam=None),
    ),
    wrong(
        "resource_missing",
        "no node offers the resource nvidia.com/rail1. The device plugin's configuration, or one of the resources "
        "that the nodes offer: nvidia.com/none, nvidia.com/rail0",
        nic("nic0", "nvidia.com/rail1"),
    ),
    wrong("resource_missing", "no node offers the resource nvidia.com/none", nic("nic0", "nvidia.com/none")),
    wrong("resource_missing", "rail0 is not a valid resource name", nic("nic0", "rail0")),
    wrong(
        "address_shared",
        "host-local allocates on each node independently, so pods on two of the 2 nodes get the same address",
        nic(ipam={"type": "host-local", "subnet": "10.100.100.0/24"}),
        targets=["gpu-1", "gpu-2"],
        node_info={},
    ),
    wrong(
        "address_shared",
        "static assigns 10.100.100.7/24 to each pod, and 2 pods are expected",
        nic(ipam={"type": "static", "addresses": [{"address": "10.100.100.7/24"}]}),
        expected_pods={"default/nic0": 2},
    ),
    wrong(
        "plugin_missing",
        "node gpu-1 has no CNI plugin ipvlan in /opt/cni/bin",
        nic(ipam={"type": "static"}, type="ipvlan", device=None, master="ens192"),
    ),
    wrong("plugin_missing", "node gpu-1 has no IPAM plugin dhcp in /opt/cni/bin", nic(ipam={"type": "dhcp"})),
    wrong("device_missing", "node gpu-1 has no device ens9. One of: ens160, ens192", nic(device="ens9")),
    wrong("device_missing", "no hwaddr 00:00:00:00:00:09", nic(device=None, hwaddr="00:00:00:00:00:09")),
    wrong(
        "device_missing",
        "node gpu-1 has no master ens9",
        nic(type="macvlan", device=None, master="ens9"),
        settled={"default/nic0"},
    ),
    wrong(
        "device_missing",
        "node gpu-1 has no RDMA device on ens192, and the chained plugin rdma needs one",
        chain("0.3.1", {"type": "host-device", "device": "ens192"}, {"type": "rdma"}),
        node_info={"gpu-1": {**INFO, "devices": []}},
    ),
    wrong(
        "host_interface", "ens160 on node gpu-1 is used by the host: default_route, the node's", nic(device="ens160")
    ),
    wrong("host_interface", "storage mount /data, member of bond0. A pod would take it away", nic(device="ens224")),
    wrong(
        "host_interface", "0000:08:00.0 on node gpu-1 is used by the host", nic(device=None, pciBusID="0000:08:00.0")
    ),
    wrong("host_interface", "the node's address 10.1.0.1/24", nic(device="ens256")),
    wrong(
        "host_interface",
        "host_interface, default/nic0: ens1f0 on node gpu-1 is used by the host: bond bond0. A pod would take it away from "
        "the host. A device that the host does not use; or type macvlan or ipvlan with master bond0, by which a pod gets a "
        "network device on bond0. Its RDMA device stays with the host, where pods can use it in mode shared",
        nic(device="ens1f0"),
        node_info=BONDED,
    ),
    wrong(
        "host_interface",
        "default/nic0: bond0 on node gpu-1 is a bond, which the kernel does not move to another network namespace. Type "
        "macvlan or ipvlan with master bond0",
        nic(device="bond0"),
        node_info=BONDED,
    ),
    wrong(
        "host_interface",
        "default/nic0: ens192 on node gpu-1 is a netns-immutable device (as that of a physical function of mlx5 in "
        "switchdev mode), which the kernel does not move to another network namespace. Type macvlan or ipvlan with "
        "master ens192",
        nic(device="ens192"),
        node_info=KEPT,
    ),
    wrong(
        "host_interface",
        "default/nic0: ens1f0 on node gpu-1 is a member of the bond bond0, and the kernel adds no macvlan to a member. "
        "Master bond0",
        nic(type="macvlan", device=None, master="ens1f0"),
        node_info=BONDED,
    ),
    wrong(
        "device_missing",
        "node gpu-1 has no pciBusID 0000:09:00.0. One of: 0000:08:00.0. The network devices of the sub-functions of "
        "0000:09:00.0 have names, not an address: enp9s0f0s88",
        nic(device=None, pciBusID="0000:09:00.0"),
        node_info=SUB_FUNCTIONS,
    ),
    wrong(
        "device_missing",
        "node gpu-1 has no RDMA device on enp8s0f0np0, and the chained plugin rdma needs one",
        chain("0.3.1", {"type": "host-device", "pciBusID": "0000:08:00.0"}, {"type": "rdma"}),
        node_info=SUB_FUNCTIONS,
    ),
    wrong(
        "missing_key",
        "host-device has no device selector, and does not read deviceID",
        nic(device=None, deviceID="mlx5_core.sf.4"),
    ),
    wrong(
        "mtu_too_large",
        "mtu 9000 is larger than the mtu 1500 of its parent ens160 on node gpu-1",
        nic(type="macvlan", device=None, master="ens160", mtu=9000),
    ),
]


@pytest.mark.parametrize(("code", "sentence", "wanted", "around"), WRONG, ids=range(len(WRONG)))
def test_errors(code: str, sentence: str, wanted: list[Attachment], around: dict[str, t.Any]) -> None:
    report = lint(wanted, **around)
    assert code in {finding.code for finding in report.errors}
    assert any(sentence in str(finding) for finding in report.errors), [str(finding) for finding in report.errors]
    # One mistake, one kind of error: but two of one device share its range, and a name that cannot be is on no node.
    further = {
        "duplicate_device": {"range_overlap"},
        "interface_name": {"device_missing"},
        "missing_key": {"unknown_key"},
    }
    assert {finding.code for finding in report.errors} <= {code} | further.get(code, set())
    if CODES[code]:
        ignored = lint(wanted, [code], **around)
        assert code not in {finding.code for finding in ignored.errors}
        assert code in {finding.code for finding in ignored.warnings}


def test_every_code_has_its_place() -> None:
    elsewhere = {
        *("invalid_json", "invalid_config", "invalid_value", "namespace_missing", "owned_by_other", "range_in_use"),
        # of _cni_ranges, in its own test
        *("invalid_cidr", "exclude_outside", "range_bounds", "gateway_in_range"),
    }
    assert {row[0] for row in WRONG} | elsewhere == set(CODES)


RIGHT: list[list[Attachment]] = [
    # Halves of one network, by bounds and by exclusion.
    [
        ranged("nic0", "10.100.100.0/24", range_end="10.100.100.99"),
        ranged("nic1", "10.100.100.0/24", range_start="10.100.100.100"),
    ],
    [ranged("nic0", "10.100.100.0/24", exclude=["10.100.100.0/25"]), ranged("nic1", "10.100.100.0/25")],
    [ranged("nic0", "10.1.0.0/24", exclude=["10.1.0.1/32"])],
    [nic("nic0", "nvidia.com/rail0", device=None)],
    [nic(type="macvlan", device=None, master="ens160", mtu=1500)],
    [nic(cniVersion="1.1.0")],
    [nic("nic0", "nvidia.com/rail0", device=None, capabilities={"deviceID": True})],
]


@pytest.mark.parametrize("wanted", RIGHT, ids=range(len(RIGHT)))
def test_no_error(wanted: list[Attachment]) -> None:
    assert lint(wanted).errors == []


def test_a_device_that_a_pod_holds_is_a_warning_where_the_attachment_is_there_already() -> None:
    info = {"gpu-1": {**INFO, "interfaces": [row for row in INFO["interfaces"] if row["name"] != "ens192"]}}
    assert [finding.code for finding in lint([nic()], node_info=info).errors] == ["device_missing"]
    report = lint([nic()], node_info=info, settled={"default/nic0"})
    assert report.errors == []
    assert "(a pod may hold it now)" in str(report.warnings[0])


def test_a_sub_function_has_its_own_rdma_device() -> None:
    attachment = chain("0.3.1", {"type": "host-device", "device": "enp8s0f0s88"}, {"type": "rdma"})
    assert lint([attachment], node_info=SUB_FUNCTIONS).errors == []


def test_a_device_on_a_bond_is_no_error() -> None:
    assert lint([nic(type="macvlan", device=None, master="bond0")], node_info=BONDED).errors == []


def test_an_address_with_several_network_devices_is_a_warning() -> None:
    ports = [
        interface(f"enp8s0{name}", name, pci_address="0000:08:00.0", uses=["x"] * (name == "d1"))
        for name in ("d1", "d0")
    ]
    report = lint([nic(device=None, pciBusID="0000:08:00.0")], node_info={"gpu-1": {**INFO, "interfaces": ports}})
    assert (report.errors, [str(finding) for finding in report.warnings]) == (
        [],
        [
            "several_devices, default/nic0: pciBusID 0000:08:00.0 on node gpu-1 has the network devices enp8s0d0, enp8s0d1, "
            "and host-device takes the first. Device, with the name of one of them"
        ],
    )


def test_no_version_is_a_warning() -> None:
    report = lint([nic(cniVersion=None)])
    assert (report.errors, [finding.code for finding in report.warnings]) == ([], ["cni_version"])


# surroundings, code, node, why
UNKNOWN: list[tuple[dict[str, t.Any], str, str | None, str]] = [
    ({"node_info": {}}, "host_interface", None, "node_info is not set"),
    ({"node_info": {"gpu-9": INFO}}, "plugin_missing", "gpu-1", "node_info has no entry for this node"),
    ({"node_info": {"gpu-1": {**INFO, "cni": None}}}, "plugin_missing", "gpu-1", "no list of CNI plugins"),
    ({"node_info": {"gpu-1": {**INFO, "interfaces": None}}}, "host_interface", "gpu-1", "no list of interfaces"),
    ({"node_info": {"gpu-1": {**INFO, "interfaces": None}}}, "mtu_too_large", "gpu-1", "no list of interfaces"),
    ({"nodes": None, "targets": None}, "range_overlaps_nodes", None, "nodes are forbidden"),
    ({"nodes": None, "targets": None}, "device_missing", None, "nodes are forbidden"),
    ({"pod_networks": None}, "range_overlaps_pods", None, "no podCIDRs"),
    ({"others": None}, "range_overlap", None, "others are forbidden"),
    ({"others": [Attachment("x", "y", None)]}, "range_overlap", None, "the config of x/y cannot be read"),
    ({"expected_pods": {}}, "range_too_small", None, "expected_pods does not set the number of pods"),
]


@pytest.mark.parametrize(("around", "code", "where", "why"), UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_is_not_known_is_not_passed(around: dict[str, t.Any], code: str, where: str | None, why: str) -> None:
    report = lint([nic()], **{"expected_pods": {"default/nic0": 2}, **around})
    assert report.findings == []
    assert [row for row in report.not_checked if row.code == code and row.node == where and why in row.why]


def test_pods_of_a_shared_pool_are_added_up() -> None:
    wanted = [ranged("nic0", "10.100.100.0/29"), ranged("nic1", "10.100.100.0/29")]
    report = lint(wanted, ["range_overlap"], expected_pods={"default/nic0": 4, "default/nic1": 3})
    assert [finding.code for finding in report.errors] == ["range_too_small", "range_too_small"]
    assert "7 pods are expected for the attachments default/nic0, default/nic1 that share it" in str(report.errors[0])


def test_the_same_is_said_once_and_in_the_order_found() -> None:
    report = Report()
    for _turn in range(2):
        for name in ("b", "a"):
            report.add("device_missing", name, "it is not there", "another one")
            report.skip("host_interface", "nothing is known", attachment=name)
    assert [finding.attachment for finding in report.findings] == ["b", "a"]
    assert [gap.attachment for gap in report.not_checked] == ["b", "a"]
