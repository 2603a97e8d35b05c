#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_lock
short_description: Prevent concurrent maintenance runs on this controller
version_added: 0.2.0
description:
  - The role P(rdmaops.gpu_fabric.node_maintenance#role) uses it if it has no API server whose Lease would keep runs apart.
  - It writes the process of this run to a file on the controller, and fails while another process recorded there is alive. The file becomes void when that
    process ends, for whatever reason, so nothing needs to be released.
  - A process is identified by its PID, its start time and the boot ID of the machine.
  - Runs on several controllers, by several users, or in several containers (such as those of AWX) do not see each other's files.
  - It runs on the controller, without a connection to a host.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - Another run is an error in check mode too. The file is not written.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The file is not part of the state of a host, so writing it does not count as a change.
  platform:
    support: full
    platforms: posix
options:
  path:
    description: Path of the file on the controller. Runs that may run concurrently, for example for different clusters, need different files.
    type: str
    required: true
seealso:
  - module: rdmaops.gpu_fabric.node_drain
"""

EXAMPLES = r"""
---
- name: Prevent concurrent runs
  rdmaops.gpu_fabric.maintenance_lock:
    path: ~/.cache/rdmaops/node_maintenance.lock
"""

RETURN = r"""
path:
  description: Path of the file.
  returned: success
  type: str
  sample: /home/alice/.cache/rdmaops/node_maintenance.lock
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {"path": {"type": "str", "required": True}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="maintenance_lock runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.maintenance_lock, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
