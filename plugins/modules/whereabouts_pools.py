#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: whereabouts_pools
short_description: Audit the address pools of Whereabouts, and free addresses of deleted pods
version_added: 0.1.0
description:
  - Compares the allocations of every IPPool and every OverlappingRangeIPReservation of Whereabouts with the existing pods, and finds those whose pod is gone,
    addresses that are allocated twice, pools that are (almost) exhausted, and entries that Whereabouts itself cannot read.
  - Without O(reclaim=true), it only reports.
  - With it, an address is freed if two checks at least O(reclaim_after) seconds apart found that no pod of that name has it, and the sandbox in the allocation
    and the UID of the pod that currently has the name, if any, were the same both times. Whereabouts stores no UID. So if a pod of that name exists, it must be
    running and ready, and its C(network-status) must not contain the address. The allocation is then that of an earlier pod.
  - Pods that are starting, are being deleted or have ended are left alone. So is anything that belongs, or may belong, to a node that is not ready, because a
    sandbox continues to exist there without its pod. O(dead_nodes) lists nodes that are known to be off.
  - An allocation does not record the node of its sandbox. So while any node is not ready, every address whose pod is gone is held (RV(held)), whatever node it
    was allocated on. A node that has been deleted from the cluster holds nothing, so switch it off first.
  - The annotation C(rdmaops.gpu-fabric/without-pod) of the pool (or the reservation) records when an address was first seen without its pod. It is written with
    O(reclaim=true) only.
  - An allocation is removed only if the pool has not changed since it was read. Its reservation is removed with it.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is written, including the records of first sightings. With O(reclaim=true), these are reported as changes, because a real run writes them.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(reclaim=true), a later run may free what was first seen before. Until then it changes nothing.
  platform:
    support: full
    platforms: posix
options:
  namespace:
    description: Namespace of the pools, which is that of the context in the kubeconfig of Whereabouts.
    type: str
    default: kube-system
  reclaim:
    description: Consent to free addresses, and to record when they were first seen without their pod.
    type: bool
    default: false
  reclaim_after:
    description: How long an address must be without its pod before it is freed, in seconds. At least V(60).
    type: int
    default: 600
  exhausted_share:
    description: The share of its addresses from which a pool counts as exhausted, above V(0) and up to V(1).
    type: float
    default: 0.9
  dead_nodes:
    description: Nodes that are not ready and are known to be off, so that no sandbox continues to exist there.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
---
- name: Check the pools
  rdmaops.gpu_fabric.whereabouts_pools:
    kubeconfig: ~/.kube/config
  register: pools

- name: Free addresses that no pod has had for half an hour
  rdmaops.gpu_fabric.whereabouts_pools:
    reclaim: true
    reclaim_after: 1800
"""

RETURN = r"""
installed:
  description: Whether the API server knows IPPools. If it does not, there is nothing to check.
  returned: success
  type: bool
  sample: true
clean:
  description: Whether nothing is leaked, duplicate, unrecorded, malformed or exhausted. Null if Whereabouts is not installed.
  returned: success
  type: bool
  sample: false
pools:
  description: The pools, with the number of assignable addresses (C(size)), of assigned ones, and of leaked ones among these.
  returned: success
  type: list
  elements: dict
  sample:
    - name: 10.100.0.0-28
      network_name: ""
      range: 10.100.0.0/28
      size: 14
      used: 3
      free: 11
      share: 0.2143
      leaked: 1
      exhausted: false
leaked:
  description:
    - Addresses without their pod. C(first_seen) and C(wait_s), the seconds until it may be freed, are null if it has not been recorded before.
    - If C(pool) is null, it is a reservation without an allocation, named by C(reservation).
  returned: success
  type: list
  elements: dict
  sample:
    - pool: 10.100.0.0-28
      address: 10.100.0.3
      podref: training/worker-7
      interface: net1
      container: 3f1c9be2a7d0
      why: the pod training/worker-7 does not exist
      first_seen: "2026-11-21T03:00:12Z"
      wait_s: 0
held:
  description: Addresses that are left alone because it is unknown whether their pod has them. C(why) gives the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - pool: 10.100.0.0-28
      address: 10.100.0.4
      podref: training/worker-8
      interface: net1
      container: 77aa01c3d5e9
      why: "the pod training/worker-8 is not up: Pending"
duplicates:
  description: Addresses that two V(allocations) of one network or two V(pods) have.
  returned: success
  type: list
  elements: dict
  sample:
    - address: 10.100.0.5
      network: ""
      of: allocations
      holders: ["training/worker-1 (net1) in pool 10.100.0.0-28", "training/worker-2 (net1) in pool 10.100.0.0-24"]
unrecorded:
  description: Addresses from a pool's range that a running pod has and that are recorded in no pool. They may be assigned a second time.
  returned: success
  type: list
  elements: dict
  sample: [{"pool": "10.100.0.0-28", "address": "10.100.0.6", "pod": "training/worker-3", "interface": "net1"}]
malformed:
  description: Entries that Whereabouts cannot read, or would not have written.
  returned: success
  type: list
  elements: dict
  sample: [{"pool": "10.100.0.0-28", "offset": "x", "address": null, "why": "the offset 'x' is not a number, and whereabouts ignores it"}]
nodes_not_ready:
  description: Nodes because of which allocations without a pod are left alone.
  returned: success
  type: list
  elements: str
  sample: ["gpu-07"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Free 10.100.0.3 (training/worker-7) of pool 10.100.0.0-28", "Delete the OverlappingRangeIPReservation 10.100.0.3"]
resources:
  description: State of each pool, and of each reservation without an allocation, before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "ippool", "name": "10.100.0.0-28", "status": "drift", "desired": "clean", "configured": null, "live": "1 leaked", "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._whereabouts.pools import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "namespace": {"type": "str", "default": "kube-system"},
            "reclaim": {"type": "bool", "default": False},
            "reclaim_after": {"type": "int", "default": 600},
            "exhausted_share": {"type": "float", "default": 0.9},
            "dead_nodes": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
