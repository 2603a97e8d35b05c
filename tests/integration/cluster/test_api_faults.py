# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that answers badly, late or not at all, at any request of a module.

The module gets through, or fails with who answered what; without the fault the next run converges, and the one after it
changes nothing; what others have there is untouched. Between the two is a real API server.
"""

from __future__ import annotations

import base64
import copy
import datetime
import json
import typing as t
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import node_labels, object_set, ssh_secret
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import Client, path
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain import manage as node_drain
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode_conflicts import cluster
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._whereabouts import pools
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import service_account_token
from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_network_attachment as attachments
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, drains, faults, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.fault_proxy import FAULTS, FaultProxy
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest, set_options

Json = t.Any
KIND = "API server"
FILES = COLLECTION / "roles/secondary_network/files"
NAD_API, NADS = "k8s.cni.cncf.io/v1", "network-attachment-definitions"
# Seconds of patience with an answer; with one that is late on purpose it is little.
PATIENCE, LITTLE = 60, 2

# What an error has to say of each fault; the first of FAULTS that a module retries is not told at all.
SAID = {
    "409": "answered 409 (Conflict): Operation cannot be fulfilled",
    "429": "answered 429 (Too Many Requests): Too many requests",
    "500": "answered 500 (InternalError): Internal error occurred: etcdserver: leader changed",
    "503": "answered 503 (Service Unavailable): <html><body>no healthy upstream",
    "half a JSON": "answered with something that is not JSON",
    "cut": "could not be reached: ",
    "lost": "could not be reached: ",
    "half an answer": "could not be reached: ",
    "slow": "It did not answer in time (%d s)" % LITTLE,
}


class Scene:
    """A module in a namespace of its own: what there is before, what it does, and what there is then."""

    waits = False

    def __init__(self, lab: Lab) -> None:
        self.lab, self.api, self.namespace = lab, lab.api, lab.namespace

    def prepare(self) -> None:
        """Make everything as it was."""

    def act(self, api: Client) -> Json:
        raise NotImplementedError

    def good(self) -> None:
        """Look whether everything is as it was wanted."""

    # What scenes are made of

    def wipe(self, api_version: str, plural: str, keep: t.Container[str] = ()) -> None:
        for name in self.names(api_version, plural):
            if name not in keep:
                self.api.delete(path(api_version, plural, self.namespace, name), "Preparing")

    def names(self, api_version: str, plural: str) -> list[str]:
        items = self.api.items(path(api_version, plural, self.namespace), "Looking") or []
        return sorted(str(item["metadata"]["name"]) for item in items)

    def others(self) -> Json:
        """Return the object of another owner, with the version that any write would change."""
        spaces = [(NAD_API, NADS, "stranger"), ("v1", "configmaps", "stranger")]
        objects = [self.api.get(path(*row[:2], self.namespace, row[2]), "Looking") for row in spaces]
        return [(item or {}).get("metadata", {}).get("resourceVersion") for item in objects]


class Attachments(Scene):
    """network_attachment: one is new, one changes, one goes."""

    def row(self, name: str, device: str) -> Json:
        ipam = {"type": "whereabouts", "range": f"10.100.{device[-1]}.0/24"}
        return {**attachments.NIC0, "name": name, "namespace": self.namespace, "device": device, "ipam": ipam}

    def set(self, api: Client, *desired: Json) -> Json:
        options = {"owner": f"o-{self.namespace}", "namespace": self.namespace, "prune": True}
        return manage.manage(attachments.params(*desired, **options), False, lambda: api)

    def prepare(self) -> None:
        self.wipe(NAD_API, NADS, ["stranger"])
        self.set(self.api, self.row("changes", "ens1"), self.row("goes", "ens2"))

    def act(self, api: Client) -> Json:
        changed = {**self.row("changes", "ens1"), "device": "ens3"}
        return self.set(api, changed, self.row("new", "ens4"))

    def good(self) -> None:
        assert self.names(NAD_API, NADS) == ["changes", "new", "stranger"]
        result = self.api.get(path(NAD_API, NADS, self.namespace, "changes"), "Looking")
        assert json.loads((result or {})["spec"]["config"])["device"] == "ens3"


class Objects(Scene):
    """cluster_objects: one is new, one changes, one goes."""

    def set(self, api: Client, **desired: str) -> Json:
        namespace = self.namespace
        maps = [manifest("v1", "ConfigMap", name, namespace, data={"x": value}) for name, value in desired.items()]
        return object_set.manage(set_options(f"o-{namespace}", *maps, namespace=namespace, prune=True), False, api)

    def prepare(self) -> None:
        self.wipe("v1", "configmaps", ["stranger", "kube-root-ca.crt"])
        self.set(self.api, changes="1", goes="2")

    def act(self, api: Client) -> Json:
        return self.set(api, changes="3", new="4")

    def good(self) -> None:
        items = self.api.items(path("v1", "configmaps", self.namespace), "Looking") or []
        data = {str(item["metadata"]["name"]): (item.get("data") or {}).get("x") for item in items}
        data.pop("kube-root-ca.crt", None)
        assert data == {"changes": "3", "new": "4", "stranger": "0"}


class Labels(Scene):
    """node_labels: of two nodes one has the label with another value."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.nodes = [lab.node(), lab.node(labels={"rail": "theirs"})]

    def prepare(self) -> None:
        labels = [None, "theirs"]
        for node, value in zip(self.nodes, labels, strict=True):
            meta = {"labels": {"rail": value}, "annotations": {node_labels.BEFORE: None}}
            self.api.merge(path("v1", "nodes", None, node), {"metadata": meta}, "Preparing")

    def act(self, api: Client) -> Json:
        params = {"labels": {"rail": "r"}, "state": "present", "nodes": self.nodes}
        return node_labels.manage(params, False, api)

    def good(self) -> None:
        read = [self.lab.read(node)["metadata"] for node in self.nodes]
        assert [node["labels"]["rail"] for node in read] == ["r", "r"]
        # What it was before is remembered as it was, also when the answer to the write was lost.
        before = [json.loads(node["annotations"][node_labels.BEFORE])["rail"]["before"] for node in read]
        assert before == [None, "theirs"]


