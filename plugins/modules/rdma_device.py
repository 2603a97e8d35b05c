#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_device
short_description: Move an RDMA device to a network namespace, or back to the host
version_added: 0.1.0
description:
  - Moves an RDMA device between the host and the network namespace of a process, a container or a pod, as C(rdma dev set DEVICE netns) does.
  - It checks where the device is before it calls the kernel. A device that is already in the right place is left alone, because the kernel would reset it.
  - The result is read back from the namespace, including the character device.
  - A device does not take its network device with it, or vice versa.
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
    description:
      - Name or node GUID of the RDMA device, in whatever namespace it is.
      - A device of the host's namespace is found first. From Linux 7.3 on, there may be another one of its name in another namespace; the node GUID names one
        of them.
    type: str
    required: true
  state:
    description:
      - V(attached) requires one of O(netns), O(pid), O(container) and O(pod).
      - V(detached) moves the device back to the host's namespace, from wherever it is.
    type: str
    choices: [attached, detached]
    default: attached
  disrupt:
    description:
      - Whether to move a device that processes use. They lose their connections.
      - With O(state=attached), this also determines whether to take the device from another running pod.
      - A device that the kernel itself uses (NFS, NVMe over Fabrics, Lustre) is never moved, whatever this option is set to.
    type: bool
    default: false
seealso:
  - module: rdmaops.gpu_fabric.rdma_info
  - module: rdmaops.gpu_fabric.rdma_system
notes:
  - Requires the RDMA subsystem in mode V(exclusive). See M(rdmaops.gpu_fabric.rdma_system).
  - The kernel returns the device to the host when its namespace ends.
"""

EXAMPLES = r"""
---
- name: Move the first rail to a pod
  rdmaops.gpu_fabric.rdma_device:
    name: rocep7s0f0
    pod: ml/train-0

- name: Move it back
  rdmaops.gpu_fabric.rdma_device:
    name: rocep7s0f0
    state: detached
"""

RETURN = r"""
name:
  description: The device.
  returned: success
  type: str
  sample: rocep7s0f0
index:
  description: Its index, which stays the same.
  returned: success
  type: int
  sample: 0
driver:
  description: Kernel module that provides the device. Null if sysfs does not show it.
  returned: success
  type: str
  sample: mlx5_ib
netns:
  description: Network namespace in which the device was found.
  returned: success
  type: dict
  sample: {"inode": 4026531833, "text": "the host", "initial": true}
users:
  description: Processes that had the device open. Only determined if the device must move.
  returned: success
  type: list
  elements: dict
  sample: [{"pid": 4242, "command": "ib_write_bw"}]
kernel_users:
  description: Parts of the kernel that used the device, apart from the subsystem itself.
  returned: success
  type: list
  elements: str
  sample: []
after:
  description:
    - Name and network namespace now, or as they would be in check mode.
    - C(chardev) is the character device created for it, known only after a move.
  returned: success
  type: dict
  sample:
    name: rocep7s0f0
    netns: {"inode": 4026532270, "text": "pod ml/train-0"}
    chardev: {"path": "/dev/infiniband/uverbs0", "major": 231, "minor": 192}
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Move the RDMA device rocep7s0f0 from the host to pod ml/train-0"]
resources:
  description: State of the device before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "rdma_device", "name": "rocep7s0f0", "status": "drift", "desired": "pod ml/train-0", "configured": null, "live": "the host", "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._netns.target import KINDS, OPTIONS
from ..module_utils._rdma_devices.move import Host, manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["attached", "detached"], "default": "attached"},
            **OPTIONS,
            "disrupt": {"type": "bool", "default": False},
        },
        mutually_exclusive=[KINDS],
        required_if=[("state", "attached", KINDS, True)],
        supports_check_mode=True,
    )
    targets = [name for name in KINDS if module.params[name] is not None]
    if module.params["state"] == "detached" and targets:
        module.fail_json(
            msg="state=detached takes the device back to the host and finds it by itself: leave %s out" % targets[0]
        )
    try:
        result = manage(module.params, module.check_mode, Host())
    except (FabricError, OSError) as exc:
        module.fail_json(msg=str(exc))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
