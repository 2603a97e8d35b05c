#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_mode_conflict_info
short_description: Find what conflicts with an RDMA namespace mode in a Kubernetes cluster
version_added: 0.1.0
description:
  - Finds what on the given nodes of a cluster depends on the other network namespace mode of the RDMA subsystem, or also manages the mode, and what to do about
    it. If it runs before the mode is set (M(rdmaops.gpu_fabric.rdma_system)), it reports in advance what would otherwise fail afterwards.
  - The following conflict with V(exclusive) - the shared RDMA device plugin (its DaemonSet, a NicClusterPolicy or NicNodePolicy of NVIDIA's network operator
    that requests it, and shares of devices that a node offers); pods that hold such shares; pods with an RDMA resource and a C(macvlan) or C(ipvlan)
    attachment; pods on the host's network with an RDMA resource; pods that mount V(/dev/infiniband) of the host; and NVSentinel's NIC health monitor, which has
    nodes replaced for a device that a pod has.
  - With V(exclusive), there is a warning for other programs that look at the devices of the host, where those of pods are missing - gpud, node_exporter's
    collector C(infiniband), and dranet, which reads the mode once.
  - Pods whose attachment moves the RDMA device (the plugin C(rdma), or C(ib-sriov) with C(rdmaIsolation)) conflict with V(shared).
  - A SriovNetworkPoolConfig with C(rdmaMode), through which the SR-IOV network operator manages the mode, conflicts with both. Only one tool may manage the
    mode of a node.
  - Nothing is changed.
notes:
  - The user needs the rights to list nodes, pods, DaemonSets, NetworkAttachmentDefinitions, SriovNetworkPoolConfigs, NicClusterPolicies and NicNodePolicies,
    and to get the ConfigMaps of the device plugins. A kind that the cluster does not know has no objects. Anything that the user may not read is in
    RV(unknown), and never counts as the absence of conflicts.
  - Pods that have ended hold nothing. Workloads without a pod on the nodes are not reported.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._kubernetes
attributes:
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description:
      - Names of the nodes in the cluster.
      - A name that the cluster does not know is in RV(unknown).
    type: list
    elements: str
    required: true
  netns_mode:
    description: The desired mode of the nodes.
    type: str
    choices: [exclusive, shared]
    required: true
  on_conflict:
    description:
      - What to do if something conflicts with the mode, or if this is unknown.
      - V(fail) fails and lists each conflict with its remedy, at most ten in the message and all in the result.
      - V(warn) warns.
    type: str
    choices: [fail, warn]
    default: fail
seealso:
  - module: rdmaops.gpu_fabric.rdma_system
"""

EXAMPLES = r"""
---
- name: Check that nothing depends on shared mode
  rdmaops.gpu_fabric.rdma_mode_conflict_info:
    nodes: [gpu-01, gpu-02]
    netns_mode: exclusive

- name: List what would break, and continue
  rdmaops.gpu_fabric.rdma_mode_conflict_info:
    nodes: [gpu-01]
    netns_mode: exclusive
    on_conflict: warn
  register: mode
"""

RETURN = r"""
conflicts:
  description:
    - What conflicts with the mode, once for each affected node.
    - C(namespace) is null for objects without a namespace.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object, such as V(DaemonSet) or V(Pod).
      type: str
    namespace:
      description: Namespace of the object, or null.
      type: str
    name:
      description: Name of the object.
      type: str
    node:
      description: Name of the node.
      type: str
    what:
      description: What the object does there that conflicts with the mode.
      type: str
    remedy:
      description: What to do about it.
      type: str
  sample:
    - kind: Pod
      namespace: training
      name: worker-0
      node: gpu-01
      what: holds rdma/hca_shared_devices_a, a share of an RDMA device, which mode exclusive does not have
      remedy: Delete it, and let it request a whole device and an attachment with rdma in its chain
monitors:
  description: What will show something wrong in the mode and does nothing about it, with the keys of RV(conflicts). Each is a warning.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: DaemonSet
      namespace: monitoring
      name: node-exporter
      node: gpu-01
      what: is node_exporter, whose collector infiniband has no value of a device that a pod has
      remedy: Disable that collector (--no-collector.infiniband), and use the role rdma_exporter
unknown:
  description: What could not be checked. C(node) is null if it concerns all of O(nodes).
  returned: always
  type: list
  elements: dict
  sample: [{"node": "gpu-03", "what": "the cluster has no node gpu-03 (there are: gpu-01, gpu-02). Give the name that it has in the cluster"}]
resources:
  description: State of each node, as the drift report reads it.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: rdma_mode_conflict
      name: gpu-01
      status: drift
      desired: none
      configured: null
      live: Pod worker-0
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._rdma_mode_conflicts.cluster import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "nodes": {"type": "list", "elements": "str", "required": True},
            "netns_mode": {"type": "str", "choices": ["exclusive", "shared"], "required": True},
            "on_conflict": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
