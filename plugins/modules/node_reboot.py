#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_reboot
short_description: Reboot a node, and show how long it takes
version_added: 0.2.0
description:
  - Does what M(ansible.builtin.reboot) does, by the same code. Before the reboot and every minute during it, a line on the terminal shows the time, the node,
    and which of the hosts of the play it is.
  - The role P(rdmaops.gpu_fabric.node_maintenance#role) uses it, which checks first whether a reboot helps, and drains the node.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Reboots the node in every run.
options:
  reboot_timeout:
    description: See M(ansible.builtin.reboot).
    type: int
    default: 600
  msg:
    description: Message to the users of the node.
    type: str
    default: Reboot initiated by Ansible
seealso:
  - module: ansible.builtin.reboot
"""

EXAMPLES = r"""
---
- name: Reboot the node
  rdmaops.gpu_fabric.node_reboot:
    reboot_timeout: 900
"""

RETURN = r"""
rebooted:
  description: Whether the node was rebooted.
  returned: always
  type: bool
  sample: true
elapsed:
  description: How long it took, in seconds.
  returned: always
  type: int
  sample: 74
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "reboot_timeout": {"type": "int", "default": 600},
    "msg": {"type": "str", "default": "Reboot initiated by Ansible"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="node_reboot runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.node_reboot, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
