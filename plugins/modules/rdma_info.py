#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_info
short_description: List the RDMA devices of a host, in every network namespace
version_added: 0.1.0
description:
  - Lists RDMA devices with their ports, GIDs and partition keys, from the kernel's RDMA netlink and from sysfs. See rdma-dev(8) and
    rdma-link(8).
  - In mode V(exclusive), a device is visible only in the network namespace that it belongs to. With O(all_netns=true), the module visits all namespaces and
    reports which pod each device is in.
  - Anything that exists but cannot be read is null and is listed in RV(unreadable). Nothing is silently omitted, and missing values are never replaced with
    zero.
  - Searching other namespaces takes 60 seconds at most. It begins with those of pods and ends with those that users have created in their own user namespaces.
    RV(unreadable) lists those for which no time was left, and those that are kept only by a mount in the mount namespace of another process. Paths from the
    mount tables of other processes are not followed, because any user can create a mount table.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - There is a difference only with O(dump). Otherwise, this module only reads.
  idempotent:
    support: full
options:
  gather:
    description:
      - What to read in addition to the devices and the state of their ports.
      - V(gids) are the GIDs that are set; V(empty_gids) adds the empty ones.
      - V(pkeys) are the partition keys.
      - V(counters) are the port counters of the InfiniBand specification, V(hw_counters) those of the driver.
      - V(active_mtu) is the MTU that the port uses, in bytes. It requires a user context of the device, so it is read with C(ibv_devinfo) of rdma-core.
      - V(users) are the processes that have the device open.
    type: list
    elements: str
    choices: [gids, empty_gids, pkeys, counters, hw_counters, active_mtu, users]
    default: [gids, pkeys]
  all_netns:
    description:
      - Whether to search every network namespace of the host. This requires root on the host itself.
      - In mode V(shared), there is nothing to find elsewhere, and no other namespace is searched.
    type: bool
    default: false
  pod:
    description:
      - Read the network namespace of this pod on the host instead, as V(NAMESPACE/NAME). This requires root on the host itself.
      - In mode V(shared), where every namespace shows every device, only the GIDs of the pod's own network devices are returned, and of Ethernet ports only
        those that have one or whose network device is the pod's. This requires V(gids) in O(gather). A GID is the pod's if its network device has that address,
        not by the name of the network device, which may be the same in another pod.
      - It is an error if the pod has no process on the host, or if there are two pods of this name, one of which is ending.
    type: str
  dump:
    description:
      - Write a record of this host to this file on it, from which the mode, the next boot, conflicts, rails, the audit and the lint of attachments can be
        determined again on another machine. It makes a report of a fault a test. This requires root on the host itself.
      - The record has pseudonyms for GUIDs, hardware and IP addresses, host names, pods and network namespaces, no serial numbers, and of the kernel command
        line only what sets parameters of ib_core and loads modules. See C(docs/dump.md) of this collection for everything that is in it.
      - A new file is readable for its owner only. A file that has the same record already is not written. The directory is created if it is missing.
      - The other options have no effect on the record.
    type: path
seealso:
  - module: rdmaops.gpu_fabric.rdma_device
  - module: rdmaops.gpu_fabric.rdma_system
  - plugin: rdmaops.gpu_fabric.rails
    plugin_type: filter
  - plugin: rdmaops.gpu_fabric.nccl_env
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: List the devices
  rdmaops.gpu_fabric.rdma_info:
  register: rdma

- name: Show what NCCL needs to know
  ansible.builtin.debug:
    msg: "{{ rdma | rdmaops.gpu_fabric.nccl_env(exclude=['mlx5_storage']) }}"

- name: Find the devices that are in pods
  rdmaops.gpu_fabric.rdma_info:
    all_netns: true
    gather: []
  register: everywhere
  become: true

- name: Record the host for a report of a fault
  rdmaops.gpu_fabric.rdma_info:
    dump: /root/gpu-01.json
  become: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode what would be done.
  returned: success
  type: list
  elements: str
  sample: ["Write /root/gpu-01.json"]
diff:
  description: The text of the file O(dump) before and after, if it changes.
  returned: success
  type: list
  elements: dict
netns_mode:
  description: Mode of the RDMA subsystem, V(exclusive) or V(shared). Null if ib_core is not loaded, and before Linux 5.2.
  returned: success
  type: str
  sample: exclusive
