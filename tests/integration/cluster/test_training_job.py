# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training jobs on a real API server, with the operators' own definitions. The test plays the kubelets of two nodes:
the real scheduler puts pods on them, and nothing runs there.
"""

from __future__ import annotations

import base64
import json
import re
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.check import manage as check_job
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.pod import JOB
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, operators, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set, client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.training_nodes import GPUS, IMAGE, NODES, Kubelets, two_nodes

Json = t.Any
APPLY = "Apply the job"
MULTUS = COLLECTION / "roles/secondary_network/files/multus-definitions.yml"


@pytest.fixture(scope="module")
def kubelets(own_cluster: Cluster) -> Iterator[Kubelets]:
    with two_nodes(own_cluster) as kubelets:
        yield kubelets


@pytest.fixture
def namespace(own_cluster: Cluster, kubelets: Kubelets) -> Iterator[str]:
    with own_cluster.namespace() as name:
        yield name
        own_cluster.kubectl("delete", "pods", "--all", "-n", name, "--force", "--grace-period=0", check=False)


def options(namespace: str, **more: Json) -> Json:
    defaults = {"kind": "pods", "name": "train", "namespace": namespace, "image": IMAGE, "command": ["train"]}
    return {**defaults, "workers": 2, "gpus": GPUS, **more}


def apply(plane: Cluster, manifests: Json, owner: str = "training-job-train", **more: Json) -> Json:
    return apply_set(plane, owner, *manifests, **more)


# --- what the API server makes of the objects -----------------------------------------------------------------------

EVERYTHING: Json = {
    "resources": {"rdma/rdma": 1, "cpu": 4, "memory": "16Gi"},
    "networks": ["kube-system/roce"],
    "shm_size": "16Gi",
    "pull_secrets": ["regcred"],
    "tolerations": [{"operator": "Exists"}],
    "node_selector": {"kubernetes.io/os": "linux"},
    "gpu_topology": True,
    "ompi": {"pml": "ob1", "btl": "^openib", "btl_tcp_if_include": "net1"},
    "env": {"NCCL_SOCKET_NTHREADS": "4"},
    "nccl_env": "pod",
    "volumes": [
        {"name": "code", "mount_path": "/mydir", "host_path": "/root/script"},
        {"name": "data", "mount_path": "/data", "nfs": {"server": "192.0.2.1", "path": "/data"}, "read_only": True},
        {"name": "scratch", "mount_path": "/scratch", "empty_dir": {"sizeLimit": "1Gi"}},
    ],
}

# operator, what kind of job
# What another operator adds takes a download each.
KINDS = [
    ("mpi-operator", {"kind": "mpijob"}),
    ("trainer", {"kind": "trainjob", "runtime": "rails"}),
    *(
        pytest.param(*text, marks=pytest.mark.long)
        for text in (
            ("mpi-operator", {"kind": "mpijob", "gang": "volcano", "queue": "research"}),
            ("training-operator", {"kind": "pytorchjob", "gang": "scheduler-plugins"}),
            (
                "volcano",
                {"kind": "vcjob", "queue": "research", "task_name": "task1", "master_hosts_variable": "VC_TASK1_HOSTS"},
            ),
            ("jobset", {"kind": "jobset", "gang": "kueue", "queue": "research"}),
            ("volcano", {"kind": "pods", "gang": "volcano"}),
            ("scheduler-plugins", {"kind": "pods", "gang": "scheduler-plugins"}),
        )
    ),
    (None, {"kind": "pods", "host_network": True, "networks": [], "privileged": True, "gang": "ack"}),
]


@pytest.mark.parametrize(("operator", "kind"), KINDS)
def test_operators_definitions_take_every_option(
    own_cluster: Cluster, namespace: str, operator: str | None, kind: Json
) -> None:
    """The API server knows every field, by the operator's own definition, and a second look sees no change."""
    if operator:
        operators.install(own_cluster, operator)
    manifests = objects(options(namespace, **{**EVERYTHING, **kind}))
    checked = apply(own_cluster, manifests, check=True)
    assert len(checked["actions"]) == len(manifests)
    done = apply(own_cluster, manifests)
    assert done["actions"] == checked["actions"]
    for check in (False, True):
        assert apply(own_cluster, manifests, check=check)["actions"] == []
    # The definitions have not let everything through.
    spoilt = json.loads(json.dumps(manifests))
    spoilt[-1]["spec"]["workrs"] = 3
    with pytest.raises(FabricError, match="workrs"):
        apply(own_cluster, spoilt, check=True)


# --- before it starts -----------------------------------------------------------------------------------------------


