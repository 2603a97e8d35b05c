# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkAttachmentDefinitions in a real API server: by the module as Ansible runs it, and by its util in this process."""

from __future__ import annotations

import datetime
import json
import statistics
import sys
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.attachment_set import AttachmentError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import network_attachment
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster

Json = t.Any
# The first test finds the cluster without the definition that the others need.
pytestmark = pytest.mark.random_order(disabled=True)

FILES = COLLECTION / "roles/secondary_network/files"
NADS = "network-attachment-definitions.k8s.cni.cncf.io"
# As the first of the ways to a training cluster has it, in words of its own spacing.
SOURCE = """{
  "cniVersion": "0.3.0", "type": "host-device", "device": "ens192",
  "ipam": {"type": "whereabouts", "range": "10.100.100.0/30"}
}"""
NIC0 = {
    "name": "nic0",
    "type": "host-device",
    "cni_version": "0.3.0",
    "device": "ens192",
    "ipam": {"type": "whereabouts", "range": "10.100.100.0/30"},
}


@pytest.fixture(scope="module")
def plane(own_cluster: Cluster) -> Cluster:
    """Return a control plane without CRDs at first: the tests of that come before `ready`."""
    return own_cluster


@pytest.fixture(scope="module")
def ready(plane: Cluster) -> Cluster:
    for name in ("multus-definitions.yml", "whereabouts-definitions.yml"):
        plane.kubectl("apply", "--server-side", "-f", str(FILES / name))
    plane.established()
    # An API server answers 404 for a moment after that.
    deadline = time.monotonic() + 30
    while "items" not in plane.kubectl("get", NADS, "-A", "-o", "json", check=False):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return plane


@pytest.fixture
def namespace(ready: Cluster) -> Iterator[str]:
    with ready.namespace() as name:
        yield name
        ready.kubectl("delete", NADS, "--all", "-n", name)


