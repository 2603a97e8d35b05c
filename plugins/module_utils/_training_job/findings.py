# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What is found out before a job is created, and how the API server is asked for it."""

from __future__ import annotations

import typing as t

from .._kubernetes.client import ApiError, Client, Object


class Findings:
    """``problems`` keep the job from starting, ``warnings`` do not; what is ``unchecked`` says why."""

    def __init__(self, client: Client, doing: str) -> None:
        self.client, self.doing = client, doing
        self.problems: list[str] = []
        self.unchecked: list[str] = []
        self.warnings: list[str] = []

    def read(self, subject: str, read: t.Callable[[str, str], t.Any], where: str) -> t.Any:
        """Return what was read; None, and a line in ``unchecked``, if the account may not read it."""
        try:
            return read(where, "%s: reading %s" % (self.doing, subject))
        except ApiError as exc:
            if exc.status != 403:
                raise
            self.unchecked.append("%s (%s)" % (subject, self.answer(exc)))
            return None

    def find(self, subject: str, where: str) -> Object | None:
        """Return the object at a path; None, and a line in ``problems`` or ``unchecked``, without it."""
        return t.cast(
            "Object | None", self.read(subject, lambda where, doing: self._find(subject, where, doing), where)
        )

    def _find(self, subject: str, where: str, doing: str) -> Object | None:
        live = self.client.get(where, doing)
        if live is None:
            rows = self.read("what there is instead of %s" % subject, self.client.items, where.rpartition("/")[0])
            names = ", ".join(sorted(row["metadata"]["name"] for row in rows or [])) or "none"
            others = "" if rows is None else "; there are: %s" % names
            self.problems.append("%s does not exist%s" % (subject, others))
        return live

    def answer(self, exc: ApiError) -> str:
        """Return an error without what the message that it becomes a part of says first."""
        return str(exc).replace(self.doing + ": ", "", 1)


__all__ = ("Findings",)