def check(plane: Cluster, manifests: Json, check_mode: bool = False, **more: Json) -> Json:
    params = {"objects": manifests, "capacity": True, "image_present": False, **more}
    return check_job(params, check_mode, client(plane.kubeconfig))


def test_room_for_all_is_found_by_check_and_by_the_scheduler(own_cluster: Cluster, namespace: str) -> None:
    manifests = objects(options(namespace))
    assert check(own_cluster, manifests)["placed"] == dict.fromkeys(NODES, 1)
    apply(own_cluster, manifests)
    for name in ("train-0", "train-1"):
        own_cluster.kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "-n", namespace, "--timeout=60s")
    # The job that is there takes its own room, and is not refused for it.
    result = check(own_cluster, manifests)
    assert (result["exists"], result["placed"]) == (True, None)


def test_what_is_short_is_named_and_the_scheduler_agrees(own_cluster: Cluster, namespace: str) -> None:
    apply(own_cluster, objects(options(namespace, name="long", workers=1, gpus=1)), owner="other")
    own_cluster.kubectl("wait", "--for=condition=PodScheduled", "pod/long-0", "-n", namespace, "--timeout=60s")
    where = own_cluster.json("get", "pod", "long-0", "-n", namespace)["spec"]["nodeName"]
    manifests = objects(options(namespace, name="longer"))
    message = message_of(FabricError, check, own_cluster, manifests)
    assert f"Checking the job {namespace}/longer: not all pods can run at once" in message
    assert "pods wanted: 2 with nvidia.com/gpu=8, but 1 of them do not fit" in message
    assert f"{where}: nvidia.com/gpu: 8 wanted, 7 free of 8, used by {namespace}/long-0" in message
    assert own_cluster.kubectl("get", "pods", "-n", namespace, "-l", f"{JOB}=longer", "-o", "name") == ""
    # The scheduler has no other opinion.
    apply(own_cluster, manifests)
    reason = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    wait = ["wait", f"--for={reason}", "-n", namespace, "--timeout=10s"]
    pods = own_cluster.kubectl("get", "pods", "-n", namespace, "-l", f"{JOB}=longer", "-o", "name").split()
    assert len(pods) == 2
    assert len([pod for pod in pods if not own_cluster.kubectl(*wait, pod, check=False)]) == 1


def test_attachments_have_to_be_there(own_cluster: Cluster, namespace: str) -> None:
    apply(own_cluster, [], files=[str(MULTUS)], owner="multus")
    manifests = objects(options(namespace, networks=["nic0", "kube-system/roce"]))
    api, kind = "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"
    own_cluster.apply(manifest(api, kind, "nic0", namespace))
    with pytest.raises(FabricError, match="these attachments do not exist: kube-system/roce. Create them first"):
        check(own_cluster, manifests)
    # The run that makes it may be the one that is checked.
    checked = check(own_cluster, manifests, True)
    assert checked["missing_attachments"] == ["kube-system/roce"]
    assert checked["changed"] is False
    (row,) = checked["resources"]
    assert (row["kind"], row["name"], row["live"], row["status"]) == (kind, "kube-system/roce", "absent", "drift")
    own_cluster.apply(manifest(api, kind, "roce", "kube-system"))
    assert check(own_cluster, manifests)["placed"] == dict.fromkeys(NODES, 1)


def test_a_job_of_other_options_is_not_changed(own_cluster: Cluster, namespace: str) -> None:
    apply(own_cluster, objects(options(namespace)))
    text = "was created with other options, and a job that has started cannot be changed"
    for check_mode in (True, False):
        with pytest.raises(FabricError, match=text):
            check(own_cluster, objects(options(namespace, command=["other"])), check_mode)
    own_cluster.kubectl("annotate", "service", "train", "-n", namespace, "rdmaops.gpu-fabric/job-spec-")
    with pytest.raises(FabricError, match=f"Service {namespace}/train already exists and does not belong to a job"):
        check(own_cluster, objects(options(namespace)))


def test_drift_is_told_and_put_back_with_consent(own_cluster: Cluster, namespace: str) -> None:
    manifests = objects(options(namespace, labels={"team": "ml"}))
    apply(own_cluster, manifests)
    own_cluster.kubectl("label", "pod", "train-0", "-n", namespace, "team=other", "--overwrite")
    # What it was made of is what it is made of; what it has become is another matter.
    assert check(own_cluster, manifests)["exists"]
    with pytest.raises(FabricError, match="Another manager has set these fields"):
        apply(own_cluster, manifests, check=True)
    for check_mode in (True, False):
        back = apply(own_cluster, manifests, check=check_mode, force_conflicts=True)
        assert back["actions"] == [f"Change Pod {namespace}/train-0"]
    assert own_cluster.json("get", "pod", "train-0", "-n", namespace)["metadata"]["labels"]["team"] == "ml"
    assert apply(own_cluster, manifests)["actions"] == []


