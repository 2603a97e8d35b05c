# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining a node and giving it back, on a real API server with real budgets. What a kubelet would do, the test does."""

from __future__ import annotations

import json
import signal
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client, path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import lease as node_drain_lease
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import NOTE
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.drains import (
    LEASE,
    NEW_BOOT,
    OTHER_ID,
    SPACE,
    apart,
    call,
    cordoned,
    finalizers,
    holder,
    meanwhile,
    note,
    options,
    refused,
    two_nodes,
    untouched,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import ADDRESS, BOOT_ID, MACHINE_ID, Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest

Json = t.Any
# As the module's documentation has them.
RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
]
LEASE_RIGHTS = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]


def test_the_drill(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    checked = call(lab, node, check=True)
    assert untouched(lab, node)
    assert lab.pods(node) == ["web"]
    done = call(lab, node)
    assert checked["changed"] is done["changed"] is True
    assert checked["actions"] == done["actions"]
    assert [text.split(" ")[0] for text in done["actions"]] == ["Take", "Cordon", "Evict", "Wait", "Note"]
    assert [(row["kind"], row["status"]) for row in done["resources"]] == [("node", "drift"), ("pod", "drift")]
    assert (lab.pods(node), cordoned(lab, node), holder(lab)) == ([], True, "one")
    kept = note(lab, node)
    assert (kept["reason"], kept["run"], kept["step"], kept["failed"]) == ("a test", "one", "drained", None)
    allocatable = {"nvidia.com/gpu": "8", "rdma/hca": "1k"}
    assert kept["before"] == {"allocatable": allocatable, "boot_id": BOOT_ID, "unschedulable": False}
    for check in (False, True):
        again = call(lab, node, check=check)
        assert (again["changed"], again["resources"][0]["status"]) == (False, "in_sync")
    assert note(lab, node) == kept

    back = call(lab, node, "uncordoned", check=True)
    assert cordoned(lab, node)
    done = call(lab, node, "uncordoned")
    assert back["actions"] == done["actions"]
    assert [text.split(" ")[0] for text in done["actions"]] == ["Uncordon", "Release"]
    assert done["maintenance"] == kept
    assert untouched(lab, node)
    for check in (False, True):
        again = call(lab, node, "uncordoned", check=check)
        assert (again["changed"], again["resources"][0]["status"]) == (False, "in_sync")


def test_what_has_no_consent_is_named_before_anything_is_changed(lab: Lab) -> None:
    definitions = COLLECTION / "roles/secondary_network/files/multus-definitions.yml"
    lab.plane.kubectl("apply", "--server-side", "-f", str(definitions))
    lab.plane.established()
    kind = "NetworkAttachmentDefinition"
    for name, plugin in {"rail0": "host-device", "side": "macvlan"}.items():
        config = json.dumps({"cniVersion": "1.0.0", "type": plugin, "device": "ens192", "master": "ens3"})
        lab.apply("k8s.cni.cncf.io/v1", kind, name, {"config": config})
    node = lab.node()
    networks = "k8s.v1.cni.cncf.io/networks"
    lab.pod(node, "free")
    lab.pod(node, "gpu", limits={"nvidia.com/gpu": "8"})
    lab.pod(node, "mig", limits={"nvidia.com/mig-1g.10gb": "1"})
    lab.pod(node, "rdma", limits={"rdma/hca": "1"})
    lab.pod(node, "erdma", limits={"aliyun/erdma": "1"})
    lab.pod(node, "rail", annotations={networks: "rail0"})
    lab.pod(node, "lost", annotations={networks: "no-such"})
    lab.pod(node, "side", annotations={networks: "side"})
    lab.pod(node, "files", volumes=[{"name": "d", "hostPath": {"path": "/dev/infiniband"}}])
    lab.pod(node, "alone", managed=False)
    lab.pod(node, "cache", volumes=[{"name": "scratch", "emptyDir": {}}])
    for check in (True, False):
        message = refused(lab, node, check=check)
        for words in (
            "9 of its pods block the drain, and nothing was changed: ",
            "/gpu: holds nvidia.com/gpu: 8 (evict_gpu_pods)",
            "/mig: holds nvidia.com/mig-1g.10gb: 1 (evict_gpu_pods)",
            "/rdma: holds rdma/hca: 1 (evict_gpu_pods)",
            "/erdma: holds aliyun/erdma: 1 (evict_gpu_pods)",
            f"/rail: has a device of the host by the attachment {lab.namespace}/rail0 (evict_gpu_pods)",
            f"/lost: has a device of the host by the attachment {lab.namespace}/no-such (evict_gpu_pods)",
            "/files: has the host's /dev/infiniband (evict_gpu_pods)",
            "/alone: has no controller that would recreate it (force)",
            "/cache: has data in the emptyDir scratch (delete_emptydir_data)",
        ):
            assert words in message
        assert "/free" not in message
        assert "/side" not in message
    assert untouched(lab, node)
    message = refused(lab, node, evict_gpu_pods=True)
    assert "2 of its pods" in message
    names = ("alone", "cache", "erdma", "files", "free", "gpu", "lost", "mig", "rail", "rdma", "side")
    assert lab.pods(node) == list(names)
    done = call(lab, node, evict_gpu_pods=True, force=True, delete_emptydir_data=True)
    assert len([text for text in done["actions"] if text.startswith("Evict ")]) == 11
    assert lab.pods(node) == []


def test_mirror_and_daemonset_pods_and_those_that_have_ended_are_left(lab: Lab) -> None:
    node = lab.node(labels={"with": "daemon"})
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    labels = {"app": "daemon"}
    spec = {"containers": [container], "nodeSelector": {"with": "daemon"}, "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    lab.apply("apps/v1", "DaemonSet", "daemon", {"selector": {"matchLabels": labels}, "template": template})
    lab.until(lambda: len(lab.pods(node)) == 1)
    lab.pod(node, "static", managed=False, annotations={"kubernetes.io/config.mirror": "x"})
    lab.pod(node, "done", managed=False)
    lab.api.merge(path("v1", "pods", lab.namespace, "done", "status"), {"status": {"phase": "Succeeded"}}, "Ending")
    lab.pod(node, "web")
    done = call(lab, node)
    assert {row["name"].partition("-")[0]: (row["action"], row["why"]) for row in done["pods"]} == {
        "daemon": ("leave", "of the DaemonSet daemon, which would recreate it"),
        "static": ("leave", "a mirror of a static pod"),
        "done": ("leave", "has ended"),
        "web": ("evict", "ReplicaSet web"),
    }
    assert [name.partition("-")[0] for name in lab.pods(node)] == ["daemon", "done", "static"]


def test_a_node_that_is_not_the_host(lab: Lab) -> None:
    node = lab.node()
    other = lab.node(status={"nodeInfo": {"machineID": "f" * 32}, "addresses": []})
    for check in (True, False):
        message = refused(lab, node, check=check, machine_id=OTHER_ID)
        assert f"Draining node {node}: this Node is not proven to be the host. Its machineID is {MACHINE_ID}" in message
        assert f"the host is Node {other}, set that name (gpu_node_name)" in message
        message = refused(lab, "no-such-node", check=check, on_absent="ignore")
        assert f"the cluster has no node of this name; the host is Node {node}" in message
    assert "give machine_id or addresses of the host" in refused(lab, node, machine_id=None)
    assert "the host has 192.0.2.99" in refused(lab, node, machine_id=None, addresses=["192.0.2.99"])
    assert call(lab, "no-such", machine_id="0" * 32, on_absent="ignore")["in_cluster"] is False
    assert "nor the host. Its nodes are: " in refused(lab, "no-such", machine_id="0" * 32)
    # A copy of the machine has the same machine ID: then the address decides, and without one nothing does.
    lab.node(status={"addresses": [{"type": "InternalIP", "address": "192.0.2.12"}]})
    assert "is not proven to be the host" in refused(lab, node)
    assert "is not proven to be the host" in refused(lab, node, addresses=["192.0.2.12"])
    assert untouched(lab, node)
    assert call(lab, node, addresses=[ADDRESS])["changed"] is True
    assert "is not proven to be the host" in refused(lab, node, "uncordoned", addresses=["192.0.2.12"])
    assert cordoned(lab, node)


def test_whose_node_it_is(lab: Lab) -> None:
    node = lab.node()
    lab.plane.kubectl("cordon", node)
    for check in (True, False):
        message = refused(lab, node, check=check)
        assert f"Draining node {node}: kubectl has cordoned it, so it is left alone" in message
        assert call(lab, node, "uncordoned", check=check)["changed"] is False
        assert call(lab, node, "failed", check=check, failure="x")["changed"] is False
    assert cordoned(lab, node)
    assert note(lab, node) is None
    lab.plane.kubectl("uncordon", node)
    lab.plane.kubectl("label", "node", node, "node-role.kubernetes.io/control-plane=")
    assert "it is a control-plane node. Set control_plane_ok to true" in refused(lab, node)
    assert untouched(lab, node)
    lab.plane.kubectl("annotate", "node", node, f"{NOTE}=?")
    assert f"kubectl annotate node {node} {NOTE}-" in refused(lab, node, control_plane_ok=True)
    lab.plane.kubectl("annotate", "node", node, f"{NOTE}-")
    assert call(lab, node, control_plane_ok=True)["changed"] is True


def test_a_budget_that_allows_it_late(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    lab.pod(node, "worker")
    lab.budget("web", 1)
    assert call(lab, node, check=True)["waiting_for"] == [f"{lab.namespace}/web"]

    def allow() -> None:
        # Pods are evicted in the order of their names: when this one is gone, the other has been refused.
        lab.plane.kubectl("wait", "--for=delete", "pod/worker", "-n", lab.namespace, "--timeout=50s")
        lab.plane.kubectl("get", "pod/web", "-n", lab.namespace)
        lab.budget_only("web", 0)

    with meanwhile(allow):
        assert call(lab, node)["changed"] is True
    assert lab.pods(node) == []


def test_a_budget_that_never_allows_it(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    lab.pod(node, "free")
    lab.pod(node, "stuck")
    finalizers(lab, "stuck", ["example.com/slow"])
    lab.budget("web", 1)
    message = refused(lab, node, drain_timeout=2)
    assert f"Draining node {node}: not finished after drain_timeout (2 s). Still there: " in message
    assert f"{lab.namespace}/stuck is being deleted, due 20" in message
    assert "Z, held by example.com/slow; " in message
    assert (
        f"{lab.namespace}/web under web (minAvailable 1, 1 of 1 pods healthy, 0 disruptions allowed): "
        f"Evicting the pod {lab.namespace}/web: " in message
    )
    assert "answered 429 (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget" in message
    stays = f"The node stays cordoned, with this in its annotation {NOTE}, and the next run continues from there"
    assert stays in message
    # The pod without a budget goes, and another run may begin.
    lab.until(lambda: lab.pods(node) == ["stuck", "web"])
    assert (cordoned(lab, node), holder(lab)) == (True, "")
    kept = note(lab, node)
    assert kept["step"] == "cordoned"
    assert kept["failed"]["message"].startswith(f"Draining node {node}: not finished after drain_timeout (2 s)")
    assert abs(time.time() - time.mktime(time.strptime(kept["failed"]["time"], "%Y-%m-%dT%H:%M:%SZ"))) < 24 * 3600

    # What the Node offers meanwhile is not what it offered before.
    lab.status(node, allocatable={"nvidia.com/gpu": "0"})
    finalizers(lab, "stuck", None)
    lab.budget("web", 0)
    done = call(lab, node, run="two")
    assert f"Continue with node {node}, which run one cordoned" in done["actions"]
    after = note(lab, node)
    assert (after["run"], after["step"], after["failed"]) == ("two", "drained", None)
    assert (after["since"], after["before"]) == (kept["since"], kept["before"])
    assert (lab.pods(node), holder(lab)) == ([], "two")


def test_two_budgets_are_found_before_the_cordon(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    lab.budget("web", 0)
    lab.apply("policy/v1", "PodDisruptionBudget", "all", {"minAvailable": 0, "selector": {}})
    assert "This pod has more than one PodDisruptionBudget" in refused(lab, node, check=True)
    assert untouched(lab, node)


def test_a_node_comes_back_with_all_it_had(lab: Lab) -> None:
    node = lab.node()
    call(lab, node)
    lab.status(node, allocatable={"nvidia.com/gpu": "6", "rdma/hca": "0"})
    looked = call(lab, node, "uncordoned", check=True, boot_id=NEW_BOOT)
    assert looked["waiting_for"] == [
        f"its kubelet has not reported since the boot (boot id {NEW_BOOT})",
        "nvidia.com/gpu: 6 of 8",
        "rdma/hca: 0 of 1k",
    ]
    statuses = {row["name"].partition(" ")[2]: row["status"] for row in looked["resources"]}
    assert statuses == dict.fromkeys(("", "nvidia.com/gpu", "rdma/hca"), "drift")
    # Ready, as it was before the reboot, is no proof.
    lab.status(node, allocatable={"nvidia.com/gpu": "8", "rdma/hca": "1000"})
    message = refused(lab, node, "uncordoned", boot_id=NEW_BOOT, ready_timeout=1)
    assert f"Uncordoning node {node}: not back after ready_timeout (1 s): its kubelet has not reported" in message
    assert (cordoned(lab, node), holder(lab)) == (True, "")
    failed = note(lab, node)
    assert failed["failed"]["message"].startswith(f"Uncordoning node {node}: not back after ready_timeout")

    info = lab.read(node)["status"]["nodeInfo"]
    lab.status(node, nodeInfo={**info, "bootID": NEW_BOOT}, conditions=[{"type": "Ready", "status": "False"}])
    assert "Ready is False" in refused(lab, node, "uncordoned", boot_id=NEW_BOOT, ready_timeout=1)
    lab.status(node, conditions=[{"type": "Ready", "status": "True"}], allocatable={"nvidia.com/gpu": "6"})
    message = refused(lab, node, "uncordoned", boot_id=NEW_BOOT, ready_timeout=1)
    assert "(1 s): nvidia.com/gpu: 6 of 8. Repair the node and run again" in message
    assert cordoned(lab, node)

    def come_back() -> None:
        lease = ("-n", SPACE, f"lease/{node_drain_lease.NAME}")
        lab.plane.kubectl("wait", "--for=jsonpath={.spec.holderIdentity}=two", *lease, "--timeout=50s")
        lab.status(node, allocatable={"nvidia.com/gpu": "8"})

    with meanwhile(come_back):
        done = call(lab, node, "uncordoned", run="two", boot_id=NEW_BOOT)
    assert [text.split(" ")[0] for text in done["actions"]] == ["Take", "Continue", "Wait", "Uncordon", "Release"]
    assert untouched(lab, node)


def test_missing_resources_and_readiness_by_consent(lab: Lab) -> None:
    node = lab.node()
    call(lab, node)
    lab.status(node, allocatable={"nvidia.com/gpu": "7"}, conditions=[{"type": "Ready", "status": "Unknown"}])
    assert "nvidia.com/gpu: 7 of 8" in refused(lab, node, "uncordoned", wait_ready=False, ready_timeout=1)
    assert "Ready is Unknown" in refused(lab, node, "uncordoned", missing_ok=True, ready_timeout=1)
    assert call(lab, node, "uncordoned", wait_ready=False, missing_ok=True)["changed"] is True
    assert untouched(lab, node)


def test_what_failed_is_noted(lab: Lab) -> None:
    node, second = two_nodes(lab)
    call(lab, node)
    call(lab, second, machine_id=OTHER_ID, max_unavailable=2)
    text = "the host did not come back"
    checked = call(lab, node, "failed", check=True, failure=text)
    assert note(lab, node)["failed"] is None
    done = call(lab, node, "failed", failure=text)
    assert (checked["changed"], checked["actions"]) == (True, done["actions"])
    assert note(lab, node)["failed"]["message"] == text
    assert cordoned(lab, node)
    # The second node is still under way in the same run, and what another run has is not touched.
    assert holder(lab) == "one"
    assert call(lab, second, "failed", run="two", failure=text, machine_id=None)["changed"] is False
    assert note(lab, second)["failed"] is None
    call(lab, second, "uncordoned", machine_id=OTHER_ID)
    assert holder(lab) == ""
    for check in (True, False):
        assert call(lab, node, "failed", check=check, failure=text)["changed"] is False


@pytest.mark.fault("API server")
def test_the_api_server_stops_in_the_middle(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    lab.budget("web", 1)
    with apart(lab, node, drain_timeout=6) as process:
        lab.until(lambda: cordoned(lab, node))
        # Held, as its time may be over before the API server has ended.
        process.send_signal(signal.SIGSTOP)
        lab.plane.stop()
        try:
            process.send_signal(signal.SIGCONT)
            _out, message = process.communicate(timeout=120)
        finally:
            lab.plane.start()
    assert "could not be reached" in message
    assert "Cordoned nodes stay cordoned; the failure could not be recorded on the node" in message
    assert (cordoned(lab, node), note(lab, node)["failed"]) == (True, None)

    # The same run goes on, through a restart of the API server.
    with apart(lab, node, drain_timeout=120, lease_duration=3600) as process:
        # It takes the Lease again for its longer time, when it has looked at everything.
        lab.until(lambda: lab.api.get(LEASE, "Reading")["spec"]["leaseDurationSeconds"] == 3600)
        lab.plane.stop()
        lab.plane.start()
        lab.budget("web", 0)
        assert process.communicate(timeout=150)[1] == ""
    assert (lab.pods(node), note(lab, node)["step"]) == ([], "drained")


def user(lab: Lab, name: str, rights: Json) -> Client:
    """Return a client of a user with these rights, and those on the Lease."""
    for kind, rules, namespace in (("ClusterRole", rights, None), ("Role", LEASE_RIGHTS, SPACE)):
        group = {"apiGroup": "rbac.authorization.k8s.io", "name": name}
        parties = {"subjects": [{**group, "kind": "User"}], "roleRef": {**group, "kind": kind}}
        lab.plane.apply(
            manifest("rbac.authorization.k8s.io/v1", kind, name, namespace, rules=rules),
            manifest("rbac.authorization.k8s.io/v1", f"{kind}Binding", name, namespace, **parties),
        )
    api_of_user = client(lab.plane.user(name))

    def may() -> bool:
        try:
            api_of_user.items(path("v1", "nodes"), "Listing")
            api_of_user.get(LEASE, "Reading")
        except ApiError:
            return False
        return True

    lab.until(may)
    return api_of_user


def test_the_rights_it_needs(lab: Lab) -> None:
    node = lab.node()
    lab.pod(node, "web")
    nobody = client(lab.plane.user("nobody"))
    assert 'User "nobody" cannot list resource "nodes"' in refused(lab, node, api=nobody)
    fewer = [right for right in RIGHTS if right["resources"] != ["pods/eviction"]]
    for check in (True, False):
        message = refused(lab, node, check=check, api=user(lab, "watcher", fewer))
        assert f"Evicting the pod {lab.namespace}/web: " in message
        assert 'User "watcher" cannot create resource "pods/eviction" in API group ""' in message
    assert untouched(lab, node)
    lab.budget("web", 1)
    ops = user(lab, "ops", RIGHTS)
    assert "/web under web (minAvailable 1" in refused(lab, node, api=ops, drain_timeout=1)
    lab.budget("web", 0)
    for state in ("drained", "uncordoned"):
        assert manage(options(node, state, run="two"), False, ops)["changed"] is True
    assert untouched(lab, node)


def test_the_cordon_of_an_administrator_after_a_failed_run(lab: Lab) -> None:
    node = lab.node()
    call(lab, node)
    call(lab, node, "failed", failure="the host did not come back")
    lab.plane.kubectl("uncordon", node)
    lab.plane.kubectl("cordon", node)
    stale = note(lab, node)
    message = refused(lab, node, run="two")
    assert f"Draining node {node}: kubectl has cordoned it, so it is left alone" in message
    assert f"kubectl uncordon {node}" in message
    assert call(lab, node, "failed", run="two", failure="another")["changed"] is False
    assert note(lab, node) == stale
    text = f"Remove the annotation {NOTE} from node {node}: kubectl has cordoned it since run one"
    checked = call(lab, node, "uncordoned", check=True, run="two")
    assert text in checked["actions"]
    assert (note(lab, node), cordoned(lab, node)) == (stale, True)
    done = call(lab, node, "uncordoned", run="two")
    assert (done["actions"], done["maintenance"]) == (checked["actions"], stale)
    assert (note(lab, node), cordoned(lab, node), holder(lab)) == (None, True, "")
    assert call(lab, node, "uncordoned", run="two")["changed"] is False
