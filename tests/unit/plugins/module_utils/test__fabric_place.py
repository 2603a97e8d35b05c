# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a container's first process. Entering one is tested with real containers, in tests/integration."""

from __future__ import annotations

import resource

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric_place import group_files, identity, limits

STATUS = """\
Name:	python3
Umask:	0022
State:	S (sleeping)
Uid:	1000	1000	1000	1000
Gid:	100	100	100	100
Groups:	44 104
NSpid:	4242	1
CapInh:	0000000000000000
CapPrm:	0000000000004000
CapEff:	0000000000004000
CapBnd:	00000000a80465fb
CapAmb:	0000000000004000
NoNewPrivs:	1
Seccomp:	2
"""

# The head and three lines of /proc/PID/limits of Linux 6.18, and all of its names.
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             unlimited            unlimited            bytes     
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max core file size        0                    unlimited            bytes     
Max resident set          unlimited            unlimited            bytes     
Max processes             96000                96000                processes 
Max open files            1024                 1048576              files     
Max locked memory         65536                8388608              bytes     
Max address space         unlimited            unlimited            bytes     
"""  # noqa: W291

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_identity() -> None:
    found = identity(STATUS)
    assert (found.uid, found.gid, found.groups, found.no_new_privs) == (1000, 100, [44, 104], True)
    assert (found.effective, found.permitted, found.inheritable) == (0x4000, 0x4000, 0)
    assert (found.ambient, found.bounding) == (0x4000, 0xA80465FB)
    # Kernels before 4.10 do not tell.
    assert not identity(STATUS.replace("NoNewPrivs:\t1\n", "")).no_new_privs


def test_limits_are_in_the_order_of_their_numbers() -> None:
    found = limits(LIMITS)
    assert found[resource.RLIMIT_MEMLOCK] == (65536, 8388608)
    assert found[resource.RLIMIT_STACK] == (8388608, resource.RLIM_INFINITY)
    assert found[resource.RLIMIT_NOFILE] == (1024, 1048576)
    with open("/proc/self/limits", encoding="ascii") as stream:
        own = limits(stream.read())
    for name in (
        "CPU",
        "FSIZE",
        "DATA",
        "STACK",
        "CORE",
        "RSS",
        "NPROC",
        "NOFILE",
        "MEMLOCK",
        "AS",
        "MSGQUEUE",
        "NICE",
    ):
        number = getattr(resource, "RLIMIT_" + name)
        assert own[number] == resource.getrlimit(number), name


def test_control_groups() -> None:
    text = "5:devices:/kubepods/podx/y\n2:cpu,cpuacct:/kubepods/podx/y\n1:name=systemd:/\n0::/kubepods/podx/y\n"
    assert group_files(text, V1) == [
        "/sys/fs/cgroup/devices/kubepods/podx/y/cgroup.procs",
        "/sys/fs/cgroup/cpu,cpuacct/kubepods/podx/y/cgroup.procs",
        "/sys/fs/cgroup/systemd//cgroup.procs",
        "/sys/fs/cgroup/unified/kubepods/podx/y/cgroup.procs",
    ]
    unified = "25 1 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert group_files("0::/kubepods.slice/x.scope\n", unified) == [
        "/sys/fs/cgroup/kubepods.slice/x.scope/cgroup.procs"
    ]
