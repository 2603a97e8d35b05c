# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up sysfs with RDMA devices, laid out as the kernel does (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import typing as t
from pathlib import Path

# What every port has (drivers/infiniband/core/sysfs.c), and what mlx5 adds (drivers/infiniband/hw/mlx5/counters.c).
PORT = [
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
    "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets",
]  # fmt: skip
HW = [
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets",
    "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error", "req_cqe_flush_error",
    "req_remote_access_errors", "req_remote_invalid_request", "resp_cqe_error", "resp_cqe_flush_error",
    "resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err", "roce_adp_retrans",
    "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans", "rp_cnp_handled",
    "rp_cnp_ignored", "rx_atomic_requests", "rx_dct_connect", "rx_icrc_encapsulated", "rx_read_requests",
    "rx_write_requests",
]  # fmt: skip


class Tree:
    """A sysfs below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "class/infiniband").mkdir(parents=True)

    def loaded(self, shared: bool = True) -> Tree:
        """The mark of a kernel with ib_core."""
        self.write("module/ib_core/parameters/netns_mode", "Y" if shared else "N")
        return self

    def write(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
        return place

    def device(self, name: str, number: int = 0, *, netdev: str = "rail0") -> Device:
        return Device(self, name, number, netdev)


class Device:
    """A device with one port."""

    def __init__(self, tree: Tree, name: str, number: int, netdev: str) -> None:
        self.tree, self.name, self.netdev = tree, name, netdev
        self.write("fw_ver", "28.43.1014")
        self.write("board_id", "MT_0000000838")
        self.write("node_guid", f"0800:2703:00a1:{number:04x}")
        self.write("node_type", "1: CA")
        self.write("ports/1/state", "4: ACTIVE")
        self.write("ports/1/phys_state", "5: LinkUp")
        self.write("ports/1/rate", "400 Gb/sec (4X NDR)")
        self.write("ports/1/link_layer", "Ethernet")
        self.write("ports/1/lid", "0x0")
        self.write("ports/1/gid_attrs/ndevs/0", netdev)
        tree.write(f"class/net/{netdev}/mtu", "9000")
        tree.write(f"class/net/{netdev}/carrier_down_count", "3")

    @property
    def place(self) -> Path:
        return self.tree.root / "class/infiniband" / self.name

    def write(self, path: str, text: str) -> Path:
        return self.tree.write(f"class/infiniband/{self.name}/{path}", text)

    def counters(self, **values: int) -> Device:
        for name, value in values.items():
            self.write(f"ports/1/counters/{name}", str(value))
        return self

    def hw_counters(self, **values: t.Any) -> Device:
        for name, value in values.items():
            self.write(f"ports/1/hw_counters/{name}", str(value))
        return self

    def breaks(self, path: str) -> None:
        """Make reading a file an error: EISDIR stands for whatever a driver answers."""
        place = self.place / path
        place.unlink(missing_ok=True)
        place.mkdir(parents=True)


def device_inside(name: str, index: int, **more: t.Any) -> dict[str, t.Any]:
    """What a look into a namespace returns of a device with one port, of which parts are given."""
    link = {"state": "ACTIVE", "physical_state": "LINK_UP", "link_layer": "Ethernet", "rate_gbps": 400.0}
    netdev = {"netdev": f"net{index}", "netdev_mtu": 4200, "carrier_down": 3}
    port = {"port": 1, **link, **netdev, "counters": {}, "hw_counters": {}, **more}
    about = dict.fromkeys(("driver", "protocol", "node_type", "firmware", "board_id", "pci_address", "node_guid"))
    return {"name": name, "index": index, "hw_counters": {}, "ports": [port], **about}


def node(root: Path, devices: int, counters: int) -> Tree:
    """A node whose ports have so many counters: those of every port, those of mlx5, and names that nobody knows."""
    tree = Tree(root)
    names = [*HW, *(f"vendor_specific_{number}" for number in range(counters))][: counters - len(PORT)]
    for number in range(devices):
        device = tree.device(f"mlx5_{number}", number, netdev=f"rail{number}")
        device.counters(**{name: 123456789012 + index for index, name in enumerate(PORT)})
        device.hw_counters(**{name: 1234567 + index for index, name in enumerate(names)})
    return tree


__all__ = ["HW", "PORT", "Device", "Tree", "device_inside", "node"]
