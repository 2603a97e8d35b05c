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
      - Path of a kubeconfig, or several with V(:) between them, or its content as a dictionary.
      - Without it, and without O(host) and credentials or O(context), a pod's own account is used, else the environment variable E(KUBECONFIG),
        else V(~/.kube/config). Credential plugins (C(exec)) run as in C(kubectl).
      - Without the option, E(K8S_AUTH_KUBECONFIG) is used, and likewise E(K8S_AUTH_CONTEXT), E(K8S_AUTH_HOST), E(K8S_AUTH_API_KEY) and so on for all options
        but O(timeout).
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
    description: User for HTTP basic authentication, which only a proxy before the API server takes.
    type: str
  password:
    description: Password for HTTP basic authentication.
    type: str
  ca_cert:
    description: Path of the CA certificates that the API server's certificate is checked by.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: Path of a client certificate.
    type: path
    aliases: [cert_file]
  client_key:
    description: Path of the client certificate's key.
    type: path
    aliases: [key_file]
  validate_certs:
    description: Whether the API server's certificate is checked. It is, unless the kubeconfig says otherwise.
    type: bool
    aliases: [verify_ssl]
  proxy:
    description: URL of an HTTP proxy.
    type: str
  no_proxy:
    description: Hosts, domains and networks that are reached without the proxy, with commas between them.
    type: str
  impersonate_user:
    description: User to act as.
    type: str
  impersonate_groups:
    description: Groups to act as a member of.
    type: list
    elements: str
  timeout:
    description:
      - How long to wait for one answer of the API server, in seconds.
      - So long it is also asked again while it answers that it has too much to do (429, or 503 with C(Retry-After)).
    type: int
    default: 30
requirements:
  - The Python library C(kubernetes), 24.2.0 or newer, where the task runs.
"""
