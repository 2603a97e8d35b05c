#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_info
short_description: Collect a host's network devices, their uses, and its CNI plugins
version_added: 0.1.0
description:
  - Returns in one module process what a rail plan and the lint of network attachments need about a node in addition to its RDMA devices, above all which
    network devices the host itself depends on.
  - Nothing is changed. Root is required only if other users cannot read the plugin directories.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._attributes.linux
options:
  gather:
    description:
      - What to collect. V(versions) queries each plugin for the versions of the CNI specification that it supports, and includes V(cni).
    type: list
    elements: str
    choices: [interfaces, cni, versions]
    default: [interfaces, cni]
  internal_ips:
    description: Addresses by which the cluster knows the node, its InternalIP first.
    type: list
    elements: str
    default: []
  bin_dir:
    description: Directory of the CNI plugins.
    type: path
    default: /opt/cni/bin
  conf_dir:
    description: Directory of the CNI configurations that the container runtime reads.
    type: path
    default: /etc/cni/net.d
seealso:
  - module: rdmaops.gpu_fabric.rdma_info
  - plugin: rdmaops.gpu_fabric.rail_plan
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Collect the node's network
  rdmaops.gpu_fabric.network_info:
  register: network

- name: Show what the host itself needs
  ansible.builtin.debug:
    msg: "{{ network.interfaces | selectattr('uses') | map(attribute='name') }}"
"""

RETURN = r"""
interfaces:
  description:
    - The network devices in the host's network namespace, except C(lo). Null if O(gather) excludes them.
    - C(uses) shows what the host needs a device for - V(default_route), V(internal_ip), the bond or bridge that it is a member of, a VLAN with addresses on it,
      and mounts of remote file systems whose server is reached through it. The uses of a bond also apply to its members.
    - C(pci_address) of a virtio device or a sub-function is that of its parent PCI device. C(auxiliary_device) is set for a sub-function, and null for
      others. C(numa_node) is null if the firmware does not report one.
    - C(rdma) are the RDMA devices of the same hardware; soft-RoCE is not included.
    - C(can_change_netns) is V(false) if the kernel keeps the device in its network namespace, as it does with bonds, bridges, and in switchdev mode the network
      device of a physical function of mlx5. Otherwise it is null, because Linux and iproute2 show this only since 6.15, and only if it is so.
  returned: success
  type: list
  elements: dict
  sample:
    - name: ens1f0np0
      mac: 0c:42:a1:65:1f:2e
      mtu: 9000
      state: UP
      kind: null
      pci_address: "0000:07:00.0"
      auxiliary_device: null
      numa_node: 0
      master: null
      link: null
      addresses: ["198.51.100.11/24"]
      uses: ["storage mount /data from 198.51.100.9"]
      rdma: [mlx5_0]
      can_change_netns: null
cni:
  description:
    - CNI plugins by name, the versions that each supports (null unless O(gather) has V(versions); an entry is null if the plugin did not respond, which
      C(unreadable) reports), and configurations in the order in which runtimes read them, the first of which is used.
  returned: success
  type: dict
  sample:
    bin_dir: /opt/cni/bin
    conf_dir: /etc/cni/net.d
    plugins: [bridge, host-device, host-local, multus, whereabouts]
    versions: null
    configs: [00-multus.conf, 10-flannel.conflist]
    unreadable: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._host.network import Host, gather


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": ["interfaces", "cni", "versions"],
                "default": ["interfaces", "cni"],
            },
            "internal_ips": {"type": "list", "elements": "str", "default": []},
            "bin_dir": {"type": "path", "default": "/opt/cni/bin"},
            "conf_dir": {"type": "path", "default": "/etc/cni/net.d"},
        },
        supports_check_mode=True,
    )
    try:
        result = gather(module.params, Host())
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
