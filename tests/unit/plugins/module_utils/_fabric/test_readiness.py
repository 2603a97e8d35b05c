# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host can be measured, over programs whose answers are given by the test."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.readiness import check, ready
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._fabric.fake_host import FakeHost

WAY = {"interface": "eth0", "address": "192.0.2.7", "placements": []}


def test_ready() -> None:
    host = FakeHost((0, "4242, python3\n"), (0, "00000000:18:00.0\n00000000:19:00.0\n"))
    busy = ["a GPU is in use by python3 (PID 4242)"]
    assert ready(["rping"], ["mlx5_0"], [], host) == {"problems": [], "busy": busy, "gpus": 2, **WAY}
    host = FakeHost()
    host.missing = {"nvidia-smi", "ib_write_bw", "rping", "timeout"}
    host.held = {"mlx5_0": [7, None], "mlx5_1": OSError(1, "not permitted")}
    assert ready(["rping", "ib_write_bw", "ib_write_bw_cm"], ["mlx5_0", "mlx5_1"], [], host) == {
        **WAY,
        "gpus": 0,
        "problems": [
            "rping is not installed (package rdmacm-utils (RHEL: librdmacm-utils))",
            "ib_write_bw is not installed (package perftest)",
            "timeout is not installed (package coreutils)",
            "cannot determine whether mlx5_1 is in use: [Errno 1] not permitted",
        ],
        "busy": ["mlx5_0 is in use by python3 (PID 7)", "mlx5_0 is in use by a process that cannot be seen"],
    }


@pytest.mark.parametrize(
    ("answer", "end"),
    [((9, "Driver mismatch\n"), "exited with 9: Driver mismatch"), ((None, ""), "timed out after 30 s")],
)
def test_gpus_that_cannot_be_asked_are_not_idle(answer: tuple[int | None, str], end: str) -> None:
    problem = f"cannot determine whether the GPUs are in use: nvidia-smi {end}"
    assert ready([], [], [], FakeHost(answer)) == {"problems": [problem], "busy": [], "gpus": None, **WAY}


def test_idle_gpus() -> None:
    host = FakeHost((0, "\n"), (0, "00000000:18:00.0\n"))
    assert ready([], [], [], host) == {"problems": [], "busy": [], "gpus": 1, **WAY}


def test_gpus_that_cannot_be_counted() -> None:
    found = ready([], [], [], FakeHost((0, "\n"), (9, "Driver mismatch\n")))
    problem = "cannot determine the number of GPUs: nvidia-smi exited with 9: Driver mismatch"
    assert (found["problems"], found["gpus"]) == ([problem], None)


def test_gpus_in_a_container_are_asked_for_their_load() -> None:
    host = FakeHost((0, "0, 0\n1, 87\n"), (0, "00000000:18:00.0\n00000000:19:00.0\n"))
    host.sees_processes = False
    assert ready([], [], [], host)["busy"] == ["GPU 1 is in use (87% of the time)"]
    assert host.ran[0][1] == "--query-gpu=index,utilization.gpu"


def test_a_gpu_in_mig_mode_in_a_container_is_neither_idle_nor_in_use() -> None:
    """Its utilization is [N/A] in nvidia-smi's list (NVIDIA MIG user guide, "Device Monitoring")."""
    host = FakeHost((0, "0, [N/A]\n1, 0\n"), (0, "00000000:18:00.0\n00000000:19:00.0\n"))
    host.sees_processes = False
    text = "cannot determine whether GPU 0 is in use: nvidia-smi reports no utilization ([N/A]), as in MIG mode"
    assert ready([], [], [], host)["busy"] == [text]


DEVINFO = "hca_id:\tmlx5_1\n\tmax_srq:\t\t\t0\n\tmax_qp:\t\t\t131069\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_%s\n"
PORT = {"rail": 1, "device": "mlx5_1", "port": 2, "gid_index": 3, "netdev": "net1"}
UNSEEN = "ibv_devinfo does not see port 2 of mlx5_1, exited with "
SEEN: list[tuple[tuple[int | None, str], bool | None, str | None]] = [
    ((0, DEVINFO % "ACTIVE (4)"), True, None),
    ((0, DEVINFO % "DOWN (1)"), False, "ibv_devinfo reports PORT_DOWN for port 2 of mlx5_1"),
    ((255, "No IB devices found\n"), False, UNSEEN + "255 and printed: No IB devices found"),
    ((0, ""), False, UNSEEN + "0 and printed: nothing"),
    ((None, ""), None, "ibv_devinfo timed out after 30 s"),
]


@pytest.mark.parametrize(("answer", "ok", "error"), SEEN, ids=range(len(SEEN)))
def test_devinfo(answer: tuple[int | None, str], ok: bool | None, error: str | None) -> None:
    host = FakeHost(answer)
    (result,) = check(["rping", "ibv_devinfo"], [PORT, {"rail": 0, "device": None, "port": None}], 1, 2, host)
    assert (result["ok"], result["error"]) == (ok, error)
    assert (result["rail"], result["test"], result["device"]) == (1, "ibv_devinfo", "mlx5_1")
    limits = {"max_qp": 131069, "max_srq": 0, "max_cq": None, "max_mr": None}
    assert result["limits"] == (limits if "hca_id" in answer[1] else None)
    assert host.ran == [["ibv_devinfo", "-v", "-d", "mlx5_1"]]


def test_devinfo_that_is_not_there() -> None:
    host = FakeHost()
    host.missing = {"ibv_devinfo", "nvidia-smi"}
    (result,) = check(["ibv_devinfo"], [PORT], 1, 2, host)
    assert (result["ok"], result["limits"], "ibverbs-utils" in result["error"]) == (None, None, True)
    said = "ibv_devinfo is not installed (package ibverbs-utils (RHEL: libibverbs-utils))"
    assert ready(["ibv_devinfo", "memlock"], [], [], host)["problems"] == [said]


def test_memlock_is_for_pods() -> None:
    (result,) = check(["memlock"], [PORT], 1, 2, FakeHost())
    assert (result["ok"], result["error"]) == (None, "memlock is a container limit, and is tested only in pods")
