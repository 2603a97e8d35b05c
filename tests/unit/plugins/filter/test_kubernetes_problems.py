# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the role kubernetes that would download something unverified, or that do not belong together."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.kubernetes_problems import kubernetes_problems

Json = t.Any
DIGEST = "sha256:" + "ab" * 32
OPTIONS: dict[str, Json] = {
    "kubernetes_pod_network": "none",
    "kubernetes_pod_network_manifest": "",
    "kubernetes_pod_network_checksum": "",
    "kubernetes_kubeconfig_dest": "~/.kube/config",
    "kubernetes_source": "local",
    "kubernetes_package_repository": "",
    "kubernetes_package_key": "",
    "kubernetes_registry_mirrors": {},
}
SOURCES = (
    {"name": "kubelet", "url": "https://dl.example.org/v1/kubelet", "checksum": ""},
    {"name": "cni-plugins", "url": "/srv/cni.tgz", "checksum": DIGEST + "0"},
)
MANIFEST = {"kubernetes_pod_network": "manifest", "kubernetes_pod_network_manifest": "calico.yml"}
REMOTE = {**MANIFEST, "kubernetes_pod_network_manifest": "https://example.org/calico.yml"}
PACKAGES = {"kubernetes_source": "packages", "kubernetes_package_repository": "https://example.org/"}

FINE: tuple[Json, ...] = (
    {},
    MANIFEST,
    {**REMOTE, "kubernetes_pod_network_checksum": DIGEST},
    {"kubernetes_source": "packages"},
    {**PACKAGES, "kubernetes_package_key": "key.asc"},
    {**PACKAGES, "kubernetes_source": "local"},
    {"kubernetes_registry_mirrors": {"docker.io": ["https://mirror"]}},
    {"kubernetes_pod_network": "bridge", "kubernetes_kubeconfig_dest": ""},
)

# options, the beginnings of what is reported
REFUSED: tuple[tuple[Json, list[str]], ...] = (
    ({**MANIFEST, "kubernetes_pod_network_manifest": ""}, ["kubernetes_pod_network_manifest must name the manifest"]),
    (
        {**MANIFEST, "kubernetes_kubeconfig_dest": ""},
        ["kubernetes_pod_network manifest needs kubernetes_kubeconfig_dest"],
    ),
    (
        REMOTE,
        [
            "kubernetes_pod_network_checksum must be sha256: and the digest of the manifest that you have looked at: "
            "`curl -fsSL https://example.org/calico.yml | sha256sum`"
        ],
    ),
    ({**REMOTE, "kubernetes_pod_network_checksum": DIGEST + "\n"}, ["kubernetes_pod_network_checksum must be sha256:"]),
    (PACKAGES, ["kubernetes_package_repository needs kubernetes_package_key"]),
    (
        {"kubernetes_registry_mirrors": {"a": ["https://x", "http://y", "HTTP://z"], "b": ["http://y"]}},
        [
            "kubernetes_registry_mirrors has http://y, HTTP://z for a: nodes",
            "kubernetes_registry_mirrors has http://y for b: nodes",
        ],
    ),
    (
        {"kubernetes_source": "archive"},
        [
            "kubernetes_checksums.kubelet must be sha256: and the digest of kubelet: `curl -fsSL https://dl.example.org/v1",
            "kubernetes_cni_plugins_checksum must be sha256: and the digest of cni.tgz: `curl -fsSL /srv/cni.tgz |",
        ],
    ),
)


@pytest.mark.parametrize("options", FINE)
def test_options_that_are_fine(options: Json) -> None:
    assert kubernetes_problems({**OPTIONS, **options}, SOURCES) == []


@pytest.mark.parametrize(("options", "beginnings"), REFUSED)
def test_options_that_are_refused(options: Json, beginnings: list[str]) -> None:
    problems = kubernetes_problems({**OPTIONS, **options}, SOURCES)
    assert [problem[: len(beginning)] for problem, beginning in zip(problems, beginnings, strict=True)] == beginnings


@pytest.mark.parametrize("options", [[], {}, {**OPTIONS, "kubernetes_registry_mirrors": []}])
def test_another_form_is_an_error(options: Json) -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not the options of the role"):
        kubernetes_problems(options, SOURCES)
