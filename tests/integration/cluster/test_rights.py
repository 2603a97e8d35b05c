# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts with the rights of docs/rbac and no others: the roles run with them, and say what is missing without.

Each account comes into being as docs/rights.md says. The administrator makes what a site has anyway: namespaces, nodes, and
the definitions of other people's operators.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_drift_configmap as drift
from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_node_maintenance as maintenance
from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_secondary_network as network
from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_training_job as training
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root, operators, site, training_nodes
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import Lab

Json = t.Any
HINT = "Give this user that right by a Role or a ClusterRole"


class Account(Cluster):
    """A control plane as one account of docs/rbac sees it."""

    def __init__(self, owner: Cluster, name: str, directory: Path) -> None:
        super().__init__(owner.plane)
        self.owner, self.manifest = owner, COLLECTION / f"docs/rbac/{name}.yml"
        items = yaml.safe_load(self.manifest.read_text())["items"]
        owner.kubectl("apply", "-f", str(COLLECTION / "docs/rbac/namespace.yml"))
        for space in sorted({item["metadata"].get("namespace", "default") for item in items}):
            owner.kubectl("create", "namespace", space, check=False)
            owner.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", space, "--timeout=30s")
        owner.kubectl("apply", "-f", str(self.manifest))
        (metadata,) = [item["metadata"] for item in items if item["kind"] == "ServiceAccount"]
        self.account = metadata["name"]
        self.user = f"system:serviceaccount:{metadata['namespace']}:{self.account}"
        config = owner.with_token(owner.token_of(metadata["namespace"], self.account))
        self._kubeconfig = directory / f"{name}.kubeconfig"
        self._kubeconfig.write_text(json.dumps(config))
        self._kubeconfig.chmod(0o600)

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def bare(self) -> None:
        """Take its rights away."""
        for kind in ("clusterrolebinding", "rolebinding"):
            where = ["--all-namespaces"] if kind == "rolebinding" else []
            for item in self.owner.json("get", kind, *where)["items"]:
                if item["metadata"]["name"] == self.account:
                    space = item["metadata"].get("namespace")
                    self.owner.kubectl("delete", kind, self.account, *(["-n", space] if space else []))

    def is_named_by(self, text: str) -> None:
        """The message names the account, and what to do."""
        words = " ".join(text.split())
        assert f'is forbidden: User "{self.user}"' in words.replace('\\"', '"'), text
        assert HINT in words, text


@pytest.fixture
def account(own_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Account]:
    account = Account(own_cluster, request.param, tmp_path)
    yield account
    own_cluster.kubectl("delete", "-f", str(account.manifest), "--ignore-not-found")


def played(directory: Path, *tasks: Json) -> site.Run:
    """Run tasks on this machine, which has the kubeconfig."""
    return site.run_tasks(directory, tasks, inventory=site.KUBERNETES_API, limit=400)


def role(name: str, refused: bool = False, **variables: Json) -> Json:
    task = site.role(name, **variables)
    return site.rescued(task) if refused else task


@pytest.mark.parametrize("account", ["network"], indirect=True)
def test_network(account: Account, tmp_path: Path) -> None:
    need_root()
    network.make_nodes(account.owner)
    place = network.Site(account, tmp_path, "rdmaops-network")
    rails = {"secondary_network_rails_network": "10.100.0.0/16", "secondary_network_rails_namespace": "default"}
    label = {"node_labels_labels": {"schedule": "topology"}}
    plays = [
        network.play("node", network.include(secondary_network_rails_namespace="default")),
        network.play("rails", *(network.include(only=tasks, **rails) for tasks in ("plan", "rails")), hosts="gpu-*"),
        network.play("labels", role("node_labels", **label), hosts="gpu-*"),
    ]
    again = [{**play, "name": f"{play['name']} again"} for play in plays]
    result = place.run(*plays, *again, network.play("away", network.include(secondary_network_state="absent", **rails)))
    assert {name: len(play.changed) for name, play in result.items()} == {
        "node": 2, "rails": 1, "labels": 1, "node again": 0, "rails again": 0, "labels again": 0, "away": 3
    }  # fmt: skip
    # What it could not look at it would have said.
    assert "forbidden" not in " ".join(play.text for play in result.values())
    account.bare()
    refused = place.run(network.play("without", network.refused()))["without"]
    assert refused.changed == []
    account.is_named_by(refused.text)


