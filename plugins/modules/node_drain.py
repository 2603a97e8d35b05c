#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_drain
short_description: Drain a Kubernetes node for maintenance, and uncordon it once it is as before
version_added: 0.1.0
description:
  - With O(state=drained), it proves that the Node is the host, cordons it, and evicts its pods within their PodDisruptionBudgets. The annotation
    C(rdmaops.gpu-fabric/maintenance) of the Node records the reason, the start time, the run, and what the Node offered before.
  - The pods are listed first, in check mode too. A pod that holds a GPU or an RDMA device, has no controller, or has data in an emptyDir requires consent. Pods
    without consent are all listed, with the reason, before anything is changed. Evictions are tested in a dry run, so that a missing right is found before the
    cordon.
  - Mirror pods, pods of DaemonSets and pods that have ended are left alone.
  - A control-plane node is drained with O(control_plane_ok=true) only.
  - A node that another user or tool has cordoned is left alone. The owner of the cordon is determined from C(metadata.managedFields) of the Node - it is this
    module if its field manager C(rdmaops.gpu_fabric), and no other, owns C(spec.unschedulable). After C(kubectl uncordon) and C(kubectl cordon) it is the
    administrator, whatever the annotation contains.
  - With O(state=uncordoned), a node that this module cordoned is uncordoned once its kubelet has reported since the boot, it is ready, and it offers as much of
    each extended resource as before. A node without the annotation is left alone. An annotation on a node that has since been uncordoned, or cordoned by
    another manager, is stale - it is reported and removed, and the cordon is not touched.
  - If draining or uncordoning fails, the node stays cordoned, with the reason and the time in the annotation. The next run continues from there.
  - Failed nodes count. No further node is drained while O(max_unavailable) other Nodes are cordoned with the annotation, by this run or any other.
  - The Lease C(rdmaops-gpu-fabric-maintenance) in O(lease_namespace) keeps two runs in one cluster apart. A run holds it from its first cordon until none of
    its nodes is in maintenance; its annotation C(rdmaops.gpu-fabric/nodes) lists them. A run that finds that it has lost the Lease stops.
  - The user of the kubeconfig needs C(list), C(get) and C(patch) on nodes, C(list) on pods, C(create) on C(pods/eviction), C(list) on C(poddisruptionbudgets)
    of group C(policy), and in O(lease_namespace) C(get), C(create) and C(update) on C(leases) of group C(coordination.k8s.io). If pods reference Multus
    networks, it also needs C(list) on C(network-attachment-definitions) of group C(k8s.cni.cncf.io).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Anything that prevents a drain is an error in check mode too. The module does not wait. RV(waiting_for) shows what it would wait for.
      - Evictions are sent as dry runs, which the API server checks but does not carry out.
  diff_mode:
    support: full
    details:
      - Shows the cordon and the annotation. Pods are in RV(actions).
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the node in the cluster.
    type: str
    required: true
  state:
    description:
      - V(drained) cordons the node and evicts its pods.
      - V(uncordoned) removes a cordon that was set with V(drained), by this run or, with O(take_over), an earlier one.
      - V(failed) writes O(failure) to the annotation of a node that this module cordoned, and releases the Lease. The node stays cordoned. Nothing is done to a
        node that is not cordoned by this module, or while another run has the Lease.
    type: str
    choices: [drained, uncordoned, failed]
    default: drained
  run:
    description: Name of the run, which holds the Lease. Use the same name in all calls for all nodes of one run, and in no other run.
    type: str
    required: true
  reason:
    description: Reason for the maintenance. Required with O(state=drained).
    type: str
  failure:
    description: What went wrong. Required with O(state=failed).
    type: str
  machine_id:
    description:
      - Content of V(/etc/machine-id) of the host, to be compared with C(status.nodeInfo.machineID).
      - With O(state=drained), this or O(addresses) is required. A machine ID or an address that several Nodes share proves nothing.
    type: str
  addresses:
    description: IP addresses of the host, to be compared with the Nodes' InternalIP if the machine ID is not conclusive.
    type: list
    elements: str
    default: []
  on_absent:
    description:
      - What to do if the cluster has no node of this name.
      - V(ignore) does nothing and reports this in RV(in_cluster). It still fails if O(machine_id) or O(addresses) match another Node.
    type: str
    choices: [fail, ignore]
    default: fail
  control_plane_ok:
    description: Consent to drain a control-plane node.
    type: bool
    default: false
  evict_gpu_pods:
    description:
      - Consent to evict pods that hold GPUs, RDMA devices or network devices.
      - These are pods that request O(device_resources), have a resource claim, mount V(/dev/nvidia*) or V(/dev/infiniband) of the host, or reference a Multus
        attachment whose plugins are C(host-device), C(sriov), C(ib-sriov) or C(rdma), or that cannot be read.
    type: bool
    default: false
  force:
    description: Consent to evict pods without a controller, which will not be recreated, like C(kubectl drain --force).
    type: bool
    default: false
  delete_emptydir_data:
    description: Consent to evict pods with an emptyDir, whose data is lost, like C(kubectl drain --delete-emptydir-data).
    type: bool
    default: false
  device_resources:
    description: Shell-style patterns of the extended resources that are GPUs or RDMA devices.
    type: list
    elements: str
    default: ["nvidia.com/*", "*gpu*", "*rdma*"]
  drain_timeout:
    description: How long to wait for the pods to end, in seconds. An eviction that a budget does not allow is retried every 5 seconds.
    type: int
    default: 600
  wait_ready:
    description:
      - Whether to wait, when uncordoning, until the node is ready, and, with O(boot_id), until its kubelet has reported since that boot.
      - The module waits for resources in any case.
    type: bool
    default: true
  boot_id:
    description: Content of V(/proc/sys/kernel/random/boot_id) of the host, to be compared with C(status.nodeInfo.bootID) before the node is uncordoned.
    type: str
  ready_timeout:
    description: How long to wait until the node is ready and its resources are back, in seconds.
    type: int
    default: 600
  missing_ok:
    description: Consent to uncordon a node that offers less of its extended resources than before.
    type: bool
    default: false
  lease_duration:
    description:
      - Number of seconds without a renewal after which another run may take the Lease. It is renewed while this module runs and when a drain ends, and not
        while the host reboots, so it must be longer than everything that the run waits for between two calls.
    type: int
    default: 3600
  lease_namespace:
    description: Namespace of the Lease. An administrator creates it once (C(docs/rbac/namespace.yml)); the module does not.
    type: str
    default: rdmaops-system
  max_unavailable:
    description:
      - How many nodes may be in maintenance at a time, across all runs, including failed ones.
      - A node that was uncordoned with C(kubectl uncordon), or deleted, does not count. A node that is already in maintenance may be worked on in any case.
    type: int
    default: 1
  take_over:
    description:
      - Whether O(state=uncordoned) may uncordon a node that another run has cordoned.
      - With V(false), the node must be in maintenance by this run, which must still hold the Lease. For use after a drain in the same run - a run that was
        suspended for too long then notices that another one has continued.
    type: bool
    default: true
