# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The nodes at the end of a run in lines, worst first, and what to do next."""

from __future__ import annotations

import textwrap
import typing as t

from .._terminal import BAD, CHANGED, DOUBTFUL, GOOD, WIDTH, Line, some

# Lines of nodes, and names in a sentence; the rest is counted.
NODE_LINES = 36
NAMES = 8
# From the worst.
STATUSES = (BAD, DOUBTFUL, CHANGED, GOOD)

Variables = t.Mapping[str, t.Any]


class Node(t.NamedTuple):
    """A node at the end of a run. A mode is None if it is not known, or if the kernel has no RDMA subsystem."""

    name: str
    failed: bool = False
    # Whether a role has left a fact about it.
    known: bool = True
    changes: t.Mapping[str, int] = {}
    # The mode before the run, now (in check mode: as it would be), and at the next boot.
    before: str | None = None
    live: str | None = None
    next_boot: str | None = None
    desired: str | None = None
    reboot_due: bool = False
    would_help: bool | None = None
    reason: str = ""
    rebooted: bool = False
    restart_due: bool = False
    verdict: str | None = None

    @property
    def status(self) -> str:
        """The worst that is true of it."""
        if self.failed or self.verdict == "fail" or (self.reboot_due and self.would_help is False):
            return BAD
        if not self.known or self.verdict == "unknown" or (self.reboot_due and self.would_help is None):
            return DOUBTFUL
        if self.live is not None and self.next_boot is None:
            return DOUBTFUL
        if self.changes or self.reboot_due or self.rebooted or self.restart_due:
            return CHANGED
        return GOOD if {self.before, self.live, self.next_boot} <= {None, self.desired} else CHANGED

    @property
    def rank(self) -> tuple[int, bool]:
        return STATUSES.index(self.status), not self.reboot_due


def node_of(name: str, variables: Variables, failed: bool, verdict: str | None = None) -> Node:
    """Return a node by the facts that the roles have set, the latest of them."""
    looked = _with_mode(variables, "__node_maintenance_before")
    rebooted = _with_mode(variables, "__node_maintenance_after")
    facts = variables.get("gpu_node_mode")
    node = Node(name, failed, bool(looked or facts), verdict=verdict)
    if looked:
        node = _looked(node, looked)
    if facts:
        changes = {kind: int(count) for kind, count in variables["gpu_node_changes"].items() if int(count)}
        node = node._replace(
            changes=changes,
            before=facts["before"] or None,
            live=facts["live"] or None,
            next_boot=facts["next_boot"] or None,
            desired=facts["desired"],
            reboot_due=bool(variables["gpu_node_reboot_required"]),
            would_help=_known(variables["gpu_node_reboot_would_help"]),
            reason=variables["gpu_node_reboot_reason"] or "",
            restart_due=bool(variables["gpu_node_runtime_restart_required"]),
        )
    if rebooted:
        node = _looked(node, rebooted)._replace(before=node.before or node.live, rebooted=True)
    return node


def _with_mode(variables: Variables, name: str) -> Variables | None:
    """Return a result of rdma_system; None if the task has not run, or was skipped."""
    result = variables.get(name) or {}
    return result if result.get("mode") else None


def _looked(node: Node, result: Variables) -> Node:
    mode = result["mode"]
    return node._replace(
        before=mode["live"],
        live=mode["live"],
        next_boot=mode["next_boot"],
        desired=mode["desired"],
        reboot_due=result["reboot_required"],
        would_help=result["reboot_would_help"],
        reason=result["reboot_reason"],
    )


def _known(value: t.Any) -> bool | None:
    """Return a boolean or None, which a template before ansible-core 2.19 turns into an empty string."""
    return None if value in (None, "") else bool(value)


# --- one node -----------------------------------------------------------------------------------------------------


def describe(node: Node) -> str:
    """Return what was changed, the mode, whether a reboot is due, and the verdict, as far as there is any."""
    parts = [_counted(kind, count) for kind, count in node.changes.items()]
    if node.failed:
        parts.append("failed in this run, or was not reached: see its message above")
    if node.rebooted:
        parts.append("rebooted")
    if node.live:
        parts.append(_mode(node))
    if node.reboot_due:
        helps = {True: "and would help", False: "and would not help", None: "and may not help"}
        parts.append("reboot due %s" % helps[node.would_help])
    if node.restart_due:
        parts.append("restart of the container runtime due")
    if node.verdict:
        parts.append("fabric %s" % node.verdict)
    if node.status == GOOD:
        parts.insert(0, "in sync")
    return ", ".join(parts) or "nothing is known of it"


