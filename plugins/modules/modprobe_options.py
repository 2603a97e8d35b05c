#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: modprobe_options
short_description: Manage the parameters of a kernel module
version_added: 0.1.0
description:
  - Owns one file in modprobe.d, which L(modprobe,https://man7.org/linux/man-pages/man5/modprobe.d.5.html) reads whenever it loads a module, and writes it as a
    whole and atomically.
  - Evaluates what modprobe would make of all files that it reads, in every directory, including names that hide each other, continued lines, and repeated and
    contradictory parameters. A line in another file that contradicts the task is found, named, and handled as set in O(on_conflict).
  - Predicts the result of the next boot. The kernel command line of the default boot entry overrides modprobe.d, and a module that the initramfs loads gets the
    parameters in the initramfs.
  - The next boot is unknown if V(/etc/modprobe.d) is in memory, as on stateless nodes of Warewulf and xCAT. There, set O(root) to the directory of the image.
  - A loaded module is not reloaded, and the machine is not rebooted.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - RV(reload_required) is reported by every run until the module has been reloaded, and does not count as a change.
options:
  name:
    description:
      - The kernel module, for example V(mlx5_core). V(-) and V(_) are equivalent.
    type: str
    required: true
  options:
    description:
      - The parameters and their values.
      - With O(state=present), the file at O(path) contains exactly these. So either one task must set all parameters of a module, or the tasks must use
        different values of O(path).
      - With O(state=absent), these are removed from the file, regardless of their values here.
      - A value is a string or an integer. Booleans, floating point numbers, lists and null are refused, because it is not clear what should reach the kernel.
        YAML interprets V(on), V(off), V(yes) and V(no) as booleans, so quote them.
      - A value may contain blanks, and is then enclosed in double quotes. Double quotes and control characters in it are refused.
      - C(netns_mode) of C(ib_core) is refused. It is managed by M(rdmaops.gpu_fabric.rdma_system).
    type: dict
  state:
    description:
      - V(present) sets O(options).
      - V(absent) removes O(options) from the file, or removes the file if there are none.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - The file that this task owns. Its name must end in C(.conf), and it must be in a directory that modprobe reads.
      - The default is V(/etc/modprobe.d/zz-rdmaops-NAME.conf), because files are read in the order of their names and the last value wins.
      - A file without this collection's header is never overwritten, unless O(on_conflict=take_over).
    type: path
  root:
    description:
      - The root directory of an image to manage instead of the running system. O(path) is relative to it, and symbolic links are resolved within it.
      - Live values are null in this case.
    type: path
    default: /
  on_conflict:
    description:
      - What to do if a line in another file sets a parameter to another value.
      - V(fail) changes nothing and names the line.
      - V(warn) warns and continues if this task's file is read later and wins, and fails if it does not.
      - V(take_over) removes the parameter from the other file and leaves every other byte of it as it was. Only files in V(/etc/modprobe.d) are changed. It
        also overwrites a file at O(path) that does not belong to this collection. A copy of each file is kept next to it, with C(.rdmaops-backup) added to its
        name.
    type: str
    choices: [fail, warn, take_over]
    default: fail
  initramfs:
    description:
      - What to do if the initramfs of the default boot entry contains the module with parameters that differ from modprobe.d.
      - V(report) reports it in RV(initramfs_stale).
      - V(rebuild) rebuilds the image that has the modules of the entry's kernel, with the tool that created it (initramfs-tools or dracut), keeps the previous
        one as C(IMAGE.rdmaops-previous), and reads the new one back. This requires free space of twice the image's
        size on its file system, which is checked before anything is written.
    type: str
    choices: [report, rebuild]
    default: report
notes:
  - Files in modprobe.d that cannot be read or are not text are refused, and nothing is changed, because the result of modprobe is unknown then.
  - If several directories have a file of the same name, the one in V(/etc) counts, then those in V(/run), V(/usr/local/lib), V(/usr/lib) and V(/lib), as in
    kmod 29 and later.
seealso:
  - module: rdmaops.gpu_fabric.rdma_system
"""

EXAMPLES = r"""
---
- name: Let the NIC's driver probe virtual functions slowly
  rdmaops.gpu_fabric.modprobe_options:
    name: mlx5_core
    options:
      probe_vf: "N"
      debug_mask: 0

- name: Set a parameter also for a module that the initramfs loads
  rdmaops.gpu_fabric.modprobe_options:
    name: nvme
    options:
      poll_queues: 4
    initramfs: rebuild

- name: Take over a parameter that an administrator set elsewhere
  rdmaops.gpu_fabric.modprobe_options:
    name: nvidia
    options:
      NVreg_EnableStreamMemOPs: 1
    on_conflict: take_over

- name: Remove one parameter
  rdmaops.gpu_fabric.modprobe_options:
    name: nvidia
    options:
      NVreg_EnableStreamMemOPs: 1
    state: absent

- name: Remove the whole file
  rdmaops.gpu_fabric.modprobe_options:
    name: nvidia
    state: absent

- name: Prepare an image
  rdmaops.gpu_fabric.modprobe_options:
    name: nvidia
    options:
      NVreg_RegistryDwords: "PeerMappingOverride=1;"
    root: /mnt/image
"""

RETURN = r"""
name:
  description: The module's name, with V(_).
  returned: success
  type: str
  sample: mlx5_core
path:
  description: The file that the task owns.
  returned: success
  type: str
  sample: /etc/modprobe.d/zz-rdmaops-mlx5_core.conf
parameters:
  description:
    - The parameters of O(options), or of the removed file, by name. Values are those found before anything was done, as kmod sees them. A parameter without a
      value is V(1) to the kernel.
    - C(desired) is null with O(state=absent).
    - C(configured) is the value from modprobe.d, with the line it comes from; null if no line sets it.
    - C(cmdline) is the value from the kernel command line of this boot and of the default boot entry.
    - C(initramfs) is null if that entry has none, or if it cannot be read. C(forced) is whether the image loads the module itself.
    - C(live) is the value in sysfs; null if the module is not loaded, or does not show it.
    - C(next_boot) is the prediction. Null means the kernel's default if C(next_boot_known), and otherwise that it is unknown, for the reason in
      C(next_boot_reason).
  returned: success
  type: dict
  sample:
    probe_vf:
      desired: "N"
      configured: {"value": "N", "path": "/etc/modprobe.d/zz-rdmaops-mlx5_core.conf", "line": 2}
      cmdline: {"running": null, "next_boot": null}
      initramfs: {"image": "/boot/initrd.img-7.2.12", "contains_module": true, "forced": false, "value": "N"}
      live: "Y"
      next_boot: "N"
      next_boot_known: true
      next_boot_reason: null
conflicts:
  description:
    - Lines of other files that set a parameter to another value. C(wins) is whether kmod would use it instead of ours.
    - Also returned by a task that fails because of them.
  returned: success, or when refused because of O(on_conflict)
  type: list
  elements: dict
  sample:
    - {"path": "/etc/modprobe.d/mlx5.conf", "line": 3, "text": "options mlx5_core probe_vf=1", "wins": false}
initramfs_stale:
  description: Whether the initramfs of the default boot entry contains the module with values that differ from modprobe.d. Null if unknown.
  returned: success
  type: bool
  sample: false
reload_required:
  description: Whether the module is loaded with another value than desired. Null if it does not show all of them.
  returned: success
  type: bool
  sample: true
after:
  description: The current state, or the state that would result in check mode. C(next_boot) has a value for each parameter.
  returned: success
  type: dict
  sample: {"next_boot": {"probe_vf": "N"}, "reload_required": true, "initramfs_stale": false}
problems:
  description: What could not be determined about the next boot, in sentences.
  returned: success
  type: list
  elements: str
  sample: []
actions:
  description: What was done, or would be done in check mode, in order. If the task fails, what had been done by then.
  returned: always
  type: list
  elements: str
  sample: ["Write /etc/modprobe.d/zz-rdmaops-mlx5_core.conf"]
resources:
  description: State of each parameter before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "modprobe_option", "name": "mlx5_core.probe_vf", "status": "in_sync", "desired": "N", "configured": "N", "live": "N", "next_boot": "N"}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._module_params.manage import ARGUMENTS, Host, check, failure, manage


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    done: list[str] = []
    try:
        desired = check(module.params)
        result = manage(desired, module.check_mode, Host(desired.root), done)
    except (FabricError, OSError) as exc:
        fail(module, exc, **failure(exc, done))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
