# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Names that are close to another: which variable or group was meant."""

from __future__ import annotations

import typing as t

# Edits in a long name. Small names allow fewer.
MOST = 3


def distance(first: str, second: str, most: int) -> int:
    """Return how many letters were inserted, left out, replaced, or swapped with their neighbour; above most, any more.

    It is the optimal string alignment distance: that of Levenshtein, with swaps as one edit.
    """
    if abs(len(first) - len(second)) > most:
        return most + 1
    rows = [list(range(len(second) + 1))]
    for i, letter in enumerate(first):
        row = [i + 1]
        for j, other in enumerate(second):
            edits = min(row[j] + 1, rows[-1][j + 1] + 1, rows[-1][j] + (letter != other))
            if i and j and letter == second[j - 1] and first[i - 1] == other:
                edits = min(edits, rows[-2][j - 1] + 1)
            row.append(edits)
        if min(row) > most:
            return most + 1
        rows.append(row)
    return rows[-1][-1]


def closest(name: str, known: t.Iterable[tuple[str, int]]) -> str | None:
    """Return the closest of the known names, each with the number of edits that it allows.

    The first letter must be right: people seldom miss it, and cpu_nodes are not gpu_nodes.
    """
    plain = _plain(name)
    best, meant = MOST + 1, None
    for other, most in known:
        if other[0] != plain[:1]:
            continue
        edits = distance(plain, other, min(most, best - 1))
        if edits <= most and edits < best:
            best, meant = edits, other
    return meant


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def edits_of_variable(name: str, known: str, prefix: str) -> int:
    """Return how many edits may be between a name and a known variable, whose prefix is that of its role.

    With the right prefix, a third of the rest: Kubespray's kubernetes_audit is not kubernetes_avoid. With another, a
    quarter of the prefix: aws_credentials is not awx_credentials.
    """
    if name.startswith(prefix):
        return min(MOST, max(1, (len(known) - len(prefix)) // 3))
    return min(MOST, (len(prefix) - 1) // 4)


def edits_of_group(known: str) -> int:
    """Return how many edits may be between a name and a known group."""
    return min(2, len(known) // 4)


__all__ = ("MOST", "closest", "distance", "edits_of_group", "edits_of_variable")
