# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What has to be written so that a module's parameters are set as desired, by a drop-in that we own."""

from __future__ import annotations

import os
import typing as t
from functools import partial

from .._decision import Decision
from .._files import HEADER, is_ours, read_text
from .._files_write import atomic_write, backup, remove
from .config import (
    DIRECTORIES,
    Assignment,
    Tree,
    canonical,
    is_conf,
    parse,
    read_tree,
    render,
    same_value,
    settings,
    underscored,
)
from .conflict import resolve
from .plan_model import Plan, PlanError, real_path, refuse_link
from .release import USR_LOCAL, reads_usr_local

if t.TYPE_CHECKING:  # pragma: no cover
    from .._decision import Decision


def check_path(path: str) -> None:
    """Refuse a drop-in that kmod would not read."""
    directory, name = os.path.split(path)
    if directory not in DIRECTORIES or not is_conf(name):
        raise PlanError(
            "%s: kmod does not read this file. The path must end in .conf and be directly in "
            "one of %s, best in the first." % (path, ", ".join(DIRECTORIES))
        )


def install_command(tree: Tree, module: str) -> str | None:
    """Return a sentence about the line that makes modprobe run a command instead of loading the module."""
    # kmod takes the first one (kmod_lookup_alias_from_commands()).
    for line in tree.directives:
        if line.command == "install" and line.module == underscored(module):
            return "%s:%s runs a command instead of loading %s: %s" % (
                line.path,
                line.line,
                line.module,
                line.text.strip(),
            )
    return None


def plan(
    root: str,
    module: str,
    desired: t.Mapping[str, str | None],
    path: str,
    state: str = "present",
    on_conflict: str = "fail",
) -> Plan:
    """Decide.

    ``present``: our file has exactly the parameters with a value in ``desired``. ``absent``: it has those of them no
    more, or is gone when ``desired`` is empty.
    """
    check_path(path)
    if os.path.dirname(path) == USR_LOCAL and not reads_usr_local(root):
        raise PlanError(
            "%s: the kmod of this system does not read this directory, which releases before 29 do not know. Put the "
            "file into %s." % (path, DIRECTORIES[0])
        )
    module = underscored(module)
    path = canonical(root, path)
    before = read_tree(root, module=module)
    if before.unreadable:
        raise PlanError(
            " ".join("Reading %s: %s." % (name, error) for name, error in before.unreadable)
            + " Nothing has been changed. Repair the file, or rename it so that its name does not end in .conf."
        )
    refuse_link(root, path)
    original = read_text(real_path(root, path))
    text = _text(module, desired, path, state, original)
    values = {name: value for name, value in desired.items() if value is not None} if state == "present" else {}
    contradicted = any(_contradicts(assignment, values) for assignment in before.assignments)
    if text == original and not contradicted and values.keys() <= settings(before, module).keys():
        warnings = _leftovers(before, desired, path, module, state)
        return Plan(root, module, path, {}, {}, [], [], warnings, before, before)
    result = resolve(root, module, values, path, text, original, before, on_conflict)
    return result._replace(warnings=result.warnings + _leftovers(result.after, desired, path, module, state))


def _text(module: str, desired: t.Mapping[str, str | None], path: str, state: str, original: str | None) -> str | None:
    if state == "present":
        options = {name: value for name, value in desired.items() if value is not None}
    elif desired and original is not None and is_ours(original):
        ours = [assignment for assignment in parse(path, original) if assignment.module == module]
        options = {assignment.name: assignment.value for assignment in ours if assignment.name not in desired}
    else:
        options = {}
    return render(module, options, HEADER) if options else None


def _contradicts(assignment: Assignment, values: t.Mapping[str, str]) -> bool:
    return assignment.name in values and not same_value(assignment.value, values[assignment.name])


def _leftovers(tree: Tree, desired: t.Mapping[str, str | None], path: str, module: str, state: str) -> list[str]:
    """Report what other files still set of what ours does not (any more), and what may keep ours from having effect."""
    now = settings(tree, module)
    gone = [now[name] for name in desired if name in now and (state == "absent" or desired[name] is None)]
    warnings = [
        "%s:%s still sets %s of %s: %s"
        % (assignment.path, assignment.line, assignment.name, module, assignment.text.strip())
        for assignment in gone
        if assignment.path != path
    ]
    command = install_command(tree, module)
    if command is not None:
        warnings.append(command + "; whether it passes parameters on is not known")
    return warnings


def add_to(plan: Plan, decision: Decision) -> None:
    """Add the plan's steps, and its diff, to a decision."""
    for path in plan.backups:
        where = real_path(plan.root, path)
        decision.add("Back up %s" % path, partial(backup, where))
    for path, text in plan.writes.items():
        where = real_path(plan.root, path)
        decision.show(path, plan.originals[path] or "", text or "")
        if text is None:
            decision.add("Remove %s" % path, partial(remove, where))
        else:
            decision.add("Write %s" % path, partial(atomic_write, where, text))


def apply(plan: Plan) -> None:
    """Carry a plan out."""
    decision = Decision()
    add_to(plan, decision)
    decision.carry_out()


__all__ = (
    "add_to",
    "apply",
    "check_path",
    "install_command",
    "plan",
)
