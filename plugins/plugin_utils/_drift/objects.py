# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the result of a task shows about the objects on a host: in sync, drift, or not known.

Results come as Ansible's callbacks get them; nothing here needs Ansible.
"""

from __future__ import annotations

import re
import typing as t

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from .diff import diff_text, plain, text

Json = t.Dict[str, t.Any]

OWN = "rdmaops.gpu_fabric."
VERDICT_ACTION = OWN + "drift_verdict"

OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"
UNREACHABLE = "unreachable"

# Ansible's own steering: nothing on a host is looked at. What they report as changed is inside the run.
STEERING = frozenset(
    "ansible.builtin." + name
    for name in (
        "add_host", "assert", "async_status", "debug", "fail", "fetch", "group_by", "import_playbook", "import_role",
        "import_tasks", "include_role", "include_tasks", "include_vars", "meta", "pause", "reboot", "set_fact",
        "set_stats", "tempfile", "validate_argument_spec", "wait_for", "wait_for_connection",
    )
)  # fmt: skip

# They only look. What is called so by Ansible's naming rules (ends in _info or _facts) does too.
LOOKING = frozenset(
    "ansible.builtin." + name for name in ("find", "gather_facts", "getent", "ping", "setup", "slurp", "stat", "uri")
)

# Of their results, and after that of the task's arguments, the first of these that is a text names the object.
NAMES = ("dest", "path", "name", "unit")

_SINCE = re.compile(r"skipped, since ", re.IGNORECASE)


class Task(t.NamedTuple):
    """What is known of a task besides its result."""

    name: str
    action: str
    role: str | None = None
    # The task predicts, by --check or its own keyword.
    check_mode: bool = False
    # Ansible would show the diff.
    diff: bool = False
    handler: bool = False
    delegate_to: str | None = None
    # changed_when is false, literally: a command that only looks.
    never_changes: bool = False
    # It has a condition or a loop, so that it may be left out without anything being wrong.
    conditional: bool = False
    arguments: t.Mapping[str, t.Any] = {}


class Limits(t.NamedTuple):
    """The bounds of what a report takes in."""

    diff: int = 8192


def objects_of(
    task: Task,
    outcome: str,
    result: t.Mapping[str, t.Any],
    limits: Limits = Limits(),  # noqa: B008  (immutable)
    outcomes: t.Sequence[str] = (),
    predicts: t.Callable[[], bool] = bool,
) -> list[Json]:
    """Return the objects of a task's final result on a host.

    :param outcome: how the task as a whole ended.
    :param outcomes: how its items ended, in their order, as far as known: a censored item does not show it.
    :param predicts: whether the module is known to have a check mode; used if a censored result was skipped.
    """
    if task.action == VERDICT_ACTION:
        return []
    items = result.get("results")
    if not isinstance(items, list) or not items or not all(_is_item(one) for one in items):
        return _judged(task, outcome, result, limits, predicts, None)
    found = []
    failed = False
    for number, item in enumerate(items):
        told = outcomes[number] if len(outcomes) == len(items) else OK
        ended = _ended(item, told)
        failed = failed or ended in (FAILED, UNREACHABLE)
        found += _judged(task, ended, item, limits, predicts, _label(item, number))
    if outcome in (FAILED, UNREACHABLE) and not failed:
        found += _judged(task, outcome, {**result, "results": None}, limits, predicts, None)
    return found


def _is_item(one: t.Any) -> bool:
    """Distinguish items of a loop from what a module itself has called results."""
    return isinstance(one, dict) and ("ansible_loop_var" in one or "censored" in one)


def _ended(item: t.Mapping[str, t.Any], told: str) -> str:
    if item.get("unreachable"):
        return UNREACHABLE
    if "failed_when_result" in item:
        return FAILED if item["failed_when_result"] else OK
    if item.get("failed"):
        return FAILED
    if item.get("skipped"):
        return SKIPPED
    return told


def _label(item: t.Mapping[str, t.Any], number: int) -> str:
    """Return what an item of a loop is called.

    A dictionary may hold a password that the module would have censored: only what names it is taken.
    """
    if "censored" in item:
        return "#%d" % (number + 1)
    label = item.get("_ansible_item_label", item.get(str(item.get("ansible_loop_var"))))
    if isinstance(label, dict):
        label = next((label[name] for name in ("name", "path", "dest", "key", "id") if _scalar(label.get(name))), None)
    return text(label, 200) if _scalar(label) else "#%d" % (number + 1)


def _scalar(value: t.Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""


def _judged(
    task: Task,
    outcome: str,
    result: t.Mapping[str, t.Any],
    limits: Limits,
    predicts: t.Callable[[], bool],
    item: str | None,
) -> list[Json]:
    censored = "censored" in result
    found: list[Json] = []
    status, why = _status(task, outcome, result, predicts)
    own = task.action.startswith(OWN)
    resources = result.get("resources") if own and not censored else None
    if isinstance(resources, list):
        found = [_resource(task, outcome, result, one, item) for one in resources if isinstance(one, dict)]
        if status in (IN_SYNC, DRIFT):
            status = None
    elif own and status == IN_SYNC:
        # Without resources a module of ours has looked, or judged.
        status = None
    if status:
        found.append(_object(task, task.action, _name(task, result, item), status, item))
        found[-1]["why"] = why
        if status == DRIFT:
            found[-1]["repaired"] = not task.check_mode
        if not censored:
            _remember_job(task, result, found[-1])
    # One diff is of all that the task has found: it stands with the first that drifted.
    if task.diff and not censored and result.get("diff"):
        for one in found:
            if one["status"] == DRIFT:
                one["diff"] = diff_text(result["diff"], limits.diff)
                break
    return found


def _status(
    task: Task, outcome: str, result: t.Mapping[str, t.Any], predicts: t.Callable[[], bool]
) -> tuple[str | None, str | None]:
    """Return a task's status, None if it is about no object, and why it is not known."""
    if outcome == UNREACHABLE:
        return UNKNOWN, _because("the host could not be reached", result)
    if outcome == FAILED:
        return UNKNOWN, _because("the task failed", result)
    if task.action in STEERING:
        return None, None
    if outcome == SKIPPED:
        return _left_out(task, result, predicts)
    if result.get("ansible_job_id") and not result.get("finished"):
        return UNKNOWN, "the task runs in the background, and its result was not seen"
    if task.handler:
        # It runs because something else has drifted, which is already reported.
        return None, None
    if result.get("changed"):
        return DRIFT, None
    if task.never_changes or task.action in LOOKING or task.action.endswith(("_info", "_facts")):
        return None, None
    return IN_SYNC, None


