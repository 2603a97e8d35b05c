# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whose file in modprobe.d it is: programs that write theirs again, and packages that bring one."""

from __future__ import annotations

import os
import typing as t


class Owner(t.NamedTuple):
    name: str
    remedy: str
    # What is changed in the file by hand does not last.
    rewrites: bool


_OWNERS = {
    # SetRDMASubsystem() in pkg/host/internal/network/network.go of k8snetworkplumbingwg/sriov-network-operator.
    "sriov_network_operator_modules_config.conf": Owner(
        "sriov-network-operator",
        "take spec.rdmaMode out of the SriovNetworkPoolConfig for this node, upon which the operator removes the file",
        rewrites=True,
    ),
    # MODULES_FILE in tuned/consts.py of redhat-performance/tuned.
    "tuned.conf": Owner(
        "TuneD",
        "take the option out of section [modules] of its profile (tuned-adm active names it)",
        rewrites=True,
    ),
    # %files of mlnx-ofa_kernel.spec, debian/mlnx-ofed-kernel-utils.install.
    "mlnx.conf": Owner(
        "MLNX_OFED or DOCA-OFED",
        "change the line there; an update of the package may bring it back",
        rewrites=False,
    ),
}


def owner(path: str) -> Owner | None:
    """Return whose file it is, as far as its name shows."""
    return _OWNERS.get(os.path.basename(path))


__all__ = ("Owner", "owner")