def play(tasks: list[Json], tmp_path: Path, *arguments: str, limit: float = 420, **environment: str) -> site.Run:
    """Run tasks on this machine by ansible-playbook, as a user does."""
    book = tmp_path / "book.yml"
    content = [
        {"name": "Attachments", "hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    ]
    book.write_text(json.dumps(content))
    variables = json.dumps({"ansible_python_interpreter": sys.executable})
    argv = ["-i", "localhost,", "-e", variables, str(book), *arguments]
    return site.ansible_playbook(*argv, cwd=tmp_path, limit=limit, **environment)


def task(name: str, config: Path | Json, *attachments: Json, check: bool = False, **options: Json) -> Json:
    arguments = {
        "kubeconfig": str(config) if isinstance(config, Path) else config,
        "owner": "training",
        "attachments": list(attachments),
        **options,
    }
    return {"name": name, "rdmaops.gpu_fabric.network_attachment": arguments, "check_mode": check}


def params(*attachments: Json, **options: Json) -> Json:
    """Return a task's options as the module hands them on."""
    full = []
    for row in attachments:
        ipam = row.get("ipam") and {**dict.fromkeys(network_attachment.IPAM), **row["ipam"]}
        full.append({**dict.fromkeys(network_attachment.ATTACHMENT), **row, "ipam": ipam})
    params = {"owner": "training", "namespace": "default", "cni_version": "0.3.1", "attachments": full, "node_info": {}}
    params.update(expected_pods=None, target_nodes=[], node_selector=None, prune=False, prune_in_use=False)
    params.update(prune_all=False, prune_namespaces=[], ignore_lint=[], force=False, force_conflicts=False)
    return {**params, **options}


def connection(kubeconfig: Path, timeout: int = 20) -> Json:
    return {**dict.fromkeys(client.CONNECTION), "timeout": timeout, "kubeconfig": str(kubeconfig)}


def run(plane: Cluster, *attachments: Json, check: bool = False, kubeconfig: Path | None = None, **more: Json) -> Json:
    """Call the util as the module would."""
    values = connection(kubeconfig or plane.kubeconfig)
    return manage(params(*attachments, **more), check, lambda: Client(values))


def configs(plane: Cluster, namespace: str) -> dict[str, Json]:
    items = plane.json("get", NADS, "-n", namespace)["items"]
    return {item["metadata"]["name"]: json.loads(item["spec"]["config"]) for item in items}


def test_before_the_crd_is_there(plane: Cluster) -> None:
    asked = run(plane, NIC0, check=True)
    assert asked["actions"] == ["Create the attachment default/nic0"]
    with pytest.raises(AttachmentError, match="does not know NetworkAttachmentDefinitions. Install Multus first"):
        run(plane, NIC0)
    assert run(plane, prune=True, prune_all=True, check=True)["actions"] == []


def test_the_four_steps_as_ansible_runs_them(ready: Cluster, namespace: str, tmp_path: Path) -> None:
    options = {"namespace": namespace, "expected_pods": 2}
    config = ready.kubeconfig
    done = play(
        [
            task("check", config, NIC0, check=True, **options),
            {
                "name": "look",
                "kubernetes.core.k8s_info": {
                    "kubeconfig": str(config),
                    "api_version": "k8s.cni.cncf.io/v1",
                    "kind": "NetworkAttachmentDefinition",
                    "namespace": namespace,
                },
            },
            task("do", config, NIC0, **options),
            task("again", config, NIC0, **options),
            task("check again", config, NIC0, check=True, **options),
            {**task("too small", config, NIC0, **{**options, "expected_pods": 3}), "ignore_errors": True},
            {**task("typing error", config, {**NIC0, "devcie": "x"}, **options), "ignore_errors": True},
        ],
        tmp_path,
        "--diff",
    )
    assert done.rc == 0, done.output
    assert done.result("look")["resources"] == []
    for name in ("check", "do"):
        result = done.result(name)
        assert result["changed"]
        assert result["actions"] == [f"Create the attachment {namespace}/nic0"]
        assert result["diff"][0]["before"] == ""
        assert '"device": "ens192"' in result["diff"][0]["after"]
        assert result["resources"][0]["live"] is None
    for name in ("again", "check again"):
        assert not done.result(name)["changed"]
        assert done.result(name)["resources"][0]["status"] == "in_sync"
    assert configs(ready, namespace)["nic0"] == json.loads(SOURCE)
    assert (
        "10.100.100.0/30 holds 2 addresses and 3 pods are expected. 10.100.100.0/29 would fit (6 addresses)."
        in (done.result("too small")["msg"])
    )
    assert "Did you mean attachments.device?" in done.result("typing error")["msg"]


def test_what_kubectl_made_is_adopted_and_its_conflict_named(ready: Cluster, namespace: str) -> None:
    body = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "nic0", "namespace": namespace},
        "spec": {"config": SOURCE},
    }
    ready.kubectl("create", "-f", "-", "--field-manager=somebody", stdin=json.dumps(body))
    desired = {**NIC0, "namespace": namespace}
    assert run(ready, desired)["actions"] == [f"Change the attachment {namespace}/nic0 (owner)"]
    assert ready.json("get", NADS, "nic0", "-n", namespace)["spec"]["config"] == SOURCE
    other = {**desired, "device": "ens224"}
    for check in (True, False):
        with pytest.raises(ApiError) as caught:
            run(ready, other, check=check)
        for words in (
            'conflict with "somebody"',
            ".spec.config",
            "Set force_conflicts to true to take these fields over",
        ):
            assert words in str(caught.value)
    assert run(ready, other, force_conflicts=True)["actions"] == [f"Change the attachment {namespace}/nic0 (config)"]
    assert configs(ready, namespace)["nic0"]["device"] == "ens224"
    assert not run(ready, other)["changed"]


