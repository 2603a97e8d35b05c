# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm.kubeconfig import kubeconfig


def configuration(**more: t.Any) -> t.Any:
    values = {
        "verify_ssl": True,
        "ssl_ca_cert": "/ca",
        "cert_file": None,
        "key_file": None,
        "proxy": None,
        "no_proxy": None,
        **more,
    }
    token = {"value": "Bearer the-token"}
    return types.SimpleNamespace(auth_settings=lambda: {"BearerToken": token}, **values)


def client(**more: t.Any) -> t.Any:
    values = {"host": "https://k:6443", "_basic": None, "_impersonate": (None, []), "configuration": configuration()}
    return types.SimpleNamespace(**{**values, **more})


def test_kubeconfig() -> None:
    config, secrets = kubeconfig(client(_impersonate=("joe", ["g"]), _basic="u:p:w"))
    assert secrets == {"the-token", "p:w"}
    assert config["clusters"][0]["cluster"] == {"server": "https://k:6443", "certificate-authority": "/ca"}
    user = {"token": "the-token", "username": "u", "password": "p:w", "as": "joe", "as-groups": ["g"]}
    assert config["users"][0]["user"] == user


# options of the client's configuration, the cluster's entry
CLUSTERS = [
    ({"verify_ssl": False}, {"insecure-skip-tls-verify": True}),
    ({"proxy": "http://p:1"}, {"certificate-authority": "/ca", "proxy-url": "http://p:1"}),
    ({"proxy": "http://p:1", "no_proxy": "k"}, {"certificate-authority": "/ca"}),
    ({"tls_server_name": "api"}, {"certificate-authority": "/ca", "tls-server-name": "api"}),
]


@pytest.mark.parametrize(("options", "entry"), CLUSTERS, ids=["insecure", "proxy", "no proxy", "server name"])
def test_kubeconfig_of_the_connection(options: dict[str, t.Any], entry: dict[str, t.Any]) -> None:
    config, _secrets = kubeconfig(client(configuration=configuration(**options)))
    assert config["clusters"][0]["cluster"] == {"server": "https://k:6443", **entry}
