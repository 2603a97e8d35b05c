#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_plan
short_description: Decide what makes hosts nodes of one cluster by kubeadm
version_added: 0.1.0
description:
  - Makes of what M(rdmaops.gpu_fabric.kubernetes_node_info) saw on all hosts a plan that says which is to be the first control-plane node, which have to join,
    and which are nodes already.
  - It fails, and names everything that stands against the plan at once, before anything was changed - networks that overlap, versions that kubeadm does not
    allow together, swap, cgroup v1, ports in use, too little memory, two hosts of one name, hosts that belong to another cluster.
  - What a broken off C(kubeadm init) or C(kubeadm join) of this collection has left is distinguished from a node, and is cleaned up by the next try. What
    another tool or an administrator has left is not.
  - A host on which kubeadm is still at work is refused. A control plane is never cleaned up if its API server reports ready, or if etcd has data and the
    manifests are complete, even if its C(kubeadm init) did not come to its end - an administrator may have finished it. It is a node, and its mark, which is
    out of date, is to be removed (C(unmark)).
  - What kubeadm has written down in a cluster that is there (the ConfigMaps C(kubeadm-config) and C(kubelet-config)) is compared with what is wanted.
    Only fields that are wanted are looked at.
  - It runs on the controller, without a connection to a host, and changes nothing.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows how the configuration in the cluster differs from what is wanted. It is shown although nothing is changed.
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description:
      - The hosts by their names in the inventory, control-plane hosts in the order in which they are to be made.
      - C(name) is the node's name, C(address) its address in the cluster, C(control_plane) whether it is to be a control-plane node, C(info) what
        M(rdmaops.gpu_fabric.kubernetes_node_info) returned.
    type: dict
    required: true
  settings:
    description: The cluster's settings, as the filter P(rdmaops.gpu_fabric.kubeadm_config#filter) takes them.
    type: dict
    required: true
  control_plane:
    description:
      - All control-plane hosts of the inventory. No new cluster is begun as long as one of them could not be looked at, because it may have the cluster.
    type: list
    elements: str
    default: []
  source:
    description: Where programs come from. With V(local) they have to be there.
    type: str
    choices: [packages, archive, local]
    default: packages
  ignore_preflight_errors:
    description: Checks that are passed over, by kubeadm's names - V(NumCPU), V(Mem), V(Port-6443) and so on.
    type: list
    elements: str
    default: []
  avoid:
    description: Networks with which those of pods and services may not overlap.
    type: list
    elements: str
    default: []
  min_memory_mib:
    description: Memory in MiB that any node needs. A control-plane node needs 1700, as kubeadm has it.
    type: int
    default: 700
  on_difference:
    description: Whether a configuration in the cluster that differs is an error, or only reported, by a warning for each field.
    type: str
    choices: [fail, report]
    default: fail
  certificates_renew:
    description: Whether certificates that run out soon are to be renewed.
    type: str
    choices: [never, due]
    default: never
  certificates_renew_before:
    description: How many days before its end a certificate runs out soon.
    type: int
    default: 30
  reset_consent:
    description:
      - The cluster whose data of etcd may be removed where a C(kubeadm init) was broken off after etcd had got data, by its name or as C(HOST:PORT) of its API
        server. Without it such a host is refused.
    type: str
    default: ""
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_node_info
  - module: rdmaops.gpu_fabric.kubeadm
"""

EXAMPLES = r"""
---
- name: Decide
  rdmaops.gpu_fabric.kubernetes_plan:
    nodes:
      cp-1:
        name: cp-1
        address: 192.0.2.10
        control_plane: true
        info: "{{ hostvars['cp-1'].node }}"
      gpu-1:
        name: gpu-1
        address: 192.0.2.11
        control_plane: false
        info: "{{ hostvars['gpu-1'].node }}"
    settings: "{{ settings }}"
  run_once: true
  register: plan
"""

RETURN = r"""
plan:
  description:
    - The plan. C(leader) is the control-plane host by which the cluster is asked and by which others join.
    - C(hosts) has for each host the C(action) (V(init), V(join), V(start) for a kubelet that has not registered its node, V(none), V(refuse)), the C(reason),
      whether leftovers of a broken off try have to go before (C(clean)), data of etcd among them (C(discard_etcd)), whether certificates are to be renewed
      (C(renew)), whether static pods have to be brought back that a broken off renewal has taken down (C(unpark)), and whether the mark of an earlier try has
      to be removed because the host is a node all the same (C(unmark)).
  returned: always
  type: dict
  sample:
    leader: cp-1
    hosts:
      cp-1:
        action: none
        reason: it is a control-plane node
        clean: false
        discard_etcd: false
        renew: false
        unpark: false
        unmark: false
    joining: [gpu-1]
    joining_control_plane: []
problems:
  description: What stands against it.
  returned: always
  type: list
  elements: str
  sample: ["gpu-1: swap is on (/dev/sda2)"]
differences:
  description: Fields of kubeadm's configuration in the cluster that are not as they are wanted.
  returned: always
  type: list
  elements: dict
  sample: [{"object": "kubeadm-config", "path": "networking.podSubnet", "wanted": "10.244.0.0/16", "live": "10.32.0.0/12"}]
certificates:
  description: Certificates that run out soon, or cannot be read.
  returned: always
  type: list
  elements: dict
  sample: [{"host": "cp-1", "name": "apiserver", "path": "/etc/kubernetes/pki/apiserver.crt", "days": 12, "renewable": true}]
resources:
  description: State of each node, of each field that differs and of each certificate, as the drift report reads it.
  returned: always
  type: list
  elements: dict
  sample:
    - {"kind": "kubernetes_node", "name": "gpu-1", "status": "drift", "desired": "a node", "configured": null, "live": "it is no node yet", "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "nodes": {"type": "dict", "required": True},
    "settings": {"type": "dict", "required": True},
    "control_plane": {"type": "list", "elements": "str", "default": []},
    "source": {"type": "str", "choices": ["packages", "archive", "local"], "default": "packages"},
    "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
    "avoid": {"type": "list", "elements": "str", "default": []},
    "min_memory_mib": {"type": "int", "default": 700},
    "on_difference": {"type": "str", "choices": ["fail", "report"], "default": "fail"},
    "certificates_renew": {"type": "str", "choices": ["never", "due"], "default": "never"},
    "certificates_renew_before": {"type": "int", "default": 30},
    "reset_consent": {"type": "str", "default": ""},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="kubernetes_plan runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.kubernetes_plan, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