def test_a_key_added_by_hand_is_put_right(ready: Cluster, namespace: str) -> None:
    desired = {**NIC0, "namespace": namespace, "resource_name": "nvidia.com/rail0"}
    run(ready, desired, ignore_lint=["resource_missing"])
    config = {**json.loads(SOURCE), "promiscMode": True}
    patch = json.dumps({"spec": {"config": json.dumps(config)}})
    ready.kubectl("patch", NADS, "nic0", "-n", namespace, "--type=merge", "-p", patch, "--field-manager=hand")
    with pytest.raises(ApiError, match='conflict with "hand"'):
        run(ready, desired, ignore_lint=["resource_missing"])
    result = run(ready, desired, ignore_lint=["resource_missing"], force=True)
    assert '"promiscMode": true' in result["diff"][0]["before"]
    assert configs(ready, namespace)["nic0"] == json.loads(SOURCE)
    # And the annotation goes again when it is no longer wanted.
    result = run(ready, {**desired, "resource_name": None})
    assert result["actions"] == [f"Change the attachment {namespace}/nic0 (resource name)"]
    assert "annotations" not in ready.json("get", NADS, "nic0", "-n", namespace)["metadata"]


def test_prune(ready: Cluster, namespace: str) -> None:
    def rail(number: int) -> Json:
        return {**NIC0, "name": f"rail{number}", "namespace": namespace, "device": f"eth{number}", "ipam": None}

    run(ready, *(rail(number) for number in range(5)))
    run(ready, {**rail(9), "name": "theirs"}, owner="others")
    networks = {"k8s.v1.cni.cncf.io/networks": f'[{{"name": "rail2", "namespace": "{namespace}"}}]'}
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": networks},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    workload = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 0}
    meta = {"name": "trainer", "namespace": namespace}
    pod_meta = {"name": "pod", "namespace": namespace, "annotations": {"k8s.v1.cni.cncf.io/networks": "x, rail3@net7"}}
    for body in (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": workload},
        {"apiVersion": "v1", "kind": "Pod", "metadata": pod_meta, "spec": template["spec"]},
    ):
        ready.kubectl("create", "-f", "-", stdin=json.dumps(body))
    with pytest.raises(AttachmentError, match="set prune_all to true if this is intended"):
        run(ready, prune=True)
    for check in (True, False):
        result = run(ready, rail(0), prune=True, check=check)
        assert result["actions"] == [f"Delete the attachment {namespace}/rail{number}" for number in (1, 4)]
        used = {row["name"]: row["used_by"] for row in result["kept"]}
        assert used["rail3"] == [f"Pod {namespace}/pod"]
        assert f"Deployment {namespace}/trainer" in used["rail2"]
    assert sorted(configs(ready, namespace)) == ["rail0", "rail2", "rail3", "theirs"]
    # Who may not look at everything deletes nothing.
    joe = ready.user("pruner")
    rules = ["--verb=get,list,patch,create,delete", f"--resource={NADS}"]
    ready.kubectl("create", "clusterrole", "attachments", *rules)
    ready.kubectl("create", "clusterrolebinding", "attachments", "--clusterrole=attachments", "--user=pruner")
    result = run(ready, rail(0), prune=True, kubeconfig=joe)
    assert not result["changed"]
    assert any('cannot list resource "pods"' in text for row in result["kept"] for text in row["unknown"])
    result = run(ready, rail(0), prune=True, prune_in_use=True, kubeconfig=joe)
    assert len(result["actions"]) == 2
    assert sorted(configs(ready, namespace)) == ["rail0", "theirs"]
    assert run(ready, prune=True, prune_all=True)["actions"] == []
    gone = run(ready, prune=True, prune_all=True, prune_namespaces=[namespace])
    assert gone["actions"] == [f"Delete the attachment {namespace}/rail0"]
    assert sorted(configs(ready, namespace)) == ["theirs"]


def test_a_range_in_use(ready: Cluster, namespace: str) -> None:
    desired = {**NIC0, "namespace": namespace}
    run(ready, desired)
    pool = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "10.100.100.0-30", "namespace": "kube-system"},
        "spec": {"range": "10.100.100.0/30", "allocations": {"1": {"id": "x", "podref": "default/gpu-pod0"}}},
    }
    ready.kubectl("create", "-f", "-", stdin=json.dumps(pool))
    larger = {**desired, "ipam": {"type": "whereabouts", "range": "10.100.100.0/29"}}
    with pytest.raises(AttachmentError, match=r"range_in_use, .*10\.100\.100\.1 by default/gpu-pod0"):
        run(ready, larger)
    assert configs(ready, namespace)["nic0"] == json.loads(SOURCE)
    ready.kubectl("delete", "ippool.whereabouts.cni.cncf.io", "10.100.100.0-30", "-n", "kube-system")
    assert run(ready, larger)["changed"]


