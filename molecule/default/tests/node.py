# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA subsystem's mode on a node, live and for the next boot."""

from __future__ import annotations

import re

from testinfra.host import Host

DROP_IN = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"


def mode(host: Host) -> str:
    """Return the live mode, from the rdma tool."""
    settings = host.check_output("rdma system")
    netns = re.match(r"netns (\w+)", settings)
    assert netns, settings
    return netns.group(1)


def effective_options(host: Host) -> list[str]:
    """Return the options lines of ib_core as modprobe itself reads them."""
    return re.findall(r"^options ib_core (.+)$", host.check_output("modprobe --showconfig"), re.MULTILINE)


def image(host: Host) -> str:
    """Return the initramfs of the running kernel, which is the only one installed."""
    return f"/boot/initrd.img-{host.check_output('uname -r')}"


def files_of_image(host: Host) -> list[str]:
    """Return what is in the initramfs, as the tool lists it that created it."""
    if host.exists("lsinitrd"):
        listed = host.check_output("lsinitrd %s", image(host)).splitlines()
        return [line.split(" -> ")[0].split()[-1] for line in listed if re.match(r"[-l]\S{9} ", line)]
    return list(host.check_output("lsinitramfs %s", image(host)).splitlines())


def generator(host: Host) -> str:
    return "dracut" if any("lib/dracut/" in name for name in files_of_image(host)) else "initramfs-tools"


def has_ib_core(host: Host) -> bool:
    """Return whether the initramfs contains ib_core: with Debian's MODULES=most it does, with MODULES=dep it does not."""
    return any(re.search(r"/ib_core\.ko(\.\w+)?$", name) for name in files_of_image(host))


def drop_in_of_image(host: Host) -> list[str]:
    """Return the lines of our drop-in in the initramfs."""
    if host.exists("lsinitrd"):
        return list(host.check_output("lsinitrd -f %s %s", DROP_IN.lstrip("/"), image(host)).splitlines())
    work = host.check_output("mktemp -d")
    try:
        host.check_output("unmkinitramfs %s %s", image(host), work)
        content = host.check_output("find %s -name %s -exec cat {} +", work, DROP_IN.rsplit("/", 1)[1])
    finally:
        host.check_output("rm -r %s", work)
    return str(content).splitlines()
