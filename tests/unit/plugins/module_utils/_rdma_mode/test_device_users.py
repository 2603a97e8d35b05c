# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has RDMA devices open, from what the kernel lists, and how it is told."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.device_users import (
    Source,
    format_users,
    users,
)

UID = "0c9b2f0e-2b1c-4f0e-9d3a-7f6f0f6f3c11"
# cgroup v2 as systemd makes it for a pod.
POD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-1.scope"
FILES = {
    "/proc/11/comm": "ib_write_bw",
    "/proc/11/cgroup": "0::/user.slice/user-0.slice/session-1.scope",
    "/proc/12/comm": "python3",
    "/proc/12/cgroup": POD % UID.replace("-", "_"),
}


class Given(Source):
    """A host with two devices, of which the first has users."""

    def __init__(self, owners: list[tuple[int | None, str | None]], names: dict[str, tuple[str, str]]) -> None:
        self.given, self.names = owners, names

    def devices(self) -> list[tuple[int, str]]:
        return [(0, "mlx5_0"), (1, "mlx5_1")]

    def owners(self, index: int) -> list[tuple[int | None, str | None]]:
        return self.given if index == 0 else []

    def file(self, pid: int, name: str) -> str:
        return FILES.get("/proc/%d/%s" % (pid, name), "")

    def pods(self) -> dict[str, tuple[str, str]]:
        return self.names


def found(*owners: tuple[int | None, str | None], **names: t.Any) -> list[dict[str, t.Any]]:
    return users(Given(list(owners), {UID: ("training", "worker-0")} if names.get("logs", True) else {}))


def test_processes_and_their_pods() -> None:
    assert found((None, "ib_core"), (12, None), (11, None), (12, None), (None, None)) == [
        {"device": "mlx5_0", "pid": 11, "command": "ib_write_bw", "pod": None},
        {
            "device": "mlx5_0",
            "pid": 12,
            "command": "python3",
            "pod": {"namespace": "training", "name": "worker-0", "uid": UID},
        },
        # In a PID namespace that cannot be seen from here.
        {"device": "mlx5_0", "pid": None, "command": "", "pod": None},
    ]
    assert found((None, "ib_core"), (None, "mlx5_ib")) == []


def test_processes_come_in_the_order_of_their_pids() -> None:
    pids = [row["pid"] for row in found((8, None), (None, None), (64, None), (1, None))]
    assert pids == [1, 8, 64, None]


def test_a_pod_without_a_name_here() -> None:
    rows = found((12, None), logs=False)
    assert rows[0]["pod"] == {"namespace": None, "name": None, "uid": UID}
    assert format_users(rows) == f"mlx5_0 by python3 (pid 12, pod {UID})"


def test_told() -> None:
    assert format_users(found((11, None), (12, None), (None, None), (13, None))) == (
        "mlx5_0 by ib_write_bw (pid 11), mlx5_0 by python3 (pid 12, pod training/worker-0), mlx5_0 by a process (pid 13), "
        "1 more"
    )
    assert format_users(found((None, None))) == "mlx5_0 by a process (pid unseen)"
