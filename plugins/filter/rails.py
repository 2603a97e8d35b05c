# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rails
short_description: List a host's RDMA ports as rails, in order
version_added: 0.1.0
description:
  - Turns what C(rdma_info) returned for a host into the ordered list of its rails, with their most important properties
    first. This is for inspection - ports that are down stay in the list, as shown by RV(_value[].state).
  - The order is that of O(plan). Without a plan, rails are sorted by PCI address, as numbers, then by port, then by
    device name (C(mlx5_2) before C(mlx5_10)). Devices without a PCI address, such as soft-RoCE, come last.
  - RV(_value[].gid_index) follows the choice that NCCL makes by itself, see RV(_value[].gid_index).
author:
  - rdmaops contributors (@rdmaops)
positional: plan, include, exclude, family
options:
  _input:
    description:
      - What C(rdma_info) returned on one host, or the list of devices in it.
    type: raw
    required: true
  plan:
    description:
      - The rails in their order, as in the inventory variable C(rails). Any of the three keys may be missing.
      - An entry is looked up by C(rdma), then by C(netdev), then by C(address). If a device has several ports,
        C(netdev) or C(address) determines which one is meant. No port is assigned to two entries.
      - An entry that matches nothing becomes a rail with the state V(absent), so that it is visible.
      - Devices that are not in the plan are omitted. An empty plan counts as no plan.
    type: list
    elements: dict
    default: []
    suboptions:
      rdma:
        description: Name of the RDMA device.
        type: str
      netdev:
        description:
          - Name of the network device that belongs to it.
          - It may be a VLAN, bridge or bond on that device, such as V(ens1np0.100), if that has an entry in the GID
            table of the port. The GID is then chosen among its entries, and RV(_value[].netdev_mtu) is null.
        type: str
      address:
        description: An IP address in the GID table of the port. A prefix length is ignored.
        type: str
  include:
    description:
      - Only these, by name of the RDMA device, node GUID or network device. An empty list means all.
      - Names are compared exactly. GUIDs may be in upper or lower case, with or without colons.
      - An entry that matches nothing is an error.
      - Without O(plan), a network device may be a VLAN, bridge or bond on that of a port, as in O(plan[].netdev).
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Not these, specified as in O(include), over which this takes precedence.
      - An entry that matches nothing is not an error, because storage devices differ from host to host.
    type: list
    elements: str
    default: []
  family:
    description: The address family for which RV(_value[].gid_index) is looked up.
    type: str
    choices: [ipv4, ipv6]
    default: ipv4
seealso:
  - plugin: rdmaops.gpu_fabric.nccl_env
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the rails of the inventory, including those that are down or missing
  ansible.builtin.debug:
    msg: "{{ rdma | rdmaops.gpu_fabric.rails(plan=rails) }}"

- name: Fail if a rail is not up
  ansible.builtin.assert:
    that: item.state == 'ACTIVE'
    fail_msg: "Rail {{ item.rail }} ({{ item.device or item.planned }}) is {{ item.state }}."
  loop: "{{ rdma | rdmaops.gpu_fabric.rails(plan=rails) }}"
  loop_control:
    label: "{{ item.device }}"

- name: Show everything except the storage adapter
  ansible.builtin.debug:
    msg: "{{ rdma | rdmaops.gpu_fabric.rails(exclude=['0c42:a103:0065:1f2e']) }}"
"""

RETURN = r"""
_value:
  description: The rails in their order. Anything that C(rdma_info) did not return is null, and so is everything of an
    absent rail.
  type: list
  elements: dict
  contains:
    rail:
      description: Number of the rail, starting at 0. With a plan, it is the position in the plan, even if others are
        excluded.
      type: int
      sample: 0
    device:
      description: Name of the RDMA device.
      type: str
      sample: mlx5_0
    port:
      description: Number of the port, null if the ports of the device are unknown.
      type: int
      sample: 1
    netdev:
      description: Network device of the port.
      type: str
      sample: ens1f0np0
    state:
      description: State of the port as named by the kernel, or V(absent) for an entry of the plan that matches nothing.
      type: str
      sample: ACTIVE
    rate_gbps:
      description: Rate of the link in Gb/s.
      type: float
      sample: 400.0
    netdev_mtu:
      description: MTU of the network device in bytes.
      type: int
      sample: 9000
    active_mtu:
      description: RDMA path MTU of the port in bytes.
      type: int
      sample: 4096
    link_layer:
      description: Link layer of the port. It is V(Ethernet) for iWARP too.
      type: str
      sample: Ethernet
    protocol:
      description: Protocol of the device.
      type: str
      sample: roce
    gid_index:
      description:
        - On RoCE, the lowest index of a RoCE v2 entry whose GID is an IPv4 address and whose network device is the
          port's. That of a VLAN in the same table is not used. If the port's network device is not visible, as in
          another network namespace, any entry counts.
        - With O(family=ipv6), of a RoCE v2 entry with an IPv6 address. A link-local one (C(fe80::/10)) is used only if
          there is no other. NCCL itself skips it, so it works only if it is set as C(NCCL_IB_GID_INDEX).
        - NCCL chooses the same index, except that it does not consider the network device.
        - Null on InfiniBand, where NCCL does not read C(NCCL_IB_GID_INDEX), and on RoCE without such an entry.
        - V(0) for iWARP, which NCCL treats as an Ethernet port like any other. Its GID table has this one entry, from
          which no address is read.
      type: int
      sample: 3
    gid:
      description: The GID at this index. Null for InfiniBand and iWARP.
      type: str
      sample: 0000:0000:0000:0000:0000:ffff:c633:640b
    ipv4:
      description:
        - The IPv4 address that this GID is derived from. GIDs of InfiniBand and iWARP have none; then it is the one of
          O(plan).
      type: str
      sample: 198.51.100.11
    ipv6:
      description:
        - With O(family=ipv6), the IPv6 address that this GID is. Null for a link-local one. For InfiniBand and iWARP,
          an IPv6 address of O(plan).
      type: str
      sample: "2001:db8::11"
    numa_node:
      description: NUMA node of the device.
      type: int
      sample: 0
    pci_address:
      description: PCI address of the device.
      type: str
      sample: "0000:07:00.0"
    node_guid:
      description: Node GUID of the device.
      type: str
      sample: 0c42:a103:0065:1f2e
    planned:
      description: The entry of O(plan), null without a plan.
      type: dict
      sample: {"rdma": "mlx5_0", "netdev": "ens1f0np0", "address": "198.51.100.11"}
"""

import typing as t

from ..module_utils._rails.rails import rails as rails_of_host
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def rails(
    data: t.Any, plan: t.Any = None, include: t.Any = None, exclude: t.Any = None, family: t.Any = "ipv4"
) -> list[dict[str, t.Any]]:
    """Return the ordered list of rails."""
    return rails_of_host(data, plan, include, exclude, family)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"rails": rails}