class Drain(Scene):
    """node_drain: a pod goes, and one on another node stays."""

    waits = True

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.other = lab.node()
        lab.plane.apply(drains.NAMESPACE)
        lab.pod(self.other, "stays", terminationGracePeriodSeconds=0)

    def prepare(self) -> None:
        self.node, self.machine = self.lab.node(), uuid.uuid4().hex
        info = self.lab.read(self.node)["status"]["nodeInfo"]
        self.lab.status(self.node, nodeInfo={**info, "machineID": self.machine})
        self.pod = f"goes-{uuid.uuid4().hex[:6]}"
        self.lab.pod(self.node, self.pod, managed=False, terminationGracePeriodSeconds=0)
        self.api.delete(drains.LEASE, "Preparing")

    def act(self, api: Client) -> Json:
        out = len(self.lab.nodes)
        options = {"force": True, "lease_duration": 20, "machine_id": self.machine, "max_unavailable": out}
        return node_drain.manage(drains.options(self.node, **options), False, api)

    def good(self) -> None:
        assert self.lab.read(self.node)["spec"]["unschedulable"] is True
        assert self.lab.pods(self.node) == []
        assert self.lab.pods(self.other) == ["stays"]


class Pools(Scene):
    """whereabouts_pools: of two addresses one has lost its pod, which two looks ten minutes apart have seen."""

    POOL = "10.100.0.0-28"
    began = datetime.datetime(2026, 11, 21, 3, 0, 0)

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.node = lab.node()
        status = [{"name": "x/rail0", "interface": "net1", "ips": ["10.100.0.1"]}]
        lab.pod(self.node, "here", managed=False, annotations={"k8s.v1.cni.cncf.io/network-status": json.dumps(status)})

    def prepare(self) -> None:
        api = pools.API
        for plural in ("ippools", "overlappingrangeipreservations"):
            self.wipe(api, plural)
        rows = {
            str(number): {"id": f"sandbox-{number}", "podref": f"{self.namespace}/{pod}", "ifname": "net1"}
            for number, pod in ((1, "here"), (2, "gone"))
        }
        spec = {"range": "10.100.0.0/28", "allocations": rows}
        reservations = [
            manifest(
                api,
                "OverlappingRangeIPReservation",
                f"10.100.0.{number}",
                self.namespace,
                spec={"podref": row["podref"]},
            )
            for number, row in rows.items()
        ]
        self.lab.plane.apply(manifest(api, "IPPool", self.POOL, self.namespace, spec=spec), *reservations)

    def _run(self, api: Client, minutes: int) -> Json:
        params = {"namespace": self.namespace, "reclaim": True, "reclaim_after": 600, "exhausted_share": 0.9}
        now = self.began + datetime.timedelta(minutes=minutes)
        nodes = [str(node["metadata"]["name"]) for node in self.api.items(path("v1", "nodes"), "Looking") or []]
        params["dead_nodes"] = [node for node in nodes if node != self.node]
        return pools.manage(params, False, api, now)

    def act(self, api: Client) -> Json:
        first = self._run(api, 0)
        second = self._run(api, 11)
        return {"changed": first["changed"] or second["changed"]}

    def good(self) -> None:
        result = self.api.get(path(pools.API, "ippools", self.namespace, self.POOL), "Looking")
        assert sorted((result or {})["spec"]["allocations"]) == ["1"]
        assert self.names(pools.API, "overlappingrangeipreservations") == ["10.100.0.1"]


