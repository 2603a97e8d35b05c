#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: whereabouts_pools
short_description: Audit the address pools of whereabouts, and free what is proven dead
version_added: 0.1.0
description:
  - Holds the allocations of every IPPool and every OverlappingRangeIPReservation of whereabouts against the pods that are there, and finds those whose pod
    is gone, addresses that two have, pools that are (almost) used up, and entries that whereabouts itself cannot read.
  - Without O(reclaim=true) it only reports.
  - With it, an address is freed when no pod of that name has had it twice, at least O(reclaim_after) seconds apart, the sandbox in the allocation and the UID
    of whatever pod now has the name being the same both times. whereabouts stores no UID. So where a pod of that name is there, it has to be running and ready
    and its C(network-status) has to lack the address; then the allocation is an earlier pod's.
  - Pods that are starting, being deleted or have ended are left alone. So is what belongs, or may belong, to a node that is not ready, because a sandbox goes
    on there without its pod. O(dead_nodes) names nodes that are known to be off.
  - An allocation does not say on which node its sandbox is. So as long as any node is not ready, every address whose pod is gone is held (RV(held)), whatever
    node it was given out on. A node that has been deleted from the cluster holds nothing, so switch it off before.
  - When an address was first seen without its pod is remembered in the annotation C(rdmaops.gpu-fabric/without-pod) of the pool (or the reservation). That is
    written with O(reclaim=true) only.
  - An allocation is removed only if the pool has not changed since it was read. Its reservation goes with it.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is written, the memory of first sightings included. With O(reclaim=true) these are reported as changes, since they are written otherwise.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(reclaim=true) a run some time later may free what was seen first before. Until then it changes nothing.
  platform:
    support: full
    platforms: posix
options:
  namespace:
    description: Namespace of the pools, that is of the context in the kubeconfig of whereabouts.
    type: str
    default: kube-system
  reclaim:
    description: Consent to free addresses, and to remember when they were first seen without their pod.
    type: bool
    default: false
  reclaim_after:
    description: How long an address has to be without its pod before it is freed, in seconds. At least V(60).
    type: int
    default: 600
  exhausted_share:
    description: From which share of its addresses on a pool counts as exhausted, above V(0) and up to V(1).
    type: float
    default: 0.9
  dead_nodes:
    description: Nodes that are not ready and known to be off, so that no sandbox goes on there.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
---
- name: Look at the pools
  rdmaops.gpu_fabric.whereabouts_pools:
    kubeconfig: ~/.kube/config
  register: pools

- name: Free what no pod has had for half an hour
  rdmaops.gpu_fabric.whereabouts_pools:
    reclaim: true
    reclaim_after: 1800
"""

RETURN = r"""
installed:
  description: Whether the API server knows IPPools. Where it does not, there is nothing to look at.
  returned: success
  type: bool
  sample: true
clean:
  description: Whether nothing is leaked, twice there, not recorded, malformed or exhausted. Null where whereabouts is not installed.
  returned: success
  type: bool
  sample: false
pools:
  description: The pools, with the addresses that can be given out (C(size)), those that are, and how many of these are leaked.
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
    - Addresses without their pod. C(first_seen) and C(wait_s), the seconds until it may be freed, are null where it has not been noted before.
    - Where C(pool) is null it is a reservation without an allocation, C(reservation) by name.
  returned: success
  type: list
  elements: dict
  sample:
    - pool: 10.100.0.0-28
      address: 10.100.0.3
      podref: training/worker-7
      interface: net1
      container: 3f1c9be2a7d0
      why: there is no pod training/worker-7
      first_seen: "2026-11-21T03:00:12Z"
      wait_s: 0
held:
  description: Addresses of which it is not known whether their pod has them, and that are left alone. C(why) says so.
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
  description: Addresses that a running pod has out of a pool's range and that no pool knows of. They may be given out a second time.
  returned: success
  type: list
  elements: dict
  sample: [{"pool": "10.100.0.0-28", "address": "10.100.0.6", "pod": "training/worker-3", "interface": "net1"}]
malformed:
  description: What whereabouts cannot read, or would not have written.
  returned: success
  type: list
  elements: dict
  sample: [{"pool": "10.100.0.0-28", "offset": "x", "address": null, "why": "the offset 'x' is no number, and whereabouts passes over it"}]
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
