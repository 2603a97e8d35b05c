#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_device
short_description: Move the network device of a card back from a network namespace
version_added: 0.1.0
description:
  - Finds the network device of a PCI card in all network namespaces and moves it to that of the host. M(rdmaops.gpu_fabric.rdma_device) does the same for the
    card's RDMA device.
  - A namespace that a deleted pod has left behind, because something still holds it, keeps the card, and no other pod can get it.
  - If the card is not found, the message names the namespaces that could not be searched within the limits of M(rdmaops.gpu_fabric.rdma_info).
  - The network device is identified by the PCI address, the auxiliary device and the port, because a network plugin renames it in the pod. Representors of
    other functions, and IPoIB interfaces that were added to another one, are not looked for. If several network devices are the same port, none is moved.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
options:
  pci_address:
    description: PCI address of the card, with its domain, such as V(0000:07:00.0).
    type: str
    required: true
  auxiliary_device:
    description:
      - Auxiliary device of a sub-function on that PCI address, such as V(mlx5_core.sf.4), as C(devlink dev) shows it.
      - By default, it is the network device of the PCI function itself.
    type: str
  port:
    description: Number of the port, from 1, for cards that have several ports on one PCI address.
    type: int
    default: 1
  name:
    description:
      - Name that the network device gets on the host when it is moved back. By default, the name that it had there.
      - That is the name in the records of the network plugin C(sriov) in V(/var/lib/cni/sriov), else the alias of the device, where C(host-device) keeps it,
        else its alternative name (C(ip link property)), if it has a single one that C(udev) has not given it. If there is none of these, it is the name that
        C(udev) would choose, which C(udevadm test-builtin net_id) shows, else the name in the namespace.
      - A network device that is already on the host keeps its name.
    type: str
  disrupt:
    description: Whether to take it from a running pod, which loses its connection.
    type: bool
    default: false
requirements:
  - pyroute2 0.5.14 or newer on the host that runs the task. Check mode does not need it.
seealso:
  - module: rdmaops.gpu_fabric.rdma_audit_info
  - module: rdmaops.gpu_fabric.rdma_device
notes:
  - The package of pyroute2 is C(python3-pyroute2). The role P(rdmaops.gpu_fabric.gpu_node#role) installs it if V(gpu_node_return_stranded_ok) is true.
  - The device comes back without addresses, and down. The tool that configures the host's network must bring it up.
"""

EXAMPLES = r"""
---
- name: Move the card of the first rail back
  rdmaops.gpu_fabric.network_device:
    pci_address: "0000:07:00.0"
    name: rail0
  become: true
"""

RETURN = r"""
pci_address:
  description: The card.
  returned: success
  type: str
  sample: "0000:07:00.0"
name:
  description: Name of the network device in the namespace where it was found.
  returned: success
  type: str
  sample: net1
netns:
  description: Where it was found.
  returned: success
  type: str
  sample: netns cni-8c1d
after:
  description: Name and network namespace now, or as they would be in check mode. The name may be another one if C(udev) has a rule for the device.
  returned: success
  type: dict
  sample: {"name": "rail0", "netns": "the host"}
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Take the network device net1 (0000:07:00.0) from netns cni-8c1d to the host as rail0"]
resources:
  description: State of the network device before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: network_device
      name: "0000:07:00.0"
      status: drift
      desired: the host
      configured: null
      live: netns cni-8c1d
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._rdma.drivers import pci_address
from ..module_utils._rdma_devices.netdev import Host, manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "pci_address": {"type": "str", "required": True},
            "auxiliary_device": {"type": "str"},
            "port": {"type": "int", "default": 1},
            "name": {"type": "str"},
            "disrupt": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    address = module.params["pci_address"]
    if pci_address(address) != address:
        module.fail_json(
            msg="'%s' is not a PCI address: it must be DOMAIN:BUS:DEVICE.FUNCTION, such as 0000:07:00.0" % address
        )
    if module.params["port"] < 1:
        module.fail_json(msg="port is %d; it must be at least 1" % module.params["port"])
    try:
        result = manage(module.params, module.check_mode, Host())
    except (FabricError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
