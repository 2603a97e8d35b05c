# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded logs of NCCL, and what they show."""

from __future__ import annotations

import re
from typing import Any

LISTS = ("devices", "ranks", "socket_ranks", "errors")
UNKNOWN: dict[str, Any] = {
    "transport": "unknown",
    **dict.fromkeys(("evidence", "network", "interface", "gpudirect", "version")),
    **{name: [] for name in LISTS},
    "left_out": dict.fromkeys(LISTS, 0),
}


def log(path: str, devices: Any = (), interface: str | None = None, **others: Any) -> dict[str, Any]:
    """Return what a log shows whose transport, evidence and network are the words of the path."""
    shown = dict(zip(("transport", "evidence", "network"), path.split(" ", 2), strict=True))
    return {**UNKNOWN, **shown, "devices": list(devices), "interface": interface, **others}


def devices(link_layer: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "port": 1, "link_layer": link_layer} for name in names]


LOGS: dict[str, dict[str, Any]] = {
    "nccl-2.18.5_ibext_roce_all-reduce.txt": log(
        "rdma channels IBext",
        devices("Ethernet", "irdma0"),
        "net1",
        gpudirect=False,
        version="2.18.5+cuda12.2",
        ranks=[0],
    ),
    "nccl-2.21.5_ibext-v8_irdma_init.txt": log(
        "rdma init IBext_v8", devices("Ethernet", "irdma0", "irdma3"), "eth0", version="2.21.5+cuda12.4", ranks=[1]
    ),
    "nccl-2.21.5_ray-prefix_no-transport.txt": {**UNKNOWN, "interface": "ib0.0065", "version": "2.21.5+cuda12.4"},
    "nccl-2.27.6_start.txt": {**UNKNOWN, "interface": "enp9s0np0", "version": "2.27.6+cuda13.0"},
    "nccl-2.27.7_ofi_no-device.txt": {**UNKNOWN, "errors": ["NET/OFI OFI fi_getinfo() call failed: No data available"]},
    "nccl-2.3.7_ib_init.txt": log(
        "rdma init IB",
        devices("InfiniBand", "mlx5_1", "mlx5_3", "mlx5_0", "mlx5_2"),
        "enp1s0f0",
        version="2.3.7+cuda9.0",
        ranks=[0],
    ),
    # It names the socket's interface before it finds a device.
    "nccl-2.4.7_ib_init.txt": log("rdma init IB", devices("InfiniBand", "mlx5_0"), "ib0", version="2.4.7+cuda10.0"),
    "nccl-2.5.6_ib_init_numbered.txt": log(
        "rdma init IB",
        [
            *devices("InfiniBand", "mlx5_1", "mlx5_3", "mlx5_0"),
            *devices("Ethernet", "mlx5_2"),
            *devices("InfiniBand", "mlx5_4"),
        ],
        "eth0",
    ),
    "nccl-2.5.6_socket_init_tagged.txt": log("socket init Socket", interface="lo", version="2.5.6+cuda10.2"),
    "nccl-2.8.3_ibext_failed-qp.txt": log(
        "rdma init IBext", version="2.8.3+cudaCUDA_MAJOR.CUDA_MINOR", errors=["Call to ibv_create_qp failed"]
    ),
    "nccl-2.28.9_socket_peer-ended.txt": log(
        "socket channels Socket",
        interface="eth0",
        gpudirect=False,
        version="2.28.9+cuda13.0",
        ranks=[1],
        socket_ranks=[1],
        errors=["socketProgress: Connection closed by remote peer"],
    ),
    "nccl-2.28.9_socket_two-nodes.txt": log(
        "socket channels Socket",
        interface="eth0",
        gpudirect=False,
        version="2.28.9+cuda13.0",
        ranks=[0],
        socket_ranks=[0],
    ),
    "nccl_from-source_mixed.txt": log(
        "mixed channels IB, SHARP, Socket",
        devices("Ethernet", "mlx5_0"),
        "eth0",
        gpudirect=False,
        ranks=[0, 1],
        socket_ranks=[1],
        errors=[
            "NET/IB : Got completion from peer 10.0.0.1<55921> with status=12 opcode=1 len=0 vendor err 129 (Send)",
            "Call to ibv_modify_qp failed with error Connection timed out",
            "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8",
        ],
    ),
    "nccl_ib_gdrdma.txt": log("rdma channels IB", gpudirect=True, ranks=[0, 1, 2, 3]),
    "nccl_ib_interleaved.txt": log("rdma init IB", devices("InfiniBand", "mlx5_2"), ranks=[6]),
    "nccl_ib_no-gdr.txt": log("rdma channels IB", gpudirect=False, ranks=[0, 1]),
    "nccl_ibext-v8_channels.txt": log("rdma channels IBext_v8", gpudirect=False, ranks=[38, 39]),
    "nccl_ibext_sharp_pod-prefix.txt": log("rdma init IBext", devices("InfiniBand", "mlx5_9"), "eth0"),
    "nccl_ofi_channels_tagged.txt": log(
        "unknown channels AWS Libfabric",
        gpudirect=False,
        ranks=[7, 15, 23],
        errors=["NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument"],
    ),
    "nccl_ofi_gdrdma_failed.txt": log(
        "rdma channels AWS Libfabric",
        gpudirect=True,
        ranks=[1],
        errors=[
            "NET/OFI Operation with NULL context completed with error",
            "NET/OFI Unable to free request of listen communicator.",
        ],
    ),
    "nccl_roce_gdr-disabled_init.txt": log(
        "rdma init IB", devices("Ethernet", "mlx5_0", "mlx5_1"), "primaryip", gpudirect=False, ranks=[0]
    ),
    "nccl_roce_init.txt": log("rdma init IB", devices("Ethernet", "rocep26s0"), "eth0"),
    "nccl_socket_channels.txt": log("socket channels Socket", gpudirect=False, ranks=[15], socket_ranks=[15]),
    "nccl_socket_init.txt": log("socket init Socket", interface="lo", gpudirect=False),
}
RDMA = [name for name, expected in LOGS.items() if expected["transport"] == "rdma"]
SOCKET_CHANNEL = "other:1:2 [0] NCCL INFO Channel 00/0 : 5[0] -> 6[0] [send] via NET/Socket/0\n"
OWN = "node1:1:2 [0] NCCL INFO "
# What alone may make a log one of RDMA.
EVIDENCE = re.compile(
    r":\d+ \[\d+\] NCCL INFO .*(?:via (?:NET|COLLNET)/(?:IB|SHARP|.*/GDRDMA)|[Nn]etwork IB|NET/IB ?: (?:Using )?\[)"
)