def test_what_an_account_of_one_namespace_cannot_read_is_unchecked(own_cluster: Cluster, namespace: str) -> None:
    own_cluster.bind("rolebinding", "joe", "list", "pods", "--clusterrole=admin", "-n", namespace)
    joe = client(own_cluster.user("joe"))
    manifests = objects(options(namespace, networks=["kube-system/roce"]))
    params = {"objects": manifests, "capacity": True, "image_present": False}
    result = check_job(params, False, joe)
    assert result["placed"] is None
    attachment, nodes = result["unchecked"]
    for subject, reason in (("the attachment kube-system/roce", attachment), ("the nodes", nodes)):
        assert re.match(rf"{subject} \(reading {subject}: .* answered 403 \(Forbidden\): ", reason)
    texts = [f"Checking the job {namespace}/train: not checked: {reason}" for reason in (attachment, nodes)]
    assert result["warnings"] == texts
    assert check_job({**params, "capacity": False}, False, joe)["unchecked"] == [attachment]


# --- the role -------------------------------------------------------------------------------------------------------


def include(*, refused: bool = False, check_mode: bool = False, name: str = "train", **variables: Json) -> Json:
    """Return a task that has the role do something, and goes on where it refuses."""
    extra = {f"training_job_{key}": value for key, value in {"name": name, **variables}.items()}
    task = site.role("training_job", **extra)
    if check_mode:
        task["ansible.builtin.include_role"]["apply"] = {"check_mode": True}
    return site.rescued(task) if refused else task


class Play:
    """One run of ansible-playbook; a Python process for each step would cost most of the time."""

    def __init__(self, plane: Cluster, namespace: str, directory: Path) -> None:
        self.directory = directory
        self.variables = {
            "training_job_kubeconfig": str(plane.kubeconfig),
            "training_job_namespace": namespace,
            "training_job_image": IMAGE,
            "training_job_command": ["train"],
            "training_job_gpus": GPUS,
            "training_job_progress_interval": 2,
        }

    def run(self, *tasks: Json, arguments: t.Sequence[str] = ()) -> site.Run:
        known = {"inventory": site.KUBERNETES_API, "variables": self.variables}
        return site.run_tasks(self.directory, tasks, *arguments, **known)

    def playbook(self, book: str, *arguments: str, **variables: Json) -> site.Run:
        hosts = site.hosts(self.directory, site.KUBERNETES_API, {**self.variables, **variables})
        return site.ansible_playbook(*hosts, book, *arguments)


@pytest.fixture
def play(own_cluster: Cluster, namespace: str, tmp_path: Path) -> Play:
    return Play(own_cluster, namespace, tmp_path)


def test_the_drill(own_cluster: Cluster, namespace: str, play: Play) -> None:
    run = play.run(
        include(check_mode=True),
        include(),
        include(),
        include(check_mode=True),
        include(refused=True, transport_required="rdma"),
        include(state="absent", check_mode=True),
        include(state="absent"),
        include(state="absent"),
    )
    assert run.rc == 0, run.output
    expected = [f"Make Service {namespace}/train", f"Make Pod {namespace}/train-0", f"Make Pod {namespace}/train-1"]
    assert [result["actions"] for result in run.results(APPLY)] == [expected, expected, [], [], []]
    assert run.changed() == 4
    looks = run.results("Wait for the job")
    assert [look["state"] for look in looks] == ["absent", *["succeeded"] * 4]
    assert sorted(pod["node"] for pod in looks[1]["pods"]) == list(NODES)
    # No kubelet has kept a log, so nothing is known of the transport, and nothing is taken for granted.
    assert looks[1]["transport"]["transport"] == "unknown"
    assert len(looks[1]["transport"]["unread"]) == 2
    assert "its logs do not show which transport it used" in run.messages()
    assert "was created with other options" not in run.messages()
    # It has ended, so that nothing is lost with it.
    removals = [result["actions"] for result in run.results("Remove the job")]
    assert [len(actions) for actions in removals] == [3, 3, 0]
    assert own_cluster.kubectl("get", "pods,services", "-n", namespace, "-o", "name") == ""


