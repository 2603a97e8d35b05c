# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Tags: those that a playbook does not have select nothing."""

from __future__ import annotations

import typing as t

from .values import listed

# They select tasks without a tag, which the playbooks have.
SELECTING = ("all", "untagged")


def tag_mistakes(playbook: str, tags: t.Sequence[str], run: t.Iterable[str], skip: t.Iterable[str]) -> list[str]:
    """Return sentences on --tags and --skip-tags that are not what a playbook has."""
    has = "it has %s" % listed(sorted(tags)) if tags else "it has none"
    special = (*SELECTING, "tagged") if tags else SELECTING
    unknown = sorted(set(run) - set(tags) - set(special))
    sentences = []
    if unknown:
        text = "The playbook %s has no tag %s (%s): --tags %s would run nothing, or only a part."
        sentences.append(text % (playbook, listed(unknown, "or"), has, ",".join(run)))
    unknown = sorted(set(skip) - set(tags))
    if unknown:
        text = "The playbook %s has no tag %s (%s): --skip-tags %s would not skip what you mean."
        sentences.append(text % (playbook, listed(unknown, "or"), has, ",".join(skip)))
    return sentences


__all__ = ("tag_mistakes",)
