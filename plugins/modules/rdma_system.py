#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_system
short_description: Manage the network namespace mode of the RDMA subsystem
version_added: 0.1.0
description:
  - Sets the RDMA subsystem to mode V(exclusive), in which a device belongs to one network namespace, or V(shared), in which every namespace sees every device.
    See rdma-system(8).
  - The mode depends on four sources, and the module reads all of them. The live mode; every line of modprobe.d, as kmod would evaluate it; the kernel command
    line of this boot and of the default boot entry; and the initramfs of that entry, which may load ib_core before modprobe.d of the root file system is
    visible.
  - It predicts the mode after the next boot, reports whether a reboot is needed and whether it would help, and names what blocks a live switch.
  - The mode after the next boot is unknown if V(/etc/modprobe.d), or V(/var/lib/rdmaops) with the record of reboots, is in memory, as on stateless nodes of
    Warewulf and xCAT. There, set the mode in the image, with a file of modprobe.d.
  - It never reboots. Setting the mode that is already active does not count as a change.
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
    support: full
  idempotent:
    support: full
    details:
      - A pending reboot is reported again by every run and does not count as a change.
options:
  netns_mode:
    description: The desired mode.
    type: str
    choices: [exclusive, shared]
    required: true
  persistent:
    description:
      - Whether to write the mode to V(/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf), which this module owns.
      - With V(false), the file is neither written nor removed, and only the live mode is managed.
    type: bool
    default: true
  state:
    description:
      - V(absent) removes the file that this module owns. What remains sets the mode of the next boot, which is V(shared) if nothing does.
      - O(netns_mode) is then the mode that the host should have without the file. If another file, the kernel command line or the initramfs sets a different
        one, that is reported in RV(after) and RV(conflicts), and left alone.
    type: str
    choices: [present, absent]
    default: present
  runtime:
    description:
      - Whether to switch the live mode.
      - The kernel refuses this with EBUSY while any network namespace other than the initial one exists, whether it has RDMA devices or not
        (drivers/infiniband/core/device.c, C(rdma_compatdev_set)).
      - V(auto) switches if nothing prevents it, and requests a reboot otherwise.
      - V(never) leaves the live mode as it is.
      - V(require) fails if the mode cannot be switched, before anything is written.
    type: str
    choices: [auto, never, require]
    default: auto
  initramfs:
    description:
      - What to do if the initramfs of the default boot entry contains ib_core with a value that differs from modprobe.d.
      - V(report) reports it in RV(initramfs_stale).
      - V(rebuild) rebuilds the image that has the modules of the entry's kernel, with the tool that created it (initramfs-tools or dracut), keeps the previous
        one as C(IMAGE.rdmaops-previous), and reads the new one back. This requires free space of twice the image's
        size on its file system.
    type: str
    choices: [report, rebuild]
    default: report
  on_conflict:
    description:
      - What to do if a line in modprobe.d that does not belong to this module sets another value.
      - V(fail) changes nothing and names the line.
      - V(warn) continues if our file still wins, and fails if it does not.
      - V(take_over) removes the option from that file, in V(/etc/modprobe.d) only, and keeps a backup.
    type: str
    choices: [fail, warn, take_over]
    default: fail
  on_absent:
    description:
      - What to do on a host whose kernel has no RDMA subsystem, which means that ib_core is neither loaded nor built in nor among its modules.
      - Hosts that only lack devices are not affected.
    type: str
    choices: [fail, ignore]
    default: fail
seealso:
  - module: rdmaops.gpu_fabric.modprobe_options
"""

EXAMPLES = r"""
---
- name: Give every pod its own RDMA devices, after the next boot at the latest
  rdmaops.gpu_fabric.rdma_system:
    netns_mode: exclusive
    initramfs: rebuild
  register: rdma

- name: Show what a reboot would do
  ansible.builtin.debug:
    msg: "{{ rdma.after.reason }}"
  when: rdma.after.reboot_required

- name: Return to the kernel's default, live, or not at all
  rdmaops.gpu_fabric.rdma_system:
    netns_mode: shared
    runtime: require

- name: Return to the kernel's default, and leave no file behind
  rdmaops.gpu_fabric.rdma_system:
    netns_mode: shared
    state: absent
    initramfs: rebuild
