#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Label Kubernetes nodes, and restore the previous labels
version_added: 0.1.0
description:
  - Sets labels of many nodes in one module process, and records their previous values in the annotation C(rdmaops.gpu-fabric/labels-before) of the node.
  - With O(state=restored), the previous values are restored. A label that has been set to another value in the meantime is left alone.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
  - rdmaops.gpu_fabric._kubernetes
attributes:
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description: Names of the nodes in the cluster.
    type: list
    elements: str
    required: true
  labels:
    description:
      - Labels and their values.
      - With O(state=restored), only their keys count, and none means all recorded labels.
    type: dict
    default: {}
  state:
    description: Whether to set the labels, or to restore the previous ones.
    type: str
    choices: [present, restored]
    default: present
"""

EXAMPLES = r"""
---
- name: Schedule GPUs by topology
  rdmaops.gpu_fabric.node_labels:
    nodes: [gpu-01, gpu-02]
    labels:
      ack.node.gpu.schedule: topology

- name: Restore all labels
  rdmaops.gpu_fabric.node_labels:
    nodes: [gpu-01, gpu-02]
    state: restored
"""

RETURN = r"""
kept:
  description: Labels that were not restored, and why.
  returned: success
  type: list
  elements: str
  sample: ["gpu-01: ack.node.gpu.schedule: it was changed to share meanwhile"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Label node gpu-01: ack.node.gpu.schedule=topology"]
resources:
  description: State of each label before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: node_label
      name: gpu-01 ack.node.gpu.schedule
      status: drift
      desired: topology
      configured: null
      live: default
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._kubernetes.node_labels import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "nodes": {"type": "list", "elements": "str", "required": True},
            "labels": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "restored"], "default": "present"},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
