#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: modprobe_options
short_description: Manage the parameters that a kernel module is loaded with
version_added: 0.1.0
description:
  - Owns one file in modprobe.d, which is read by L(modprobe,https://man7.org/linux/man-pages/man5/modprobe.d.5.html) whenever a module is loaded,
    and writes it whole and atomically.
  - Evaluates what modprobe would make of all files that it reads, in every directory, with names that hide each other, continued lines, repeated and
    contradicting parameters. A line that somebody else wrote and that contradicts the task is found, named, and treated as O(on_conflict) says.
  - Says what the next boot will give. The kernel command line of the default boot entry beats modprobe.d, and a module that the initramfs loads gets
    the parameters that the initramfs holds.
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
      - RV(reload_required) is told by every run until the module has been loaded anew, and is no change.
options:
  name:
    description:
      - The kernel module, for example V(mlx5_core). V(-) and V(_) are equal.
    type: str
    required: true
  options:
    description:
      - The parameters and their values.
      - With O(state=present) the file at O(path) holds exactly these. So one task has to have all of a module's parameters, or tasks have to differ
        in O(path).
      - With O(state=absent) these are taken out of the file, whatever their values here are.
      - A value is a string or an integer. Booleans, floating point numbers, lists and null are refused, since it is not clear what of them is to reach
        the kernel. YAML takes V(on), V(off), V(yes) and V(no) for booleans, so quote them.
      - A value may have blanks, and is then put in double quotes. Double quotes and control characters in it are refused.
      - C(netns_mode) of C(ib_core) belongs to M(rdmaops.gpu_fabric.rdma_system) and is refused.
    type: dict
  state:
    description:
      - V(present) sets O(options).
      - V(absent) takes O(options) out of the file, or removes the file if there are none.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - The file that this task owns. It has to end in C(.conf) and to be in a directory that modprobe reads.
      - The default is V(/etc/modprobe.d/zz-rdmaops-NAME.conf), because files are read in the order of their names and the last value wins.
      - A file that does not have this collection's header is never overwritten, unless O(on_conflict=take_over).
    type: path
  root:
    description:
      - The root directory of an image to manage instead of the running system. O(path) is as seen inside it, and symbolic links are followed inside it.
      - Live values are null then.
    type: path
    default: /
  on_conflict:
    description:
      - What to do where a line in another file gives a parameter another value.
      - V(fail) changes nothing and names the line.
      - V(warn) warns and goes on where this task's file comes later and wins, and fails where it does not.
      - V(take_over) takes the parameter out of the other file and leaves every other byte of it as it was. Only files in V(/etc/modprobe.d) are
        changed. It also overwrites a file at O(path) that somebody else wrote. A copy is kept beside each, with C(.rdmaops-backup) added to its name.
    type: str
    choices: [fail, warn, take_over]
    default: fail
  initramfs:
    description:
      - What to do where the initramfs of the default boot entry contains the module with other parameters than modprobe.d has.
      - V(report) says so in RV(initramfs_stale).
      - V(rebuild) makes it anew with initramfs-tools or dracut, keeps the one before as C(IMAGE.rdmaops-previous), and reads the new one back.
        It needs twice the image's size free on its file system, which is looked at before anything is written.
    type: str
    choices: [report, rebuild]
    default: report
notes:
  - Files in modprobe.d that cannot be read, or that are no text, are refused, and nothing is changed, since what modprobe makes of them is not known.
  - Where two directories have a file of one name, that in V(/etc) counts, then those in V(/run), V(/usr/local/lib), V(/usr/lib) and V(/lib), as from
    kmod 29 on.
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

- name: Take over a parameter that an earlier administrator set somewhere else
  rdmaops.gpu_fabric.modprobe_options:
    name: nvidia
    options:
      NVreg_EnableStreamMemOPs: 1
    on_conflict: take_over

- name: Take one parameter back
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
    - The parameters of O(options), or of the file that is removed, by name. Values are those found before anything was done, as kmod sees them.
      A parameter without a value is V(1) to the kernel.
    - C(desired) is null with O(state=absent).
    - C(configured) is what modprobe.d gives, with the line it comes from; null where no line does.
    - C(cmdline) is what the kernel command line of this boot and of the default boot entry give.
    - C(initramfs) is null where that entry has none, or where it cannot be read. C(forced) tells whether the image loads the module itself.
    - C(live) is what sysfs shows; null where the module is not loaded, or does not show it.
    - C(next_boot) is the prediction. Null means the kernel's default if C(next_boot_known), and otherwise that it cannot be told, for the reason in
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
    - Lines of other files that give a parameter another value. C(wins) tells whether kmod would take it instead of ours.
    - Also returned by a task that fails because of them.
  returned: success, or when refused because of O(on_conflict)
  type: list
  elements: dict
  sample:
    - {"path": "/etc/modprobe.d/mlx5.conf", "line": 3, "text": "options mlx5_core probe_vf=1", "wins": false}
initramfs_stale:
  description: Whether the initramfs of the default boot entry contains the module with other values than modprobe.d has. Null where that cannot be told.
  returned: success
  type: bool
  sample: false
reload_required:
  description: Whether the module is loaded with another value than desired. Null where it does not show all of them.
  returned: success
  type: bool
  sample: true
after:
  description: What is true now, or would be in check mode. C(next_boot) has a value by parameter.
  returned: success
  type: dict
  sample: {"next_boot": {"probe_vf": "N"}, "reload_required": true, "initramfs_stale": false}
problems:
  description: What could not be found out about the next boot, in sentences.
  returned: success
  type: list
  elements: str
  sample: []
actions:
  description: What was done, or would be done in check mode, in order. When the task fails, what had been done by then.
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

from ..module_utils._errors import FabricError
from ..module_utils._module_params.manage import ARGUMENTS, Host, check, failure, manage


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    done: list[str] = []
    try:
        wanted = check(module.params)
        result = manage(wanted, module.check_mode, Host(wanted.root), done)
    except (FabricError, OSError) as exc:
        module.fail_json(**failure(exc, done))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
