# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up nodes for the exporter to look at: a device of each driver, with the counters that the driver has."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.collector import (
    POD,
    Place,
    Settings,
    Snapshot,
)
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.look import Exporter
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.metrics import Render
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import HW, PORT, Tree, device_inside

# dcgm-exporter 4.2.0 (default-counters.csv) in its words, on made-up GPUs.
DCGM = COLLECTION / "tests/unit/roles/monitoring/fixtures/dcgm-exporter-4.2.0.txt"
# gNMIc 0.45.0 with the role's configuration, in its words, on made-up switches of four vendors.
GNMIC = COLLECTION / "tests/unit/roles/monitoring/fixtures/gnmic-0.45.0.txt"

EXPECTED = ("mlx5_0", "mlx5_1", "mlx5_9")

# drivers/infiniband of Linux 6.12: sw/rxe/rxe_hw_counters.c (sent_bytes and rcvd_bytes since 7.2), hw/irdma/verbs.c,
# hw/efa/efa_verbs.c, hw/bnxt_re/hw_counters.c, hw/erdma/erdma_verbs.c
RXE = [
    "sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
    "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed",
    "rdma_sends", "rdma_recvs", "sent_bytes", "rcvd_bytes",
]  # fmt: skip
IRDMA = [
    "ip4InOctets", "ip4InPkts", "ip4OutOctets", "ip4OutPkts", "ip6InOctets", "ip6InPkts", "ip6OutOctets", "ip6OutPkts",
    "tcpRetransSegs", "rxVlanErrors", "iwInRdmaReads", "iwInRdmaWrites", "iwInRdmaSends", "iwOutRdmaReads",
    "iwOutRdmaWrites", "iwOutRdmaSends", "cnpHandled", "cnpIgnored", "cnpSent",
]  # fmt: skip
EFA = [
    "tx_bytes", "tx_pkts", "rx_bytes", "rx_pkts", "rx_drops", "retrans_bytes", "retrans_pkts", "retrans_timeout_events",
]  # fmt: skip
BNXT = [
    "tx_pkts", "tx_bytes", "rx_pkts", "rx_bytes", "to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd", "active_qps",
]  # fmt: skip
ERDMA = [
    "tx_reqs_cnt", "tx_packets_cnt", "tx_bytes_cnt", "tx_disable_drop_cnt", "tx_bps_limit_drop_cnt",
    "tx_pps_limit_drop_cnt", "rx_packets_cnt", "rx_bytes_cnt", "rx_disable_drop_cnt", "rx_bps_limit_drop_cnt",
    "rx_pps_limit_drop_cnt",
]  # fmt: skip
# The driver of Alibaba Cloud's installer, as its eadm names them: some of many.
ERDMA_OF_THE_CLOUD = [
    "listen_create_cnt", "accept_total_cnt", "connect_total_cnt", "connect_failed_cnt", "hw_tx_reqs_cnt",
    "hw_tx_packets_cnt", "hw_tx_bytes_cnt", "hw_disable_drop_cnt", "hw_bps_limit_drop_cnt", "hw_pps_limit_drop_cnt",
    "hw_rx_packets_cnt", "hw_rx_bytes_cnt", "hw_rx_disable_drop_cnt", "hw_rx_bps_limit_drop_cnt",
    "hw_rx_pps_limit_drop_cnt",
]  # fmt: skip
DRIVERS = {
    "mlx5_0": (PORT, HW),
    "mlx5_1": (PORT, HW),
    "irdma0": ([], IRDMA),
    "rxe0": ([], RXE),
    "efa0": ([], EFA),
    "bnxt_re0": ([], BNXT),
    "erdma_0": ([], ERDMA),
    "erdma_1": ([], ERDMA_OF_THE_CLOUD),
}


class MadeUp:
    """A sysfs whose counters rise."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root).loaded(shared=False)
        self._files: dict[tuple[str, str], tuple[int, int]] = {}
        for number, (name, (port, driver)) in enumerate(DRIVERS.items()):
            device = self.tree.device(name, number, netdev=f"rail{number}")
            device.counters(**dict.fromkeys(port, 1000))
            device.hw_counters(**dict.fromkeys(driver, 1000))
            for place, counters in (("counters", port), ("hw_counters", driver)):
                for counter in counters:
                    path = device.place / "ports/1" / place / counter
                    self._files[name, counter] = (os.open(path, os.O_WRONLY), 1000)

    def rise(self, by: t.Callable[[str, str], int]) -> None:
        """Add what ``by`` says of each device and counter. Nothing is truncated: a reader sees the one or the other."""
        for key, (handle, value) in self._files.items():
            value += by(*key)
            os.pwrite(handle, b"%d\n" % value, 0)
            self._files[key] = (handle, value)

    def close(self) -> None:
        for handle, _value in self._files.values():
            os.close(handle)


def exporter(root: Path) -> Exporter:
    """The exporter on a made-up sysfs, in this process."""
    settings = Settings(sysfs=str(root), netlink=False, netns=False, expected=EXPECTED, total=60.0, open_files=0)
    return Exporter(settings, "test")


def pod_node(values: t.Callable[[str], int], pod: str = "train-0") -> bytes:
    """What the exporter serves of a node whose device is in a pod, which takes a kernel with RDMA to do for real."""
    counters, hw_counters = ({name: values(name) for name in names} for names in (PORT, HW))
    device = device_inside("mlx5_0", 1, counters=counters, hw_counters=hw_counters)
    device["node_guid"] = "0800:2703:00a1:0100"
    place = Place(POD, "", "ml", pod, "11111111-2222-3333-4444-555555555555")
    render = Render()
    kinds = {"host": 1, "pod": 1}
    netdevs = [(place, "eth0", (4000, 4000))]
    present = {"mlx5_0": True}
    render.snapshot(Snapshot(True, "exclusive", [(place, device)], netdevs, [], kinds, True, present, (), 0.01))
    return render.families.render()


__all__ = ["BNXT", "DCGM", "DRIVERS", "EFA", "ERDMA", "EXPECTED", "IRDMA", "RXE", "MadeUp", "exporter", "pod_node"]
