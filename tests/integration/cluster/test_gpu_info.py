# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module gpu_info by its account, in a pod of a real kubelet that has a stand-in for nvidia-smi."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, node, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster

pytestmark = pytest.mark.long
Json = t.Any
SPACE, DRIVER = "gpu-operator", "nvidia-driver-daemonset"
ROW = "0, NVIDIA A100 80GB PCIe, 550.54.15, 81920 MiB, Enabled, 0, 38, Disabled"
STAND_IN = f"""#!/bin/sh
[ $# = 0 ] && echo '| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |' || echo '{ROW}'
"""
# The image has no chmod, and busybox of which it is made has.
START = ["/bin/sh", "-c", 'printf %s "$SCRIPT" > /bin/nvidia-smi; /bin/busybox chmod 755 /bin/nvidia-smi; sleep 1000']


@pytest.fixture(scope="module")
def here(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[node.Node]:
    with node.node(own_cluster, tmp_path_factory.mktemp("node")) as host:
        own_cluster.kubectl("create", "namespace", SPACE)
        own_cluster.kubectl("apply", "-f", str(COLLECTION / "docs/rbac/gpu_info.yml"))
        yield host


@pytest.fixture(scope="module")
def account(here: node.Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(json.dumps(here.plane.with_token(here.plane.token_of(SPACE, "gpu-fabric-gpu-info"))))
    path.chmod(0o600)
    return path


def module(account: Path, **options: Json) -> Json:
    task = {"name": "Look", "rdmaops.gpu_fabric.gpu_info": {"kubeconfig": str(account), **options}}
    return site.run_tasks(account.parent, [task], cwd=COLLECTION, limit=300).result("Look")


def role(account: Path) -> site.Run:
    """What role gpu_operator does after its release is ready."""
    variables = {
        "gpu_operator_kubeconfig": str(account),
        "gpu_operator_result": {"after": {"release": {"namespace": SPACE}}},
    }
    return site.run_tasks(account.parent, [site.role("gpu_operator", "prove", **variables)], cwd=COLLECTION, limit=300)


def test_nodes_by_their_label_and_gpus_by_nvidia_smi(here: node.Node, account: Path) -> None:
    assert module(account)["nodes"] == {}
    assert "No node has the label nvidia.com/gpu.present=true" in role(account).output
    here.plane.kubectl("label", "node", node.NAME, "nvidia.com/gpu.present=true")
    result = module(account)
    assert result["nodes"][node.NAME]["gpus"] is None
    assert f"node {node.NAME}: The node {node.NAME} has no pod of {DRIVER} or" in result["problems"][0]
    refused = role(account)
    assert refused.rc == 2, refused.output
    assert f"Looking at the GPUs of the nodes with nvidia-smi: node {node.NAME}: " in refused.messages()
    script = [{"name": "PATH", "value": "/bin"}, {"name": "SCRIPT", "value": STAND_IN}]
    with here.pod(SPACE, "driver-1", command=START, env=script):
        here.plane.kubectl("label", "pod", "driver-1", "-n", SPACE, f"app={DRIVER}")
        result = module(account)
        proven = role(account)
    assert proven.rc == 0, proven.output
    (gpu,) = result["nodes"][node.NAME].pop("gpus")
    assert result["nodes"][node.NAME] == {"driver": "550.54.15", "cuda": "12.4", "pod": "driver-1", "error": None}
    assert (gpu["name"], gpu["memory_mib"], gpu["uncorrected_ecc_errors"]) == ("NVIDIA A100 80GB PCIe", 81920, 0)
    assert (result["changed"], result["problems"]) == (False, [])


def test_a_container_without_nvidia_smi_is_unknown(here: node.Node, account: Path) -> None:
    with here.pod(SPACE, "driver-2"):
        here.plane.kubectl("label", "pod", "driver-2", "-n", SPACE, f"app={DRIVER}")
        result = module(account, nodes=[node.NAME])
    shown = result["nodes"][node.NAME]
    assert shown["gpus"] is None
    assert "container main of the pod gpu-operator/driver-2 shows no GPU: it exited with 127" in shown["error"]
