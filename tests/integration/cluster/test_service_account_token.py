# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of service accounts, from a real API server."""

from __future__ import annotations

import base64
import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni_install import expiry, kubeconfig
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.modules.service_account_token import ask
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster

Json = t.Any


def client(file: Path) -> _kubernetes.Client:
    return _kubernetes.Client({**dict.fromkeys(_kubernetes.CONNECTION), "kubeconfig": str(file), "timeout": 30})


@pytest.fixture
def plane() -> Cluster:
    return cluster()


def wanted(namespace: str, **more: Json) -> Json:
    return {"name": "default", "namespace": namespace, "lifetime": 3600, **more}


def test_a_token_with_which_a_host_gets_in(plane: Cluster, tmp_path: Path) -> None:
    """The kubeconfig is made as cni_install makes it, of nothing but what the module returns."""
    with plane.namespace() as namespace:
        plane.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", namespace, "--timeout=30s")
        admin = client(plane.kubeconfig)
        checked = ask(wanted(namespace), True, admin)
        assert (checked["token"], checked["expires"], checked["changed"]) == (None, None, False)
        given = ask(wanted(namespace), False, admin)
        assert {key: given[key] for key in ("changed", "server", "ca_data")} == {
            "changed": False,
            "server": plane.plane.server,
            "ca_data": checked["ca_data"],
        }
        assert base64.b64decode(given["ca_data"]) == plane.plane.authority.file.read_bytes()
        ends = datetime.datetime.fromisoformat(given["expires"])
        assert expiry(given["token"]) == ends.timestamp()
        left = ends - datetime.datetime.now(datetime.UTC)
        assert datetime.timedelta(minutes=55) < left <= datetime.timedelta(hours=1)
        file = tmp_path / "kubeconfig"
        made = {"server": given["server"], "ca_data": given["ca_data"], "namespace": namespace, "user": "default"}
        file.write_text(kubeconfig(made, given["token"]))
        told = json.loads(plane.kubectl("auth", "whoami", "-o", "json", kubeconfig=file))
        assert told["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_what_stands_in_the_way_is_said(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        admin, joe = client(plane.kubeconfig), client(plane.user("joe"))
        for check in (True, False):
            with pytest.raises(ApiError, match=f"{namespace}/default: lifetime is 599 s; it has to be at least 600"):
                ask(wanted(namespace, lifetime=599), check, admin)
        with pytest.raises(ApiError) as caught:
            ask(wanted(namespace, name="nobody"), False, admin)
        assert str(caught.value).startswith(f"Asking for a token of the service account {namespace}/nobody: ")
        assert 'serviceaccounts "nobody" not found' in str(caught.value)
        # Whoever may not read the certificates may not have a token either, and check mode says so.
        with pytest.raises(ApiError) as caught:
            ask(wanted(namespace), True, joe)
        assert str(caught.value).startswith("Reading the cluster's CA certificates: ")
        assert 'User "joe" cannot get resource "configmaps"' in str(caught.value)
        plane.kubectl("create", "role", "reader", "--verb=get", "--resource=configmaps", "-n", namespace)
        plane.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=joe", "-n", namespace)
        with pytest.raises(ApiError) as caught:
            ask(wanted(namespace), False, joe)
        assert 'User "joe" cannot create resource "serviceaccounts/token"' in str(caught.value)
