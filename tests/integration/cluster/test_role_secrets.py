# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in what whole roles leave behind on a real API server: output at -vvvvv, the drift report, events, objects.

Some secrets are given, some are made on the way: tokens of accounts, keys for ssh.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster import test_secondary_network as network
from ansible_collections.rdmaops.gpu_fabric.tests.integration.test_secrets import Canaries
from ansible_collections.rdmaops.gpu_fabric.tests.support import (
    charts,
    faults,
    need_root,
    operators,
    site,
    training_nodes,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest

Json = t.Any
# The beginnings of JSON Web Tokens (RFC 7519) and of private keys (RFC 7468, and OpenSSH's).
MADE = re.compile(r"eyJhbGciOi[\w-]{10,}\.|-----BEGIN [A-Z ]*PRIVATE KEY-----\S*\s+\S{20}")


def administrator(plane: Cluster) -> tuple[Json, str]:
    """Return a kubeconfig as a dictionary, and the token in it."""
    plane.apply(manifest("v1", "ServiceAccount", "boss", "default"))
    admin = ["clusterrolebinding", "boss", "--clusterrole=cluster-admin", "--serviceaccount=default:boss"]
    plane.kubectl("create", *admin)
    token = plane.token_of("default", "boss")
    return plane.with_token(token), token


def plays(place: network.Site, config: Json, canary: Canaries, chart: Path) -> list[Json]:
    network_of = {"secondary_network_kubeconfig": config}
    exporter = {
        "rdma_exporter_method": "daemonset",
        "rdma_exporter_api_host": "api",
        "rdma_exporter_image": "registry.example/exporter@sha256:" + "0" * 64,
        "rdma_exporter_kubeconfig": config,
        "rdma_exporter_web_config": {"basic_auth_users": {"prometheus": canary("hash")}},
        "rdma_exporter_wait": 0,
    }
    operator = {
        "gpu_operator_chart": str(chart),
        "gpu_operator_chart_repo_url": "",
        "gpu_operator_chart_version": "v25.3.0",
        "gpu_operator_kubeconfig": config,
        "gpu_operator_helm_binary": str(place.plane.tool("helm4")),
        "gpu_operator_values": {"toolkit": {"env": [{"name": "PULL_TOKEN", "value": canary("chart")}]}},
        "gpu_operator_wait": False,
    }
    monitoring = {"monitoring_method": "operator", "monitoring_api_host": "api", "monitoring_kubeconfig": config}
    job = {
        "training_job_kubeconfig": config,
        "training_job_namespace": place.space,
        "training_job_image": training_nodes.IMAGE,
        "training_job_command": ["train"],
        "training_job_gpus": training_nodes.GPUS,
        "training_job_name": "train",
        "training_job_ssh": True,
        "training_job_wait": False,
    }
    return [
        network.play("node", network.include(**network_of)),
        network.play("operator", site.role("gpu_operator", **operator), hosts="api"),
        network.play("exporter", site.role("rdma_exporter", **exporter), hosts="api"),
        network.play("monitoring", site.role("monitoring", **monitoring), hosts="api"),
        network.play("job", site.role("training_job", **job), hosts="api"),
    ]


def run(place: network.Site, book: list[Json], *arguments: str) -> str:
    """Run it, and return what it printed and wrote."""
    written = place.root / "written"
    written.mkdir(exist_ok=True)
    environment = {
        **site.AS_A_USER,
        "ANSIBLE_CALLBACKS_ENABLED": "rdmaops.gpu_fabric.drift",
        "RDMAOPS_DRIFT_REPORT": str(written / "report.json"),
        "RDMAOPS_DRIFT_HTML": str(written / "report.html"),
        "ANSIBLE_LOG_PATH": str(written / "ansible.log"),
    }
    run = place.playbook(book, "-vvvvv", *arguments, **environment)
    assert run.rc == 0, run.output[-6000:]
    assert (written / "report.json").exists()
    return "\n".join([run.output, *(path.read_text() for path in sorted(written.iterdir()))])


def objects(plane: Cluster) -> dict[str, str]:
    """Return events, and what else people may read who may not read secrets."""
    kinds = ("events", "configmaps", "deployments", "daemonsets", "statefulsets", "jobs", "pods", "services", "nodes")
    return {kind: plane.kubectl("get", kind, "--all-namespaces", "-o", "json") for kind in kinds}


@pytest.mark.long
def test_whole_roles(own_cluster: Cluster, tmp_path: Path) -> None:
    need_root()
    operators.install(own_cluster, "prometheus-operator")
    network.make_nodes(own_cluster)
    config, token = administrator(own_cluster)
    canary = Canaries()
    canary.words["token"] = token
    root = tmp_path / "site"
    root.mkdir()
    with own_cluster.namespace() as space, training_nodes.two_nodes(own_cluster):
        own_cluster.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", space, "--timeout=30s")
        place = network.Site(own_cluster, root, space)
        book = plays(place, config, canary, charts.packed(tmp_path))
        output = {
            "a check before": run(place, book, "--check"),
            "the run": run(place, book),
            "a check after": run(place, book, "--check"),
            **objects(own_cluster),
        }
        secrets = own_cluster.kubectl("get", "secrets", "--all-namespaces", "-o", "json")
    with faults.tried("secrets", "whole roles") as tally:
        for where, text in output.items():
            for name in canary.words:
                with tally.one(f"{name} in {where}"):
                    assert [row for row in canary.seen(text) if row.startswith(f"{name} ")] == []
            with tally.one(f"what was made, in {where}"):
                result = MADE.search(text)
                assert not result, text[result.start() - 200 : result.end()]
    # They were there to be seen.
    assert '"id_ed25519"' in secrets
    assert MADE.search(next((root / "net.d").rglob("multus.kubeconfig")).read_text())
