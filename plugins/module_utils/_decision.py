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


class Declined(Exception):
    """Raised by a step that could not be done, without failing the module: it is not reported as done."""


class _Step(t.NamedTuple):
    action: str
    carry_out: t.Callable[[], t.Any]
    diff: dict[str, str] | None


class Decision:
    """What a module will do: steps are added once, then carried out or, in check mode, only reported."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._diff: list[dict[str, str]] = []

    def add(self, action: str, step: t.Callable[[], t.Any], diff: tuple[str, str, str] | None = None) -> None:
        """Add a step: a sentence for ``actions``, what carries it out, and name, before and after for ``diff``."""
        self._steps.append(_Step(action, step, diff and _headed(*diff)))

    def show(self, name: str, before: str, after: str) -> None:
        """Add a before and after to ``diff`` under ``name``; equal texts are left out."""
        if before != after:
            self._diff.append(_headed(name, before, after))

    @property
    def changed(self) -> bool:
        return bool(self._steps)

    @property
    def actions(self) -> list[str]:
        return [step.action for step in self._steps]

    def carry_out(self) -> None:
        """Do every step in the order in which it was added; forget those that decline."""
        for step in list(self._steps):
            try:
                step.carry_out()
            except Declined:
                self._steps.remove(step)

    def result(self) -> dict[str, t.Any]:
        diff = self._diff + [step.diff for step in self._steps if step.diff]
        return {"changed": self.changed, "actions": self.actions, "diff": diff}


def _headed(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": before, "after": after}


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


__all__ = ("DRIFT", "IN_SYNC", "UNKNOWN", "Decision", "Declined", "resource")
