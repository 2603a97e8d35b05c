# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""Which driver an RDMA device has, and whether it can move the device to another network namespace."""

from __future__ import annotations

import os
import re
import typing as t

from .._cache import load, save

__all__ = ("Ability", "ability", "driver", "netns_capable_drivers", "pci_address")

# Auxiliary devices that an RDMA driver takes: of mlx5_core ("rdma-rep" in switchdev mode), bnxt_en, mana and ionic; of
# ice; of idpf, one for the function and one for each of its vports (the tables of auxiliary_device_id below
# drivers/infiniband/hw).
_AUXILIARY = re.compile(r"\.(?:rdma(?:-rep|\.core|\.vdev)?|roce|iwarp)\.\d+\Z", re.ASCII)

_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)

# The RDMA half of a card whose PCI driver is another module, if no auxiliary device shows it.
_BY_PCI_DRIVER = {"mlx4_core": "mlx4_ib", "hns3": "hns_roce_hw_v2", "cxgb4": "iw_cxgb4", "qede": "qedr"}

CACHE = "/run/rdmaops/movers.json"
CACHE_FORMAT = 1


class Ability(t.NamedTuple):
    """Whether a device can change its network namespace (None: not known), and how that is known."""

    can: bool | None
    source: str


def pci_address(device: str) -> str | None:
    """The PCI address in the path that a device's ``device`` link leads to; None for software devices."""
    for part in reversed(device.split("/")):
        if _PCI.match(part):
            return part
    return None


def _link(path: str) -> str | None:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None


def driver(name: str, sys: str = "/sys") -> str | None:
    """The kernel module that provides an RDMA device, with ``_``; None if sysfs does not show it.

    Cards of today are split: the PCI driver makes an auxiliary device for RDMA, which another driver takes
    (mlx5_core.rdma.0: mlx5_ib; ice.roce.0: irdma; Documentation/driver-api/auxiliary_bus.rst).
    """
    base = "%s/class/infiniband/%s" % (sys, name)
    device = base + "/device"
    if not os.path.isdir(device):
        # Software devices have no parent. Only rxe has the file (rxe_verbs.c), and siw alone is iWARP.
        if os.path.exists(base + "/parent"):
            return "rdma_rxe"
        return "siw" if name and _node_type(base) == 4 else None
    try:
        children = sorted(os.listdir(device))
    except OSError:
        children = []
    for child in children:
        if _AUXILIARY.search(child):
            module = _link("%s/%s/driver/module" % (device, child))
            if module:
                return module
    module = _link(device + "/driver/module") or _link(device + "/driver")
    return _BY_PCI_DRIVER.get(module, module.replace("-", "_")) if module else None


def _node_type(base: str) -> int | None:
    try:
        with open(base + "/node_type", encoding="ascii", errors="replace") as stream:
            return int(stream.read().split(":", 1)[0])
    except (OSError, ValueError):
        return None


def ability(driver_name: str | None, moved: bool, able: t.Collection[str] | None) -> Ability:
    """Whether a device with this driver can move.

    ``able`` is the result of netns_capable_drivers(); None: it could not be read.

    The core refuses drivers without disassociate_ucontext (ib_device_set_netns_put() in
    drivers/infiniband/core/device.c).
    """
    if moved:
        return Ability(True, "it is in another network namespace than the host's")
    if driver_name is None:
        return Ability(None, "its driver is not known")
    if able is None:
        return Ability(None, "the kernel's symbols cannot be read")
    word = "has" if driver_name in able else "has no"
    return Ability(driver_name in able, "%s %s disassociate_ucontext (/proc/kallsyms)" % (driver_name, word))


def netns_capable_drivers(
    kallsyms: str = "/proc/kallsyms", cache: str | None = CACHE, sys: str = "/sys"
) -> set[str] | None:
    """The modules whose code has a function ``*disassociate_ucontext``; None if the list cannot be read.

    A driver that is built in is named after its function: mlx5_ib_disassociate_ucontext is mlx5_ib's. The answer is
    kept for this boot as long as the same modules are loaded.
    """
    key = _loaded(sys)
    if cache is not None:
        kept = load(cache, CACHE_FORMAT, key)
        if isinstance(kept, list):
            return {str(name) for name in kept}
    try:
        with open(kallsyms, "rb") as stream:
            text = stream.read()
    except OSError:
        return None
    if not text:
        return None
    modules = symbols(text)
    if cache is not None:
        save(cache, CACHE_FORMAT, key, sorted(modules))
    return modules


def symbols(text: bytes) -> set[str]:
    """The modules of a kallsyms text that can disassociate user contexts."""
    modules = set()
    # uverbs_disassociate_api() and its kin are the core's.
    for match in re.finditer(rb" [tT] (\w+)_disassociate_ucontext(?:\t\[(\w+)\])?$", text, re.M):
        function, module = match.group(1).decode(), match.group(2)
        modules.add(module.decode() if module else _builtin(function))
    return modules


def _builtin(prefix: str) -> str:
    return {"rxe": "rdma_rxe", "mlx4": "mlx4_ib", "mlx5": "mlx5_ib", "hns_roce": "hns_roce_hw_v2"}.get(prefix, prefix)


def _loaded(sys: str) -> list[t.Any]:
    """What changes when a driver is reloaded: the boot, and the modules that use ib_core with their sources."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            boot = stream.read().strip()
    except OSError:
        boot = ""
    users = []
    for module in ("ib_uverbs", "ib_core"):
        try:
            holders = sorted(os.listdir("%s/module/%s/holders" % (sys, module)))
        except OSError:
            continue
        for name in holders:
            place = "%s/module/%s" % (sys, name)
            try:
                # sysfs makes the directory when the module is loaded.
                users.append([name, os.stat(place).st_ino])
            except OSError:
                continue
    return [boot, users]
