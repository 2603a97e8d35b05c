# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""The hosts of a run: groups without hosts, groups with a name that is close to ours, a limit that leaves no host."""

from __future__ import annotations

import os
import typing as t

from .known import GROUPS
from .names import closest, edits_of_group
from .values import listed

BUILT_IN = ("all", "ungrouped")
# Groups and hosts that a sentence lists.
LISTED = 4


class Inventory(t.NamedTuple):
    """What Ansible has read."""

    groups: t.Mapping[str, t.Sequence[str]]
    # Paths, or lists of hosts with a comma.
    sources: t.Sequence[str]
    # Hosts under the limit.
    hosts: t.Sequence[str]
    # What --limit is, "" without one.
    limit: str

    def has(self, group: str) -> bool:
        return bool(self.groups.get(group))

    def members(self, pattern: str) -> t.Sequence[str]:
        """Return the hosts of a group, of ``group[0]`` the first one, as a play does."""
        group, first, _rest = pattern.partition("[0]")
        return self.groups.get(group, ())[: 1 if first else None]


def group_mistakes(
    inventory: Inventory, wanted: t.Sequence[str], other: t.Sequence[str], foreign: t.Container[str]
) -> list[str]:
    """Return sentences on groups.

    :param wanted: patterns as of a play, such as ``gpu_nodes:image_build``, each of which must have a host.
    :param other: further groups on which the playbook works.
    :param foreign: names that are not meant for ours.
    """
    if not inventory.has("all"):
        return [_empty(inventory.sources)] if wanted else []
    missing = [pattern for pattern in wanted if not any(map(inventory.members, pattern.split(":")))]
    similar = _similar(inventory, foreign)
    sentences = [_missing(inventory, pattern, similar) for pattern in missing]
    absent = {group for pattern in missing for group in _groups(pattern)}
    for name, meant in similar.items():
        if meant not in absent:
            sentences.append("The group %s is none of this collection's. Did you mean %s?" % (name, meant))
    # Without the limit, there are hosts.
    if inventory.limit and wanted and not missing:
        patterns = [part for pattern in (*wanted, *other) for part in pattern.split(":")]
        there = {host for pattern in patterns for host in inventory.members(pattern)}
        if not there & set(inventory.hosts):
            sentences.append(
                "--limit %s leaves no host of %s (%s)."
                % (inventory.limit, listed(patterns, "or"), listed(sorted(there), most=LISTED))
            )
    return sentences


def _groups(pattern: str) -> list[str]:
    return [part.partition("[")[0] for part in pattern.split(":")]


def _empty(sources: t.Sequence[str]) -> str:
    default = list(sources) in ([], ["/etc/ansible/hosts"])
    gone = [source for source in sources if "," not in source and not os.path.exists(source)]
    if default:
        return "There is no inventory: name yours with -i."
    if gone:
        return "The inventory %s does not exist." % listed(map(short, gone))
    return "The inventory %s has no host." % named(sources)


def _missing(inventory: Inventory, pattern: str, similar: t.Mapping[str, str]) -> str:
    groups = _groups(pattern)
    there = sorted(group for group in inventory.groups if group not in BUILT_IN and inventory.has(group))
    sentence = "No host is in the group %s of %s (groups there: %s)." % (
        listed(groups, "or"), named(inventory.sources), listed(there, most=LISTED) or "none",
    )  # fmt: skip
    meant = sorted(name for name, meant in similar.items() if meant in groups)
    if meant:
        sentence += " Did you mean %s?" % listed(meant, "or")
    return sentence


def _similar(inventory: Inventory, foreign: t.Container[str]) -> dict[str, str]:
    """Return groups with hosts whose name is close to one of ours that has none."""
    ours = [(group, edits_of_group(group)) for group in GROUPS if not inventory.has(group)]
    similar = {}
    for name in sorted(inventory.groups):
        if inventory.has(name) and name not in (*GROUPS, *BUILT_IN) and name not in foreign:
            meant = closest(name, ours)
            if meant:
                similar[name] = meant
    return similar


def file_mistakes(inventory: Inventory, foreign: t.Container[str]) -> list[str]:
    """Return sentences on files of group_vars that are for no group, and have a name close to that of one of ours."""
    ours = [(group, edits_of_group(group)) for group in GROUPS]
    sentences = []
    for source in inventory.sources:
        directory = os.path.join(source if os.path.isdir(source) else os.path.dirname(source), "group_vars")
        if "," in source or not os.path.isdir(directory):
            continue
        for file in sorted(os.listdir(directory)):
            name = os.path.splitext(file)[0]
            meant = None if name in inventory.groups or name in foreign or name in GROUPS else closest(name, ours)
            if meant and inventory.has(meant):
                path = short(os.path.join(directory, file))
                sentences.append("%s is for no group of the inventory. Did you mean %s?" % (path, meant))
    return sentences


def named(sources: t.Sequence[str]) -> str:
    """Return the inventory's name in a sentence."""
    return listed([source if "," in source else short(source) for source in sources], most=LISTED) or "the inventory"


def short(path: str) -> str:
    """Return a path from the working directory, if it is below that."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


__all__ = ("BUILT_IN", "Inventory", "file_mistakes", "group_mistakes")
