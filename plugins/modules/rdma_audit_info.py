#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_audit_info
short_description: Find RDMA and network devices that belong neither to the host nor to a pod
version_added: 0.1.0
description:
  - Looks for every RDMA device of the host in all network namespaces, and compares its location with where it belongs, which is the host's own namespace or
    that of a pod with a process. A device anywhere else is stranded, for example in a namespace that a pod has left behind, and no pod will get it.
  - The network devices of PCI cards are looked for as well. They are identified by the PCI address, for a sub-function also by its auxiliary device, and by
    the port, because their names change with the namespace. Representors of other functions, and IPoIB interfaces that were added to another one, are left out.
  - In mode V(shared), every namespace has every device, so none can be stranded, and other namespaces are not searched.
  - A namespace that cannot be searched within the limits of M(rdmaops.gpu_fabric.rdma_info) is a resource with the status V(unknown). An expected device that
    was found nowhere is then also V(unknown).
  - It only reads. M(rdmaops.gpu_fabric.rdma_device) and M(rdmaops.gpu_fabric.network_device) move devices back to the host.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._attributes.root
options:
  expected:
    description:
      - RDMA devices and cards that the host has, each by its name, its node GUID or its PCI address, in whatever namespace it is. One that is in no namespace
        has drifted. A sub-function is its PCI address and its auxiliary device, such as V(0000:07:00.0/mlx5_core.sf.4).
      - A device that returns from a pod may have another name than before; GUID and address stay the same.
    type: list
    elements: str
    default: []
  settle:
    description:
      - How long, in seconds, a device may be in a namespace without a process of a pod. Stranded devices are looked for again after that time, and a device has
        drifted only if it is still in the same namespace. If it is in another one by then, its status is unknown.
      - A network plugin moves the device into the pod's namespace before the pod's first process exists, and leaves it there after the last one has ended.
      - With V(0), devices are looked for only once. If nothing is stranded, the module does not wait.
    type: int
    default: 30
seealso:
  - module: rdmaops.gpu_fabric.rdma_info
  - module: rdmaops.gpu_fabric.rdma_device
  - module: rdmaops.gpu_fabric.network_device
"""

EXAMPLES = r"""
---
- name: Find stranded devices
  rdmaops.gpu_fabric.rdma_audit_info:
    expected: [mlx5_0, "b8ce:f603:00aa:0001", "0000:07:00.0"]
  become: true
  register: audit

- name: Move them back
  rdmaops.gpu_fabric.rdma_device:
    name: "{{ item.node_guid | default(item.name, true) }}"
    state: detached
  loop: "{{ audit.resources | selectattr('status', 'eq', 'drift') | selectattr('kind', 'eq', 'rdma_device') }}"
  become: true
"""

RETURN = r"""
netns_mode:
  description: Mode of the RDMA subsystem, V(exclusive) or V(shared). Null if ib_core is not loaded, and before Linux 5.2.
  returned: success
  type: str
  sample: exclusive
resources:
  description:
    - Each RDMA device (kind C(rdma_device)) and each card's network device (kind C(network_device)), as the drift report reads it, and expected devices that
      are in no namespace. An RDMA device has its C(node_guid), too.
    - The name of a network device is its PCI address, followed by V(/) and the auxiliary device of a sub-function, and by the port if that is not 1. It also
      has C(pci_address), C(auxiliary_device) and C(port), which are the options of M(rdmaops.gpu_fabric.network_device).
    - A network namespace that could not be searched is V(unknown), and so is an expected device that was not found elsewhere in that case.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: rdma_device
      name: mlx5_0
      status: drift
      desired: the host, or a running pod
      configured: null
      live: netns cni-8c1d, held by /run/netns/cni-8c1d
      next_boot: null
      why: null
      node_guid: "b8ce:f603:00aa:0001"
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._rdma_devices.audit import AuditHost, audit


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "list", "elements": "str", "default": []},
            "settle": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    if module.params["settle"] < 0:
        module.fail_json(msg="settle is %d; it must be at least 0 seconds" % module.params["settle"])
    try:
        result = audit(module.params["expected"], module.params["settle"], AuditHost())
    except (FabricError, OSError) as exc:
        module.fail_json(msg="Looking for stranded RDMA devices: %s" % exc)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
