# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way UCX took, by what it logs."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.ucx_log import parse

# UCX 1.18.1 of Debian 13 under Open MPI 5.0.7: two pods with a Soft-RoCE device each, UCX_TLS=rc_verbs,tcp,self.
RDMA = """\
[1795605199.547432] [train-worker-0:29   :0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 self cfg#0 tag(self/memory rc_verbs/rxe0:1)
[1795605200.009249] [train-worker-0:29   :1]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#1 tag(rc_verbs/rxe0:1)
[1795605200.484410] [train-worker-1:29   :1]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#1 tag(rc_verbs/rxe0:1)
"""
# The same, two ranks on one host, UCX_TLS=tcp,self.
LOCAL = """\
[1795601102.516843] [vm:13931:0]     ucp_context.c:2257 UCX  INFO  Version 1.18.1 (loaded from /lib/x86_64-linux-gnu/libucp.so.0)
[1795601102.538995] [vm:13930:0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 self cfg#0 tag(self/memory tcp/lo tcp/eth0)
[1795601102.542204] [vm:13931:0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 intra-node cfg#1 tag(tcp/lo tcp/eth0)
"""


def between_nodes(lanes: str) -> str:
    return RDMA.splitlines()[1].replace("tag(rc_verbs/rxe0:1)", lanes)


# log, transport, lanes
LOGS = [
    (RDMA, "rdma", ["rc_verbs/rxe0:1"]),
    (LOCAL, "unknown", []),
    (LOCAL + RDMA, "rdma", ["rc_verbs/rxe0:1"]),
    (between_nodes("tag(tcp/net1)"), "socket", ["tcp/net1"]),
    (between_nodes("tag(rc_mlx5/mlx5_0:1 tcp/eth0)"), "mixed", ["rc_mlx5/mlx5_0:1", "tcp/eth0"]),
    (
        between_nodes("tag(dc_mlx5/mlx5_0:1 dc_mlx5/mlx5_1:1) am(ud_mlx5/mlx5_0:1)"),
        "rdma",
        ["dc_mlx5/mlx5_0:1", "dc_mlx5/mlx5_1:1", "ud_mlx5/mlx5_0:1"],
    ),
    # A launcher's tag before it, and memory of GPUs beside it.
    ("[1,0]<stderr>:" + between_nodes("tag(rc_verbs/rxe0:1 cuda_copy/cuda)"), "rdma", ["rc_verbs/rxe0:1"]),
    # A program that writes about it.
    ("loss 0.1 inter-node cfg#1 tag(tcp/net1)", "unknown", []),
    ("", "unknown", []),
]


@pytest.mark.parametrize(("log", "transport", "lanes"), LOGS)
def test_lanes_to_other_nodes(log: str, transport: str, lanes: list[str]) -> None:
    assert parse(log.splitlines()) == {"transport": transport, "lanes": lanes}
