# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each alert fires and when it does not, as promtool's tests of rules take it: a sample a minute, from minute 0 on.

"1x90" is the value and how often it is repeated, "_" no sample: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

from __future__ import annotations

import typing as t

NODE = 'node="gpu-1"'
DEVICE = f'{NODE}, device="mlx5_0"'
PORT = f'{DEVICE}, port="1"'
RDMA = f'job="rdma_exporter", instance="192.0.2.11:9879", {NODE}'
UP = f"up{{{RDMA}}}"
GPU = f'up{{job="dcgm_exporter", instance="192.0.2.11:9400", {NODE}}}'
WHOLE = f"rdma_exporter_scrape_complete{{{RDMA}}}"
EXCLUSIVE = f'rdma_netns_mode{{{RDMA}, mode="exclusive"}}'
STATE = f'rdma_port_state_id{{{PORT}, netdev="rail0", link_layer="Ethernet", netns="host"}}'
INFINIBAND = f'rdma_port_state_id{{{PORT}, link_layer="InfiniBand", netns="host"}}'
IN_POD = f'rdma_port_state_id{{{PORT}, link_layer="Ethernet", netns="pod", pod_namespace="ml", pod_name="train-0"}}'
RATE = f"rdma_port_rate_bytes_per_second{{{PORT}}}"

AT = {"node": "gpu-1", "device": "mlx5_0"}
AT_PORT = {**AT, "port": "1"}
HOST = {**AT_PORT, "netns": "host"}
POD = {**AT_PORT, "netns": "pod", "pod_namespace": "ml", "pod_name": "train-0"}
TARGET = {"job": "rdma_exporter", "instance": "192.0.2.11:9879", "node": "gpu-1"}
GPU_TARGET = {"job": "dcgm_exporter", "instance": "192.0.2.11:9400", "node": "gpu-1"}


class Case(t.NamedTuple):
    """What was measured, the minute that is looked at, and the alert's labels then; None: it does not fire."""

    alert: str
    name: str
    series: dict[str, str]
    minute: int
    labels: dict[str, str] | None
    # Texts with more than labels in them.
    texts: dict[str, str] = {}


def info(device: str, guid: str) -> str:
    return f'rdma_device_info{{{RDMA}, device="{device}", node_guid="{guid}"}}'


def down(state: int, pod: str = "") -> dict[str, str]:
    text = f"Its state is {state} (1: DOWN, 2: INIT, 3: ARMED, 4: ACTIVE, 5: ACTIVE_DEFER)"
    return {"description": f"{text}, and pod {pod} has the device." if pod else f"{text}."}


def many(number: str, pod: str = "") -> dict[str, str]:
    place = f", in pod {pod}" if pod else ""
    text = f"{number} retransmissions, and timeouts before them, in a second{place}."
    return {"description": f"{text} The path of this device loses packets, or its peers do not keep up."}


def in_pod(traffic: dict[str, int]) -> dict[str, str]:
    """Return the counters of a pod that rise by some MiB a minute."""
    where = 'netns="pod", pod_namespace="ml", pod_name="train-0"'
    return {
        f"{metric}_total{{{PORT if metric.startswith(('rdma_port', 'rdma_hw')) else NODE}, {where}}}": f"0+{mib << 20}x60"
        for metric, mib in traffic.items()
    }


NETDEVS = {"rdma_netdev_receive_bytes": 300, "rdma_netdev_transmit_bytes": 300}
UNUSED = {"description": "Its network devices carry 10.49MB/s, and its RDMA devices less than 1 % of that."}
OF_POD = {"node": "gpu-1", "pod_namespace": "ml", "pod_name": "train-0"}

GNMIC = 'up{job="switch_telemetry", instance="192.0.2.21:9804"}'


def octets(switch: str) -> str:
    return f'switch_interfaces_interface_state_counters_in_octets{{switch="{switch}", interface="Ethernet1"}}'


