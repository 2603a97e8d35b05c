# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeadm's configurations: what a site may say, what becomes of it, and how a cluster differs."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.kubeadm_config import FilterModule, kubeadm_config
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._filter import AnsibleTypeError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import kubeadm_config as config
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    settings,
)

PLANE = {"name": "cp-1", "address": "192.0.2.10", "control_plane": True}
WORKER = {"name": "gpu-1", "address": "192.0.2.11", "control_plane": False}
PIN = "sha256:" + "ab" * 32


def by_kind(documents: list[Json]) -> dict[str, Json]:
    return {document["kind"]: document for document in documents}


def test_init() -> None:
    made = by_kind(config.documents(settings(), PLANE, "init"))
    assert list(made) == ["InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"]
    assert made["InitConfiguration"]["localAPIEndpoint"] == {"advertiseAddress": "192.0.2.10", "bindPort": 6443}
    assert made["InitConfiguration"]["nodeRegistration"]["kubeletExtraArgs"] == [
        {"name": "node-ip", "value": "192.0.2.10"}
    ]
    assert "taints" not in made["InitConfiguration"]["nodeRegistration"]
    cluster = made["ClusterConfiguration"]
    assert cluster["kubernetesVersion"] == "v1.37.1"
    assert cluster["controlPlaneEndpoint"] == "192.0.2.10:6443"
    assert cluster["networking"] == {
        "podSubnet": "10.244.0.0/16",
        "serviceSubnet": "10.96.0.0/16",
        "dnsDomain": "cluster.local",
    }
    assert cluster["apiServer"]["certSANs"] == ["192.0.2.10", "api.example.org"]
    assert not {"imageRepository", "etcd", "dns"} & set(cluster)
    assert made["KubeletConfiguration"]["cgroupDriver"] == "systemd"


def test_init_with_everything() -> None:
    given = settings(
        image_repository="registry.example.org/k8s",
        etcd_image_tag="3.6.8-0",
        dns_image_tag="v1.14.2",
        proxy_mode="nftables",
        skip_phases=["addon/coredns"],
        control_plane_taint=False,
        kubelet={"failSwapOn": False},
        cluster_configuration={"apiServer": {"extraArgs": [{"name": "profiling", "value": "false"}]}},
        endpoint="[2001:db8::10]:6443",
    )
    made = by_kind(config.documents(given, PLANE, "init"))
    assert made["InitConfiguration"]["skipPhases"] == ["addon/coredns"]
    assert made["InitConfiguration"]["nodeRegistration"]["taints"] == []
    assert made["ClusterConfiguration"]["imageRepository"] == "registry.example.org/k8s"
    assert made["ClusterConfiguration"]["etcd"]["local"]["imageTag"] == "3.6.8-0"
    # What is merged in goes beside what was there.
    assert set(made["ClusterConfiguration"]["apiServer"]) == {"certSANs", "extraArgs"}
    assert made["ClusterConfiguration"]["apiServer"]["certSANs"][0] == "2001:db8::10"
    assert made["KubeletConfiguration"]["failSwapOn"] is False
    assert made["KubeProxyConfiguration"]["mode"] == "nftables"


def test_files_of_the_api_server() -> None:
    """Their directories are mounted beside what a site adds; without them, there is nothing."""
    given = settings(
        audit_policy="/etc/kubernetes/audit/policy-1.yaml",
        encryption="/etc/kubernetes/encryption/configuration.yaml",
        cluster_configuration={"apiServer": {"extraArgs": [{"name": "profiling", "value": "false"}]}},
    )
    server = config.cluster_configuration(given)["apiServer"]
    assert {row["name"]: row["value"] for row in server["extraArgs"]} == {
        "audit-policy-file": "/etc/kubernetes/audit/policy-1.yaml",
        "audit-log-path": "/var/log/kubernetes/audit/audit.log",
        "audit-log-maxage": "30",
        "audit-log-maxbackup": "10",
        "audit-log-maxsize": "100",
        "encryption-provider-config": "/etc/kubernetes/encryption/configuration.yaml",
        "encryption-provider-config-automatic-reload": "true",
        "profiling": "false",
    }
    assert {row["name"]: (row["hostPath"], row["pathType"], row.get("readOnly")) for row in server["extraVolumes"]} == {
        "audit-log": ("/var/log/kubernetes/audit", "DirectoryOrCreate", None),
        "audit-policy": ("/etc/kubernetes/audit", "Directory", True),
        "encryption": ("/etc/kubernetes/encryption", "Directory", True),
    }
    assert all(row["mountPath"] == row["hostPath"] for row in server["extraVolumes"])
    assert set(config.cluster_configuration(settings())["apiServer"]) == {"certSANs"}


