# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenario's tests ask of a node."""

from __future__ import annotations

import re
import typing as t

DROP_IN = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"


def mode(host: t.Any) -> str:
    """Return the live mode, from the rdma tool."""
    said = host.check_output("rdma system")
    found = re.match(r"netns (\w+)", said)
    assert found, said
    return found.group(1)


def effective_options(host: t.Any) -> list[str]:
    """Return the options lines of ib_core as modprobe itself sees them."""
    return re.findall(r"^options ib_core (.+)$", host.check_output("modprobe --showconfig"), re.MULTILINE)


def image(host: t.Any) -> str:
    """Return the initramfs of the running kernel, which is the only one installed."""
    return "/boot/initrd.img-" + host.check_output("uname -r")


def files_in_image(host: t.Any) -> list[str]:
    return host.check_output("lsinitramfs %s", image(host)).splitlines()


def has_ib_core(host: t.Any) -> bool:
    """Tell whether the initramfs contains ib_core: Debian's MODULES=most does, MODULES=dep does not."""
    return any(re.search(r"/ib_core\.ko(\.\w+)?$", name) for name in files_in_image(host))


def drop_in_of_image(host: t.Any) -> str:
    """Return our drop-in as the initramfs has it."""
    work = host.check_output("mktemp -d")
    try:
        host.check_output("unmkinitramfs %s %s", image(host), work)
        return host.check_output("find %s -name %s -exec cat {} +", work, DROP_IN.rsplit("/", 1)[1])
    finally:
        host.check_output("rm -r %s", work)
