#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_rails
short_description: Keep the rails of a host apart
version_added: 0.1.0
description:
  - Configures the network devices of rails, which are the RDMA NICs of a host. For each rail it manages addresses, MTU, a routing table for packets from these
    addresses, and the kernel's settings for ARP and reverse paths.
  - By default, Linux answers ARP requests for all its addresses on all its devices, and chooses a route by the destination alone. If two rails are in one
    network, traffic for one rail arrives at the other, and leaves by it. The connection manager of RDMA refuses a connection whose route leads to another
    device (C(validate_ipv4_net_dev) in V(drivers/infiniband/core/cma.c)).
  - The service that configures the device is found, and its own file is written, so that it configures the rail when the host boots. The live state is
    compared and corrected by rtnetlink.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
options:
  rails:
    description:
      - All rails of the host. Files that this module has written for others are removed. Their live state is not changed.
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description:
          - Name of the network device. It must not have the default route, or be a member of a bond or bridge.
          - A device that a pod has is not on the host, and only its file can be compared.
        type: str
        required: true
      addresses:
        description:
          - IPv4 and IPv6 addresses with their prefix length, such as V(198.51.100.11/24).
          - This module leaves other addresses of the device alone. But C(systemd-networkd) removes addresses that are in none of its files.
        type: list
        elements: str
        required: true
      mtu:
        description: MTU in bytes, from 68 to 65535. By default, it is left alone.
        type: int
      table:
        description:
          - Number of the routing table, from 1 to 32765. It is also the priority of the rules that use it.
          - The module owns the table. If it has never configured this host, other rules and routes of the table are a conflict; later they are removed.
          - By default, V(100) for the first rail, V(101) for the second one, and so on.
        type: int
      routes:
        description: Routes in addition to those to the networks of the addresses.
        type: list
        elements: dict
        default: []
        suboptions:
          to:
            description: Destination, such as V(10.0.0.0/8).
            type: str
            required: true
          via:
            description: Gateway, in a network of the rail.
            type: str
            required: true
  sysctl:
    description:
      - Settings below V(net.ipv4.conf.DEVICE) for rails with an IPv4 address, in V(/etc/sysctl.d/zz-rdmaops-rails.conf).
      - The kernel uses the larger one of this value and that of V(net.ipv4.conf.all). A larger value there, now or at the next boot, and a file that is read
        after this one, are conflicts.
    type: dict
    suboptions:
      arp_ignore:
        description: With V(1), the kernel answers on a device only for the addresses of that device.
        type: int
        default: 1
      arp_announce:
        description: With V(2), the kernel asks with an address of the device.
        type: int
        default: 2
      rp_filter:
        description: With V(2), a packet is accepted if any device has a route to its source, with V(1) only if it came by that device.
        type: int
        default: 2
  manager:
    description:
      - What configures the rails when the host boots.
      - V(auto) takes the service that configures the device now. If there is none, it takes C(systemd-networkd) if that runs.
      - V(netplan) writes V(/etc/netplan/90-rdmaops-rails.yaml), V(networkd) V(/etc/systemd/network/05-rdmaops-DEVICE.network), and V(NetworkManager)
        V(/etc/NetworkManager/system-connections/rdmaops-DEVICE.nmconnection).
      - C(ifupdown) is not supported. A device in V(/etc/network/interfaces) is refused.
      - Where netplan has NetworkManager configure network cards, V(NetworkManager) must be set, because netplan up to 1.1 does not pass on rules.
    type: str
    choices: [auto, netplan, networkd, NetworkManager]
    default: auto
  on_conflict:
    description:
      - What to do if the service has another configuration for the device, or a routing table has been in use by others.
      - V(fail) fails and says what it is.
      - V(take_over) configures the rail nevertheless. The file of this module is used before others. This is not possible with netplan, which merges its files.
    type: str
    choices: [fail, take_over]
    default: fail
requirements:
  - pyroute2 0.5.14 or newer on the host that runs the task; to remove rules and routes on Linux 5.19 and newer, 0.6 or newer. Check mode does not need it.
  - iproute2 5.0 or newer.
seealso:
  - module: rdmaops.gpu_fabric.network_info
  - module: rdmaops.gpu_fabric.network_attachment
notes:
  - The package of pyroute2 is C(python3-pyroute2). The role P(rdmaops.gpu_fabric.gpu_node#role) installs it if V(gpu_node_rails) is set.
"""

EXAMPLES = r"""
---
- name: Keep two rails in one network apart
  rdmaops.gpu_fabric.host_rails:
    rails:
      - netdev: ens1f0np0
        addresses: [198.51.100.11/24]
        mtu: 9000
      - netdev: ens2f0np0
        addresses: [198.51.100.12/24]
        mtu: 9000
  become: true

- name: Reach the other racks by the gateway of each rail
  rdmaops.gpu_fabric.host_rails:
    rails:
      - netdev: ens1f0np0
        addresses: [10.1.0.11/24]
        routes: [{to: 10.1.0.0/16, via: 10.1.0.1}]
      - netdev: ens2f0np0
        addresses: [10.2.0.11/24]
        routes: [{to: 10.2.0.0/16, via: 10.2.0.1}]
  become: true
"""

RETURN = r"""
rails:
  description: The rails, before anything was done.
  returned: success
  type: list
  elements: dict
  contains:
    netdev:
      description: Name of the network device.
      type: str
    manager:
      description: What configures it when the host boots.
      type: str
    table:
      description: Number of its routing table.
      type: int
    mtu:
      description: Its MTU in bytes. Null if the device is not on the host.
      type: int
    up:
      description: Whether it is set up. Null if the device is not on the host.
      type: bool
    other_addresses:
      description: Addresses of the device that O(rails) does not list. Null if the device is not on the host.
      type: list
      elements: str
  sample: [{"netdev": "ens1f0np0", "manager": "networkd", "table": 100, "mtu": 1500, "up": true, "other_addresses": []}]
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Set the MTU of ens1f0np0 from 1500 to 9000 bytes", "Set net.ipv4.conf.ens1f0np0.arp_ignore to 1"]
resources:
  description: State of each rail and of each setting before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "sysctl", "name": "net.ipv4.conf.ens1f0np0.arp_ignore", "status": "drift", "desired": 1, "configured": null, "live": 0, "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._host.rails import ARGUMENTS, Host, manage


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = manage(module.params, module.check_mode, Host())
    except (FabricError, OSError) as exc:
        fail(module, exc)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
