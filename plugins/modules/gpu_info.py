#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Show the GPUs of a cluster's nodes, as nvidia-smi sees them
version_added: 0.1.0
description:
  - Runs C(nvidia-smi) on each GPU node, in a pod of the NVIDIA GPU Operator, by the API server's exec, and returns the GPUs with their driver, memory, ECC
    errors, temperature and MIG mode.
  - The pod is that of the driver (C(nvidia-driver-daemonset)) or, where the driver is the host's, that of the device plugin
    (C(nvidia-device-plugin-daemonset)).
  - A node on which C(nvidia-smi) cannot be run does not fail the module. Its C(gpus) in RV(nodes) are null, and C(error) has the reason.
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
    description: Namespace of the GPU Operator.
    type: str
    default: gpu-operator
  nodes:
    description: Names of the nodes. The default is all nodes with the label C(nvidia.com/gpu.present=true).
    type: list
    elements: str
    default: []
notes:
  - It needs the rights to list Pods and to create and get C(pods/exec) in O(namespace), and without O(nodes) to list Nodes. To exec in the driver's pod, which
    is privileged, is to be root on the node.
  - Each call of C(nvidia-smi) may take 60 seconds. The nodes are asked one after the other.
  - No test has run it on a GPU Operator. The output in the tests was recorded on an H100 with driver 580.159.04. What that GPU does not show, such as a GPU
    that does not answer, is written after the documentation of C(nvidia-smi) of driver 550.54.15.
seealso:
  - module: rdmaops.gpu_fabric.gpu_operator
  - name: nvidia-smi
    description: The properties that it reports.
    link: https://docs.nvidia.com/deploy/nvidia-smi/index.html
"""

EXAMPLES = r"""
---
- name: Show the GPUs of all GPU nodes
  rdmaops.gpu_fabric.gpu_info:
  register: gpu_info

- name: Show the GPUs of one node
  rdmaops.gpu_fabric.gpu_info:
    nodes: [gpu-1]
"""

RETURN = r"""
nodes:
  description:
    - The nodes by name.
    - C(gpus) is a list, null if C(nvidia-smi) could not be run or showed none. A property that the GPU or its driver does not report is null.
    - C(driver) is the version of the driver, C(cuda) the newest version of CUDA that it supports, C(pod) where C(nvidia-smi) was run.
    - C(error) is the reason why GPUs are not known, or not all of them. It is null if all is well.
    - C(uncorrected_ecc_errors) are those since the driver was loaded.
  returned: success
  type: dict
  sample:
    gpu-1:
      driver: 550.54.15
      cuda: "12.4"
      pod: nvidia-driver-daemonset-f6dhp
      error: null
      gpus:
        - index: 0
          name: NVIDIA A100 80GB PCIe
          driver: 550.54.15
          memory_mib: 81920
          ecc_mode: Enabled
          uncorrected_ecc_errors: 0
          temperature_celsius: 38
          mig_mode: Disabled
problems:
  description: Sentences on nodes with an C(error), and on GPUs with uncorrected ECC errors.
  returned: success
  type: list
  elements: str
  sample: ["node gpu-2: GPU 3 (NVIDIA A100 80GB PCIe) has 2 uncorrected ECC errors"]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._gpu_operator.gpus import manage
from ..module_utils._kubernetes import client


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "namespace": {"type": "str", "default": "gpu-operator"},
            "nodes": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
