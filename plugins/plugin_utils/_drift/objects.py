# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Derive from a task's result the objects on a host that are in sync, have drifted, or are unknown.

Results are in the form that Ansible passes to callbacks; nothing here needs Ansible.
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

# Ansible's control actions: they check nothing on a host, and what they change is inside the run.
STEERING = frozenset(
    "ansible.builtin." + name
    for name in (
        "add_host", "assert", "async_status", "debug", "fail", "fetch", "group_by", "import_playbook", "import_role",
        "import_tasks", "include_role", "include_tasks", "include_vars", "meta", "pause", "reboot", "set_fact",
        "set_stats", "tempfile", "validate_argument_spec", "wait_for", "wait_for_connection",
    )
) | {OWN + "node_reboot"}  # fmt: skip

# They only read, as do modules that end in _info or _facts by Ansible's naming rules.
LOOKING = frozenset(
    "ansible.builtin." + name for name in ("find", "gather_facts", "getent", "ping", "setup", "slurp", "stat", "uri")
)

# The first of these that is text names the object: in the result, else in the task's arguments.
NAMES = ("dest", "path", "name", "unit")

_SINCE = re.compile(r"skipped, since ", re.IGNORECASE)


class Task(t.NamedTuple):
    """A task without its result."""

    name: str
    action: str
    role: str | None = None
    # By --check or the task's own keyword.
    check_mode: bool = False
    # Whether Ansible shows the diff.
    diff: bool = False
    handler: bool = False
    delegate_to: str | None = None
    # changed_when is literally false: a command that only reads.
    never_changes: bool = False
    # It has a condition or a loop, so that skipping it is normal.
    conditional: bool = False
    arguments: t.Mapping[str, t.Any] = {}


class Limits(t.NamedTuple):
    """Limits on the size of a report."""

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
    :param outcomes: how its items ended, in order, if known: a censored item does not contain it.
    :param predicts: whether the module has a documented check mode; used if a censored result was skipped.
    """
    if task.action == VERDICT_ACTION:
        return []
    items = result.get("results")
    if not isinstance(items, list) or not items or not all(_is_item(entry) for entry in items):
        return _judge(task, outcome, result, limits, predicts, None)
    objects = []
    failed = False
    for number, item in enumerate(items):
        event_outcome = outcomes[number] if len(outcomes) == len(items) else OK
        item_outcome = _item_outcome(item, event_outcome)
        failed = failed or item_outcome in (FAILED, UNREACHABLE)
        objects += _judge(task, item_outcome, item, limits, predicts, _label(item, number))
    if outcome in (FAILED, UNREACHABLE) and not failed:
        objects += _judge(task, outcome, result, limits, predicts, None)
    return objects


def _is_item(entry: t.Any) -> bool:
    """Distinguish items of a loop from results that a module returns itself."""
    return isinstance(entry, dict) and ("ansible_loop_var" in entry or "censored" in entry)


def _item_outcome(item: t.Mapping[str, t.Any], default: str) -> str:
    if item.get("unreachable"):
        return UNREACHABLE
    if "failed_when_result" in item:
        return FAILED if item["failed_when_result"] else OK
    if item.get("failed"):
        return FAILED
    if item.get("skipped"):
        return SKIPPED
    return default


def _label(item: t.Mapping[str, t.Any], number: int) -> str:
    """Return the label of an item of a loop.

    A dictionary may contain a password that the module would have censored: only its name is used.
    """
    if "censored" in item:
        return "#%d" % (number + 1)
    label = item.get("_ansible_item_label", item.get(str(item.get("ansible_loop_var"))))
    if isinstance(label, dict):
        label = next((label[name] for name in ("name", "path", "dest", "key", "id") if _scalar(label.get(name))), None)
    return text(label, 200) if _scalar(label) else "#%d" % (number + 1)


def _scalar(value: t.Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""


def _judge(
    task: Task,
    outcome: str,
    result: t.Mapping[str, t.Any],
    limits: Limits,
    predicts: t.Callable[[], bool],
    item: str | None,
) -> list[Json]:
    censored = "censored" in result
    objects: list[Json] = []
    status, why = _status(task, outcome, result, predicts)
    own = task.action.startswith(OWN)
    resources = result.get("resources") if own and not censored else None
    if isinstance(resources, list):
        objects = [
            _resource(task, outcome, result, resource, item) for resource in resources if isinstance(resource, dict)
        ]
        if status in (IN_SYNC, DRIFT):
            status = None
    elif own and status == IN_SYNC:
        # Without resources, a module of this collection only read or judged.
        status = None
    if status:
        objects.append(_object(task, task.action, _name(task, result, item), status, item))
        objects[-1]["why"] = why
        if status == DRIFT:
            objects[-1]["repaired"] = not task.check_mode
        if not censored:
            _remember_job(task, result, objects[-1])
    # The diff is of all objects of the task: the first with drift gets it.
    if task.diff and not censored and result.get("diff"):
        for entry in objects:
            if entry["status"] == DRIFT:
                entry["diff"] = diff_text(result["diff"], limits.diff)
                break
    return objects


def _status(
    task: Task, outcome: str, result: t.Mapping[str, t.Any], predicts: t.Callable[[], bool]
) -> tuple[str | None, str | None]:
    """Return a task's status, None if it concerns no object, and why it is unknown."""
    if outcome == UNREACHABLE:
        return UNKNOWN, _with_message("the host could not be reached", result)
    if outcome == FAILED:
        return UNKNOWN, _with_message("the task failed", result)
    if task.action in STEERING:
        return None, None
    if outcome == SKIPPED:
        return _skip_status(task, result, predicts)
    if result.get("ansible_job_id") and not result.get("finished"):
        return UNKNOWN, "the task runs in the background, and its result was not seen"
    if task.handler:
        # It runs because of drift that is already reported.
        return None, None
    if result.get("changed"):
        return DRIFT, None
    if task.never_changes or task.action in LOOKING or task.action.endswith(("_info", "_facts")):
        return None, None
    return IN_SYNC, None


