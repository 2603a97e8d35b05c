# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of nodes by an nvidia-smi that is really run, on this machine. In pods: tests/integration/cluster/test_gpu_info.py."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._gpu_operator import gpus
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError, PodExec
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.stream import Program

Json = t.Any
FIXTURES = Path(__file__).parents[1] / "fixtures/nvidia_smi"
SCRIPT = '#!/bin/sh\n[ $# = 0 ] && exec cat "%s"\ncat "%s"\nexit %d\n'


class Here:
    """A container whose programs are those of a directory and of this machine."""

    text = "container nvidia-driver-ctr of the pod gpu-operator/driver-1"
    address = None

    def __init__(self, directory: Path) -> None:
        self._path = f"{directory}:{os.environ['PATH']}"

    def open(self, argv: t.Sequence[str]) -> Program:
        return Program(argv, {"PATH": self._path})


def pod(name: str, node: str | None, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node}}


DRIVER, PLUGIN = "nvidia-driver-daemonset", "nvidia-device-plugin-daemonset"
PODS = [
    pod("plugin-1", "gpu-1", app=PLUGIN),
    pod("driver-1", "gpu-1", app=DRIVER),
    pod("driver-2", "gpu-2", app=DRIVER + "-5.15.0-1041-nvidia-ubuntu22.04"),
    pod("made-up", "gpu-3", app="nvidia-gpu-driver-ubuntu22.04-7c6d7bd86b", **{"app.kubernetes.io/component": "nvidia-driver"}),
    pod("plugin-4", "gpu-4", app=PLUGIN),
    pod("dcgm-4", "gpu-4", app="nvidia-dcgm-exporter"),
    pod("pending", None, app=DRIVER),
    {"metadata": {"name": "bare"}, "spec": {}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "names"),
    [
        ("gpu-1", ["driver-1", "plugin-1"]),
        ("gpu-2", ["driver-2"]),
        ("gpu-3", ["made-up"]),
        ("gpu-4", ["plugin-4"]),
        ("gpu-5", []),
    ],
)
def test_the_drivers_pod_or_that_of_the_device_plugin(node: str, names: list[str]) -> None:
    assert [pod["metadata"]["name"] for pod in gpus.candidates(PODS, node)] == names


def look(tmp_path: Path, query: str, status: int = 0) -> Json:
    summary = FIXTURES / "nvidia-smi-550.54.15_from-source_summary.txt"
    script = tmp_path / "nvidia-smi"
    script.write_text(SCRIPT % (summary, query, status))
    script.chmod(0o755)
    return gpus.look(gpus.candidates(PODS, "gpu-1"), "gpu-1", "gpu-operator", lambda _pod: Here(tmp_path))


def output(name: str) -> str:
    return str(FIXTURES / f"nvidia-smi-550.54.15_from-source_{name}.txt")


def test_gpus_driver_and_cuda(tmp_path: Path) -> None:
    node = look(tmp_path, output("query"))
    assert (node["driver"], node["cuda"], node["pod"], node["error"]) == ("550.54.15", "12.4", "driver-1", None)
    assert [gpu["uncorrected_ecc_errors"] for gpu in node["gpus"]] == [0, 2]
    said = ["node gpu-1: GPU 1 (NVIDIA A100 80GB PCIe) has 2 uncorrected ECC errors"]
    assert gpus.problems({"gpu-1": node}) == said
    assert gpus.problems({"gpu-1": look(tmp_path, output("query-without-ecc"))}) == []


WHERE = "nvidia-smi in the container nvidia-driver-ctr of the pod gpu-operator/driver-1"
LOST = "Unable to determine the device handle for GPU0000:15:00.0: Unknown Error"


def test_a_gpu_that_does_not_answer_is_a_problem_beside_those_that_do(tmp_path: Path) -> None:
    node = look(tmp_path, output("query-lost-gpu"), 255)
    assert len(node["gpus"]) == 1
    assert node["error"] == f"{WHERE} does not show all GPUs: it exited with 255 and printed: {LOST}"
    assert gpus.problems({"gpu-1": node}) == [f"node gpu-1: {node['error']}"]


def test_no_gpu_is_not_zero_gpus(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("No devices were found\n")
    node = look(tmp_path, str(tmp_path / "none"), 6)
    # Both pods were asked.
    error = f"{WHERE} shows no GPU: it exited with 6 and printed: No devices were found"
    assert node == {"gpus": None, "driver": None, "cuda": None, "pod": "plugin-1", "error": f"{error}; {error}"}


def test_the_device_plugin_is_asked_where_the_drivers_pod_cannot(tmp_path: Path) -> None:
    look(tmp_path, output("query"))

    def connect(pod: Json) -> PodExec:
        if pod["metadata"]["name"] == "driver-1":
            raise ContainerError("The pod gpu-operator/driver-1 is Pending")
        return Here(tmp_path)

    node = gpus.look(gpus.candidates(PODS, "gpu-1"), "gpu-1", "gpu-operator", connect)
    assert (node["pod"], len(node["gpus"]), node["error"]) == ("plugin-1", 2, None)


def test_a_node_without_such_a_pod_is_unknown() -> None:
    node = gpus.look([], "gpu-5", "gpu-operator", lambda _pod: Here(Path("/")))
    assert node["gpus"] is None
    assert node["error"] == (
        "The node gpu-5 has no pod of nvidia-driver-daemonset or nvidia-device-plugin-daemonset in the namespace "
        "gpu-operator. See 'kubectl --namespace gpu-operator get pods --output wide'"
    )