seealso:
  - module: rdmaops.gpu_fabric.rdma_system
  - name: Safely Drain a Node
    description: What an eviction respects.
    link: https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/
"""

EXAMPLES = r"""
---
- name: Drain a node
  rdmaops.gpu_fabric.node_drain:
    name: gpu-01
    machine_id: 0ab34fb1c9d84c2f8a4e0a6c1d2b7e55
    reason: New firmware of the NICs
    run: alice-20261121T030000Z
    delete_emptydir_data: true

- name: Uncordon it
  rdmaops.gpu_fabric.node_drain:
    name: gpu-01
    state: uncordoned
    run: alice-20261121T030000Z
    boot_id: 5c0bd1e4-9a4c-4b4e-8f3e-7f2f3a1f0c11

- name: Keep it out of the cluster, and record why
  rdmaops.gpu_fabric.node_drain:
    name: gpu-01
    state: failed
    run: alice-20261121T030000Z
    failure: rail 1 has no link since the new firmware
"""

RETURN = r"""
in_cluster:
  description: Whether the cluster has the node.
  returned: success
  type: bool
  sample: true
maintenance:
  description: The content of the annotation before anything was done, stale or not. Null if the node had none.
  returned: success
  type: dict
  sample:
    reason: The running mode is shared, and exclusive is configured.
    run: alice-20261121T030000Z
    since: "2026-11-21T03:00:07Z"
    step: drained
    failed: {"time": "2026-11-21T03:16:40Z", "message": "Reboot the node: Timed out waiting for last boot time check"}
    before: {"unschedulable": false, "boot_id": "0d8d4c1b-5f06-4c8e-9f54-4a53b1a7a6d2", "allocatable": {"nvidia.com/gpu": "8"}}
pods:
  description:
    - With O(state=drained), the pods of the node, and what is done with each - V(evict), V(wait) (it is already being deleted) or V(leave).
    - C(traits) are those that require consent, with the option that gives it.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: training
      name: worker-0
      uid: 5f1c9a7e-1f0c-4a52-9d0b-2f7d8a2f9d11
      action: evict
      why: Job worker
      traits: [{"option": "evict_gpu_pods", "why": "holds nvidia.com/gpu: 8"}]
waiting_for:
  description:
    - With O(state=drained), the pods that their budget does not allow to be evicted at the moment.
    - With O(state=uncordoned), what is still missing on the node.
  returned: success
  type: list
  elements: str
  sample: ["nvidia.com/gpu: 0 of 8"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Take the Lease rdmaops-system/rdmaops-gpu-fabric-maintenance", "Cordon node gpu-01: New firmware of the NICs"]
resources:
  description:
    - State of the node, of the pods that must be evicted, and of the resources that must be back, before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: node
      name: gpu-01
      status: drift
      desired: drained
      configured: null
      live: schedulable
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._node_drain.manage import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "uncordoned", "failed"], "default": "drained"},
            "run": {"type": "str", "required": True},
            "reason": {"type": "str"},
            "failure": {"type": "str"},
            "machine_id": {"type": "str"},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "on_absent": {"type": "str", "choices": ["fail", "ignore"], "default": "fail"},
            "control_plane_ok": {"type": "bool", "default": False},
            "evict_gpu_pods": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "delete_emptydir_data": {"type": "bool", "default": False},
            "device_resources": {
                "type": "list",
                "elements": "str",
                "default": ["nvidia.com/*", "*gpu*", "*rdma*"],
            },
            "drain_timeout": {"type": "int", "default": 600},
            "wait_ready": {"type": "bool", "default": True},
            "boot_id": {"type": "str"},
            "ready_timeout": {"type": "int", "default": 600},
            "missing_ok": {"type": "bool", "default": False},
            "lease_duration": {"type": "int", "default": 3600},
            "lease_namespace": {"type": "str", "default": "rdmaops-system"},
            "max_unavailable": {"type": "int", "default": 1},
            "take_over": {"type": "bool", "default": True},
        },
        required_if=[("state", "drained", ["reason"]), ("state", "failed", ["failure"])],
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