def test_join() -> None:
    (worker,) = config.documents(settings(), WORKER, "join", PIN)
    assert worker["discovery"]["bootstrapToken"] == {"apiServerEndpoint": "192.0.2.10:6443", "caCertHashes": [PIN]}
    assert "controlPlane" not in worker
    (plane,) = config.documents(settings(), PLANE, "join", PIN)
    assert plane["controlPlane"]["localAPIEndpoint"]["advertiseAddress"] == "192.0.2.10"


# What a site says, and what is said of it
BAD: list[tuple[Json, str]] = [
    ({"version": "1.36"}, "version must be X.Y.Z"),
    ({"version": "latest"}, "version must be X.Y.Z"),
    ({"version": 1.36}, "version must be str"),
    ({"version": "1.30.9"}, "older than 1.31"),
    (
        {"version": "1.28.15"},
        "version 1.28.15 is older than 1.31, the first whose kubeadm reads kubeadm.k8s.io/v1beta4",
    ),
    ({"cluster_name": "Fabric 1"}, "not a valid DNS name"),
    ({"dns_domain": "-"}, "not a valid DNS name"),
    ({"endpoint": "192.0.2.10"}, "HOST:PORT"),
    ({"endpoint": "https://192.0.2.10:6443"}, "HOST:PORT"),
    ({"endpoint": "192.0.2.10:99999"}, "HOST:PORT"),
    ({"endpoint": "2001:db8::1:6443"}, "HOST:PORT"),
    ({"bind_port": 0}, "is not a valid port"),
    ({"bind_port": True}, "bind_port must be int"),
    ({"pod_network": "10.244.0.1/16"}, "host bits set"),
    ({"pod_network": "pods"}, "does not appear to be"),
    ({"pod_network": "10.96.128.0/17"}, "overlap"),
    ({"pod_network": "10.244.0.0/16,fd00:10:96::/48", "service_network": "10.96.0.0/16,fd00:10:96::/112"}, "overlap"),
    ({"service_network": "10.0.0.0/8"}, "larger than /12"),
    ({"certificate_names": ["no name"]}, "neither a name nor an address"),
    ({"certificate_names": [1]}, "neither a name nor an address"),
    ({"certificate_names": "api.example.org"}, "must be list"),
    ({"kubelet": None}, "kubelet must be dict"),
    ({"endpiont": "x"}, "endpiont is not a setting"),
    ({"patches_directory": "patches"}, "patches_directory must be an absolute path, not 'patches'"),
    ({"audit_policy": "policy.yaml"}, "audit_policy must be an absolute path, not 'policy.yaml'"),
    ({"encryption": "keys.yaml"}, "encryption must be an absolute path, not 'keys.yaml'"),
]


@pytest.mark.parametrize(("more", "text"), BAD)
def test_bad_settings(more: Json, text: str) -> None:
    problems = config.problems(settings(**more))
    assert [problem for problem in problems if text in problem], problems
    with pytest.raises(config.SettingsError, match="Writing a configuration for kubeadm"):
        config.documents(settings(**more), PLANE, "init")


def test_good_settings() -> None:
    assert config.problems(settings()) == []
    assert config.problems(settings(certificate_names=["*.example.org", "2001:db8::1", "10.0.0.1"])) == []


