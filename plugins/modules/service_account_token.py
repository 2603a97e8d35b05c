#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_account_token
short_description: Ask the API server for a token of a service account
version_added: 0.1.0
description:
  - Asks for a token of limited life (TokenRequest), for a kubeconfig on hosts where no pod can be given one, and says how the API server is reached.
  - The API server may shorten the life that is asked for (C(--service-account-max-token-expiration)). RV(expires) is when the token really ends.
  - Nothing is stored in the cluster, and so nothing is reported as changed. Give the task C(no_log), as its result holds the token.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - No token is asked for, and RV(token) is null.
  diff_mode:
    support: N/A
    details:
      - Nothing is changed.
  idempotent:
    support: N/A
    details:
      - Each call makes another token, and changes nothing in the cluster.
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the service account.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    default: kube-system
  lifetime:
    description: How long the token should be valid, in seconds. At least V(600), which is the API server's own limit.
    type: int
    default: 31536000
"""

EXAMPLES = r"""
---
- name: Have a token for Multus
  rdmaops.gpu_fabric.service_account_token:
    name: multus
  register: token
  no_log: true
"""

RETURN = r"""
token:
  description: The token. Null in check mode.
  returned: success
  type: str
  sample: eyJhbGciOiJSUzI1NiIsImtpZCI6Ii4uLiJ9.e30.c2ln
expires:
  description: When it ends. Null in check mode.
  returned: success
  type: str
  sample: "2027-11-21T03:00:00Z"
server:
  description: URL of the API server as this connection has it.
  returned: success
  type: str
  sample: https://192.0.2.10:6443
ca_data:
  description: CA certificates by which this connection checks it, PEM in Base64. Null where it does not.
  returned: success
  type: str
  sample: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
"""

import base64
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _kubernetes


def ask(params: t.Mapping[str, t.Any], check_mode: bool, client: _kubernetes.Client) -> dict[str, t.Any]:
    """Return what the module returns."""
    name, namespace = params["name"], params["namespace"]
    doing = "Asking for a token of the service account %s/%s" % (namespace, name)
    if params["lifetime"] < 600:
        raise _kubernetes.ApiError("%s: lifetime is %d s; it has to be at least 600" % (doing, params["lifetime"]))
    # Published in every namespace for its pods, by the controller manager (rootcacertpublisher).
    bundle = client.get(
        _kubernetes.path("v1", "configmaps", namespace, "kube-root-ca.crt"), "Reading the cluster's CA certificates"
    )
    pem = ((bundle or {}).get("data") or {}).get("ca.crt")
    result: dict[str, t.Any] = {
        "changed": False,
        "token": None,
        "expires": None,
        "server": client.host,
        "ca_data": base64.b64encode(pem.encode()).decode() if pem else None,
    }
    if check_mode:
        return result
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": params["lifetime"]},
    }
    where = _kubernetes.path("v1", "serviceaccounts", namespace, name, "token")
    status = client.create(where, body, doing)["status"]
    return {**result, "token": status["token"], "expires": status["expirationTimestamp"]}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_kubernetes.CONNECTION,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "kube-system"},
            "lifetime": {"type": "int", "default": 31536000},
        },
        supports_check_mode=True,
    )
    _kubernetes.run(module, ask)


if __name__ == "__main__":
    main()
