# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One decision from which ``changed``, ``diff`` and ``actions`` come, in check mode and out of it."""

from __future__ import annotations

import typing as t

IN_SYNC = "in_sync"
DRIFT = "drift"
UNKNOWN = "unknown"


class Decision:
    """What a module will do: steps are added once, then carried out or, in check mode, only told."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self._steps: list[t.Callable[[], t.Any]] = []
        self._diff: list[dict[str, str]] = []

    def add(self, action: str, step: t.Callable[[], t.Any]) -> None:
        """Add a step: a sentence for ``actions`` and what carries it out."""
        self.actions.append(action)
        self._steps.append(step)

    def show(self, name: str, before: str, after: str) -> None:
        """Add a before and after to ``diff`` under ``name``; equal texts are left out."""
        if before != after:
            self._diff.append({"before_header": name, "after_header": name, "before": before, "after": after})

    @property
    def changed(self) -> bool:
        return bool(self._steps)

    def carry_out(self) -> None:
        """Do every step in the order in which it was added."""
        for step in self._steps:
            step()

    def result(self) -> dict[str, t.Any]:
        return {"changed": self.changed, "actions": list(self.actions), "diff": list(self._diff)}


def resource(
    kind: str,
    name: str,
    *,
    desired: t.Any,
    configured: t.Any = None,
    live: t.Any = None,
    next_boot: t.Any = None,
    status: str,
) -> dict[str, t.Any]:
    """Return one entry of ``resources``, as the drift report reads it; values are those before anything was done."""
    return {
        "kind": kind,
        "name": name,
        "status": status,
        "desired": desired,
        "configured": configured,
        "live": live,
        "next_boot": next_boot,
    }


__all__ = ("DRIFT", "IN_SYNC", "UNKNOWN", "Decision", "resource")
