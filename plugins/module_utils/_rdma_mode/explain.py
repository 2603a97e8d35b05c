# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What keeps a host from the desired RDMA mode, in words; needed only if something does."""

from __future__ import annotations

import typing as t

from .._errors import FabricError
from .._kmod import config
from .._module_params import prediction
from .model import MODULE, PARAMETER, mode_of

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.survey import Namespace
    from .model import Host


# What is shown of a holder.
HOLDER = ("kind", "path", "pid", "command", "unit", "pod")


def _blocker(space: Namespace) -> dict[str, t.Any]:
    """Return one entry of ``blockers``."""
    return {
        "inode": space.inode,
        "name": space.name,
        "holders": [dict(zip(HOLDER, holder)) for holder in space.holders],
        "holders_total": space.holders_total,
    }


def blockers(host: Host, problems: list[str]) -> list[dict[str, t.Any]]:
    """List the other namespaces. An incomplete list is a problem, and no obstacle: the kernel has the last word."""
    survey = host.other_namespaces()
    if survey.problem:
        problems.append(survey.problem)
    return [_blocker(space) for space in survey.namespaces]


def users(host: Host, problems: list[str]) -> list[dict[str, t.Any]] | None:
    """List who has RDMA devices open; None if the kernel does not show it."""
    try:
        return host.users()
    except (FabricError, OSError) as exc:
        problems.append("the users of the RDMA devices are not known: %s" % exc)
        return None


def _holder(holder: t.Mapping[str, t.Any]) -> str:
    if holder["kind"] == "mount":
        return "the mount %s" % holder["path"]
    return "%s (pid %s%s)" % (holder["command"], holder["pid"], ", %s" % holder["unit"] if holder["unit"] else "")


def format_blockers(blockers: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Name the first blockers and their holders in half a sentence."""
    parts = []
    for item in blockers[:3]:
        holders = dict.fromkeys(_holder(holder) for holder in item["holders"])
        name = item["name"] or "net:[%d]" % item["inode"]
        parts.append("%s held by %s" % (name, ", ".join(list(holders)[:3]) or "nothing that can be seen"))
    if len(blockers) > len(parts):
        parts.append("%d more" % (len(blockers) - len(parts)))
    return "; ".join(parts)


def contradictions(tree: config.Tree, desired: str) -> list[dict[str, t.Any]]:
    """Return the lines of modprobe.d that contradict it, if this module's own file is not managed."""
    lines = config.history(tree, MODULE, PARAMETER)
    return [
        {
            "path": assignment.path,
            "line": assignment.line,
            "text": assignment.text.strip(),
            "wins": assignment is lines[-1],
        }
        for assignment in lines
        if mode_of(assignment.value) != desired
    ]


def boot_conflicts(src: prediction.Sources) -> list[dict[str, t.Any]]:
    """Return what the next boot's command line sets for the parameter, with the place it comes from."""
    entry = src.entry
    if entry is None:
        return []
    conflicts: list[dict[str, t.Any]] = []
    for path, line, text in entry.parts:
        value = prediction.cmdline_value(text, MODULE, PARAMETER)
        if value is not None:
            conflicts.append(
                {"path": path, "line": line, "text": "%s.%s=%s" % (MODULE, PARAMETER, value), "wins": True}
            )
    return conflicts


def _ended(users: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    if not users:
        return ""
    from . import device_users

    return " A reboot ends the use of %s." % device_users.format_users(users)


def reason(
    desired: str,
    live: str,
    next_boot: str | None,
    why: str | None,
    blocking_namespaces: t.Sequence[t.Mapping[str, t.Any]],
    src: prediction.Sources,
    conflicts: t.Sequence[t.Mapping[str, t.Any]],
    users: t.Sequence[t.Mapping[str, t.Any]],
) -> str:
    """Describe in words whether a reboot is due, whether it would help, what is in the way, and what it ends."""
    text = "the RDMA subsystem is in mode %s instead of %s" % (live, desired)
    if blocking_namespaces:
        text += " and cannot be switched live while other network namespaces exist (%s)" % format_blockers(
            blocking_namespaces
        )
    if next_boot == desired:
        return text + ". The next boot sets %s.%s" % (desired, _ended(users))
    if next_boot is None:
        return text + ". The mode after the next boot is not known: %s." % "; ".join([why or "", *src.problems]).strip(
            "; ."
        )
    text += ". The next boot sets %s" % next_boot
    winners = [item for item in conflicts if item.get("wins")]
    remedy = src.entry and src.entry.remedy
    if winners:
        text += ", because of " + "; ".join(
            '"%s" in %s line %s' % (item["text"], item["path"], item["line"]) for item in winners
        )
        text += ". " + (remedy or "Remove it there, and from the source of that file")
    elif why:
        text += ", because " + why
    return text + "."


__all__ = ("blockers", "boot_conflicts", "contradictions", "format_blockers", "reason", "users")
