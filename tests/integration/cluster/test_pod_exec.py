# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in a pod by a real API server, kubelet and containerd: module fabric_probe, and what its account may do."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec import api, run
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, node, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

pytestmark = pytest.mark.long
Json = t.Any
RBAC = COLLECTION / "docs/rbac/measure.yml"


@pytest.fixture(scope="module")
def here(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[node.Node]:
    with node.node(own_cluster, tmp_path_factory.mktemp("node")) as host:
        own_cluster.kubectl("create", "namespace", "ml")
        own_cluster.kubectl("apply", "-f", str(RBAC))
        yield host


@pytest.fixture(scope="module")
def account(here: node.Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the account of docs/rbac/measure.yml."""
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(json.dumps(here.plane.with_token(here.plane.token_of("ml", "gpu-fabric-measure"))))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def train(here: node.Node) -> t.Iterator[None]:
    with here.pod("ml", "train-0"):
        yield


def way(account: Path, pod: str = "ml/train-0") -> api.ApiExec:
    return api.find(client(account), pod, None)


def running(pod: Pod) -> str:
    """Command lines of what the container runs."""
    return pod.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"], 30)[1].replace("\0", " ")


@pytest.mark.usefixtures("train")
def test_status_text_document_and_limit(account: Path) -> None:
    pod = Pod(way(account))
    script = "echo out; echo error >&2; echo '{}' > %s; exit 3"
    assert pod.run_for_document(lambda path: ["sh", "-c", script % path], "x", 20) == (3, "out\nerror\n", "{}\n")
    began = time.monotonic()
    stubborn = "trap '' TERM; setsid sleep 333 & echo here; while true; do sleep 1; done"
    status, output = pod.run(["sh", "-c", stubborn], 1)
    assert (status, output.split("\n")[0]) == (None, "here")
    assert time.monotonic() - began < 40
    assert "sleep 333" not in running(pod)
    status, output = pod.run(["yes"], 2)
    assert status is None
    assert 0 < len(output) <= run.KEPT
    assert pod.way()[1] == node.address()
    assert pod.memlock()[0].isdigit() or pod.memlock()[0] == "unlimited"
    pod.close()


@pytest.mark.usefixtures("train")
def test_a_server_goes_on_and_is_swept_up(account: Path) -> None:
    pod = Pod(way(account))
    server = pod.start(["sh", "-c", "setsid sleep 444 & sleep 555"], 100, "")
    wait_for(lambda: "sleep 444" in running(pod))
    assert server.status() is None
    server.stop()
    assert "sleep 444" not in running(pod)
    short = pod.start(["sh", "-c", "echo words; exit 7"], 20, "")
    wait_for(lambda: short.status() is not None)
    assert (short.status(), short.output()) == (7, "words\n")


def module(account: Path, **arguments: Json) -> Json:
    task = {"name": "Probe", "rdmaops.gpu_fabric.fabric_probe": {"kubeconfig": str(account), **arguments}}
    return site.run_tasks(account.parent, [task], cwd=COLLECTION, limit=300).result("Probe")


@pytest.mark.usefixtures("train")
def test_what_a_pod_uses_by_the_same_account(account: Path) -> None:
    def transport(**arguments: Json) -> site.Run:
        options = {"kubeconfig": str(account), "namespace": "ml", "seconds": 1, **arguments}
        task = {"name": "Look", "rdmaops.gpu_fabric.transport_info": options}
        return site.run_tasks(account.parent, [task], cwd=COLLECTION, limit=300)

    result = transport(name="train-0").result("Look")
    (pod,) = result["pods"]
    assert (pod["pod"], pod["node"], pod["rdma"]) == ("ml/train-0", node.NAME, {})
    assert pod["seconds"] >= 1
    # The network devices are this machine's, which others may be using.
    assert (pod["transport"], pod["why"]) in (
        ("idle", None),
        ("unknown", "network devices are busy, but they are the node's, which others use, too"),
    )
    assert result["transport"] == pod["transport"]
    missing = transport(label_selectors=["job=none"])
    assert missing.rc == 2
    assert "Listing the pods of ml with job=none: there are none" in missing.messages()


@pytest.mark.usefixtures("train")
def test_the_module_by_its_account(here: node.Node, account: Path) -> None:
    ports = [{"rail": 0, "device": "mlx5_0", "port": 1}]
    observed = module(account, state="ready", pod="ml/train-0", tools=["rping", "memlock"], ports=ports)
    assert observed["address"] == node.address()
    assert observed["problems"] == ["rping is not installed (package rdmacm-utils (RHEL: librdmacm-utils))"]
    (check,) = observed["checks"]
    assert (check["ok"], check["test"]) == (None, "memlock")
    a_test = {"id": "0-0-x", "client": "a", "server": "b", "rail": 0, "test": "ib_write_bw", "address": "192.0.2.1"}
    a_test.update(tcp_port=18515, device="mlx5_0", gid_index=3)
    listening = module(account, state="listening", pod="ml/train-0", tests=[a_test])
    (failed,) = listening["failed_tests"]
    assert failed["ok"] is None
    assert failed["error"].startswith("its server exited with 127: ")
    assert "ib_write_bw" in failed["error"]


@pytest.mark.usefixtures("train")
def test_the_role_looks_from_the_host_that_has_the_kubeconfig(account: Path, tmp_path: Path) -> None:
    """This machine's kernel has no RDMA device, so it comes to no more than a look, and the verdict is unknown."""
    nodes = {"hosts": {name: {**site.HERE, "fabric_check_pod": "ml/train-0"} for name in ("gpu-1", "gpu-2")}}
    report = tmp_path / "report.json"
    extra = {"fabric_check_kubeconfig": str(account), "fabric_check_report_json": str(report)}
    hosts = site.hosts(tmp_path, {"gpu_nodes": nodes, **site.KUBERNETES_API}, extra)
    run = site.ansible_playbook(*hosts, "rdmaops.gpu_fabric.verify", cwd=COLLECTION, limit=300, **site.AS_A_USER)
    assert "gpu-1 -> here" in run.output, run.output
    result = json.loads(report.read_text())
    assert result["verdict"] == "unknown"
    skipped = json.dumps(result)
    assert "rping is not installed (package rdmacm-utils" in skipped, skipped


@pytest.mark.usefixtures("train")
def test_what_the_account_may_not_do(here: node.Node, account: Path) -> None:
    with here.plane.namespace() as other, here.pod(other, "mine"):
        measuring = client(account)
        with pytest.raises(Exception, match="is forbidden: User"):
            api.find(measuring, f"{other}/mine", None)
        output = message_of(ContainerError, Pod, api.ApiExec(measuring, f"{other}/mine", "main", None))
    assert output.startswith(f"Opening an exec in the container main of the pod {other}/mine: https://")
    assert "answered 403 (Forbidden)" in output
    assert "Give this user that right by a Role or a ClusterRole" in output


def test_a_pod_that_goes_meanwhile(here: node.Node, account: Path) -> None:
    with here.pod("ml", "going"):
        pod = Pod(way(account, "ml/going"))
        server = pod.start(["sleep", "444"], 100, "")
        wait_for(lambda: "sleep 444" in running(pod))
    with pytest.raises(ContainerError, match=r"Running sleep in the container main of the pod ml/going: .+"):
        wait_for(lambda: server.status() is not None)
    with pytest.raises(ContainerError, match="Opening an exec in the container main of the pod ml/going"):
        pod.run(["sleep", "1"], 20)
    with pytest.raises(ContainerError, match="The pod ml/going does not exist"):
        way(account, "ml/going")
