# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Lines for the terminal, colored by status.

Display.display adds the color codes, and only for a terminal: not into a pipe, and not with NO_COLOR or
ANSIBLE_NOCOLOR (lib/ansible/utils/color.py).
"""

from __future__ import annotations

import itertools
import typing as t

from ansible import constants

BAD = "bad"
DOUBTFUL = "doubtful"
CHANGED = "changed"
GOOD = "good"
COLORS = {
    BAD: constants.COLOR_ERROR,
    DOUBTFUL: constants.COLOR_WARN,
    CHANGED: constants.COLOR_CHANGED,
    GOOD: constants.COLOR_OK,
}


# Columns of what is shown.
WIDTH = 120


class Line(t.NamedTuple):
    """A line, and the status that colors it; without one, it has the terminal's own color."""

    text: str
    status: str | None = None


def text_of(lines: t.Iterable[Line]) -> str:
    """Return lines as text without color."""
    return "".join(line.text + "\n" for line in lines)


def some(texts: t.Sequence[str], number: int = 4) -> str:
    """Return the first texts, and the number of the others."""
    # One more text takes no more room than its count.
    if len(texts) <= number + 1:
        return ", ".join(texts)
    return "%s and %d more" % (", ".join(texts[:number]), len(texts) - number)


def fitting(texts: t.Sequence[str], wrap: t.Callable[[str], list[str]], number: int, rest: str) -> list[str]:
    """Return texts, wrapped, as far as they fit in ``number`` lines, and ``rest`` with the number of those left out."""
    rows: list[str] = []
    for place, text in enumerate(texts):
        part = wrap(text)
        if len(rows) + len(part) > number:
            return [*rows, rest % (len(texts) - place)]
        rows += part
    return rows


def show(display: t.Any, lines: t.Iterable[Line], stderr: bool = False) -> None:
    """Show lines on the terminal of ansible-playbook."""
    for status, group in itertools.groupby(lines, key=lambda line: line.status):
        display.display(text_of(group), color=COLORS.get(status or ""), stderr=stderr)


__all__ = ("BAD", "CHANGED", "DOUBTFUL", "GOOD", "WIDTH", "Line", "fitting", "show", "some", "text_of")
