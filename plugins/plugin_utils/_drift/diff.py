# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Convert values and diffs of any task for a report: JSON types only, and of bounded size."""

from __future__ import annotations

import difflib
import json
import math
import typing as t

# Longer texts among values are cut: people read a report.
MAX_TEXT = 4096
MAX_DEPTH = 20
# difflib's time grows with the square of the lines that differ: longer texts are not compared.
MAX_COMPARED = 200000

CUT = "... (cut, %d characters in all)"


def text(value: t.Any, limit: int = MAX_TEXT) -> str:
    """Return anything as text of at most ``limit`` characters, with a note if it was cut."""
    whole = _whole(value)
    if len(whole) > limit:
        return whole[:limit] + CUT % len(whole)
    return whole


def _whole(value: t.Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    # Ansible's tagged and unsafe texts are subclasses of str; a plain str is kept.
    return "".join(value) if isinstance(value, str) else str(value)


def plain(value: t.Any, depth: int = 0) -> t.Any:
    """Convert a value to JSON's types; a number that JSON lacks becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (dict, list, tuple, set, frozenset)) and depth >= MAX_DEPTH:
        return "... (deeper than %d levels)" % MAX_DEPTH
    if isinstance(value, dict):
        return {text(key): plain(element, depth + 1) for key, element in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(element, depth + 1) for element in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(element, depth + 1) for element in value]
    return text(value)


def diff_text(diff: t.Any, limit: int) -> str | None:
    """Return a module's ``diff`` as one text, cut after ``limit`` characters; None if there is none."""
    parts = [_entry_text(entry) for entry in (diff if isinstance(diff, (list, tuple)) else [diff])]
    whole = "\n".join(part.rstrip("\n") for part in parts if part)
    if not whole or limit <= 0:
        return None
    return text(whole, limit)


def _entry_text(entry: t.Any) -> str:
    if isinstance(entry, dict):
        if entry.get("prepared"):
            return text(entry["prepared"], MAX_COMPARED)
        if "before" in entry or "after" in entry:
            return _unified_diff(entry)
        # Notes that a module returns instead: the file is binary, or larger than Ansible compares.
        notes = [text(entry[name]) for name in sorted(entry, key=str) if entry[name]]
        return "\n".join(notes)
    return "" if entry is None else text(entry, MAX_COMPARED)


def _unified_diff(entry: t.Mapping[t.Any, t.Any]) -> str:
    before, after = (_comparable(entry.get(name)) for name in ("before", "after"))
    old, new = (text(entry.get(name + "_header") or name) for name in ("before", "after"))
    if before == after:
        return ""
    if len(before) + len(after) > MAX_COMPARED:
        return "--- %s\n+++ %s\n(%d and %d characters: too long to compare)" % (old, new, len(before), len(after))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
    whole = "\n".join(line.rstrip("\n") for line in lines)
    return whole or "--- %s\n+++ %s\n(they differ only in line endings)" % (old, new)


def _comparable(value: t.Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return json.dumps(plain(value), indent=1, sort_keys=True, ensure_ascii=False)
    return _whole(value)


__all__ = ("MAX_TEXT", "diff_text", "plain", "text")