def _counted(kind: str, count: int) -> str:
    if kind == "initramfs":
        return kind
    return "%d %s%s" % (count, kind, "" if count == 1 else "s")


def _mode(node: Node) -> str:
    if node.next_boot is None:
        return "mode %s, unknown at the next boot" % node.live
    if node.live != node.next_boot:
        return "mode %s -> %s at the next boot" % (node.live, node.next_boot)
    if node.before not in (None, node.live):
        return "mode %s -> %s" % (node.before, node.live)
    if node.live != node.desired:
        return "mode %s, also at the next boot, instead of %s" % (node.live, node.desired)
    return "mode %s" % node.live


# --- all nodes ----------------------------------------------------------------------------------------------------


def lines(nodes: t.Sequence[Node], check_mode: bool, verdict: str | None = None) -> list[Line]:
    """Return the summary: nodes of which the same is true share a line."""
    groups: dict[str, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.rank):
        groups.setdefault(describe(node), []).append(node)
    rows: list[Line] = []
    rest = 0
    for text, group in groups.items():
        status = group[0].status
        names = [node.name for node in group]
        shown = some(names, NAMES) if status == GOOD else ", ".join(names)
        part = _wrap("%s: %s" % (shown, text), "")
        if rest or len(rows) + len(part) > NODE_LINES:
            rest += len(group)
        else:
            rows += [Line(row, status) for row in part]
    if rest:
        rows.append(Line("and %d more nodes" % rest))
    return [Line(_head(nodes, check_mode, verdict)), *rows, *_todo(next_steps(nodes, check_mode, verdict))]


def _head(nodes: t.Sequence[Node], check_mode: bool, verdict: str | None) -> str:
    counts = (
        ("failed", sum(node.failed for node in nodes)),
        ("due for a reboot", sum(node.reboot_due for node in nodes)),
        ("to change" if check_mode else "changed", sum(bool(node.changes) for node in nodes)),
        ("rebooted", sum(node.rebooted for node in nodes)),
        ("in sync", sum(node.status == GOOD for node in nodes)),
    )
    text = "Summary of %d node%s: " % (len(nodes), "" if len(nodes) == 1 else "s")
    text += ", ".join("%d %s" % (count, what) for what, count in counts if count) or "nothing is known of them"
    if verdict:
        text += "; fabric check: %s" % verdict.upper()
    return text + (" (check mode: nothing was changed)" if check_mode else "")


def _todo(steps: t.Sequence[str]) -> list[Line]:
    rows = [Line(row) for step in steps for row in _wrap(step, "  * ")]
    return [Line("Next:"), *rows] if rows else []


def _wrap(text: str, first: str) -> list[str]:
    # Names have hyphens, and so have options.
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent="    ", break_on_hyphens=False)


def next_steps(nodes: t.Sequence[Node], check_mode: bool, verdict: str | None = None) -> list[str]:
    """Return what to do next, in sentences, in the order in which to do it."""
    steps = []
    if any(node.failed for node in nodes):
        steps.append("Correct what the messages of failed nodes say, and give the same command again.")
    if check_mode and any(node.changes for node in nodes):
        steps.append("Make these changes: the same command without --check.")
    helps = [node.name for node in nodes if node.reboot_due and node.would_help]
    if helps:
        steps.append(
            "Reboot %s: playbook rdmaops.gpu_fabric.reboot, or site, with -e node_maintenance_reboot_ok=true"
            % some(helps, NAMES)
        )
    steps += _reasons(nodes, False, "A reboot would not help %s: %s")
    steps += _reasons(
        nodes, None, "A reboot may not help %s (node_maintenance_next_boot_unknown_ok=true tries it once): %s"
    )
    restarts = [node.name for node in nodes if node.restart_due]
    if restarts:
        steps.append("Restart the container runtime of %s: -e gpu_node_runtime_restart_ok=true" % some(restarts, NAMES))
    if verdict in ("fail", "unknown") and not check_mode:
        steps.append("Read the table of the fabric check above; docs/red-verdict.md explains each message.")
    return steps


def _reasons(nodes: t.Sequence[Node], would_help: bool | None, text: str) -> list[str]:
    """Return a sentence for each reason why a reboot that is due would not help."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        if node.reboot_due and node.would_help is would_help:
            groups.setdefault(textwrap.shorten(node.reason, 300, placeholder=" ..."), []).append(node.name)
    return [text % (some(names, NAMES), reason) for reason, names in list(groups.items())[:3]]


__all__ = ("Node", "describe", "lines", "next_steps", "node_of")