def _skip_status(
    task: Task, result: t.Mapping[str, t.Any], predicts: t.Callable[[], bool]
) -> tuple[str | None, str | None]:
    if task.handler:
        return None, None
    if "censored" in result:
        # no_log also hides the reason.
        if task.conditional and (not task.check_mode or predicts()):
            return None, None
        return UNKNOWN, "the task was skipped, and no_log hides why"
    if any(name in result for name in ("skip_reason", "skipped_reason", "false_condition")):
        return None, None
    if _SINCE.match(text(result.get("msg") or "")):
        return IN_SYNC, None
    return UNKNOWN, _with_message("the task was skipped", result)


def _with_message(reason: str, result: t.Mapping[str, t.Any]) -> str:
    message = result.get("msg") or result.get("reason")
    if "censored" in result or not message:
        return reason
    return "%s: %s" % (reason, text(message, 500))


def _remember_job(task: Task, result: t.Mapping[str, t.Any], entry: Json) -> None:
    if task.action not in STEERING and result.get("ansible_job_id") and not result.get("finished"):
        entry["job"] = text(result["ansible_job_id"])


def _resource(
    task: Task, outcome: str, result: t.Mapping[str, t.Any], resource: t.Mapping[str, t.Any], item: str | None
) -> Json:
    status = resource.get("status")
    if status not in (IN_SYNC, DRIFT, UNKNOWN):
        status = UNKNOWN
    entry = _object(task, text(resource.get("kind")), text(resource.get("name")), status, item)
    for name in ("desired", "configured", "live", "next_boot"):
        entry[name] = plain(resource.get(name))
    if resource.get("why") or resource.get("reason"):
        entry["why"] = text(resource.get("why") or resource.get("reason"), 500)
    if status == DRIFT:
        entry["repaired"] = bool(
            outcome == OK and not task.check_mode and result.get("changed") and not result.get("reboot_required")
        )
    return entry


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
    """Return the name of the object, else the loop's item, else the task's name, the only one if censored."""
    if "censored" not in result:
        invocation = result.get("invocation")
        module_args = invocation.get("module_args") if isinstance(invocation, dict) else None
        # The module's arguments are censored; those of the task are as written.
        for source in (result, module_args if invocation else _literals(task.arguments)):
            for name in NAMES:
                value = source.get(name) if isinstance(source, dict) else None
                if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
                    value = ", ".join(value)
                if isinstance(value, str) and value:
                    return text(value, 500)
        if item is not None:
            return text(item, 500)
    return text(task.name, 500)


def _literals(arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the arguments without templates; ansible-core 2.21 reports those of a loop not rendered."""
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
