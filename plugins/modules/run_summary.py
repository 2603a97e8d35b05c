#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_summary
short_description: Show the nodes at the end of a run, and what to do next
version_added: 0.2.0
description:
  - Shows one line for each node of the play, the worst first - what was changed, or would be in check mode, the mode of the RDMA subsystem now and at the next
    boot, whether a reboot is due and would help, and the verdict on the fabric. Nodes of which the same is true share a line. It then names what to do next.
  - It reads the facts that the roles P(rdmaops.gpu_fabric.gpu_node#role), P(rdmaops.gpu_fabric.node_maintenance#role) and
    P(rdmaops.gpu_fabric.fabric_check#role) have set in this run. A host of which there are none is unknown.
  - The playbooks C(nodes), C(reboot) and C(site) end with it. It is not shown if a play before it ends the run, because Ansible then runs no other play. The
    last message is then that of the failed task.
  - It runs on the controller, without a connection to a host. Use it with C(run_once).
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
  platform:
    support: full
    platforms: posix
options: {}
seealso:
  - module: rdmaops.gpu_fabric.fabric_verdict
"""

EXAMPLES = r"""
---
- name: Show the nodes, and what to do next
  rdmaops.gpu_fabric.run_summary:
  run_once: true
"""

RETURN = r"""
summary:
  description: The lines that were shown.
  returned: success
  type: list
  elements: str
  sample:
    - "Summary of 3 nodes: 1 due for a reboot, 1 to change, 2 in sync (check mode: nothing was changed)"
    - "gpu-01: 5 packages, 1 file, mode shared -> exclusive at the next boot, reboot due and would help"
    - "gpu-02, gpu-03: in sync, mode exclusive"
next:
  description: What to do next. Empty if there is nothing to do.
  returned: success
  type: list
  elements: str
  sample: ["Make these changes: the same command without --check."]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC: dict[str, t.Any] = {}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="run_summary runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.run_summary, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
