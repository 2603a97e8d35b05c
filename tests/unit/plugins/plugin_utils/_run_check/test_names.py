# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names are close to ours, and which are others' own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.known import FACTS, GROUPS, load
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.names import (
    closest,
    distance,
    edits_of_group,
    edits_of_variable,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

KNOWN = load()
# Variables of Kubespray (inventory/sample/group_vars/k8s_cluster/k8s-cluster.yml, roles/kubernetes/control-plane/defaults),
# of NVIDIA Cloud Native Stack (cns_values.yaml), of AWX, and such as sites have.
OTHERS = """
kube_config_dir kube_version kube_owner kube_cert_group kube_log_level kube_api_anonymous_auth kube_oidc_auth
kube_network_plugin kube_network_plugin_multus kube_service_addresses kube_pods_subnet kube_network_node_prefix
kube_apiserver_ip kube_apiserver_port kube_proxy_mode kube_proxy_strict_arp kube_encrypt_secret_data kube_reserved
kubelet_shutdown_grace_period kubelet_config_dir kubeadm_certificate_key kubeadm_patches kubeconfig_localhost
kubectl_localhost kubernetes_audit kubernetes_audit_webhook cluster_name dns_mode dns_domain container_manager
node_labels node_taints event_ttl_duration auto_renew_certificates nvidia_accelerator_enabled nvidia_gpu_nodes
gpu_operator_version gpu_operator_driver_registry gpu_operator_registry_username gpu_operator_registry_password
gpu_operator_registry_email gpu_operator_helm_chart gpu_driver_version network_operator_version mig_strategy
awx_user_name awx_inventory_name awx_job_id tower_job_id
aws_credentials aws_name aws_region cpu_node_name cpu_node_packages cpu_node_rails gpu_nodes_count gpu_count
drain_timeout monitoring_enabled rails mode place domain environment experiment monitoring
""".split()  # noqa: SIM905
MISSPELT = {
    "gpu_node_netns_mod": "gpu_node_netns_mode",
    "gpu_node_netns_mdoe": "gpu_node_netns_mode",
    "gpu_nodes_netns_mode": "gpu_node_netns_mode",
    "gpunode_netns_mode": "gpu_node_netns_mode",
    "gpu-node-netns-mode": "gpu_node_netns_mode",
    "GPU_NODE_NETNS_MODE": "gpu_node_netns_mode",
    "gpu_node_nmae": "gpu_node_name",
    "node_maintenence_reboot_ok": "node_maintenance_reboot_ok",
    "node_maintainance_reboot_ok": "node_maintenance_reboot_ok",
    "secondary_networks_rails_network": "secondary_network_rails_network",
    "kubernets_version": "kubernetes_version",
    "fabric_check_test": "fabric_check_tests",
    "drift_publsh": "drift_publish",
    "node_maintenance_bach": "node_maintenance_batch",
    "site_foreign_variable": "site_foreign_variables",
}


def meant(name: str) -> str | None:
    if name in KNOWN.all():
        return None
    return closest(
        name, [(other, edits_of_variable(name, other, KNOWN.prefix(other))) for other in sorted(KNOWN.all())]
    )


@pytest.mark.parametrize(("name", "other"), MISSPELT.items())
def test_a_misspelt_variable(name: str, other: str) -> None:
    assert meant(name) == other


def test_the_variables_of_others_are_no_mistakes() -> None:
    assert {name: meant(name) for name in OTHERS if meant(name)} == {}


@pytest.mark.parametrize("prefix", ["", "x"])
@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [("a", "a", 0), ("ab", "ba", 1), ("abc", "ab", 1), ("abc", "axc", 1), ("abcd", "badc", 2), ("", "abc", 3)],
)
def test_edits(prefix: str, first: str, second: str, edits: int) -> None:
    assert distance(prefix + first, prefix + second, 3) == distance(prefix + second, prefix + first, 3) == edits
    assert distance(first, second, edits - 1) == edits


def test_groups() -> None:
    ours = [(group, edits_of_group(group)) for group in GROUPS]
    pairs = {"gpu_node": "gpu_nodes", "gpu-nodes": "gpu_nodes", "GPU_Nodes": "gpu_nodes", "experiment": "experiments",
             "kubernetes_apis": "kubernetes_api", "kubernetes_control_plain": "kubernetes_control_plane"}  # fmt: skip
    assert {name: closest(name, ours) for name in pairs} == pairs
    others = (
        "cpu_nodes",
        "aws",
        "kube_control_plane",
        "kube_node",
        "k8s_cluster",
        "storage",
        "prometheus",
        "nodes",
        "",
    )
    assert [name for name in others if closest(name, ours)] == []


def test_the_facts_of_roles_are_known() -> None:
    written: set[str] = set()
    for path in COLLECTION.glob("roles/*/tasks/*.yml"):
        text = path.read_text(encoding="utf-8")
        written |= set(re.findall(r"register: ([a-z]\w*)", text))
        for block in re.findall(r"(?:set_fact:|set_stats:\n +data:)\n((?: +.*\n)+)", text):
            indent = re.match(r" *", block)[0]  # type: ignore[index]
            written |= set(re.findall(rf"^{indent}([a-z]\w*):", block, re.M))
    text = (COLLECTION / "plugins/action/drift_verdict.py").read_text(encoding="utf-8")
    assert set(FACTS) == written - set(KNOWN.variables) | set(re.findall(r'"(drift_[a-z]+)"', text)) - {"drift_fail"}


def test_the_groups_of_playbooks_are_known() -> None:
    plays = [
        play
        for path in COLLECTION.glob("playbooks/*.yml")
        for play in yaml.safe_load(path.read_text(encoding="utf-8"))
        # Nodes that are due for a reboot are in a group of the run.
        if "{{" not in play.get("hosts", "{{")
    ]
    patterns = {name.partition("[")[0] for play in plays for name in play["hosts"].split(":")}
    assert patterns - {"all", "localhost"} == set(GROUPS)


def test_what_playbooks_say_about_themselves() -> None:
    """The check of each playbook comes first, knows its tags, and what its roles require."""
    for path in sorted(COLLECTION.glob("playbooks/*.yml")):
        first, *plays = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "check":
            continue
        assert first["ansible.builtin.import_playbook"] == "check.yml", path.stem
        given = first["vars"]
        tags = {tag for play in plays for tag in play.get("tags", [])} - {"always"}
        assert set(given.get("__check_tags", [])) == tags, path.stem
        roles = [role["role"].rpartition(".")[2] for play in plays for role in play.get("roles", [])]
        required = [
            name for name, role in KNOWN.roles.items() if role in roles and KNOWN.variables[name].get("required")
        ]
        assert given.get("__check_required", []) == required, path.stem


def test_a_specification_that_cannot_be_read(tmp_path: Path) -> None:
    meta = tmp_path / "roles/broken/meta"
    meta.mkdir(parents=True)
    (meta / "argument_specs.yml").write_text("a: [")
    with pytest.raises(FabricError, match="Reading the variables of role broken in "):
        load(str(tmp_path))
