#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_link
short_description: Manage software RDMA links (soft-RoCE, siw)
version_added: 0.1.0
description:
  - Creates a software RDMA device on an ordinary network device, or removes it, as C(rdma link add) and C(rdma link delete) do.
  - With a target, the link is created in that network namespace, which must already contain its network device. A link does not survive the move of its network
    device.
  - For labs and development. It does not replace a card that supports RDMA.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
  - rdmaops.gpu_fabric._rdma_target
options:
  name:
    description: Name of the RDMA device. Use a name only once on a host, even across network namespaces, because older kernels refuse another one.
    type: str
    required: true
  type:
    description: V(rxe) is soft-RoCE, V(siw) is iWARP over TCP.
    type: str
    choices: [rxe, siw]
    default: rxe
  netdev:
    description: Network device that carries the link. Required with O(state=present).
    type: str
  state:
    description:
      - V(absent) finds the link in whatever network namespace it is. A device that is not a software link is never removed.
    type: str
    choices: [present, absent]
    default: present
  disrupt:
    description: Whether to remove a link that is in use.
    type: bool
    default: false
seealso:
  - module: rdmaops.gpu_fabric.rdma_device
notes:
  - In mode V(exclusive), a link for a namespace other than the host's is created and then moved there, which the driver must allow. The kernel's own soft-RoCE
    and siw do not, up to Linux 7.2 at least.
"""

EXAMPLES = r"""
---
- name: Create a soft-RoCE device on the first card
  rdmaops.gpu_fabric.rdma_link:
    name: rxe0
    netdev: eth1

- name: Create one for a container, which already has the card
  rdmaops.gpu_fabric.rdma_link:
    name: rxe0
    netdev: net1
    container: 4f0c8a5be0f1
"""

RETURN = r"""
name:
  description: The link.
  returned: success
  type: str
  sample: rxe0
link:
  description: The link as found before anything was done, or null.
  returned: success
  type: dict
  sample: {"index": 0, "driver": "rdma_rxe", "netdevs": ["eth1"], "netns": "the host"}
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Create the RDMA link rxe0 of type rxe on eth1 in the host"]
resources:
  description: State of the link before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "rdma_link", "name": "rxe0", "status": "drift", "desired": "rdma_rxe on eth1 in the host", "configured": null, "live": null, "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._netns.target import KINDS, OPTIONS
from ..module_utils._rdma_devices.link import Host, manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "type": {"type": "str", "choices": ["rxe", "siw"], "default": "rxe"},
            "netdev": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **OPTIONS,
            "disrupt": {"type": "bool", "default": False},
        },
        mutually_exclusive=[KINDS],
        required_if=[("state", "present", ["netdev"])],
        supports_check_mode=True,
    )
    try:
        result = manage(module.params, module.check_mode, Host())
    except (FabricError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