@pytest.mark.parametrize("account", ["exporter"], indirect=True)
def test_exporter(account: Account, tmp_path: Path) -> None:
    exporter = {
        "rdma_exporter_method": "daemonset",
        "rdma_exporter_image": "registry.example/exporter@sha256:" + "0" * 64,
        "rdma_exporter_kubeconfig": str(account.kubeconfig),
        "rdma_exporter_web_config": {"basic_auth_users": {"prometheus": "$2b$12$" + "a" * 53}},
        "rdma_exporter_wait": 0,
    }
    bare, gone = {"rdma_exporter_web_config": {}}, {"rdma_exporter_state": "absent"}
    # Without a web configuration, its Secret is taken away by a task of its own.
    some = [role("rdma_exporter", **{**exporter, **more}) for more in ({}, {}, bare, {}, gone, gone)]
    run = played(tmp_path, *some)
    assert run.rc == 0, run.output
    changed = [bool(result["changed"]) for name, _host, result in run.tasks if "actions" in result]
    assert changed == [True, False, True, True, True, True, False], run.output
    account.bare()
    refused = played(tmp_path, role("rdma_exporter", True, **exporter))
    assert refused.changed() == 0
    account.is_named_by(refused.messages())


@pytest.mark.parametrize("account", ["monitoring"], indirect=True)
def test_monitoring(account: Account, tmp_path: Path) -> None:
    operators.install(account.owner, "prometheus-operator")
    objects = {"monitoring_method": "operator", "monitoring_api_host": "here"}
    objects["monitoring_kubeconfig"] = str(account.kubeconfig)
    present, absent = role("monitoring", **objects), role("monitoring", **objects, monitoring_state="absent")
    run = played(tmp_path, present, present, absent)
    assert run.rc == 0, run.output
    # Rules and jobs, then dashboards.
    changed = [bool(result["changed"]) for name, _host, result in run.tasks if "actions" in result]
    assert changed == [True] * 2 + [False] * 2 + [True] * 2, run.output
    account.bare()
    refused = played(tmp_path, role("monitoring", True, **objects))
    assert refused.changed() == 0
    account.is_named_by(refused.messages())


@pytest.mark.long
@pytest.mark.parametrize("account", ["training"], indirect=True)
def test_training(account: Account, tmp_path: Path) -> None:
    play = training.Play(account, "ml", tmp_path)
    options = {"name": "longest", "ssh": True, "wait": False}
    with training_nodes.two_nodes(account.owner):
        run = play.run(
            training.include(**options),
            training.include(**options),
            training.include(**options, state="absent", remove_ok=True),
        )
        assert run.rc == 0, run.output
        assert [len(result["actions"]) for result in run.results(training.APPLY)] == [3, 0]
        account.bare()
        refused = play.run(training.include(**options, refused=True))
    assert refused.changed() == 0
    account.is_named_by(refused.messages())


@pytest.mark.long
@pytest.mark.parametrize("account", ["maintenance"], indirect=True)
def test_maintenance(account: Account, tmp_path: Path) -> None:
    with account.owner.namespace() as namespace, Lab(account.owner, namespace) as lab:
        place = maintenance.Site(lab, tmp_path / "site")
        host = place.host()
        lab.pod(host, "train", limits={"nvidia.com/gpu": "8"})
        done = place.run(node_maintenance_kubeconfig=str(account.kubeconfig), node_maintenance_evict_gpu_pods=True)
        assert done.rc == 0, done.output
        assert (place.machine(host)["mode"], lab.pods(host), place.cordoned(host)) == ("exclusive", [], False)
        looks = {"nodes": [host], "netns_mode": "exclusive", "on_conflict": "warn"}
        looks["kubeconfig"] = str(account.kubeconfig)
        look = {"name": "Look", "rdmaops.gpu_fabric.rdma_mode_conflict_info": looks}
        run = played(tmp_path, look)
        assert run.rc == 0, run.output
        assert run.result("Look")["unknown"] == []
        account.bare()
        place.change(host, mode="shared", boot_id=maintenance.BEFORE)
        refused = place.run(node_maintenance_kubeconfig=str(account.kubeconfig))
        assert refused.rc == 2
        account.is_named_by(refused.messages())
        assert (place.machine(host)["mode"], place.cordoned(host)) == ("shared", False)
        # Without the right to look, nothing is known.
        account.is_named_by(json.dumps(played(tmp_path, look).result("Look")["unknown"]))


@pytest.mark.parametrize("account", ["drift_report"], indirect=True)
def test_drift_report(account: Account) -> None:
    for run in ("1", "2"):
        ours = drift.maps(account.kubeconfig, "rdmaops-reports", run, keep=1)
        ours.publish(drift.report("gpu-1"), "all is well", False)
        assert len(ours.reports()[0]) == 1
    account.bare()
    third = drift.maps(account.kubeconfig, "rdmaops-reports", "3")
    account.is_named_by(message_of(FabricError, third.publish, drift.report("gpu-1"), "", False))
