# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of service accounts, each for one node, from a real API server; and what Multus' policy makes of them."""

from __future__ import annotations

import base64
import json
import time
import typing as t
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.install import expiry, kubeconfig, node_of
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.modules.service_account_token import ask
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = t.Any


@pytest.fixture
def node(plane: Cluster) -> Iterator[str]:
    name = f"node-{uuid.uuid4().hex[:8]}.example.org"
    plane.apply(manifest("v1", "Node", name))
    yield name
    plane.kubectl("delete", "node", name, "--ignore-not-found")


def desired(namespace: str, *nodes: str, **more: Json) -> Json:
    return {"names": ["default"], "namespace": namespace, "nodes": list(nodes), "lifetime": 3600, **more}


def test_a_token_with_which_a_host_gets_in_as_long_as_its_node_is_there(
    plane: Cluster, node: str, tmp_path: Path
) -> None:
    """The kubeconfig is made as cni_install makes it, of nothing but what the module returns."""
    with plane.namespace() as namespace:
        plane.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", namespace, "--timeout=30s")
        admin = client(plane.kubeconfig)
        checked = ask(desired(namespace, node), True, admin)
        uid = plane.json("get", "node", node)["metadata"]["uid"]
        assert (checked["nodes"], checked["changed"]) == ({node: {"uid": uid, "tokens": {}}}, False)
        issued = ask(desired(namespace, node), False, admin)
        assert {key: issued[key] for key in ("changed", "server", "ca_data")} == {
            "changed": False,
            "server": plane.plane.server,
            "ca_data": checked["ca_data"],
        }
        assert base64.b64decode(issued["ca_data"]) == plane.plane.authority.file.read_bytes()
        token = issued["nodes"][node]["tokens"]["default"]
        assert node_of(token) == uid
        assert 55 * 60 < (expiry(token) or 0) - time.time() <= 3600
        file = tmp_path / "kubeconfig"
        data = {"server": issued["server"], "ca_data": issued["ca_data"], "namespace": namespace, "user": "default"}
        file.write_text(kubeconfig(data, token))
        message = json.loads(plane.kubectl("auth", "whoami", "-o", "json", kubeconfig=file))["status"]["userInfo"]
        assert message["username"] == f"system:serviceaccount:{namespace}:default"
        assert message["extra"]["authentication.kubernetes.io/node-name"] == [node]
        # The API server remembers for 10 s that a token was good (tokencache in pkg/kubeapiserver/authenticator).
        plane.kubectl("delete", "node", node)
        wait_for(lambda: plane.kubectl("auth", "whoami", kubeconfig=file, check=False) == "")
        # A new Node of that name is another node.
        plane.apply(manifest("v1", "Node", node))
        assert plane.kubectl("auth", "whoami", kubeconfig=file, check=False) == ""


def test_without_its_namespace_the_certificates_are_those_of_another(plane: Cluster, node: str) -> None:
    result = ask(desired("is-to-be-made", node), True, client(plane.kubeconfig))
    assert base64.b64decode(result["ca_data"]) == plane.plane.authority.file.read_bytes()


def test_what_stands_in_the_way_is_said(plane: Cluster, node: str) -> None:
    with plane.namespace() as namespace:
        admin, joe = client(plane.kubeconfig), client(plane.user("joe"))
        for check in (True, False):
            with pytest.raises(ApiError, match=f"{namespace}/default: lifetime is 599 s; it must be at least 600"):
                ask(desired(namespace, node, lifetime=599), check, admin)
            assert list(ask(desired(namespace, node, "elsewhere"), check, admin)["nodes"]) == [node]
        message = message_of(ApiError, ask, desired(namespace, node, names=["missing"]), False, admin)
        begin = f"Requesting a token of the service account {namespace}/missing, bound to node {node}: "
        assert message.startswith(begin)
        assert 'serviceaccounts "missing" not found' in message
        # Whoever may not read the certificates may not have a token either, and check mode says so.
        message = message_of(ApiError, ask, desired(namespace, node), True, joe)
        assert message.startswith("Reading the cluster's CA certificates: ")
        assert 'User "joe" cannot get resource "configmaps"' in message
        plane.kubectl("create", "role", "reader", "--verb=get", "--resource=configmaps", "-n", namespace)
        plane.bind("rolebinding", "joe", "get", "configmaps", "--role=reader", "-n", namespace)
        message = message_of(ApiError, ask, desired(namespace), False, joe)
        assert 'User "joe" cannot list resource "nodes"' in message
