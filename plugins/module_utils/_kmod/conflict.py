# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The part of a plan for modprobe.d that is needed only where something changes or is in the way."""

from __future__ import annotations

import os
import typing as t

from .._files import BACKUP_SUFFIX, is_ours, read_text
from .config import DIRECTORIES, LINE, Tree, parse, read_tree, same_value, settings, underscored, words
from .owner import owner
from .plan_model import ConflictError, Plan, PlanError, real_path, refuse_link

UNCHANGED = "Nothing has been changed."


def resolve(
    root: str,
    module: str,
    desired: t.Mapping[str, str],
    path: str,
    text: str | None,
    original: str | None,
    before: Tree,
    on_conflict: str,
) -> Plan:
    """Return the plan for our file's new ``text``, or raise where files that are not ours forbid it."""
    taken = original is not None and not is_ours(original)
    if taken and on_conflict != "take_over":
        raise ConflictError(
            "%s was not written by this collection (it does not have its header), so it is left alone. "
            "%s Move it away, choose another path, or set on_conflict to take_over, which keeps a copy as "
            "%s%s." % (path, UNCHANGED, path, BACKUP_SUFFIX),
            [{"path": path, "line": 1, "text": (original or "").split("\n", 1)[0], "wins": path in before.files}],
        )
    writes = {} if text == original else {path: text}
    originals = {path: original}
    backups = [path] if taken and writes else []
    after = read_tree(root, {path: text}, module)
    conflicts = _conflicts(after, module, path, desired)
    warnings: list[str] = []
    if conflicts and on_conflict == "take_over":
        for foreign in dict.fromkeys(conflict["path"] for conflict in conflicts):
            lines = [conflict for conflict in conflicts if conflict["path"] == foreign]
            originals[foreign], writes[foreign] = _take_over(root, foreign, lines, conflicts)
            backups.append(foreign)
        after = read_tree(root, writes, module)
    elif on_conflict == "fail" or any(conflict["wins"] for conflict in conflicts):
        if conflicts:
            raise ConflictError(_refusal(module, path, conflicts, desired, on_conflict), conflicts)
    elif conflicts:
        warnings = [
            "%s; %s comes later and wins%s" % (_line(conflict, desired), path, _owned([conflict], " (", ")"))
            for conflict in conflicts
        ]
    _check(after, module, path, desired)
    shown = [{key: conflict[key] for key in ("path", "line", "text", "wins")} for conflict in conflicts]
    return Plan(root, module, path, writes, originals, backups, shown, warnings, before, after)


