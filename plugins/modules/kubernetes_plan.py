#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_plan
short_description: Plan which hosts kubeadm must turn into nodes of one cluster
version_added: 0.1.0
description:
  - Turns what M(rdmaops.gpu_fabric.kubernetes_node_info) returned for all hosts into a plan that shows which host becomes the first control-plane node, which
    hosts must join, and which are already nodes.
  - It lists everything that prevents the plan at once, before anything is changed, on the terminal and in RV(problems) - networks that overlap, versions that
    kubeadm does not allow together, swap, cgroup v1, ports in use, too little memory, two hosts with the same name, hosts that belong to another cluster.
  - It does not fail if something prevents the plan, because Ansible prints everything that a failed task returns. A second task must do so, with RV(msg).
  - The leftovers of an interrupted C(kubeadm init) or C(kubeadm join) of this collection are distinguished from a node, and are cleaned up by the next attempt.
    Leftovers of another tool or an administrator are not.
  - A host on which kubeadm is still running is refused. A control plane is never cleaned up if its API server reports ready, or if etcd has data and the
    manifests are complete, even if its C(kubeadm init) was not finished - an administrator may have finished it. It is a node, and its mark, which is out of
    date, must be removed (C(unmark)).
  - The configuration that kubeadm has stored in an existing cluster (the ConfigMaps C(kubeadm-config) and C(kubelet-config)) is compared with the desired one.
    Only desired fields are compared.
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
      - Shows how the configuration in the cluster differs from the desired one. It is shown although nothing is changed.
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description:
      - The hosts by inventory name, control-plane hosts in the order in which they should be created.
      - C(name) is the node's name, C(address) its address in the cluster, C(control_plane) whether it should be a control-plane node, C(info) what
        M(rdmaops.gpu_fabric.kubernetes_node_info) returned.
    type: dict
    required: true
  settings:
    description: The cluster's settings, in the format of the filter P(rdmaops.gpu_fabric.kubeadm_config#filter).
    type: dict
    required: true
  control_plane:
    description:
      - All control-plane hosts of the inventory. No new cluster is created while one of them could not be checked, because it may already have the cluster.
    type: list
    elements: str
    default: []
  source:
    description: Where programs come from. With V(local), they must already be installed.
    type: str
    choices: [packages, archive, local]
    default: packages
  ignore_preflight_errors:
    description:
      - Checks to ignore, by kubeadm's names - V(NumCPU), V(Mem), V(Port-6443) and so on.
      - With V(ContainerRuntimeVersion), a kubelet of Kubernetes 1.38 or newer is not refused on a host with containerd 1.x, on which it does not start.
    type: list
    elements: str
    default: []
  avoid:
    description: Networks that must not overlap with those of pods and services.
    type: list
    elements: str
    default: []
  min_memory_mib:
    description: Memory in MiB that any node needs. A control-plane node needs 1700, as in kubeadm.
    type: int
    default: 700
  on_difference:
    description: Whether a different configuration in the cluster is an error, or is only reported, with a warning for each field.
    type: str
    choices: [fail, report]
    default: fail
  certificates_renew:
    description: Whether to renew certificates that expire soon.
    type: str
    choices: [never, due]
    default: never
  certificates_renew_before:
    description: How many days before its expiry a certificate counts as expiring soon.
    type: int
    default: 30
  reset_consent:
    description:
      - The cluster whose etcd data may be removed if a C(kubeadm init) was interrupted after etcd had received data, by its name or as C(HOST:PORT) of its API
        server. Without it, such a host is refused.
    type: str
    default: ""
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_node_info
  - module: rdmaops.gpu_fabric.kubeadm
"""

EXAMPLES = r"""
---
- name: Create the plan
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

- name: Stop if something prevents it
  ansible.builtin.fail:
    msg: "{{ plan.msg }}"
  when: plan.problems | length > 0
  run_once: true
"""

RETURN = r"""
plan:
  description:
    - The plan. C(leader) is the control-plane host used to query the cluster and to join other hosts.
    - C(hosts) has for each host the C(action) (V(init), V(join), V(start) for a kubelet that has not registered its node, V(none), V(refuse)), the C(reason),
      whether leftovers of an interrupted attempt must be removed first (C(clean)), including etcd data (C(discard_etcd)), whether certificates must be renewed
      (C(renew)), whether static pods that an interrupted renewal has stopped must be restored (C(unpark)), and whether the mark of an earlier attempt must be
      removed because the host is nevertheless a node (C(unmark)).
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
msg:
  description: What prevents the plan, as one message. If that is long, the number of problems and the first one.
  returned: if RV(problems) is not empty
  type: str
  sample: "Creating a cluster of these hosts: nothing was changed. gpu-1: swap is on (/dev/sda2)"
problems:
  description: What prevents the plan.
  returned: always
  type: list
  elements: str
  sample: ["gpu-1: swap is on (/dev/sda2)"]
differences:
  description: Fields of kubeadm's configuration in the cluster that differ from the desired ones.
  returned: always
  type: list
  elements: dict
  sample: [{"object": "kubeadm-config", "path": "networking.podSubnet", "wanted": "10.244.0.0/16", "live": "10.32.0.0/12"}]
certificates:
  description: Certificates that expire soon, or cannot be read.
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
    - kind: kubernetes_node
      name: gpu-1
      status: drift
      desired: a node
      configured:
      live: it is not a node yet
      next_boot:
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
