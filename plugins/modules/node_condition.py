#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_condition
short_description: Set a condition of Kubernetes nodes
version_added: 0.1.0
description:
  - Sets one condition of many nodes in one module process, as the node problem detector sets its own. C(kubectl describe node) shows it, and controllers can
    act on it.
  - It is written by server-side apply. A condition of this type that another tool has written is left alone, and listed in RV(kept).
  - The time of the condition is when its status, reason or message last changed.
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
  conditions:
    description:
      - The condition of each node. Other nodes are left alone.
      - With O(state=absent), only the names of the nodes count.
    type: list
    elements: dict
    required: true
    suboptions:
      node:
        description: Name of the node in the cluster.
        type: str
        required: true
      status:
        description: Status of the condition.
        type: str
        choices: ["True", "False", Unknown]
        default: Unknown
      reason:
        description: Why, in one word for programs.
        type: str
        default: NotChecked
      why:
        description: The message of the condition, in a sentence for people, of at most 1024 characters. A longer one is cut.
        type: str
        default: ""
  type:
    description: Type of the condition.
    type: str
    default: RdmaFabricReady
  state:
    description: Whether the nodes have the condition.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
---
- name: Record that a node's fabric is broken
  rdmaops.gpu_fabric.node_condition:
    conditions:
      - node: gpu-03
        status: "False"
        reason: FabricCheckFailed
        why: "rail 1: the port is DOWN, not ACTIVE"

- name: Remove the condition
  rdmaops.gpu_fabric.node_condition:
    conditions: [{node: gpu-03}]
    state: absent
"""

RETURN = r"""
kept:
  description: Conditions that were left alone, and why.
  returned: success
  type: list
  elements: str
  sample: ["gpu-03: another tool has set its condition RdmaFabricReady"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Set the condition RdmaFabricReady of node gpu-03 to False FabricCheckFailed"]
resources:
  description: State of each condition before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: node_condition
      name: gpu-03 RdmaFabricReady
      status: drift
      desired: False FabricCheckFailed
      configured: null
      live: True FabricCheckPassed
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._kubernetes.node_condition import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "conditions": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "node": {"type": "str", "required": True},
                    "status": {"type": "str", "choices": ["True", "False", "Unknown"], "default": "Unknown"},
                    "reason": {"type": "str", "default": "NotChecked"},
                    "why": {"type": "str", "default": ""},
                },
            },
            "type": {"type": "str", "default": "RdmaFabricReady"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
