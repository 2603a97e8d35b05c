# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What systemd-sysctl makes of sysctl.d, without running it.

The rules are those of sysctl.d(5) and of parse_line() and apply_all() in systemd's src/sysctl/sysctl.c, version 246 and
newer. Older versions know neither patterns nor lines without a value.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import typing as t

from .._files import FileError, drop_ins, in_root, read_text

# Highest priority first: a file hides those of the same name in later directories (CONF_PATHS_STRV() in systemd).
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")


class Assignment(t.NamedTuple):
    """A line. Its key has the form of a path below /proc/sys; no value: patterns leave the key out."""

    path: str
    line: int
    text: str
    key: str
    value: str | None


class Tree(t.NamedTuple):
    """A whole configuration. An earlier line of a key whose value a later one changes is not in it any more."""

    assignments: list[Assignment]
    unreadable: list[tuple[str, str]]


def normalized(key: str) -> str:
    """Return a key with slashes between its parts (sysctl_normalize() in src/shared/sysctl-util.c).

    If its first separator is a dot, dots and slashes change places: ``net.ipv4.conf.eth0/1.rp_filter`` is of the
    interface eth0.1.
    """
    first = next((character for character in key if character in "/."), "/")
    return key if first == "/" else key.translate(str.maketrans("/.", "./"))


def parse(path: str, text: str) -> list[Assignment]:
    """Return the assignments of one file."""
    result = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        if not equals and not line.startswith("-"):
            continue
        # With a value, the minus sign is for errors, which are ignored.
        key = normalized(name[1 if line.startswith("-") else 0 :].strip(" \t"))
        result.append(Assignment(path, number, raw, key, value.strip(" \t") if equals else None))
    return result


def evaluate(lines: t.Iterable[Assignment]) -> list[Assignment]:
    """Return the assignments that systemd-sysctl carries out, in its order."""
    result: dict[str, Assignment] = {}
    for line in lines:
        if line.key in result and result[line.key].value == line.value:
            continue
        result.pop(line.key, None)
        result[line.key] = line
    return list(result.values())


def winner(assignments: t.Sequence[Assignment], key: str) -> Assignment | None:
    """Return the assignment that gives a key its value: its own one, else the last pattern that matches it."""
    own = next((line for line in assignments if line.key == key), None)
    if own:
        return own if own.value is not None else None
    matching = [line for line in assignments if line.value is not None and _matches(line.key, key)]
    return matching[-1] if matching else None


def _matches(pattern: str, key: str) -> bool:
    if not any(character in pattern for character in "*?["):
        return False
    parts, wanted = pattern.split("/"), key.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, wanted, parts))


def read(root: str = "/") -> Tree:
    """Read sysctl.d below a root, and evaluate it."""
    return tree(*texts(root))


def tree(files: t.Mapping[str, str], unreadable: t.Sequence[tuple[str, str]] = ()) -> Tree:
    """Evaluate files given by their paths."""
    lines = [line for path in drop_ins(files, DIRECTORIES) for line in parse(path, files[path])]
    return Tree(evaluate(lines), list(unreadable))


def texts(root: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the texts of the files below a root by their paths, and what cannot be read, with the reasons."""
    paths: list[str] = []
    bad: list[tuple[str, str]] = []
    for directory in DIRECTORIES:
        try:
            paths += ["%s/%s" % (directory, name) for name in os.listdir(in_root(root, directory))]
        except FileNotFoundError:
            continue
        except OSError as exc:
            bad.append((directory, exc.strerror or str(exc)))
    result: dict[str, str] = {}
    for path in drop_ins(paths, DIRECTORIES):
        try:
            result[path] = _text(root, path)
        except (OSError, FileError) as exc:
            bad.append((path, getattr(exc, "strerror", None) or str(exc)))
    return result, bad


def _text(root: str, path: str) -> str:
    """Return a file's text; what is not a regular file, such as the /dev/null that masks a name, has none."""
    real = in_root(root, path)
    if not os.path.lexists(real) or not stat.S_ISREG(os.stat(real).st_mode):
        return ""
    return read_text(real) or ""


__all__ = ("DIRECTORIES", "Assignment", "Tree", "evaluate", "normalized", "parse", "read", "texts", "tree", "winner")
