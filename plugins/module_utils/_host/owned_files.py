# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the module owned_files compares, and what it would write."""

from __future__ import annotations

import functools
import typing as t

from .. import _files_write
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._files import HEADER, FileError, is_ours, read_text, refuse_nul

ARGUMENTS: dict[str, t.Any] = {
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "default": ""},
            "mode": {"type": "str", "choices": ["0600", "0644"], "default": "0644"},
        },
    },
}


def decide(
    files: t.Sequence[t.Mapping[str, t.Any]], decision: Decision | None = None
) -> tuple[Decision, dict[str, t.Any]]:
    """Compare every file, and refuse all of them if one is not ours.

    Steps are added to ``decision``, or to a new one.
    """
    decision = Decision() if decision is None else decision
    paths, resources = [], []
    for wish in files:
        path, body = wish["path"], wish["content"]
        if not path.startswith("/"):
            raise FileError("Writing %s: the path must be absolute" % path)
        refuse_nul(path=path)
        original = read_text(path)
        text = "%s\n%s\n" % (HEADER, body.rstrip("\n")) if body.strip() else None
        state = "absent" if original is None else "present"
        differs = original != text
        if differs and original is not None and not is_ours(original):
            if text is None:
                differs = False  # a foreign file of that name is left alone
            else:
                raise FileError(
                    "Writing %s: the file exists and was not written by this collection. Move its contents to a file "
                    "of another name, or remove it, and run again" % path
                )
        if differs:
            if text is None:
                decision.add("Remove %s" % path, functools.partial(_files_write.remove, path))
            else:
                mode = int(wish["mode"], 8)
                decision.add("Write %s" % path, functools.partial(_files_write.atomic_write, path, text, mode))
            decision.show(path, original or "", text or "")
            paths.append(path)
        resources.append(
            resource(
                "file",
                path,
                desired="absent" if text is None else "present",
                configured=state if not differs or original is None else "different",
                status=DRIFT if differs else IN_SYNC,
            )
        )
    return decision, {"changed_paths": paths, "resources": resources}


__all__ = ("ARGUMENTS", "decide")
