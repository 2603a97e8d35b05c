#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_account_token
short_description: Request tokens of service accounts from the API server, each for one node
version_added: 0.1.0
description:
  - Requests short-lived tokens (TokenRequest), for kubeconfigs on hosts that cannot get one through a pod, and returns how to reach the API server.
  - Each token is bound to a Node object. It becomes invalid with that object, even if a new one gets the same name, and the API server knows for each request
    which node it comes from (C(authentication.kubernetes.io/node-name)). This requires Kubernetes 1.31 or newer.
  - The API server may shorten the requested lifetime (C(--service-account-max-token-expiration)). The token itself contains its expiry.
  - Nothing is stored in the cluster, so nothing is reported as changed. Set C(no_log) for the task, because its result contains the tokens.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - No token is requested, and RV(nodes) has none.
  diff_mode:
    support: N/A
    details:
      - Nothing is changed.
  idempotent:
    support: N/A
    details:
      - Each call returns new tokens, and changes nothing in the cluster.
  platform:
    support: full
    platforms: posix
options:
  names:
    description: Names of the service accounts.
    type: list
    elements: str
    required: true
  namespace:
    description: Their namespace.
    type: str
    default: rdmaops-network
  nodes:
    description: Names of the Node objects for which each service account gets a token. Nodes that do not exist are omitted from RV(nodes).
    type: list
    elements: str
    required: true
  lifetime:
    description: Requested lifetime of the tokens, in seconds. At least V(600), which is the API server's own minimum.
    type: int
    default: 7776000
"""

EXAMPLES = r"""
---
- name: Request tokens for Multus, one for each node
  rdmaops.gpu_fabric.service_account_token:
    names: [multus]
    nodes: [gpu-01, gpu-02]
  register: tokens
  no_log: true
"""

RETURN = r"""
nodes:
  description: For each node, by name, the C(uid) of its Node object, and C(tokens) by the name of the service account; none in check mode.
  returned: success
  type: dict
  sample: {"gpu-01": {"uid": "8a3c0f6e-2f4b-4c55-9d0a-5c2f7a1d9e42", "tokens": {"multus": "eyJhbGciOiJSUzI1NiIsImtpZCI6Ii4uLiJ9.e30.c2ln"}}}
server:
  description: URL of the API server used by this connection.
  returned: success
  type: str
  sample: https://192.0.2.10:6443
ca_data:
  description: CA certificates used to verify it, PEM in Base64. Null if it is not verified.
  returned: success
  type: str
  sample: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
"""

import base64
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client as kubernetes


def ask(params: t.Mapping[str, t.Any], check_mode: bool, client: kubernetes.Client) -> dict[str, t.Any]:
    """Return what the module returns."""
    namespace = params["namespace"]
    called = ", ".join("%s/%s" % (namespace, name) for name in params["names"])
    doing = "Requesting tokens of the service accounts %s" % called
    if params["lifetime"] < 600:
        raise kubernetes.ApiError("%s: lifetime is %d s; it must be at least 600" % (doing, params["lifetime"]))
    pem = certificates(client, namespace)
    nodes: dict[str, dict[str, t.Any]] = {
        node: {"uid": uid, "tokens": {}} for node, uid in node_uids(client, params["nodes"], doing).items()
    }
    for node, entry in nodes.items() if not check_mode else ():
        for name in params["names"]:
            request = "Requesting a token of the service account %s/%s, bound to node %s" % (namespace, name, node)
            entry["tokens"][name] = token(client, namespace, name, node, entry["uid"], params["lifetime"], request)
    return {
        "changed": False,
        "nodes": nodes,
        "server": client.host,
        "ca_data": base64.b64encode(pem.encode()).decode() if pem else None,
    }


def certificates(client: kubernetes.Client, namespace: str) -> str | None:
    """Return the CA certificates that the controller manager publishes in every namespace (rootcacertpublisher)."""
    # The namespace may not exist yet; default always does.
    for place in (namespace, "default"):
        at = kubernetes.path("v1", "configmaps", place, "kube-root-ca.crt")
        config_map = client.get(at, "Reading the cluster's CA certificates")
        if config_map:
            return t.cast("str | None", (config_map.get("data") or {}).get("ca.crt"))
    return None


def node_uids(client: kubernetes.Client, names: t.Sequence[str], doing: str) -> dict[str, str]:
    objects = client.items(kubernetes.path("v1", "nodes"), "%s: listing the nodes" % doing) or []
    uids = {str(item["metadata"]["name"]): str(item["metadata"]["uid"]) for item in objects}
    return {node: uids[node] for node in names if node in uids}


def token(client: kubernetes.Client, namespace: str, name: str, node: str, uid: str, lifetime: int, doing: str) -> str:
    bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime, "boundObjectRef": bound},
    }
    where = kubernetes.path("v1", "serviceaccounts", namespace, name, "token")
    return str(client.create(where, body, doing)["status"]["token"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kubernetes.CONNECTION,
            "names": {"type": "list", "elements": "str", "required": True},
            "namespace": {"type": "str", "default": "rdmaops-network"},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "lifetime": {"type": "int", "default": 7776000},
        },
        supports_check_mode=True,
    )
    kubernetes.run(module, ask)


if __name__ == "__main__":
    main()