def test_keys_for_ssh_go_with_the_job_and_show_nowhere(own_cluster: Cluster, namespace: str, play: Play) -> None:
    def run(*tasks: Json) -> str:
        done = play.run(*tasks, arguments=("-vvvvv", "--diff"))
        assert done.rc == 0, done.output
        return done.output

    def keys() -> dict[str, dict[str, str]]:
        items = own_cluster.json("get", "secrets", "-n", namespace)["items"]
        return {item["metadata"]["name"]: item["data"] for item in items}

    # Whatever is given on the command line beats what a task says.
    del play.variables["training_job_command"]
    plain = {"name": "one", "command": ["train"], "ssh": True}
    output = run(include(**plain, check_mode=True))
    assert f"Make Secret {namespace}/one-ssh" in output
    assert keys() == {}
    output = run(include(**plain))
    (first,) = keys().values()
    # By its command, the second job wants ssh as well.
    output += run(include(**plain), include(name="two", command=["sh", "-c", "mpirun train"]))
    both = keys()
    assert sorted(both) == ["one-ssh", "two-ssh"]
    assert both["one-ssh"] == first
    assert not set(first.values()) & set(both["two-ssh"].values())
    volumes = own_cluster.json("get", "pod", "two-1", "-n", namespace)["spec"]["volumes"]
    secrets = [volume["secret"] for volume in volumes if "secret" in volume]
    assert secrets == [{"secretName": "two-ssh", "defaultMode": 0o400}]
    output += run(include(name="one", state="absent"), include(name="two", state="absent"))
    assert f"Remove Secret {namespace}/two-ssh" in output
    assert keys() == {}
    texts = [text for data in both.values() for text in data.values()]
    lines = [line for text in texts for line in base64.b64decode(text).decode().splitlines() if len(line) > 30]
    assert len(lines) > 2 * len(texts)
    # Headers alone show nothing, and are in the collection's code.
    assert not [text for text in (*texts, *lines) if "-----" not in text and text in output]


@pytest.mark.long
def test_a_job_that_fails_says_why_and_one_that_runs_is_kept(own_cluster: Cluster, namespace: str, play: Play) -> None:
    run = play.run(
        include(name="long", wait_timeout=10, refused=True),
        include(name="long", state="absent", refused=True),
        include(name="long", state="absent", remove_ok=True),
        include(name="oom", refused=True),
        include(name="oom", state="absent"),
    )
    assert run.rc == 0, run.output
    # A user sees how it goes, beside what programs read.
    assert re.search(rf"^\d:\d\d:\d\d {namespace}/long: (pending|running), pods: ", run.output, re.MULTILINE)
    output = run.messages()
    assert f"Waiting for the job {namespace}/long: it has not finished after 1" in output
    assert "It is left as it is: run again to continue waiting, or raise training_job_wait_timeout" in output
    assert f"Removing the job {namespace}/long: it has not finished (running, pods: 2 Running)" in output
    assert "Nothing was done. Wait until it finishes, or set training_job_remove_ok to true" in output
    oom = f"Running the job {namespace}/oom: failed, pods: 1 Failed, 1 Running; oom-1: OOMKilled (exit code 137)"
    assert oom in output
    assert own_cluster.kubectl("get", "pods", "-n", namespace, "-o", "name") == ""


@pytest.mark.long
def test_an_operator_that_is_not_there(own_cluster: Cluster, namespace: str, play: Play) -> None:
    """Check mode comes before the operator; a real run does not."""
    own_cluster.kubectl("delete", "crd", "pytorchjobs.kubeflow.org", "--ignore-not-found")
    # The API server serves the kind for a moment longer.
    end = time.monotonic() + 60
    while "pytorchjobs" in own_cluster.kubectl("get", "--raw", "/apis/kubeflow.org/v1", check=False):
        assert time.monotonic() < end
        time.sleep(0.2)
    with pytest.raises(FabricError, match="does not know PyTorchJob of kubeflow.org/v1. Install its operator first"):
        check(own_cluster, objects(options(namespace, kind="pytorchjob")))
    book = str(COLLECTION / "playbooks/train.yml")
    checked = play.playbook(book, "--check", training_job_kind="pytorchjob", training_job_name="train")
    assert (checked.rc, checked.changed()) == (0, 1), checked.output
    result = checked.result("Check whether the job can start")
    assert result["unserved"] == ["PyTorchJob of kubeflow.org/v1"]
    assert [row["status"] for row in result["resources"]] == ["unknown"]


@pytest.mark.long
def test_bad_input_reaches_nobody(own_cluster: Cluster, namespace: str, play: Play) -> None:
    run = play.run(
        include(workers=0, refused=True),
        include(resources={"rdma/rdma": 0}, refused=True),
    )
    assert "workers is 0; a job has at least one pod that trains" in run.output
    assert "resources has rdma/rdma: 0; a resource of zero is none" in run.output
    assert run.results(APPLY) == []
    assert own_cluster.kubectl("get", "pods,services", "-n", namespace, "-o", "name") == ""
