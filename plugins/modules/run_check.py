#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_check
short_description: Find mistakes in the inventory and on the command line before anything is done
version_added: 0.2.0
description:
  - The playbooks of this collection begin with it. It fails with one message of at most 600 characters that has a sentence for each mistake, as far as they
    fit.
  - Groups. A group that the playbook works on has no host, C(--limit) leaves none of them, or a group or a file of C(group_vars) has a name that is close to
    that of a group of this collection which has no host.
  - Tags. The playbook does not have a tag of C(--tags) or C(--skip-tags). This is not checked if another playbook imports those of this collection.
  - Names of variables. The name of a variable is close to that of a variable of this collection, and is none of its names. This applies to variables of the
    inventory, of imports of playbooks, and to extra variables. Names that begin as those of a role do and are close to none are reported in a warning.
  - Values of variables. The value of a variable does not fit the argument specification of its role. A value that a lookup returns, or that depends on facts
    which are not known yet, is left to the role.
  - The variable C(site_foreign_variables) of the inventory is a list of names of variables and groups that are not mistakes.
  - Variables whose name begins with an underscore or with C(ansible_) are not looked at.
  - It checks the hosts under C(--limit), runs on the controller, and connects to no host.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - It only reads.
  platform:
    support: full
    platforms: posix
options:
  groups:
    description:
      - Groups that must have a host, as patterns of a play. One with several groups, separated by V(:), needs a host in one of them. V(group[0]) is the first
        host of a group.
      - With an empty list, the inventory may be empty.
    type: list
    elements: str
    default: []
  other_groups:
    description: Further groups that the playbook works on. C(--limit) must leave a host of one of O(groups) or these.
    type: list
    elements: str
    default: []
  tags:
    description: The tags that the playbook has.
    type: list
    elements: str
    default: []
  required:
    description: Variables of one role that must be set for a host, by the playbook's import, or as extra variables.
    type: list
    elements: str
    default: []
seealso:
  - module: ansible.builtin.validate_argument_spec
"""

EXAMPLES = r"""
---
- name: Check the inventory before anything is done
  rdmaops.gpu_fabric.run_check:
    groups: [gpu_nodes, "monitoring:switch_telemetry"]
  run_once: true
"""

RETURN = r"""
msg:
  description: What is wrong.
  returned: on failure
  type: str
  sample: >-
    gpu_node_netns_mod (group gpu_nodes) is not a variable of role gpu_node. Did you mean gpu_node_netns_mode? Nothing was done.
unknown:
  description: Names of variables that begin as those of a role do, and are neither variables of this collection nor close to one.
  returned: success
  type: list
  elements: str
  sample: [kubernetes_audit]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

_NAMES: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
ARGUMENT_SPEC = dict.fromkeys(("groups", "other_groups", "tags", "required"), _NAMES)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="run_check runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.run_check, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
