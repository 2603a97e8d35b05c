# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rail_plan
short_description: Plan an attachment and an address range for each rail of a cluster
version_added: 0.1.0
description:
  - Turns what C(rdma_info) and C(network_info) returned for all nodes into one attachment for each rail, each with its
    own address range.
  - A rail is an RDMA port that is V(ACTIVE) and whose network device the host does not use itself. Excluded ports are
    in RV(_value.excluded), with the reason. A port that only some nodes lack is an error that names them.
  - One attachment serves all nodes, so a rail is identified by the name of its network device if all nodes agree on it,
    else by its PCI address if they agree on that, or by the resource of a device plugin (O(resources)). If they do not
    agree, the error names the node and the difference.
  - Rails are sorted by PCI address. Soft-RoCE has none, so the address of its network device is used.
  - Devices that are currently in pods cannot be compared. They are counted, and their attachments stay as they are.
author:
  - rdmaops contributors (@rdmaops)
positional: network
options:
  _input:
    description:
      - Maps node names to the state of the node, a dictionary with C(devices) as returned by
        M(rdmaops.gpu_fabric.rdma_info) and C(interfaces) as returned by M(rdmaops.gpu_fabric.network_info).
        C(interfaces) may be null if it was not collected; then it is unknown what the host uses.
    type: dict
    required: true
  network:
    description: Network from which the ranges are taken, for example V(10.100.0.0/16). If it is empty, the plan has
      rails and no attachments, for pods that get them by claims, with the addresses of the host.
    type: str
    required: true
  expected_pods:
    description: Number of pods that hold one rail at the same time. The default is the number of nodes times
      O(pods_per_node).
    type: int
  pods_per_node:
    description: Number of pods on a node that hold the same rail at the same time. One, as long as a pod owns its
      device.
    type: int
    default: 1
  growth:
    description:
      - Number of addresses in a new range as a multiple of the expected pods. Up to that number, nodes can be added
        without changing a range.
    type: float
    default: 2.0
  include:
    description: Only these, by name of the RDMA device, node GUID or network device. An empty list means all.
    type: list
    elements: str
    default: []
  exclude:
    description: Not these, specified as in O(include), over which this takes precedence. List storage adapters here.
    type: list
    elements: str
    default: []
  existing:
    description:
      - Existing attachments, as objects of the API server or as RV(_value.rails) of an earlier plan. Their names and
        ranges are kept.
      - An attachment whose range is too small for the expected pods is an error, because a range in use is not changed.
    type: list
    elements: dict
    default: []
  avoid:
    description:
      - Networks that no new range may overlap, such as those of pods and services. Those of the nodes' other interfaces
        are always avoided.
    type: list
    elements: str
    default: []
  select:
    description:
      - How rails are identified. V(auto) uses O(resources) if given, else the name, else the PCI address.
      - Sub-functions have only the PCI address of their parent, so they need the same names on all nodes, or
        O(resources) and C(capabilities) in O(options).
    type: str
    choices: [auto, name, pci, resource]
    default: auto
  resources:
    description: Resource names of a device plugin, one for each rail in order, or one for all.
    type: list
    elements: str
    default: []
  prefix:
    description: Prefix of attachment names, followed by the number of the rail.
    type: str
    default: rail
  plugin:
    description:
      - CNI plugin of the attachments.
      - V(host-device) gives a pod the network device itself. A bond cannot be given to a pod, and neither can a member
        of one; use V(macvlan) or V(ipvlan) for it, in mode V(shared).
    type: str
    choices: [host-device, macvlan, ipvlan, ipoib, sriov, ib-sriov]
    default: host-device
  options:
    description: Additional options of each attachment, for the module C(network_attachment).
    type: dict
    default: {}
  ipam:
    description: Additional options of C(ipam) of each attachment.
    type: dict
    default: {}
seealso:
  - plugin: rdmaops.gpu_fabric.rails
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ (node_info | rdmaops.gpu_fabric.rail_plan('10.100.0.0/16', exclude=['mlx5_storage'])).table }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    select:
      description: How rails are identified, V(name), V(pci) or V(resource).
      type: str
      sample: name
    rails:
      description: The rails. C(kept) is whether the range is that of an existing attachment; C(addresses) is the number
        of pods it has room for.
      type: list
      elements: dict
      sample:
        - rail: 0
          name: rail0
          netdev: ens1f0np0
          pci_address: "0000:07:00.0"
          auxiliary_device: null
          numa_node: 0
          selector: {"device": "ens1f0np0"}
          range: 10.100.0.0/28
          addresses: 14
          kept: false
    attachments:
      description: Value for the option C(attachments) of the module C(network_attachment).
      type: list
      elements: dict
    expected_pods:
      description: Number of pods that hold one rail at the same time.
      type: int
      sample: 4
    excluded:
      description: What is not a rail - C(node), C(device) and C(why).
      type: list
      elements: dict
      sample: [{"node": "gpu-01", "device": "ens9", "why": "the host uses it (default_route)"}]
    notes:
      description: Findings that do not prevent the plan but still matter, such as a rail that is on another NUMA node
        on some machine.
      type: list
      elements: str
      sample: ["ens1f0np0 has a different NUMA node on gpu-03 than elsewhere."]
    table:
      description: The plan as a table, to be shown before it is applied.
      type: str
"""

import typing as t

from ..module_utils._rails import plan
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def rail_plan(info: t.Any, network: t.Any, **options: t.Any) -> dict[str, t.Any]:
    """Return the plan for the rails of a cluster."""
    return plan.plan(info, network, plan.Options(**options))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"rail_plan": rail_plan}
