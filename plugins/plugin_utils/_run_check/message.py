# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""One message for all mistakes: short enough to be read."""

from __future__ import annotations

import typing as t

from .values import cut

# Characters of a message, and of one of its sentences.
MESSAGE = 600
SENTENCE = 360

END = "Nothing was done."


def message(sentences: t.Sequence[str]) -> str:
    """Return sentences and the end, at most 600 characters; what does not fit is counted."""
    shown: list[str] = []
    for number, sentence in enumerate(sentences):
        left = len(sentences) - number - 1
        further = _further(left)
        text = " ".join([*shown, cut(sentence, SENTENCE), *further, END])
        if len(text) > MESSAGE:
            return " ".join([*shown, *_further(left + 1), END])
        shown.append(cut(sentence, SENTENCE))
    return " ".join([*shown, END])


def _further(count: int) -> list[str]:
    if count < 2:
        return ["There is 1 more mistake."] * count
    return ["There are %d more mistakes." % count]


__all__ = ("MESSAGE", "message")