def _conflicts(after: Tree, module: str, path: str, desired: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return the lines that contradict us, as kmod meets them once our file is written."""
    ours = {
        assignment.name: index
        for index, assignment in enumerate(after.assignments)
        if assignment.path == path and assignment.module == module
    }
    return [
        {
            "path": assignment.path,
            "line": assignment.line,
            "text": assignment.text.strip(),
            "wins": index > ours.get(assignment.name, -1),
            "name": assignment.name,
            "module": assignment.module,
        }
        for index, assignment in enumerate(after.assignments)
        if assignment.path != path
        and assignment.name in desired
        and not same_value(assignment.value, desired[assignment.name])
    ]


def _line(conflict: dict[str, t.Any], desired: t.Mapping[str, str]) -> str:
    name = conflict["name"]
    return "%s:%s: %s (%s is to be %s)" % (conflict["path"], conflict["line"], conflict["text"], name, desired[name])


def _refusal(
    module: str, path: str, conflicts: list[dict[str, t.Any]], desired: t.Mapping[str, str], on_conflict: str
) -> str:
    lines = "; ".join(_line(conflict, desired) for conflict in conflicts)
    message = "Files that are not managed by this task give %s another value: %s. %s " % (module, lines, UNCHANGED)
    later = sorted({conflict["path"] for conflict in conflicts if conflict["wins"]})
    message += _owned(conflicts, "", ". ")
    if any(who.rewrites for who in map(owner, later or [conflict["path"] for conflict in conflicts]) if who):
        message += "" if later else "With on_conflict=warn they stay (%s comes later and wins)." % path
        return message.rstrip()
    remedy = "Remove what is said there, or set on_conflict to take_over, which takes the parameter out of files in "
    remedy += "%s and keeps a copy" % DIRECTORIES[0]
    if not later:
        return message + remedy + ", or to warn, which leaves them alone (%s comes later and wins)." % path
    if on_conflict == "warn":
        return (
            message
            + "%s would win over %s, so a warning would not be enough. " % (", ".join(later), path)
            + remedy
            + "."
        )
    return message + remedy + "."


def _owned(conflicts: list[dict[str, t.Any]], begin: str, end: str) -> str:
    """Name the owners of files that are known by their names, and where to change their settings instead."""
    known = {conflict["path"]: owner(conflict["path"]) for conflict in conflicts}
    sentences = ["%s belongs to %s: %s" % (path, who.name, who.remedy) for path, who in known.items() if who]
    return begin + "; ".join(sentences) + end if sentences else ""


def _take_over(
    root: str, path: str, lines: list[dict[str, t.Any]], conflicts: list[dict[str, t.Any]]
) -> tuple[str, str]:
    """Return a foreign file's text, and that without the parameters that contradict us."""
    named = "; ".join("%s:%s: %s" % (conflict["path"], conflict["line"], conflict["text"]) for conflict in lines)
    directory, name = os.path.split(path)
    if directory != DIRECTORIES[0]:
        raise ConflictError(
            "%s: on_conflict=take_over changes files in %s only. %s To be rid of this, "
            "put a file named %s/%s in place, empty or without the parameter: it hides those of the "
            "same name in the other directories." % (named, DIRECTORIES[0], UNCHANGED, DIRECTORIES[0], name),
            conflicts,
        )
    refuse_link(root, path)
    who = owner(path)
    if who and who.rewrites:
        raise ConflictError(
            "%s: %s would write this again after on_conflict=take_over. %s Rather %s."
            % (named, who.name, UNCHANGED, who.remedy),
            conflicts,
        )
    text = read_text(real_path(root, path)) or ""
    gone = {(conflict["module"], conflict["name"]) for conflict in lines}
    new = without(text, gone)
    kept = _values(path, text)
    kept = [entry for entry in kept if entry[:2] not in gone]
    if _values(path, new) != kept:
        raise ConflictError(
            "%s: this cannot be taken out without changing what else the file says. %s "
            "Change it by hand." % (named, UNCHANGED),
            conflicts,
        )
    return text, new


def _values(path: str, text: str) -> list[tuple[str, str, str]]:
    return [(assignment.module, assignment.name, assignment.value) for assignment in parse(path, text)]


def without(text: str, gone: t.Collection[tuple[str, str]]) -> str:
    """Return a file's text without some parameters (module, name), and every other byte as it was.

    An options line that has none left goes as a whole: kmod complains about an empty one.
    """
    cuts: list[tuple[int, int]] = []
    for begin, end, line, spans in _positions(text):
        match = None if line.startswith("#") else LINE.match(line)
        if match is None or match.group(1) != "options" or not match.group(3):
            continue
        start = match.start(3)
        params = words(match.group(3).replace("\t", " "))
        doomed = [word for word in params if (underscored(match.group(2)), word[2]) in gone]
        if doomed and len(doomed) == len(params):
            cuts.append((begin, end))
            continue
        for word in doomed:
            first, last = start + word[0], start + word[1]
            cut = spans[first][0]
            # The kernel parts words at a carriage return too, kmod the module's name from the rest at blanks only.
            parted = last == len(line) or line[last] in " \t" or word[0] > params[0][0]
            while parted and line[first - 1] in " \t" and spans[first - 1][1] == cut:
                first -= 1
                cut = spans[first][0]
            cuts.append((cut, spans[last - 1][1]))
    for first, last in reversed(cuts):
        text = text[:first] + text[last:]
    return text


def _positions(text: str) -> t.Iterator[tuple[int, int, str, list[tuple[int, int]]]]:
    """Yield each logical line: where it begins and ends, its letters, and where in the file each letter stands."""
    at = begin = 0
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    while at < len(text):
        letter, width = text[at], 1
        if letter == "\n":
            yield begin, at + 1, "".join(letters), spans
            begin, letters, spans = at + 1, [], []
        elif letter == "\\":
            width = 2
            letter = text[at + 1 : at + 2]
        if letter not in ("", "\n"):
            letters.append(letter)
            spans.append((at, at + width))
        at += width
    yield begin, len(text), "".join(letters), spans


def _check(after: Tree, module: str, path: str, desired: t.Mapping[str, str]) -> None:
    """Make sure that kmod would take what we write; a file of the same name or a stray quote can prevent it."""
    now = settings(after, module)
    for name, value in desired.items():
        if name in now and same_value(now[name].value, value):
            continue
        hiding = [other for other in after.files if os.path.basename(other) == os.path.basename(path) and other != path]
        reason = "an earlier line ends the parameters with -- or opens a quote that it does not close"
        if hiding:
            reason = "%s hides it, having the same name in a directory of higher priority" % hiding[0]
        raise PlanError(
            "%s would not set %s of %s: %s. %s Repair that first." % (path, name, module, reason, UNCHANGED)
        )


__all__ = ("resolve", "without")
