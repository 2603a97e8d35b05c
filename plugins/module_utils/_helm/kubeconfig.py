# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The kubeconfig that helm gets: the connection of a client, and its secrets."""

from __future__ import annotations

import os
import typing as t
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed lacks it

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client


def kubeconfig(client: Client) -> tuple[dict[str, t.Any], set[str]]:
    """Return a kubeconfig with a client's connection, and the secrets in it."""
    user = _user(client)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "this", "cluster": _cluster(client)}],
        "users": [{"name": "this", "user": user}],
        "contexts": [{"name": "this", "context": {"cluster": "this", "user": "this"}}],
        "current-context": "this",
    }, {user[key] for key in ("token", "password") if user.get(key)}


def _cluster(client: Client) -> dict[str, t.Any]:
    configuration = client.configuration
    cluster: dict[str, t.Any] = {"server": client.host}
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    elif configuration.ssl_ca_cert:
        cluster["certificate-authority"] = os.path.abspath(configuration.ssl_ca_cert)
    if getattr(configuration, "tls_server_name", None):
        cluster["tls-server-name"] = configuration.tls_server_name
    if configuration.proxy and not _bypassed(client.host, configuration.no_proxy):
        cluster["proxy-url"] = configuration.proxy
    return cluster


def _user(client: Client) -> dict[str, t.Any]:
    configuration = client.configuration
    user: dict[str, t.Any] = {}
    for setting in configuration.auth_settings().values():
        value = setting["value"] or ""
        if value.startswith("Bearer "):
            user["token"] = value[len("Bearer ") :]
    if client._basic:
        user["username"], _colon, user["password"] = client._basic.partition(":")
    if configuration.cert_file and configuration.key_file:
        user["client-certificate"] = os.path.abspath(configuration.cert_file)
        user["client-key"] = os.path.abspath(configuration.key_file)
    name, groups = client._impersonate
    if name:
        user["as"] = name
    if groups:
        user["as-groups"] = list(groups)
    return user


def _bypassed(host: str, no_proxy: str | None) -> bool:
    if not no_proxy:
        return False
    return bool(proxy_bypass_environment(urlsplit(host).netloc, {"no": no_proxy}))


__all__ = ("kubeconfig",)
