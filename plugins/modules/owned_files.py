#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: owned_files
short_description: Manage files that belong entirely to this collection
version_added: 0.1.0
description:
  - Compares several small files with their desired content, in one module process, and writes those that differ.
  - A file is written as a whole and atomically, with the collection's header on its first line. A file without that header does not belong to this collection,
    is never touched, and stops the module before anything is written.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
attributes:
  platform:
    support: full
    platforms: posix
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description:
          - Absolute path of the file. Parent directories are created.
          - An existing file keeps its owner, mode and extended attributes. Another hard link to it keeps the old text.
          - If it is a symbolic link, its target is written. That is refused if a directory, link or file on the way belongs to a user other than root, or if
            others may write to a directory on the way, because they could redirect the write.
        type: path
        required: true
      content:
        description:
          - Text of the file below the header. If it is empty, the file must not exist.
        type: str
        default: ""
      mode:
        description: Permissions of a file that does not exist yet. With V(0600), only root reads it.
        type: str
        choices: ["0600", "0644"]
        default: "0644"
"""

EXAMPLES = r"""
- name: Let containers lock as much memory as RDMA needs
  rdmaops.gpu_fabric.owned_files:
    files:
      - path: /etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf
        content: |
          [Service]
          LimitMEMLOCK=infinity
"""

RETURN = r"""
changed_paths:
  description: The files that differed, also in check mode.
  returned: success
  type: list
  elements: str
  sample: ["/etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Write /etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf"]
resources:
  description: State of each file before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: file
      name: /etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf
      status: drift
      desired: present
      configured: null
      live: null
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._files import FileError
from ..module_utils._host.owned_files import ARGUMENTS, decide


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        decision, result = decide(module.params["files"])
        if not module.check_mode:
            decision.carry_out()
    except FileError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**decision.result(), **result)


if __name__ == "__main__":
    main()
