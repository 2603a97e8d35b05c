# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The RDMA devices of one network namespace by sysfs alone: for a copied tree, or without netlink."""

from __future__ import annotations

import os
import re
import typing as t

from . import nldev, sysfs
from .devices import Look

__all__ = ("NO_INDEX", "SysfsLook")

NO_INDEX = -1

_CODE = re.compile(r"(\d+): ?(.*)")


def _name_of(text: str | None, names: t.Mapping[int, str]) -> str | None:
    """What netlink would call the value of a file like "4: ACTIVE"."""
    match = _CODE.match(text or "")
    if match is None:
        return text or None
    return names.get(int(match.group(1)), match.group(2))


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


class SysfsLook(Look):
    """Look without a socket. sysfs does not show a device's index."""

    def devices(self) -> list[dict[str, t.Any]]:
        """Every device, in the order of its name."""
        result = []
        for name in sysfs.devices(self.sys):
            row = nldev.Device(
                NO_INDEX,
                name,
                0,
                _name_of(self._text(name, "node_type"), nldev.NODE_TYPES),
                None,
                self._text(name, "node_guid") or None,
                self._text(name, "sys_image_guid") or None,
                self._text(name, "fw_ver") or None,
                None,
            )
            numbers = sorted(int(number) for number in self._names(name, "ports") if number.isdigit())
            device = self._device(row, [self._row(name, number) for number in numbers], True)
            if not os.path.isdir("%s/class/infiniband/%s" % (self.sys, name)):
                # It went while we looked.
                self.unreadable = [line for line in self.unreadable if line["device"] != name]
                continue
            result.append(device)
        return result

    def _row(self, device: str, number: int) -> nldev.Port:
        place = "ports/%d/" % number
        return nldev.Port(
            NO_INDEX,
            device,
            number,
            _name_of(self._text(device, place + "state", needed=True), nldev.STATES),
            _name_of(self._text(device, place + "phys_state", needed=True), nldev.PHYSICAL_STATES),
            # The first entry is there wherever the port has a network device (ib_cache_gid_set_default_gid()).
            self._attribute(device, place + "gid_attrs/ndevs/0"),
            None,
            _number(self._text(device, place + "lid")),
            _number(self._text(device, place + "sm_lid")),
            None,
            None,
        )

    def _hw_counters(self, row: nldev.Device, port: int, sysfs: bool) -> dict[str, int] | None:  # noqa: ARG002
        return self._counters(row.name, "ports/%d/hw_counters" % port)