def test_the_cluster_is_what_the_lint_compares_with(ready: Cluster, namespace: str) -> None:
    service = ready.json("get", "servicecidrs")["items"][0]["spec"]["cidrs"][0]
    spec = {"podCIDRs": ["10.244.7.0/24"], "podCIDR": "10.244.7.0/24"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-lint"}, "spec": spec}
    ready.kubectl("create", "-f", "-", stdin=json.dumps(body))
    status = {
        "addresses": [{"type": "InternalIP", "address": "172.20.0.9"}],
        "allocatable": {"nvidia.com/rail0": "1"},
        "capacity": {"nvidia.com/rail0": "1"},
    }
    patch = json.dumps({"status": status})
    ready.kubectl("patch", "node", "gpu-lint", "--subresource=status", "--type=merge", "-p", patch)
    try:
        for text, code in (
            (service, "range_overlaps_services"),
            ("10.244.0.0/16", "range_overlaps_pods"),
            ("172.20.0.0/24", "range_overlaps_nodes"),
        ):
            desired = {**NIC0, "namespace": namespace, "ipam": {"type": "whereabouts", "range": text}}
            with pytest.raises(AttachmentError, match=f"{code}, {namespace}/nic0: "):
                run(ready, desired)
        with pytest.raises(AttachmentError, match=r"no node offers the resource nvidia.com/rail1.*nvidia.com/rail0"):
            run(ready, {**NIC0, "namespace": namespace, "resource_name": "nvidia.com/rail1"})
        with pytest.raises(AttachmentError, match="the namespace never-there does not exist"):
            run(ready, {**NIC0, "namespace": "never-there"})
        assert configs(ready, namespace) == {}
    finally:
        ready.kubectl("delete", "node", "gpu-lint")


def test_rights(ready: Cluster, namespace: str) -> None:
    desired = {**NIC0, "namespace": namespace}
    nobody = ready.user("nobody-here")
    with pytest.raises(ApiError) as caught:
        run(ready, desired, kubeconfig=nobody)
    assert 'User "nobody-here" cannot list resource "network-attachment-definitions"' in str(caught.value)
    assert "Give this user that right" in str(caught.value)
    reader = ready.user("reader")
    ready.kubectl("create", "role", "reader", "-n", namespace, "--verb=get,list", f"--resource={NADS}")
    ready.kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", "--user=reader")
    result = run(ready, desired, kubeconfig=reader, check=True)
    assert result["changed"]
    unknown = {row["code"] for row in result["not_checked"]}
    assert unknown >= {
        "apply",
        "range_overlap",
        "range_overlaps_nodes",
        "range_overlaps_pods",
        "range_overlaps_services",
    }
    with pytest.raises(ApiError) as caught:
        run(ready, desired, kubeconfig=reader)
    assert 'User "reader" cannot patch resource "network-attachment-definitions"' in str(caught.value)
    assert configs(ready, namespace) == {}


def test_no_token_in_the_output(ready: Cluster, namespace: str, tmp_path: Path) -> None:
    token = ready.plane.token()
    path = ready.token_kubeconfig()
    whole = json.loads(path.read_text())
    tasks = [
        task("file", path, NIC0, namespace=namespace),
        task("dictionary", whole, NIC0, namespace=namespace, owner="other"),
        task("text", json.dumps(whole), NIC0, namespace=namespace),
        task("refused", whole, {**NIC0, "mode": "x"}, namespace=namespace),
    ]
    for entry in tasks:
        entry["ignore_errors"] = True
    play_book = [
        *tasks,
        {
            "name": "options",
            "rdmaops.gpu_fabric.network_attachment": {
                "host": ready.plane.server,
                "api_key": token,
                "ca_cert": str(ready.plane.authority.file),
                "owner": "training",
                "namespace": namespace,
                "attachments": [NIC0],
            },
        },
    ]
    # The tasks as they are written stand in the file of the playbook; what Ansible prints is what counts.
    done = play(play_book, tmp_path, "-vvvvv", ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default")
    assert done.rc == 0, done.output
    assert "owned_by_other" in done.output
    assert "host-device has no key mode" in done.output
    # What is no secret in a dictionary, such as the user's name, is not blotted out of what is returned.
    assert f'"name": "{namespace}/nic0"' in done.output
    assert token not in done.output
    # The variables of the environment.
    variables = {"K8S_AUTH_HOST": ready.plane.server, "K8S_AUTH_API_KEY": token}
    variables.update(K8S_AUTH_SSL_CA_CERT=str(ready.plane.authority.file))
    entry = task("environment", path, NIC0, namespace=namespace)
    del entry["rdmaops.gpu_fabric.network_attachment"]["kubeconfig"]
    done = play([entry], tmp_path, "-vvvvv", ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", **variables)
    assert done.rc == 0, done.output
    assert token not in done.output


def test_the_api_server_stops_in_between(ready: Cluster, namespace: str, tmp_path: Path) -> None:
    rails = [{**NIC0, "name": f"rail{n}", "device": f"eth{n}", "ipam": None, "namespace": namespace} for n in range(3)]

    class Stopping(Client):
        """A client whose API server stops, or freezes, after the first object."""

        how = ready.stop

        def apply(self, path: str, body: Json, doing: str, **options: Json) -> Json:
            answer = super().apply(path, body, doing, **options)
            if not options.get("dry_run"):
                self.how()
            return answer

    values = connection(ready.kubeconfig, timeout=5)
    for how, back, says in (
        (ready.stop, ready.start, "could not be reached"),
        (ready.freeze, ready.thaw, "It did not answer in time"),
    ):
        Stopping.how = staticmethod(how)  # type: ignore[assignment]
        before = time.monotonic()
        try:
            with pytest.raises(AttachmentError, match=says) as caught:
                manage(params(*rails), False, lambda: Stopping(values))
            # Stopping the API server takes its time; an answer is waited for 5 s.
            assert time.monotonic() - before < 90
        finally:
            back()
        assert f"Done before that: Create the attachment {namespace}/rail0" in str(caught.value)
        assert caught.value.result["changed"]
        result = run(ready, *rails)
        # A request that a frozen API server has taken is carried out when it thaws.
        assert result["actions"][-1] == f"Create the attachment {namespace}/rail2"
        assert f"Create the attachment {namespace}/rail0" not in result["actions"]
        assert sorted(configs(ready, namespace)) == ["rail0", "rail1", "rail2"]
        assert not run(ready, *rails)["changed"]
        ready.kubectl("delete", NADS, "--all", "-n", namespace)


@pytest.mark.long
def test_eight_rails_take_little_more_than_one_look(
    ready: Cluster, namespace: str, tmp_path: Path, record_property: t.Callable[[str, object], None]
) -> None:
    rails = [
        {
            **NIC0,
            "name": f"rail{n}",
            "device": f"eth{n}",
            "ipam": {"type": "whereabouts", "range": f"10.200.{n}.0/24"},
            "namespace": namespace,
        }
        for n in range(8)
    ]
    run(ready, *rails)
    look = {
        "kubeconfig": str(ready.kubeconfig),
        "api_version": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "name": "rail0",
        "namespace": namespace,
    }
    tasks: list[Json] = []
    for _number in range(5):
        tasks += [task("ours", ready.kubeconfig, *rails), {"name": "theirs", "kubernetes.core.k8s_info": look}]
    done = play(tasks, tmp_path)
    assert done.rc == 0, done.output
    assert done.changed() == 0
    taken: dict[str, list[float]] = {"ours": [], "theirs": []}
    for row in json.loads(done.output[done.output.index("{\n") : done.output.rindex("}") + 1])["plays"][0]["tasks"]:
        begin, end = (datetime.datetime.fromisoformat(row["task"]["duration"][key]) for key in ("start", "end"))
        taken[row["task"]["name"]].append((end - begin).total_seconds())
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    ratio = medians["ours"] / medians["theirs"]
    record_property("ratio to k8s_info", round(ratio, 2))
    print(f"{medians}, ratio {ratio:.2f}")
    # The goal is 1.5; a busy machine's wall clock alone decides nothing.
    assert ratio < 2.5, medians
