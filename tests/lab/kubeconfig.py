# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeconfig files, as JSON: every reader of one takes YAML, of which JSON is a part."""

from __future__ import annotations

import base64
import json
import typing as t

NAME = "rdmaops-lab"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def certificate_user(key: bytes, certificate: bytes) -> dict[str, str]:
    return {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}


def token_user(token: str) -> dict[str, str]:
    return {"token": token}


def render(server: str, authority: bytes, name: str, user: t.Mapping[str, str]) -> bytes:
    """A kubeconfig of one user of one cluster."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": encoded(authority)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": f"{name}@{NAME}", "context": {"cluster": NAME, "user": name}}],
        "current-context": f"{name}@{NAME}",
    }
    return json.dumps(config, indent=2).encode() + b"\n"