"""

RETURN = r"""
mode:
  description:
    - The mode by source, as found before anything was done. V(exclusive), V(shared) or null.
    - C(configured) is what kmod reads from modprobe.d, with the line it comes from, or null if no line sets it.
    - C(cmdline.running) is from this boot's command line, C(cmdline.next_boot) from that of the default boot entry.
    - C(initramfs.forced) is whether the image loads ib_core itself, rather than only containing it.
    - C(live) is null if ib_core is not loaded.
    - C(next_boot) is the prediction, null if it depends on something that cannot be read.
  returned: success
  type: dict
  sample:
    desired: exclusive
    configured: {"value": "exclusive", "path": "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf", "line": 2}
    cmdline: {"running": null, "next_boot": null}
    initramfs: {"image": "/boot/initrd.img-7.2.12+deb13-amd64", "contains_module": true, "forced": false, "value": "exclusive"}
    live: shared
    next_boot: exclusive
reboot_required:
  description: Whether the live mode differed from the desired one before anything was done.
  returned: success
  type: bool
  sample: true
reboot_would_help:
  description: Whether the next boot would have resulted in the desired mode before anything was done. Null if unknown.
  returned: success
  type: bool
  sample: true
reboot_reason:
  description: An explanation of both. Empty if no reboot is needed.
  returned: success
  type: str
  sample: the RDMA subsystem is in mode shared instead of exclusive. The next boot sets exclusive.
reboot_cause:
  description:
    - Hash of the desired mode, the configured value, the next boot's command line and its initramfs.
    - While it stays the same, a reboot that did not help is not worth repeating.
  returned: success
  type: str
  sample: 5f3c0a0e6a1b0c6f1d5b7b0a2b8a4c7a5c1f0e9d8c7b6a594837261504f3e2d1
initramfs_stale:
  description: Whether the initramfs contains ib_core with a value that differs from modprobe.d. Null if it cannot be read.
  returned: success
  type: bool
  sample: false
conflicts:
  description:
    - Lines in modprobe.d and in the default boot entry that do not belong to this module and set another value.
    - C(wins) is whether they override this module's file.
  returned: success
  type: list
  elements: dict
  sample:
    - {"path": "/boot/grub/grub.cfg", "line": 128, "text": "ib_core.netns_mode=1", "wins": true}
blockers:
  description:
    - The network namespaces that prevent the kernel from switching live. Only determined if the live mode differs from the desired one.
    - C(holders) lists at most ten of C(holders_total).
  returned: success
  type: list
  elements: dict
  contains:
    inode:
      description: Inode of the namespace.
      type: int
    name:
      description: Name as listed by C(ip netns), or null.
      type: str
    holders:
      description: What keeps the namespace. C(kind) is V(mount), V(process), V(fd) or V(socket); C(path), C(pid), C(command), C(unit) and C(pod) give the
        location.
      type: list
      elements: dict
    holders_total:
      description: Number of holders.
      type: int
  sample:
    - inode: 4026532270
      name: blue
      holders: [{"kind": "mount", "path": "/run/netns/blue", "pid": 1, "command": "systemd", "unit": "init.scope", "pod": null}]
      holders_total: 1
users:
  description:
    - Processes that have RDMA devices in the host's network namespace open. Only determined if the live mode differs from the desired one. A reboot ends their
      use; a live switch does not.
    - Null if the kernel does not report them. C(pid) is null for a process in a PID namespace that cannot be seen, C(pod) for one that is in no pod.
  returned: success
  type: list
  elements: dict
  sample:
    - device: mlx5_0
      pid: 4711
      command: python3
      pod: {"namespace": "training", "name": "worker-0", "uid": "0c9b2f0e-2b1c-4f0e-9d3a-7f6f0f6f3c11"}
boot_id:
  description: The kernel's boot ID, which proves a reboot.
  returned: success
  type: str
  sample: 0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11
boot_entry:
  description: The default boot entry.
  returned: success
  type: dict
  sample: {"kind": "grub", "source": "/boot/grub/grub.cfg", "line": 128, "title": "Debian GNU/Linux"}
problems:
  description: What could not be read, in sentences.
  returned: success
  type: list
  elements: str
  sample: []
after:
  description: The current state, or the state that would result in check mode. C(reason) is as RV(reboot_reason).
  returned: success
  type: dict
  sample:
    live: shared
    next_boot: exclusive
    reboot_required: true
    reboot_would_help: true
    initramfs_stale: false
    reason: the RDMA subsystem is in mode shared instead of exclusive. The next boot sets exclusive.
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Write /etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"]
resources:
  description: State of the mode before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "rdma_system", "name": "netns_mode", "status": "drift", "desired": "exclusive", "configured": null, "live": "shared", "next_boot": "shared"}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._rdma_mode.manage import ARGUMENTS, manage
from ..module_utils._rdma_mode.model import Host


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = manage(module.params, module.check_mode, Host())
    except (FabricError, OSError) as exc:
        fail(module, exc)
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