def test_timeouts_and_patches_are_of_both_kinds() -> None:
    given = settings(timeouts={"discovery": "10m0s"}, patches_directory="/etc/patches")
    for kind, node in (("init", PLANE), ("join", PLANE), ("join", WORKER)):
        made = config.documents(given, node, kind, PIN)[0]
        assert (made["timeouts"], made["patches"]) == ({"discovery": "10m0s"}, {"directory": "/etc/patches"})
        assert not {"timeouts", "patches"} & set(config.documents(settings(), node, kind, PIN)[0])


def test_the_filter() -> None:
    made = FilterModule().filters()["kubeadm_config"]
    assert made(settings(), "join", WORKER, pin=PIN) == config.documents(settings(), WORKER, "join", PIN)
    with pytest.raises(AnsibleTypeError, match="needs dictionaries"):
        kubeadm_config("x", "init", PLANE)
    with pytest.raises(AnsibleFilterError, match="has no address, control_plane"):
        kubeadm_config(settings(), "init", {"name": "a"})
    with pytest.raises(AnsibleFilterError, match="neither init nor join"):
        kubeadm_config(settings(), "upgrade", PLANE)


# --- what is in a cluster ---


# The ConfigMap kubeadm-config as kubeadm 1.36 fills in its defaults.
LIVE = """
apiServer:
  certSANs: [api.example.org, 192.0.2.10, old.example.org]
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
certificateValidityPeriod: 8760h0m0s
certificatesDir: /etc/kubernetes/pki
clusterName: fabric
controlPlaneEndpoint: 192.0.2.10:6443
controllerManager: {}
dns: {}
encryptionAlgorithm: RSA-2048
etcd: {local: {dataDir: /var/lib/etcd}}
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
networking: {dnsDomain: cluster.local, podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
proxy: {}
scheduler: {}
"""


def test_defaults_and_further_names_are_no_difference() -> None:
    assert config.differences(config.cluster_configuration(settings()), yaml.safe_load(LIVE)) == []


# What a site says, and the fields in which the cluster differs
DIFFER: list[tuple[Json, list[str]]] = [
    ({"version": "1.37.2"}, ["kubernetesVersion"]),
    ({"pod_network": "10.32.0.0/16"}, ["networking.podSubnet"]),
    ({"certificate_names": ["new.example.org"]}, ["apiServer.certSANs"]),
    ({"image_repository": "registry.example.org"}, ["imageRepository"]),
    ({"etcd_image_tag": "3.6.8-0"}, ["etcd.local.imageTag"]),
    ({"cluster_configuration": {"scheduler": {"extraArgs": [{"name": "v", "value": "2"}]}}}, ["scheduler.extraArgs"]),
    ({"endpoint": "api.example.org:6443", "dns_domain": "x.local"}, ["controlPlaneEndpoint", "networking.dnsDomain"]),
]


@pytest.mark.parametrize(("more", "paths"), DIFFER)
def test_differences(more: Json, paths: list[str]) -> None:
    differences = config.differences(config.cluster_configuration(settings(**more)), yaml.safe_load(LIVE))
    assert [difference.path for difference in differences] == paths


# what is wanted, what kubeadm has kept of it, whether they are the same
SAME = [
    ("10m", "10m0s", True),
    ("1h", "60m0s", True),
    ("500ms", "0.5s", True),
    ("10m", "10s", False),
    ("10", "10s", False),
    ("v1", "v1", True),
    ([], None, True),
    ({}, None, True),
    ("", None, True),
    (False, None, False),
    (0, None, False),
    (["a"], None, False),
    (True, "true", False),
]


@pytest.mark.parametrize(("wanted", "live", "same"), SAME)
def test_what_means_the_same(wanted: t.Any, live: t.Any, same: bool) -> None:
    assert config.equal(wanted, live) is same
    assert (config.differences({"a": wanted}, {"a": live}) == []) is same


def test_nothing_in_the_cluster_differs_in_all() -> None:
    wanted = config.cluster_configuration(settings())
    paths = {difference.path for difference in config.differences(wanted, None)}
    assert {"clusterName", "networking.podSubnet", "apiServer.certSANs"} <= paths
    assert config.subset({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 0}}) == {"a": {"b": 1}}
