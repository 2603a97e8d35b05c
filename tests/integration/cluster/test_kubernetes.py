# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection, against a real API server: who one is, what one may do, and what it answers otherwise."""

from __future__ import annotations

import base64
import datetime
import json
import time
import typing as t
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client
from ansible_collections.rdmaops.gpu_fabric.tests.lab import certificates, kubeconfig
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def who(result: Client) -> tuple[str, list[str]]:
    """Return whom the API server takes one for."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    info = result.create(WHO, body, "Asking who this is")["status"]["userInfo"]
    return info["username"], info.get("groups", [])


def parts(plane: Cluster) -> tuple[str, Path]:
    return plane.plane.server, plane.plane.authority.file


def test_certificate_token_and_options(own_cluster: Cluster, tmp_path: Path) -> None:
    server, authority = parts(own_cluster)
    by_certificate = client(own_cluster.user("joe", ["one", "two"]))
    assert who(by_certificate) == ("joe", ["one", "two", "system:authenticated"])
    admin = who(client(own_cluster.token_kubeconfig()))
    assert who(client(host=server, api_key=own_cluster.plane.token(), ca_cert=str(authority))) == admin
    key, certificate = own_cluster.plane.authority.client("jane")
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "crt").write_bytes(certificate)
    files = {"client_key": str(tmp_path / "key"), "client_cert": str(tmp_path / "crt"), "ca_cert": str(authority)}
    assert who(client(host=server, **files))[0] == "jane"
    assert who(client(json.loads(own_cluster.token_kubeconfig().read_text()))) == admin


def test_impersonation_with_two_groups(own_cluster: Cluster) -> None:
    result = client(own_cluster.kubeconfig, impersonate_user="joe", impersonate_groups=["rail-admins", "night"])
    assert who(result) == ("joe", ["rail-admins", "night", "system:authenticated"])
    stranger = client(own_cluster.user("stranger"), impersonate_user="joe")
    with pytest.raises(ApiError, match='User "stranger" cannot impersonate') as caught:
        who(stranger)
    assert caught.value.status == 403


def test_no_right(own_cluster: Cluster) -> None:
    nobody = client(own_cluster.user("nobody"))
    assert message_of(ApiError, nobody.items, "/api/v1/nodes", "Listing the nodes") == (
        f'Listing the nodes: {own_cluster.plane.server} answered 403 (Forbidden): nodes is forbidden: User "nobody" cannot list resource "nodes" '
        'in API group "" at the cluster scope. Give this user that right by a Role or a ClusterRole'
    )


def test_a_token_that_is_not_known(own_cluster: Cluster) -> None:
    server, authority = parts(own_cluster)
    with pytest.raises(ApiError, match=r"answered 401 \(Unauthorized\): .*log in again, or give others") as caught:
        client(host=server, api_key="not-known-there", ca_cert=str(authority)).items("/api/v1/nodes", "Listing")
    assert "not-known-there" not in str(caught.value)


def test_nobody(own_cluster: Cluster) -> None:
    server, authority = parts(own_cluster)
    config = json.loads(kubeconfig.render(server, authority.read_bytes(), "x", {}))
    message = message_of(ApiError, client(config).items, "/api/v1/nodes", "Listing")
    advice = "No credentials were sent: look at the user of the kubeconfig's context"
    assert advice in message or "answered 401" in message


def test_a_certificate_that_has_expired(own_cluster: Cluster) -> None:
    server, authority = parts(own_cluster)
    ours = own_cluster.plane.authority
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "joe")])
    certificate = (
        x509.CertificateBuilder(ours.certificate.subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now - datetime.timedelta(days=1))
        .sign(ours.key, hashes.SHA256())
    )
    data = kubeconfig.certificate_user(
        certificates.pem(key), certificate.public_bytes(certificates.serialization.Encoding.PEM)
    )
    config = json.loads(kubeconfig.render(server, authority.read_bytes(), "joe", data))
    with pytest.raises(ApiError, match=r"answered 401 .*have expired: log in again"):
        client(config).items("/api/v1/nodes", "Listing")


def test_another_ca(own_cluster: Cluster, tmp_path: Path) -> None:
    other = certificates.Authority(tmp_path, "other")
    server, _authority = parts(own_cluster)
    with pytest.raises(ApiError, match="could not be reached: .*certificate verify failed.*Give the cluster's CA by"):
        client(host=server, api_key=own_cluster.plane.token(), ca_cert=str(other.file)).items("/api/v1/nodes", "")
    config = json.loads(own_cluster.token_kubeconfig().read_text())
    config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(other.file.read_bytes()).decode()
    with pytest.raises(ApiError, match="certificate verify failed"):
        client(config).items("/api/v1/nodes", "")
    assert client(config, validate_certs=False).items("/api/v1/nodes", "") == []


def test_a_credential_plugin(own_cluster: Cluster, tmp_path: Path) -> None:
    server, authority = parts(own_cluster)
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": own_cluster.plane.token()}}
    (tmp_path / "credential").write_text(json.dumps(credential))
    program = {"command": "cat", "args": [str(tmp_path / "credential")], "interactiveMode": "Never"}
    user: t.Any = {"exec": {"apiVersion": version, **program}}
    config = json.loads(kubeconfig.render(server, authority.read_bytes(), "x", user))
    assert who(client(config)) == who(client(own_cluster.token_kubeconfig()))


def test_pages_of_a_real_list(own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_cluster.namespace() as namespace:
        labelled = {"metadata": {"labels": {"x": "y"}}}
        own_cluster.apply(*(manifest("v1", "ConfigMap", f"c{n}", namespace, **labelled) for n in range(7)))
        monkeypatch.setattr(kubernetes, "_PAGE", 3)
        at = kubernetes.path("v1", "configmaps", namespace)
        result = client(own_cluster.kubeconfig).items(at, "Listing", {"labelSelector": "x=y"})
        assert [row["metadata"]["name"] for row in result or []] == [f"c{n}" for n in range(7)]


@pytest.mark.fault("API server")
def test_frozen_and_stopped(own_cluster: Cluster) -> None:
    result = client(own_cluster.kubeconfig, timeout=2)
    assert result.items("/api/v1/nodes", "Listing") == []
    own_cluster.freeze()
    try:
        # On the connection that is there, and on a new one.
        for connection in (result, client(own_cluster.kubeconfig, timeout=2)):
            before = time.monotonic()
            with pytest.raises(ApiError, match=r"It did not answer in time \(2 s\)"):
                connection.items("/api/v1/nodes", "Listing")
            assert time.monotonic() - before < 10
    finally:
        own_cluster.thaw()
    own_cluster.stop()
    try:
        with pytest.raises(ApiError, match="could not be reached: .*Is it running, and is this its address"):
            result.items("/api/v1/nodes", "Listing")
    finally:
        own_cluster.start()
    assert result.items("/api/v1/nodes", "Listing") == []
