# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rail_plan
short_description: Plan an attachment and an address range for each rail of a cluster
version_added: 0.1.0
description:
  - Makes of what C(rdma_info) and C(network_info) saw on all nodes one attachment for each rail, with a range of
    addresses of its own.
  - A rail is an RDMA port that is V(ACTIVE) and whose network device the host does not use itself. What is left out is
    in RV(_value.excluded), with the
    reason. A port that only some nodes lack is an error that names them.
  - One attachment serves all nodes, so a rail is told by the name of its network device where all nodes agree on that,
    else by its PCI address where they
    agree on that, or by the resource of a device plugin (O(resources)). Where they do not agree, the error names the
    node and what differs.
  - Rails are in the order of their PCI addresses. Soft-RoCE has none, and then that of its network device counts.
  - Devices that are in pods at the moment cannot be compared. They are counted, and their attachments stay as they are.
author:
  - rdmaops contributors (@rdmaops)
positional: network
options:
  _input:
    description:
      - Node names to what was seen there, a dictionary with C(devices) as M(rdmaops.gpu_fabric.rdma_info) returns it
        and C(interfaces) as
        M(rdmaops.gpu_fabric.network_info) returns it. C(interfaces) may be null where nobody has looked; then nothing
        is known of what the host uses.
    type: dict
    required: true
  network:
    description: Network out of which the ranges are taken, for example V(10.100.0.0/16).
    type: str
    required: true
  expected_pods:
    description: Pods that hold one rail at the same time. By default the number of nodes times O(pods_per_node).
    type: int
  pods_per_node:
    description: Pods on a node that hold the same rail at the same time. One, as long as a pod owns its device.
    type: int
    default: 1
  growth:
    description:
      - How many times as many addresses a new range has as pods are expected. Up to then nodes can be added and no
        range changes.
    type: float
    default: 2.0
  include:
    description: Only these, by name of the RDMA device, node GUID or network device. An empty list means all.
    type: list
    elements: str
    default: []
  exclude:
    description: Not these, named as in O(include), over which this wins. Adapters for storage belong here.
    type: list
    elements: str
    default: []
  existing:
    description:
      - Attachments that are there, as objects of the API server or as RV(_value.rails) of an earlier plan. Their names
        and ranges are kept.
      - One whose range is too small for the expected pods is an error, because a range in use is not changed.
    type: list
    elements: dict
    default: []
  avoid:
    description:
      - Networks that no new range may overlap with, such as those of pods and services. Those of the nodes' other
        interfaces are avoided anyway.
    type: list
    elements: str
    default: []
  select:
    description: What a rail is told by. V(auto) takes O(resources) where given, else the name, else the PCI address.
    type: str
    choices: [auto, name, pci, resource]
    default: auto
  resources:
    description: Resource names of a device plugin, one for each rail in order, or one for all.
    type: list
    elements: str
    default: []
  prefix:
    description: Attachments are called by this and the number of the rail.
    type: str
    default: rail
  plugin:
    description: CNI plugin of the attachments.
    type: str
    choices: [host-device, macvlan, ipvlan, ipoib, sriov, ib-sriov]
    default: host-device
  options:
    description: Further options of each attachment, for the module C(network_attachment).
    type: dict
    default: {}
  ipam:
    description: Further options of C(ipam) of each attachment.
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
      description: What rails are told by, V(name), V(pci) or V(resource).
      type: str
      sample: name
    rails:
      description: The rails. C(kept) tells that the range is that of an attachment which was there; C(addresses) is
        how many pods it has room for.
      type: list
      elements: dict
      sample:
        - rail: 0
          name: rail0
          netdev: ens1f0np0
          pci_address: "0000:07:00.0"
          numa_node: 0
          selector: {"device": "ens1f0np0"}
          range: 10.100.0.0/28
          addresses: 14
          kept: false
    attachments:
      description: What the option C(attachments) of the module C(network_attachment) takes.
      type: list
      elements: dict
    expected_pods:
      description: Pods that hold one rail at the same time.
      type: int
      sample: 4
    excluded:
      description: What is no rail - C(node), C(device) and C(why).
      type: list
      elements: dict
      sample: [{"node": "gpu-01", "device": "ens9", "why": "the host uses it (default_route)"}]
    notes:
      description: What does not hinder the plan and matters all the same, such as a rail that is on another NUMA node
        of some machine.
      type: list
      elements: str
      sample: ["ens1f0np0 has another NUMA node on gpu-03 than elsewhere."]
    table:
      description: The plan as a table, to be shown before it is applied.
      type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

try:
    from ansible.errors import AnsibleTypeError
except ImportError:  # ansible-core 2.18
    from ansible.errors import AnsibleFilterTypeError as AnsibleTypeError

from ..module_utils._errors import FabricError
from ..module_utils._rails import plan
from ..module_utils._rails.ports import RailsTypeError


def rail_plan(info: t.Any, network: t.Any, **options: t.Any) -> dict[str, t.Any]:
    """Return the plan for the rails of a cluster."""
    try:
        return plan.plan(info, network, **options)
    except RailsTypeError as exc:
        raise AnsibleTypeError(str(exc)) from exc
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"rail_plan": rail_plan}