devices:
  description: The devices, sorted by index.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name.
      type: str
    index:
      description: Index in RDMA netlink, unique on the host. The first one is 0.
      type: int
    driver:
      description: Kernel module that provides the device. Null if sysfs does not show it.
      type: str
    protocol:
      description: V(ib), V(roce), V(iw), V(opa) or V(usnic). RoCE and iWARP have the same link layer; this distinguishes them.
      type: str
    node_type:
      description: Type of the node, as shown by C(rdma dev).
      type: str
    pci_address:
      description: PCI address, or null for a software device.
      type: str
    auxiliary_device:
      description:
        - Name of the auxiliary device of a sub-function, such as V(mlx5_core.sf.4). Sub-functions have the PCI address of the function that they are on.
        - Null for the device of the PCI function itself.
      type: str
    numa_node:
      description: NUMA node, or null if there is none.
      type: int
    node_guid:
      description: GUID of the node.
      type: str
    sys_image_guid:
      description: GUID of the system image.
      type: str
    firmware:
      description: Version of the firmware, or null if the driver does not report it.
      type: str
    board_id:
      description: Identifier of the board, or null if the driver does not report it.
      type: str
    netns:
      description: Network namespace - its C(inode), its C(name) as listed by C(ip netns) or null, and whether it is the C(initial) one.
      type: dict
    users:
      description:
        - Processes that have objects of the device, as V(COMMAND (PID NUMBER\)) with the PID in the host's PID namespace, without the kernel itself.
        - Null unless V(users) is in O(gather), and if the kernel does not report them, which is then in RV(unreadable).
      type: list
      elements: str
    pod:
      description:
        - Pod whose processes are in that namespace - C(namespace), C(name), C(uid) and C(claims), the C(NAMESPACE/NAME) of its ResourceClaims - or null.
      type: dict
    can_change_netns:
      description: Whether the driver allows the device to move to another network namespace. Null if unknown.
      type: bool
    can_change_netns_source:
      description: How that is known.
      type: str
    ports:
      description: The ports.
      type: list
      elements: dict
      contains:
        port:
          description: Number, starting at 1.
          type: int
        state:
          description: State, V(ACTIVE) when it can carry traffic.
          type: str
        physical_state:
          description: Physical state, as shown by C(rdma link).
          type: str
        link_layer:
          description: V(InfiniBand) or V(Ethernet).
          type: str
        rate_gbps:
          description: Signalling rate in Gb/s.
          type: float
        rate:
          description: The kernel's text for the rate, with width and generation.
          type: str
        lid:
          description: Local identifier. Null on Ethernet.
          type: int
        sm_lid:
          description: Local identifier of the subnet manager. Null on Ethernet.
          type: int
        lmc:
          description: Local identifier mask control. Null on Ethernet.
          type: int
        netdev:
          description: Network device that has the port's addresses, or null if there is none in the same network namespace. A bond, not its member.
          type: str
        netdev_mtu:
          description: MTU of that network device, in bytes.
          type: int
        representor:
          description:
            - Whether the network device represents the port of another function, such as a virtual function (switchdev mode). The filters
              P(rdmaops.gpu_fabric.rails#filter), P(rdmaops.gpu_fabric.rail_plan#filter) and P(rdmaops.gpu_fabric.nccl_env#filter) leave out such ports.
            - False if the port has no network device in this network namespace, and on devices with one port.
          type: bool
        active_mtu:
          description: RDMA MTU in use, in bytes. Null unless O(gather) has V(active_mtu).
          type: int
        pkeys:
          description: Partition keys, or null if they were not requested.
          type: list
          elements: str
        gids:
          description:
            - GIDs, or null if they were not requested. The C(type) is V(IB), V(RoCE v1) or V(RoCE v2); C(ipv4) is the address that the GID maps, or null.
          type: list
          elements: dict
        counters:
          description: Port counters by name, or null if they were not requested.
          type: dict
        hw_counters:
          description: The driver's counters by name, or null if they were not requested.
          type: dict
  sample:
    - name: rocep7s0f0
      index: 0
      driver: mlx5_ib
      protocol: roce
      node_type: ca
      pci_address: "0000:07:00.0"
      auxiliary_device: null
      numa_node: 0
      node_guid: "0800:2703:00a1:b2c3"
      sys_image_guid: "0800:2703:00a1:b2c3"
      firmware: 28.43.1014
      board_id: MT_0000000838
      netns: {"inode": 4026531833, "name": null, "initial": true}
      pod: null
      users: null
      can_change_netns: true
      can_change_netns_source: mlx5_ib has disassociate_ucontext (/proc/kallsyms)
      ports:
        - port: 1
          state: ACTIVE
          physical_state: LINK_UP
          link_layer: Ethernet
          rate_gbps: 400.0
          rate: 400 Gb/sec (4X NDR)
          lid: 0
          sm_lid: 0
          lmc: 0
          netdev: ens7f0np0
          netdev_mtu: 9000
          representor: false
          active_mtu: null
          pkeys: ["0xffff"]
          gids:
            - {"index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a5a:0001", "type": "RoCE v2", "netdev": "ens7f0np0", "ipv4": "10.90.0.1"}
          counters: null
          hw_counters: null
unreadable:
  description:
    - What exists but could not be read - the C(device) (null if it is not about one device), C(what), the C(error), and the C(netns) as in RV(devices).
  returned: success
  type: list
  elements: dict
  sample:
    - {"device": "mlx5_3", "what": "ports/1/rate", "error": "EINVAL (Invalid argument)", "netns": {"inode": 4026531833, "name": null}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._decision import Decision
from ..module_utils._errors import FabricError
from ..module_utils._files import refuse_nul
from ..module_utils._rdma_devices.info import DEFAULT_SUBSETS, SUBSETS, Host, gather_info


def add_dump(decision: Decision, path: str) -> None:
    """Add that the file gets the record of this host."""
    from ..module_utils._host import dump

    refuse_nul(dump=path)
    dump.add_to(decision, path, dump.record(dump.Host()))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": list(SUBSETS), "default": list(DEFAULT_SUBSETS)},
            "all_netns": {"type": "bool", "default": False},
            "pod": {"type": "str"},
            "dump": {"type": "path"},
        },
        supports_check_mode=True,
    )
    if module.params["pod"] and module.params["all_netns"]:
        module.fail_json(
            msg="pod and all_netns are mutually exclusive: one selects a network namespace, the other selects all"
        )
    decision = Decision()
    try:
        result = gather_info(module.params["gather"], module.params["all_netns"], Host(), module.params["pod"])
        if module.params["dump"]:
            add_dump(decision, module.params["dump"])
        if not module.check_mode:
            decision.carry_out()
    except (FabricError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result, **decision.result())


if __name__ == "__main__":
    main()
