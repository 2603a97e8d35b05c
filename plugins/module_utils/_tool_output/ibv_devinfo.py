# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What ibv_devinfo of rdma-core prints: devices with their ports (libibverbs/examples/devinfo.c)."""

from __future__ import annotations

import re
import typing as t

# Printed by -v only: how many queue pairs, shared receive queues, completion queues and memory regions there can be.
LIMITS = ("max_qp", "max_srq", "max_cq", "max_mr")

_LINE = re.compile(
    r"\s*(hca_id|port|state|link_layer|transport|fw_ver|active_mtu|%s):\s+(\S.*)\Z" % "|".join(LIMITS), re.S
)
_NUMBER = re.compile(r"[0-9]{1,6}(?!\S)")
_LIMIT = re.compile(r"[0-9]{1,20}\Z")


def parse(text: str) -> list[dict[str, t.Any]]:
    """Return ``name``, ``transport``, ``limits`` and ``ports`` of each device, these with ``port``, ``state`` and
    ``link_layer``.

    With ``-v`` as without, but for ``limits``, by name, None without; a state is as it is printed, such as PORT_ACTIVE.
    What was not printed is None.
    """
    devices: list[dict[str, t.Any]] = []
    for line in text.split("\n"):
        match = _LINE.match(line)
        if not match:
            continue
        name, value = match.group(1), match.group(2).rstrip()
        ports = devices[-1]["ports"] if devices else []
        if name == "hca_id":
            devices.append({"name": value, "transport": None, "firmware": None, "limits": None, "ports": []})
        elif name == "port" and devices and _NUMBER.fullmatch(value):
            ports.append({"port": int(value), "state": None, "link_layer": None, "active_mtu": None})
        elif ports and name in ("state", "link_layer"):
            ports[-1][name] = value.split()[0]
        elif ports and name == "active_mtu" and _NUMBER.match(value):
            ports[-1][name] = int(value.split()[0])
        elif devices and not ports and name in ("transport", "fw_ver"):
            devices[-1]["firmware" if name == "fw_ver" else name] = value.split()[0]
        elif devices and not ports and name in LIMITS and _LIMIT.match(value):
            devices[-1]["limits"] = {**(devices[-1]["limits"] or dict.fromkeys(LIMITS)), name: int(value)}
    return devices


__all__ = ("LIMITS", "parse")