def _left_out(
    task: Task, result: t.Mapping[str, t.Any], predicts: t.Callable[[], bool]
) -> tuple[str | None, str | None]:
    if task.handler:
        return None, None
    if "censored" in result:
        # no_log hides why, too.
        if task.conditional and (not task.check_mode or predicts()):
            return None, None
        return UNKNOWN, "the task was skipped, and no_log hides why"
    if any(name in result for name in ("skip_reason", "skipped_reason", "false_condition")):
        return None, None
    if _SINCE.match(text(result.get("msg") or "")):
        return IN_SYNC, None
    return UNKNOWN, _because("the task was skipped", result)


def _because(what: str, result: t.Mapping[str, t.Any]) -> str:
    said = result.get("msg") or result.get("reason")
    if "censored" in result or not said:
        return what
    return "%s: %s" % (what, text(said, 500))


def _remember_job(task: Task, result: t.Mapping[str, t.Any], found: Json) -> None:
    if task.action not in STEERING and result.get("ansible_job_id") and not result.get("finished"):
        found["job"] = text(result["ansible_job_id"])


def _resource(
    task: Task, outcome: str, result: t.Mapping[str, t.Any], one: t.Mapping[str, t.Any], item: str | None
) -> Json:
    status = one.get("status")
    if status not in (IN_SYNC, DRIFT, UNKNOWN):
        status = UNKNOWN
    found = _object(task, text(one.get("kind")), text(one.get("name")), status, item)
    for name in ("desired", "configured", "live", "next_boot"):
        found[name] = plain(one.get(name))
    if one.get("why") or one.get("reason"):
        found["why"] = text(one.get("why") or one.get("reason"), 500)
    if status == DRIFT:
        found["repaired"] = bool(
            outcome == OK and not task.check_mode and result.get("changed") and not result.get("reboot_required")
        )
    return found


def _object(task: Task, kind: str, name: str, status: str, item: str | None) -> Json:
    return {
        "role": task.role,
        "task": text(task.name),
        "action": task.action,
        "kind": kind,
        "name": name,
        "item": item,
        "delegated_to": task.delegate_to,
        "status": status,
        "desired": None,
        "configured": None,
        "live": None,
        "next_boot": None,
        "diff": None,
        "repaired": None,
        "why": None,
    }


def _name(task: Task, result: t.Mapping[str, t.Any], item: str | None) -> str:
    """Return what the task is about, else the loop's item, else the task's name, which is all of a censored one."""
    if "censored" not in result:
        invocation = result.get("invocation")
        given = invocation.get("module_args") if isinstance(invocation, dict) else None
        # The module has censored its arguments; those of the task are as they were written.
        for source in (result, given if invocation else _finished(task.arguments)):
            for name in NAMES:
                value = source.get(name) if isinstance(source, dict) else None
                if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) for one in value):
                    value = ", ".join(value)
                if isinstance(value, str) and value:
                    return text(value, 500)
        if item is not None:
            return text(item, 500)
    return text(task.name, 500)


def _finished(arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Leave out arguments that are still templates: of a loop, ansible-core 2.21 tells no others."""
    return {name: value for name, value in arguments.items() if "{{" not in str(value)}


__all__ = (
    "FAILED",
    "Limits",
    "OK",
    "OWN",
    "SKIPPED",
    "Task",
    "UNREACHABLE",
    "VERDICT_ACTION",
    "objects_of",
)
