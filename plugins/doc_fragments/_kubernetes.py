# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig, several paths separated by V(:), or its content as a dictionary.
      - If neither this option, nor O(host) with credentials, nor O(context) is set, the service account of the pod is used, else the environment variable
        E(KUBECONFIG), else V(~/.kube/config). Credential plugins (C(exec)) run as in C(kubectl).
      - If the option is not set, E(K8S_AUTH_KUBECONFIG) is used. The same applies to E(K8S_AUTH_CONTEXT), E(K8S_AUTH_HOST), E(K8S_AUTH_API_KEY) and so on for
        all options except O(timeout).
    type: raw
  context:
    description: Context of the kubeconfig.
    type: str
  host:
    description: URL of the API server.
    type: str
  api_key:
    description: Bearer token.
    type: str
  username:
    description: User for HTTP basic authentication, which only a proxy in front of the API server accepts.
    type: str
  password:
    description: Password for HTTP basic authentication.
    type: str
  ca_cert:
    description: Path of the CA certificates used to verify the API server's certificate.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: Path of a client certificate.
    type: path
    aliases: [cert_file]
  client_key:
    description: Path of the key of the client certificate.
    type: path
    aliases: [key_file]
  validate_certs:
    description: Whether to verify the API server's certificate. It is verified unless the kubeconfig disables that.
    type: bool
    aliases: [verify_ssl]
  proxy:
    description: URL of an HTTP proxy.
    type: str
  no_proxy:
    description: Hosts, domains and networks that are reached without the proxy, separated by commas.
    type: str
  impersonate_user:
    description: User to act as.
    type: str
  impersonate_groups:
    description: Groups to act as.
    type: list
    elements: str
  timeout:
    description:
      - How long to wait for one response of the API server, in seconds.
      - Requests are also retried for this long while the API server reports that it is overloaded (429, or 503 with C(Retry-After)).
    type: int
    default: 30
attributes:
  action_group:
    description: The keyword C(module_defaults) sets options of all modules of C(group/rdmaops.gpu_fabric.kubernetes).
    support: full
    membership:
      - rdmaops.gpu_fabric.kubernetes
requirements:
  - The Python library C(kubernetes), 24.2.0 or newer, on the host that runs the task.
"""
