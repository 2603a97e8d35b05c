#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transport_info
short_description: Find whether running pods use RDMA
version_added: 0.1.0
description:
  - Reads the counters of the RDMA devices and of the network devices that a pod sees, twice, and returns what went over which. Any workload can be asked
    about, while it runs.
  - The counters are read with C(cat) in a container of the pod, by the API server's exec. Nothing is written.
  - The words are V(rdma), V(tcp) (network devices carried traffic, and RDMA devices none), V(idle) and V(unknown).
  - V(unknown) has a reason. In RDMA mode shared, RDMA devices count what all pods of their node do, and a pod on the host's network shares the network devices
    with its node.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._kubernetes
attributes:
  platform:
    support: full
    platforms: posix
options:
  namespace:
    description: Namespace of the pods.
    type: str
    required: true
  name:
    description: Name of the pod.
    type: str
  label_selectors:
    description: Label selectors, all of which must match. Pods that have ended are left out.
    type: list
    elements: str
  container:
    description: Container in which C(cat) is run. The default is the one that C(kubectl exec) selects.
    type: str
  seconds:
    description:
      - How long to wait between the two looks, in seconds. Each pod is judged over the time between its own looks, which is longer if there are many.
      - Choose more than a step of the training takes.
    type: int
    default: 10
  idle_bytes_per_second:
    description:
      - A device that moves less than this many bytes per second, in both directions together, is idle.
      - Soft-RoCE of Linux before 7.2 counts packets only. A packet is taken for 1024 bytes.
    type: int
    default: 65536
notes:
  - It needs the rights to get the pod, or to list pods with O(label_selectors), and to create and get C(pods/exec) in O(namespace).
  - The image of the container needs C(sh), and C(env), C(timeout) and C(cat) from coreutils or busybox. Without them, the transport is V(unknown).
  - On most cards, network devices do not count what goes over RDMA. Those of soft-RoCE do.
seealso:
  - module: rdmaops.gpu_fabric.training_job_info
  - module: rdmaops.gpu_fabric.rdma_info
"""

EXAMPLES = r"""
---
- name: Find whether the pods of a job use RDMA
  rdmaops.gpu_fabric.transport_info:
    namespace: ml
    label_selectors: [rdmaops.gpu-fabric/job=train]
    seconds: 60
  register: transport_info

- name: Fail if they do not
  ansible.builtin.assert:
    that: transport_info.transport == 'rdma'
    fail_msg: "{{ transport_info.pods }}"
"""

RETURN = r"""
transport:
  description: One word for all pods, the first of V(unknown), V(tcp), V(rdma) and V(idle) that is among theirs.
  returned: success
  type: str
  sample: rdma
pods:
  description:
    - The pods.
    - C(transport) is V(rdma), V(tcp), V(idle) or V(unknown), C(why) the reason if it is unknown, else null.
    - C(rdma) has the traffic of each port in both directions, by device and port. What its driver does not count is null.
    - C(netdevs) has the bytes per second of each network device but the loopback device, in both directions.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Namespace and name.
      type: str
    node:
      description: Name of its node.
      type: str
    transport:
      description: What it used.
      type: str
    why:
      description: The reason if that is unknown.
      type: str
    seconds:
      description: Time between the two looks, in seconds. Null if there were not two.
      type: float
    rdma:
      description: Traffic of its RDMA devices.
      type: dict
    netdevs:
      description: Traffic of its network devices.
      type: dict
  sample:
    - pod: ml/train-0
      node: gpu-1
      transport: rdma
      why: null
      seconds: 60.2
      rdma:
        mlx5_0/1: {bytes_per_second: 21474836480.0, packets_per_second: null}
      netdevs: {eth0: 1204.0, net1: 0.0}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._transport.info import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "namespace": {"type": "str", "required": True},
            "name": {"type": "str"},
            "label_selectors": {"type": "list", "elements": "str"},
            "container": {"type": "str"},
            "seconds": {"type": "int", "default": 10},
            "idle_bytes_per_second": {"type": "int", "default": 65536},
        },
        mutually_exclusive=[("name", "label_selectors")],
        required_one_of=[("name", "label_selectors")],
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
