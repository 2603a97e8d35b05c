# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Read files of a container by its own sh and cat."""

from __future__ import annotations

import typing as t

# A line before each file, and another after one that cannot be read. Patterns without a match stay as they are.
_READ = 'sign=$1; shift; for f in $*; do [ ! -r "$f" ] || { echo "$sign $f"; cat "$f" 2>&1 || echo "$sign-"; }; done'


def argv(sign: str, patterns: t.Iterable[str]) -> list[str]:
    """Return the command that prints all files of patterns of the shell, which have no spaces.

    :param sign: a text that is in none of the files, see `_pod_exec.run.new_mark`.
    """
    return ["sh", "-c", _READ, "sh", sign, *patterns]


def parse(text: str, sign: str) -> dict[str, str]:
    """Return what the command printed, by path. A file that is there and cannot be read has no text."""
    texts = {}
    for part in text.split(sign + " ")[1:]:
        path, _newline, content = part.partition("\n")
        texts[path] = "" if content.endswith(sign + "-\n") else content
    return texts


__all__ = ("argv", "parse")
