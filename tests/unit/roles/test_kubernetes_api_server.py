# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that role kubernetes gives the API server: the policy of its audit log, and the keys of what etcd keeps."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

ROLE = COLLECTION / "roles/kubernetes"
POLICY = {"rules": [{"level": "Metadata"}]}
KEYS = {"resources": [{"resources": ["secrets"], "providers": [{"identity": {}}]}]}


def value(name: str, **site: t.Any) -> t.Any:
    return values(ROLE).value(name, inventory_hostname="cp-1", **site)


def test_another_policy_is_another_file() -> None:
    """So the difference shows in kubeadm's configuration, as an API server that runs does not read it again."""
    paths = [value("__kubernetes_audit_path", kubernetes_audit_policy=policy) for policy in (POLICY, {"rules": []})]
    assert len(set(paths)) == 2
    assert all(re.fullmatch(r"/etc/kubernetes/audit/policy-[0-9a-f]{16}\.yaml", path) for path in paths)
    assert value("__kubernetes_audit_path") == ""


def test_what_is_written() -> None:
    policy = json.loads(value("__kubernetes_audit_text", kubernetes_audit_policy=POLICY))
    assert policy == {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **POLICY}
    keys = json.loads(value("__kubernetes_encryption_text", kubernetes_encryption_configuration=KEYS))
    assert keys == {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", **KEYS}
    assert value("__kubernetes_encryption_path") == ""


def test_a_worker_has_no_policy() -> None:
    for groups, expected in (({"kubernetes_control_plane": ["cp-1"]}, 1), ({"kubernetes_control_plane": ["cp-2"]}, 0)):
        site = {"groups": groups, "kubernetes_audit_policy": POLICY}
        paths = [file["path"] for file in value("__kubernetes_files", **site)]
        assert sum(path.startswith("/etc/kubernetes/audit/") for path in paths) == expected