def of_switch(counter: str, priority: str = "") -> str:
    more = f', priority="{priority}"' if priority else ""
    return f'switch_{counter}{{switch="leaf1", interface="Ethernet1"{more}}}'


IN_OCTETS, IN_ERRORS = (of_switch(f"interfaces_interface_state_counters_in_{name}") for name in ("octets", "errors"))
PAUSE = of_switch("COUNTERS_SAI_PORT_STAT_PFC_RX_PKTS", "3")
SWITCH_PORT = {"switch": "leaf1", "interface": "Ethernet1"}
DOWNED = f'rdma_port_link_downed_total{{{PORT}, netns="host"}}'
CARRIER = f'rdma_port_netdev_carrier_down_total{{{PORT}, netns="host"}}'
SYMBOLS = f'rdma_port_symbol_error_total{{{PORT}, netns="host"}}'
# 400 Gb/s: 10^-12 of its bits are 0.4 in a second, or 24 in a minute.
SPEED = f'rdma_port_rate_bytes_per_second{{{PORT}, netns="host"}}'
THREE = "0x10 1x5 2x5 3x130"


def flaps(pod: str = "") -> dict[str, str]:
    place = f", in pod {pod}" if pod else ""
    return {"description": f"It went down 3 times within 1h{place}."}


CASES = [
    # --- RdmaDeviceMissing
    Case(
        "RdmaDeviceMissing", "the exporter misses it",
        {f"rdma_device_present{{{RDMA}, device=\"mlx5_0\"}}": "1x10 0x20", WHOLE: "1x40"}, 20, AT,
    ),
    Case(
        "RdmaDeviceMissing", "it is gone for a moment",
        {f"rdma_device_present{{{RDMA}, device=\"mlx5_0\"}}": "1x10 0x3 1x20", WHOLE: "1x40"}, 14, None,
    ),
    Case(
        "RdmaDeviceMissing", "the exporter was started again and does not know of it",
        {info("mlx5_0", "a"): "1x100 _x60", info("mlx5_1", "b"): "1x200", WHOLE: "1x200"}, 120, AT,
    ),
    Case(
        "RdmaDeviceMissing", "it has another name now",
        {info("mlx5_0", "a"): "1x100 _x60", info("rocep1s0", "a"): "_x100 1x60", WHOLE: "1x200"}, 120, None,
    ),
    Case(
        "RdmaDeviceMissing", "two devices without a GUID are not one",
        {info("mlx5_0", ""): "1x100 _x60", info("mlx5_1", ""): "1x200", WHOLE: "1x200"}, 120, AT,
    ),
    Case(
        "RdmaDeviceMissing", "it may be where the exporter cannot look",
        {info("mlx5_0", "a"): "1x100 _x60", WHOLE: "1x100 0x60"}, 120, None,
    ),
    Case(
        "RdmaDeviceMissing", "nothing is known of the node",
        {info("mlx5_0", "a"): "1x100 _x60", WHOLE: "1x100 _x60", UP: "1x100 0x60"}, 120, None,
    ),
    # --- RdmaPortNotActive
    Case("RdmaPortNotActive", "it went down", {STATE: "4x90 1x30", EXCLUSIVE: "0x130"}, 110, HOST, down(1)),
    Case("RdmaPortNotActive", "ACTIVE_DEFER is not ACTIVE", {STATE: "4x90 5x30", EXCLUSIVE: "0x130"}, 110, HOST, down(5)),
    Case("RdmaPortNotActive", "it flaps", {STATE: "4x90 1x3 4x30", EXCLUSIVE: "0x130"}, 94, None),
    Case("RdmaPortNotActive", "it never was ACTIVE", {STATE: "1x120", EXCLUSIVE: "0x130"}, 110, None),
    Case(
        "RdmaPortNotActive", "it never was ACTIVE and is expected",
        {STATE: "2x120", f'rdma_device_expected{{{RDMA}, device="mlx5_0"}}': "1x130"}, 110, HOST, down(2),
    ),
    Case("RdmaPortNotActive", "it waits for the next pod", {STATE: "4x90 1x30", EXCLUSIVE: "1x130"}, 110, None),
    Case("RdmaPortNotActive", "InfiniBand waits ACTIVE", {INFINIBAND: "4x90 1x30", EXCLUSIVE: "1x130"}, 110, HOST, down(1)),
    Case("RdmaPortNotActive", "in a pod", {IN_POD: "4x90 1x30", EXCLUSIVE: "1x130"}, 110, POD, down(1, "ml/train-0")),
    Case(
        "RdmaPortNotActive", "it went into a pod and did not come up there",
        {STATE: "4x90 _x60", IN_POD: "_x90 1x60", EXCLUSIVE: "1x150"}, 110, POD, down(1, "ml/train-0"),
    ),
    # --- RdmaPortDowntrained
    Case(
        "RdmaPortDowntrained", "half of what it was", {RATE: "50000000000x90 25000000000x30", STATE: "4x130"}, 110, AT_PORT,
        {"description": "The link runs at 200Gbit/s, which is less than its best within the last 14d."},
    ),
    Case("RdmaPortDowntrained", "as before", {RATE: "50000000000x120", STATE: "4x130"}, 110, None),
    Case("RdmaPortDowntrained", "faster", {RATE: "25000000000x90 50000000000x30", STATE: "4x130"}, 110, None),
    Case("RdmaPortDowntrained", "a port that is down has no rate", {RATE: "50000000000x90 312500000x30", STATE: "4x90 1x30"}, 110, None),
    # --- RdmaLinkFlaps
    Case("RdmaLinkFlaps", "once, between two scrapes", {DOWNED: "0x10 1x80", STATE: "4x90", EXCLUSIVE: "0x90"}, 30, None),
    Case("RdmaLinkFlaps", "twice", {DOWNED: "0x10 1x5 2x80", STATE: "4x90", EXCLUSIVE: "0x90"}, 30, None),
    Case("RdmaLinkFlaps", "the third time", {DOWNED: THREE, STATE: "4x90", EXCLUSIVE: "0x90"}, 25, HOST, flaps()),
    Case("RdmaLinkFlaps", "an hour later", {DOWNED: THREE, STATE: "4x140", EXCLUSIVE: "0x140"}, 90, None),
    Case("RdmaLinkFlaps", "no carrier", {CARRIER: THREE, STATE: "4x90", EXCLUSIVE: "0x90"}, 25, HOST, flaps()),
    Case("RdmaLinkFlaps", "both count the same", {CARRIER: "0x10 1x5 2x80", DOWNED: "0x10 1x5 2x80", EXCLUSIVE: "0x90"}, 30, None),
    Case("RdmaLinkFlaps", "between pods", {CARRIER: THREE, STATE: "4x90", EXCLUSIVE: "1x90"}, 25, None),
    Case(
        "RdmaLinkFlaps", "in a pod",
        {f'rdma_port_netdev_carrier_down_total{{{PORT}, netns="pod", pod_namespace="ml", pod_name="train-0"}}': THREE, EXCLUSIVE: "1x90"},
        25, POD, flaps("ml/train-0"),
    ),
    # --- RdmaLinkErrors
    Case(
        "RdmaLinkErrors", "one in a second", {SYMBOLS: "0+60x90", SPEED: "50000000000x90"}, 80, HOST,
        {"description": "Its errors rise by 1 in a second, more than 1e-12 of the bits of the link."},
    ),
    Case("RdmaLinkErrors", "one in five seconds", {SYMBOLS: "0+12x90", SPEED: "50000000000x90"}, 80, None),
    Case("RdmaLinkErrors", "one", {SYMBOLS: "0x30 1x60", SPEED: "50000000000x90"}, 80, None),
    Case("RdmaLinkErrors", "an hour after a bad minute", {SYMBOLS: "0x10 9000x90", SPEED: "50000000000x100"}, 90, None),
    # --- RdmaRetransmissions
    Case(
        "RdmaRetransmissions", "20 in a second, of one counter",
        {f'rdma_hw_packet_seq_err_total{{{PORT}, netns="host"}}': "0+1200x40"}, 30, HOST, many("20"),
    ),
    Case(
        "RdmaRetransmissions", "6 and 6 of two counters, in a pod",
        {f'rdma_hw_{counter}_total{{{PORT}, netns="pod", pod_namespace="ml", pod_name="train-0"}}': "0+360x40" for counter in ("packet_seq_err", "local_ack_timeout_err")},
        30, POD, many("12", "ml/train-0"),
    ),
    Case(
        "RdmaRetransmissions", "irdma's name",
        {f'rdma_hw_tcpretranssegs_total{{{PORT}, netns="host"}}': "0+1200x40"}, 30, HOST, many("20"),
    ),
    Case("RdmaRetransmissions", "5 in a second", {f'rdma_hw_packet_seq_err_total{{{PORT}, netns="host"}}': "0+300x40"}, 30, None),
    Case("RdmaRetransmissions", "a large count that stands still", {f'rdma_hw_packet_seq_err_total{{{PORT}, netns="host"}}': "9000000x40"}, 30, None),
    Case("RdmaRetransmissions", "a burst", {f'rdma_hw_packet_seq_err_total{{{PORT}, netns="host"}}': "0x10 9000x40"}, 15, None),
    # --- RdmaUnusedByPod
    Case(
        "RdmaUnusedByPod", "10 MiB in a second, and RDMA is silent",
        in_pod({**NETDEVS, "rdma_port_receive_bytes": 0, "rdma_port_transmit_bytes": 0}), 40, OF_POD,
        UNUSED,
    ),
    Case(
        "RdmaUnusedByPod", "soft-RoCE is silent",
        in_pod({**NETDEVS, "rdma_port_receive_packets": 0, "rdma_port_transmit_packets": 0}), 40, OF_POD, UNUSED,
    ),
    Case(
        "RdmaUnusedByPod", "for ten minutes",
        in_pod({**NETDEVS, "rdma_port_receive_bytes": 0, "rdma_port_transmit_bytes": 0}), 10, None,
    ),
    Case(
        "RdmaUnusedByPod", "it receives over RDMA",
        in_pod({**NETDEVS, "rdma_port_receive_bytes": 60, "rdma_port_transmit_bytes": 0}), 40, None,
    ),
    Case(
        "RdmaUnusedByPod", "soft-RoCE sends packets",
        in_pod({**NETDEVS, "rdma_port_receive_packets": 0, "rdma_port_transmit_packets": 60}), 40, None,
    ),
    Case(
        "RdmaUnusedByPod", "the network is idle as well",
        in_pod({"rdma_netdev_receive_bytes": 6, "rdma_netdev_transmit_bytes": 6, "rdma_port_receive_bytes": 0, "rdma_port_transmit_bytes": 0}),
        40, None,
    ),
    Case("RdmaUnusedByPod", "its driver counts nothing", in_pod(NETDEVS), 40, None),
    # --- RdmaNetnsModeWrong
    Case(
        "RdmaNetnsModeWrong", "shared", {EXCLUSIVE: "1x5 0x20"}, 20, {**TARGET, "mode": "exclusive"},
        {"description": "It is in mode shared: every pod sees every device, and devices cannot be given to pods."},
    ),
    Case("RdmaNetnsModeWrong", "exclusive", {EXCLUSIVE: "1x30", f'rdma_netns_mode{{{RDMA}, mode="shared"}}': "0x30"}, 20, None),
    Case("RdmaNetnsModeWrong", "a kernel without modes", {WHOLE: "1x30"}, 20, None),
    # --- RdmaUnreadable
    Case(
        "RdmaUnreadable", "a counter of a device", {f'rdma_unreadable{{{PORT}, what="counters/symbol_error", error="EIO", netns="host"}}': "1x40"}, 30,
        {**AT_PORT, "what": "counters/symbol_error", "error": "EIO"},
        {"summary": "counters/symbol_error of node gpu-1, device mlx5_0, cannot be read"},
    ),
    Case(
        "RdmaUnreadable", "what is no device's", {f'rdma_unreadable{{{NODE}, what="network_namespaces", error="EACCES", netns="host"}}': "1x40"}, 30,
        {"node": "gpu-1", "what": "network_namespaces", "error": "EACCES"},
        {"summary": "network_namespaces of node gpu-1 cannot be read"},
    ),
    Case("RdmaUnreadable", "for a moment", {f'rdma_unreadable{{{PORT}, what="counters/symbol_error", error="EIO"}}': "_x5 1x8 _x30"}, 12, None),
    Case("RdmaUnreadable", "all is read", {WHOLE: "1x40"}, 30, None),
    # --- RdmaScrapeIncomplete
    Case("RdmaScrapeIncomplete", "not all namespaces", {WHOLE: "1x5 0x40"}, 30, TARGET),
    Case("RdmaScrapeIncomplete", "all of them", {WHOLE: "1x40"}, 30, None),
    # --- exporters
    Case("RdmaExporterDown", "no answer", {UP: "1x5 0x30"}, 20, TARGET),
    Case("RdmaExporterDown", "one scrape failed", {UP: "1x5 0 1x30"}, 20, None),
    Case("RdmaExporterAbsent", "no target", {GPU: "1x30"}, 20, {"job": "rdma_exporter"}),
    Case("RdmaExporterAbsent", "a target that does not answer", {UP: "0x30"}, 20, None),
    Case("DcgmExporterDown", "no answer", {GPU: "1x5 0x30"}, 20, GPU_TARGET),
    Case("DcgmExporterDown", "it answers", {GPU: "1x30", UP: "0x30"}, 20, None),
    Case("DcgmExporterAbsent", "no target", {UP: "1x30"}, 20, {"job": "dcgm_exporter"}),
    Case("DcgmExporterAbsent", "a target that does not answer", {GPU: "0x30"}, 20, None),
    # --- switches
    Case("SwitchTelemetryDown", "no answer", {GNMIC: "1x5 0x30"}, 20, {"job": "switch_telemetry", "instance": "192.0.2.21:9804"}),
    Case("SwitchTelemetryDown", "it answers", {GNMIC: "1x30"}, 20, None),
    Case("SwitchSilent", "one of two", {GNMIC: "1x60", octets("leaf1"): "1x60", octets("leaf2"): "1x20 _x40"}, 50, {"switch": "leaf2"}),
    Case("SwitchSilent", "gNMIc is silent", {GNMIC: "1x20 0x40", octets("leaf1"): "1x20 _x40"}, 50, None),
    Case(
        "SwitchPortErrors", "one in ten seconds, at 1 GB/s", {IN_ERRORS: "0+6x90", IN_OCTETS: "0+60000000000x90"}, 80, SWITCH_PORT,
        {"description": "They are 100m in a second, more than 1e-12 of the bits that it receives."},
    ),
    Case("SwitchPortErrors", "three at 1 TB/s", {IN_ERRORS: "0x10 3x80", IN_OCTETS: "0+60000000000000x90"}, 60, None),
    Case("SwitchPortErrors", "one on an idle port", {IN_ERRORS: "0x10 1x80", IN_OCTETS: "0+60x90"}, 60, None),
    Case(
        "SwitchPauseStorm", "5000 in a second", {PAUSE: "0+300000x30"}, 20, {**SWITCH_PORT, "priority": "3"},
        {"description": "The other end sends 5k pause frames in a second for priority 3, and the congestion spreads to all that send to it."},
    ),
    Case("SwitchPauseStorm", "1000 in a second", {PAUSE: "0+60000x30"}, 20, None),
    Case("SwitchPauseStorm", "a burst", {PAUSE: "0x10 900000x30"}, 14, None),
    Case("SwitchSilent", "for a moment", {GNMIC: "1x60", octets("leaf1"): "1x20 _x3 1x40"}, 30, None),
]  # fmt: skip

__all__ = ["CASES", "Case"]
