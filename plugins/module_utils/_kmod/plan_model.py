# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a plan for modprobe.d is, and why there is none."""

from __future__ import annotations

import os
import typing as t

from .._errors import FabricError
from .._files import in_root
from .config import Tree


class PlanError(FabricError):
    """What is desired cannot be done; the text says why and what unblocks it. Nothing has been changed."""


class ConflictError(PlanError):
    """Files that are not ours are in the way; ``conflicts`` are the lines."""

    def __init__(self, message: str, conflicts: list[dict[str, t.Any]]) -> None:
        super().__init__(message)
        self.conflicts = [{key: line[key] for key in ("path", "line", "text", "wins")} for line in conflicts]


class Plan(t.NamedTuple):
    """Files to write, in this order, each atomically; interrupted anywhere, a rerun comes to the same end."""

    root: str
    module: str
    path: str
    writes: dict[str, str | None]  # text, or None: removed
    originals: dict[str, str | None]
    backups: list[str]
    conflicts: list[dict[str, t.Any]]
    warnings: list[str]
    before: Tree
    after: Tree

    @property
    def changed(self) -> bool:
        return bool(self.writes)


def refuse_link(root: str, path: str) -> None:
    """Refuse to put a file in the place of a symbolic link, which another tool made and which may lead anywhere."""
    where = real_path(root, path)
    if os.path.islink(where):
        raise PlanError(
            "%s is a symbolic link to %s, and writing would put a file in its place. "
            "Nothing has been changed. Remove the link, or set the parameter where it points to."
            % (path, os.readlink(where))
        )


def real_path(root: str, path: str) -> str:
    """Return where a drop-in lies on this machine: links to its directory are followed, one at its own place is not."""
    directory, name = os.path.split(path)
    return in_root(root, directory) + "/" + name


__all__ = ("ConflictError", "Plan", "PlanError", "real_path", "refuse_link")
