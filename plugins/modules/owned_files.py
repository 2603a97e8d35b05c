#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: owned_files
short_description: Keep files that belong to this collection, whole, and only those
version_added: 0.1.0
description:
  - Compares several small files with what they should be, in one module process, and writes those that differ.
  - A file is written whole and atomically, with the collection's header on its first line.
    A file without that header is somebody else's, is never touched, and stops the module before anything is written.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
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
        description: Absolute path of the file. Directories above it are made.
        type: path
        required: true
      content:
        description:
          - Text of the file below the header. An empty one means that the file must not exist.
        type: str
        default: ""
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
  description: The files that differed, the same in check mode.
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

import functools
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import DRIFT, IN_SYNC, Decision, resource
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER, FileError, is_ours, read_text


def decide(files: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[Decision, dict[str, t.Any]]:
    """Compare every file, and refuse all of them where one is not ours."""
    decision = Decision()
    paths, resources = [], []
    for wish in files:
        path, body = wish["path"], wish["content"]
        if not path.startswith("/"):
            raise FileError("Writing %s: the path must be absolute" % path)
        found = read_text(path)
        wanted = "%s\n%s\n" % (HEADER, body.rstrip("\n")) if body.strip() else None
        state = "absent" if found is None else "present"
        differs = found != wanted
        if differs and found is not None and not is_ours(found):
            if wanted is None:
                differs = False  # somebody else's file of that name is none of our business
            else:
                raise FileError(
                    "Writing %s: the file is there and was not written by this collection. "
                    "Move what it says to a file of another name, or remove it, and run again" % path
                )
        if differs:
            from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files_write

            if wanted is None:
                decision.add("Remove %s" % path, functools.partial(_files_write.remove, path))
            else:
                decision.add("Write %s" % path, functools.partial(_files_write.atomic_write, path, wanted))
            decision.show(path, found or "", wanted or "")
            paths.append(path)
        resources.append(
            resource(
                "file",
                path,
                desired="absent" if wanted is None else "present",
                configured=state if not differs or found is None else "different",
                status=DRIFT if differs else IN_SYNC,
            )
        )
    return decision, {"changed_paths": paths, "resources": resources}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str", "default": ""},
                },
            },
        },
        supports_check_mode=True,
    )
    try:
        decision, result = decide(module.params["files"])
        if not module.check_mode:
            decision.carry_out()
    except FileError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**decision.result(), **result)


if __name__ == "__main__":
    main()
