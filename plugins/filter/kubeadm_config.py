# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubeadm_config
short_description: Create kubeadm's configuration for one node
version_added: 0.1.0
description:
  - Creates the documents that C(kubeadm init) or C(kubeadm join) reads, in version C(kubeadm.k8s.io/v1beta4), which is
    available since Kubernetes 1.31.
  - They contain no secrets. M(rdmaops.gpu_fabric.kubeadm) adds the token of a run.
author:
  - rdmaops contributors (@rdmaops)
positional: kind, node
options:
  _input:
    description:
      - The cluster's settings, all of them required - C(version), C(cluster_name), C(endpoint) (V(HOST:PORT)),
        C(bind_port), C(pod_network), C(service_network), C(dns_domain), C(certificate_names), C(image_repository),
        C(etcd_image_tag), C(dns_image_tag), C(proxy_mode), C(skip_phases), C(control_plane_taint), C(cri_socket),
        C(kubelet) (fields of KubeletConfiguration), C(cluster_configuration) (additional fields of
        ClusterConfiguration), C(timeouts) and C(patches_directory) (both of InitConfiguration and JoinConfiguration),
        C(audit_policy) and C(encryption) (paths of files for the API server, each in a directory of its own).
      - If images, C(proxy_mode), C(patches_directory), C(audit_policy) or C(encryption) are empty, kubeadm's defaults
        apply.
    type: dict
    required: true
  kind:
    description: The command to configure.
    type: str
    choices: [init, join]
    required: true
  node:
    description: The node, with C(name), C(address) and C(control_plane).
    type: dict
    required: true
  pin:
    description: Hash of the certificate authority that a joining node must find, V(sha256:) and 64 digits.
    type: str
    default: ""
seealso:
  - module: rdmaops.gpu_fabric.kubeadm
"""

EXAMPLES = r"""
- name: Create the first control-plane node
  rdmaops.gpu_fabric.kubeadm:
    action: init
    documents: "{{ settings | rdmaops.gpu_fabric.kubeadm_config('init', node) }}"
  vars:
    node: {name: cp-1, address: 192.0.2.10, control_plane: true}
"""

RETURN = r"""
_value:
  description: The documents.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..plugin_utils._filter import AnsibleTypeError, ansible_errors
from ..plugin_utils._kubernetes import kubeadm_config as kubernetes_kubeadm_config


@ansible_errors
def kubeadm_config(settings: t.Any, kind: t.Any, node: t.Any, pin: str = "") -> list[dict[str, t.Any]]:
    """Return kubeadm's configuration for one node."""
    if not isinstance(settings, t.Mapping) or not isinstance(node, t.Mapping):
        raise AnsibleTypeError(
            "kubeadm_config needs dictionaries, not %s and %s" % (type(settings).__name__, type(node).__name__)
        )
    missing = sorted({"name", "address", "control_plane"} - set(node))
    if missing:
        raise AnsibleFilterError("kubeadm_config: the node has no %s" % ", ".join(missing))
    return kubernetes_kubeadm_config.documents(settings, node, kind, pin)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"kubeadm_config": kubeadm_config}
