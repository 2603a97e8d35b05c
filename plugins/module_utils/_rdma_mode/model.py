# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The mode of the RDMA subsystem: its parameter, its values, and the edges of a host that has it."""

from __future__ import annotations

import os
import typing as t

from .._errors import FabricError
from .._kmod import config
from .._kmod import plan as kmod_plan
from .._kmod.plan_model import Plan
from .._module_params import prediction
from .._module_params.host import RDMA_DROP_IN, RDMA_OPTION, InitramfsHost
from .._rdma import sysfs

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.survey import Survey


MODULE, PARAMETER = RDMA_OPTION

# drivers/infiniband/core/device.c: module_param_named(netns_mode, ib_devices_shared_netns, bool, 0444), default true.
VALUES = {"exclusive": "0", "shared": "1"}
DEFAULT = "shared"


# Role node_maintenance writes there for which cause it has rebooted a node, so that it does so once.
RECORDS = "/var/lib/rdmaops"


class ModeError(FabricError):
    """The mode cannot be managed here; the text says why, and what unblocks it."""


class Host(InitramfsHost):
    """The edges: everything that is read from the host or done to it."""

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def boot_id(self) -> str:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()

    def available(self) -> bool:
        from .._rdma import kernel

        support = kernel.available()
        return support.loaded or support.how is not None

    def live(self) -> str | None:
        return sysfs.live_mode()

    def sources(self) -> prediction.Sources:
        return prediction.sources(self.root, MODULE, (prediction.MODPROBE_D, RECORDS))

    def tree(self) -> config.Tree:
        return config.read_tree(self.root, module=MODULE)

    def plan(self, mode: str, on_conflict: str, state: str) -> Plan:
        return kmod_plan.plan(self.root, MODULE, {PARAMETER: VALUES[mode]}, RDMA_DROP_IN, state, on_conflict)

    def other_namespaces(self) -> Survey:
        from .._netns import survey

        return survey.survey()

    def users(self) -> list[dict[str, t.Any]]:
        from . import device_users

        return device_users.users(device_users.Source())

    def switch(self, mode: str) -> None:
        from .._rdma import nldev

        nldev.sys_set_netns_mode(mode)


def mode_of(value: str | None) -> str | None:
    """Return the mode that a value of the parameter stands for; None if not every kernel takes the value."""
    enabled = config.kernel_bool(value)
    return None if enabled is None else "shared" if enabled else "exclusive"


__all__ = ("DEFAULT", "MODULE", "PARAMETER", "VALUES", "Host", "ModeError", "mode_of")
