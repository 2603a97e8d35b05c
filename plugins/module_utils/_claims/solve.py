# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether the devices of one node satisfy a claim: each slot gets a device, and every constraint holds."""

from __future__ import annotations

import typing as t

from .slices import Device
from .template import Constraint

# Devices tried before the search is given up. Eight pairs on a board of eight roots take some hundred.
LIMIT = 100_000


class TooMany(Exception):
    """The search was given up: there may be a solution or not."""


class Slot(t.NamedTuple):
    """One device that a request asks for, and those that it could be."""

    request: str
    devices: tuple[Device, ...]


class _Search:
    def __init__(self, slots: t.Sequence[Slot], constraints: t.Sequence[Constraint]) -> None:
        self.slots = slots
        self.tried = 0
        # For each slot, the constraints that concern it, with the other slots that they bind it to.
        self.bound: list[list[tuple[Constraint, list[int]]]] = [[] for _slot in slots]
        for constraint in constraints:
            members = [number for number, slot in enumerate(slots) if constraint.concerns(slot.request)]
            for number in members:
                self.bound[number].append((constraint, members))

    def run(self) -> list[Device] | None:
        domains: dict[int, tuple[Device, ...]] = {}
        for number, slot in enumerate(self.slots):
            needed = [constraint.attribute for constraint, _members in self.bound[number]]
            # A device without the attribute satisfies neither kind of constraint (constraint.go, structured allocator).
            domains[number] = tuple(
                device for device in slot.devices if all(name in device.attributes for name in needed)
            )
        chosen = self._place(domains, {})
        return None if chosen is None else [chosen[number] for number in range(len(self.slots))]

    def _place(self, domains: dict[int, tuple[Device, ...]], chosen: dict[int, Device]) -> dict[int, Device] | None:
        if not domains:
            return chosen
        # What has the fewest choices first: a slot without one ends this branch at once.
        number = min(domains, key=lambda slot: len(domains[slot]))
        for device in domains[number]:
            self.tried += 1
            if self.tried > LIMIT:
                raise TooMany
            left = self._without(domains, number, device)
            found = self._place(left, {**chosen, number: device}) if all(left.values()) else None
            if found is not None:
                return found
        return None

    def _without(
        self, domains: dict[int, tuple[Device, ...]], number: int, device: Device
    ) -> dict[int, tuple[Device, ...]]:
        """Return what the other slots can still have."""
        left = {
            slot: tuple(other for other in devices if other.key != device.key)
            for slot, devices in domains.items()
            if slot != number
        }
        for constraint, members in self.bound[number]:
            value = device.attributes[constraint.attribute]
            for slot in members:
                if slot in left:
                    left[slot] = tuple(
                        other
                        for other in left[slot]
                        if (same(other.attributes[constraint.attribute], value)) is not constraint.distinct
                    )
        return left


def same(one: t.Any, other: t.Any) -> bool:
    """Tell whether values are of one type and equal: in Python, true equals 1."""
    return type(one) is type(other) and bool(one == other)


def solve(slots: t.Sequence[Slot], constraints: t.Sequence[Constraint]) -> list[Device] | None:
    """Return a device for each slot, in order, or None without a solution. Raises TooMany."""
    return _Search(slots, constraints).run() if most(slots) == len(slots) else None


def most(slots: t.Sequence[Slot]) -> int:
    """Return how many of the slots can have a device at once, constraints aside (augmenting paths)."""
    owner: dict[tuple[str, str, str], int] = {}

    def place(number: int, seen: set[tuple[str, str, str]]) -> bool:
        for device in slots[number].devices:
            if device.key in seen:
                continue
            seen.add(device.key)
            if device.key not in owner or place(owner[device.key], seen):
                owner[device.key] = number
                return True
        return False

    return sum(place(number, set()) for number in range(len(slots)))


__all__ = ("LIMIT", "Slot", "TooMany", "most", "same", "solve")