class Keys(Scene):
    """ssh_secret: the keys of a deployment are made once."""

    def prepare(self) -> None:
        need_tool("ssh-keygen")
        self.wipe("v1", "secrets")

    def act(self, api: Client) -> Json:
        desired = {"name": "train-ssh", "namespace": self.namespace, "owner": "training-job-train", "labels": {}}
        return ssh_secret.manage(desired, False, api)

    def good(self) -> None:
        result = self.api.get(path("v1", "secrets", self.namespace, "train-ssh"), "Looking")
        assert ssh_secret.wrong((result or {})["data"]) is None


class Token(Scene):
    """service_account_token: nothing is kept of it."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.node = lab.node()

    def act(self, api: Client) -> Json:
        desired = {"names": ["default"], "namespace": self.namespace, "nodes": [self.node], "lifetime": 3600}
        self.token = service_account_token.ask(desired, False, api)
        return self.token

    def good(self) -> None:
        token = self.token["nodes"][self.node]["tokens"]["default"]
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert claims["sub"] == f"system:serviceaccount:{self.namespace}:default"


class Conflicts(Scene):
    """rdma_mode_conflict_info: a pod of a node stands against the mode, whatever could not be read the first time."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.node = lab.node()
        lab.pod(self.node, "uses", managed=False, annotations={"k8s.v1.cni.cncf.io/networks": "stranger"})

    def act(self, api: Client) -> Json:
        params = {"nodes": [self.node], "netns_mode": "shared", "on_conflict": "warn"}
        self.result = cluster.manage(params, False, api)
        # A look that could not be taken is no all clear.
        assert self.result["conflicts"] or self.result["unknown"], self.result
        return self.result

    def good(self) -> None:
        (row,) = self.result["conflicts"]
        assert (row["kind"], row["namespace"], row["name"]) == ("Pod", self.namespace, "uses")
        assert self.result["unknown"] == []


SCENES: dict[str, type[Scene]] = {
    "network_attachment": Attachments,
    "cluster_objects": Objects,
    "node_labels": Labels,
    "node_drain": Drain,
    "whereabouts_pools": Pools,
    "ssh_secret": Keys,
    "service_account_token": Token,
    "rdma_mode_conflict_info": Conflicts,
}


@pytest.fixture(scope="module")
def plane(own_cluster: Cluster) -> Cluster:
    for name in ("multus-definitions.yml", "whereabouts-definitions.yml"):
        own_cluster.kubectl("apply", "--server-side", "-f", str(FILES / name))
    own_cluster.established()
    return own_cluster


@pytest.fixture
def proxy(plane: Cluster, tmp_path: Path) -> Iterator[FaultProxy]:
    with FaultProxy(plane, tmp_path / "proxy") as faults:
        yield faults


@pytest.fixture
def lab(plane: Cluster) -> Iterator[Lab]:
    with plane.namespace() as namespace, Lab(plane, namespace) as lab:
        plane.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", namespace, "--timeout=60s")
        plugins = [{"type": "host-device", "device": "ens9"}, {"type": "rdma"}]
        spec = {"config": json.dumps({"cniVersion": "0.3.1", "name": "s", "plugins": plugins})}
        plane.apply(
            manifest("v1", "ConfigMap", "stranger", namespace, data={"x": "0"}),
            manifest(NAD_API, "NetworkAttachmentDefinition", "stranger", namespace, spec=spec),
        )
        yield lab
        # Their ranges count in the whole cluster, until they are gone.
        plane.kubectl("delete", NADS, "--all", "-n", namespace)


def settles(scene: Scene, kubeconfig: Path, others: Json) -> None:
    """Run it without a fault, twice."""
    calm = client(kubeconfig, PATIENCE)
    scene.act(calm)
    scene.good()
    assert scene.act(calm)["changed"] is False
    assert scene.others() == others


def attempt(scene: Scene, proxy: FaultProxy, fault: str, at: int) -> None:
    """Make one fault, and then none."""
    scene.prepare()
    others = copy.deepcopy(scene.others())
    patience = LITTLE if fault == "slow" else PATIENCE
    asking = client(proxy.kubeconfig, patience)
    proxy.arm(fault, at, patience)
    output = ""
    try:
        scene.act(asking)
    except FabricError as exc:
        output = str(exc)
    if output:
        assert len(output.split(": ")[0]) > 4, output
        # whereabouts_pools tells a conflict in words of its own: what it was about to do, to which pool, and to run again.
        if not (fault == "409" and "it was changed in the meantime, so nothing was done to it" in output):
            assert proxy.url in output, output
            assert SAID[fault] in output, output
    # What waits for something asks as often as it takes.
    assert proxy.made or scene.waits, f"there was no request {at}: {proxy.asked}"
    proxy.clear()
    settles(scene, proxy.kubeconfig, others)


def requests(scene: Scene, proxy: FaultProxy) -> list[str]:
    """Return what a module asks where there is no fault."""
    scene.prepare()
    proxy.clear()
    calm = client(proxy.kubeconfig, PATIENCE)
    assert scene.act(calm)["changed"] in (True, False)
    scene.good()
    asked = list(proxy.asked)
    assert scene.act(calm)["changed"] is False
    return asked


@pytest.mark.parametrize("name", SCENES)
def test_one_of_each_fault(lab: Lab, proxy: FaultProxy, name: str) -> None:
    scene = SCENES[name](lab)
    asked = requests(scene, proxy)
    with faults.tried(KIND, name) as tally:
        # From the last request on, which is the one that writes.
        for number, fault in enumerate(fault for fault in FAULTS if fault != "slow"):
            at = len(asked) - 1 - number % len(asked)
            with tally.one(f"{fault} at {asked[at]} ({at} of {len(asked)})"):
                attempt(scene, proxy, fault, at)


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_every_fault_at_every_request(lab: Lab, proxy: FaultProxy, name: str) -> None:
    scene = SCENES[name](lab)
    asked = requests(scene, proxy)
    with faults.tried(KIND, name) as tally:
        for fault in FAULTS:
            for at, request in enumerate(asked):
                with tally.one(f"{fault} at {request} ({at} of {len(asked)})"):
                    attempt(scene, proxy, fault, at)


@pytest.mark.parametrize("name", ["network_attachment", pytest.param("cluster_objects", marks=pytest.mark.long)])
def test_a_server_that_is_killed_and_comes_back(
    plane: Cluster, lab: Lab, proxy: FaultProxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two requests of one call; what is known of others is still there when it runs again."""
    scene = SCENES[name](lab)
    asked = requests(scene, proxy)
    with faults.tried(KIND, f"{name}, killed") as tally, tally.one("killed before its last request"):
        scene.prepare()
        others = scene.others()
        api = client(plane.kubeconfig, PATIENCE)
        send, sent = api._answer, []

        def answer(*arguments: t.Any, **more: t.Any) -> t.Any:
            sent.append(arguments)
            if len(sent) == len(asked):
                plane.stop()
            return send(*arguments, **more)

        monkeypatch.setattr(api, "_answer", answer)
        try:
            with pytest.raises(FabricError, match="could not be reached: .*What was done until here stays; run again"):
                scene.act(api)
        finally:
            plane.start()
        settles(scene, plane.kubeconfig, others)
