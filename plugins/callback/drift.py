# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: drift
type: aggregate
short_description: Record what a run finds changed, as a drift report
version_added: 0.1.0
description:
  - Turns a run of C(ansible-playbook), in check mode or not, into one report of every object that was checked, on every
    host, with the status V(in_sync), V(drift) or V(unknown).
  - The modules of this collection report their objects themselves, in C(resources). For any other module, a result that
    has changed is V(drift). In check mode, this is a pending change; otherwise, it was drift and has been repaired, as
    shown by C(repaired).
  - Anything that could not be checked is V(unknown), never V(in_sync). This applies to an unreachable host, to a failed
    task, even with C(ignore_errors) or in a block with C(rescue), to a task that was skipped because its module has no
    check mode, to a background task whose end was not seen, and to a host that the run did not reach. A task skipped by
    its C(when) is not an object.
  - The verdict of a report is V(drift) if anything has drifted, else V(unknown) if anything is unknown, nothing was
    checked, or the run was not completed, else V(in_sync).
  - Control tasks such as C(include_role), C(set_fact), C(debug) and C(assert) are not objects, and neither are tasks
    that only read, such as C(stat), a module whose name ends in C(_info) or C(_facts), and a command with
    C(changed_when=false). Nor is a handler, which runs because of drift that has already been reported. All of them are
    V(unknown) if they fail.
  - An object belongs to the host for which its task ran, which is the one that Ansible counts it for. C(delegated_to)
    is the host where it was checked. With C(run_once), it belongs to the one host that the task ran for.
  - If one object, which is the same role, task, kind, name and item, is checked several times, the worst status counts.
    Drift that has been repaired stays V(drift).
  - Only the name and status of a task with C(no_log) are reported.
  - Diffs are included if Ansible shows them, with C(--diff) or a task's C(diff).
  - The report is written at the start of every play and at the end. The report of a run that was killed is marked as
    incomplete. The action P(rdmaops.gpu_fabric.drift_verdict#module) judges it from within the run, and can fail.
author:
  - rdmaops contributors (@rdmaops)
requirements:
  - Must be enabled, by C(callbacks_enabled) in C(ansible.cfg) or by E(ANSIBLE_CALLBACKS_ENABLED).
options:
  report:
    description:
      - A file on the controller for the report as JSON. It is written atomically, and its directory is created.
      - A new file is readable by its owner only (mode 0600), whatever the umask. An existing file keeps its mode.
      - Environment variables are expanded, so that concurrent jobs can have a file each, as in
        V(/srv/drift/$JOB_ID.json) with AWX.
      - A relative path is relative to the directory of C(ansible.cfg), or to the working directory if it comes from the
        environment.
    type: path
    env: [{name: RDMAOPS_DRIFT_REPORT}]
    ini: [{section: callback_drift, key: report}]
  html:
    description: The same for the report as a self-contained HTML page. It is written at the end.
    type: path
    env: [{name: RDMAOPS_DRIFT_HTML}]
    ini: [{section: callback_drift, key: html}]
  prometheus:
    description:
      - The same for metrics in the Prometheus format, as read by the textfile collector of node_exporter, for which the
        name must end in C(.prom). The names of the metrics begin with C(gpu_fabric_drift_).
      - A new file is world-readable (mode 0644).
    type: path
    env: [{name: RDMAOPS_DRIFT_PROMETHEUS}]
    ini: [{section: callback_drift, key: prometheus}]
  table:
    description:
      - When to show hosts and what is not in sync on the terminal, at the end of the run. V(check) means if the run is
        in check mode and has a task that judges the drift, as the playbook C(drift) has. V(always) means at the end of
        every run.
      - It has at most 60 lines, worst first, and counts the rest. Without a terminal, lines are not wrapped.
      - With a callback for standard output whose name ends in C(json) or C(jsonl), it is written to standard error.
    type: str
    choices: [check, always, never]
    default: check
    env: [{name: RDMAOPS_DRIFT_TABLE}]
    ini: [{section: callback_drift, key: table}]
  max_diff:
    description: Number of characters after which the diff of an object is cut. With V(0), diffs are omitted.
    type: int
    default: 8192
    env: [{name: RDMAOPS_DRIFT_MAX_DIFF}]
    ini: [{section: callback_drift, key: max_diff}]
seealso:
  - module: rdmaops.gpu_fabric.drift_verdict
"""

EXAMPLES = r"""
ansible.cfg: |
  [defaults]
  callbacks_enabled = rdmaops.gpu_fabric.drift

  [callback_drift]
  report = /srv/drift/$JOB_ID.json
"""

import atexit
import os
import sys
import time
import typing as t

from ansible import constants, context, release
from ansible.playbook.block import Block
from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

from ..plugin_utils._drift.objects import (
    FAILED,
    OK,
    OWN,
    SKIPPED,
    UNREACHABLE,
    VERDICT_ACTION,
    Limits,
    Task,
    objects_of,
)
from ..plugin_utils._drift.report import Recorder
from ..plugin_utils._drift.run import Run, publish, write
from ..plugin_utils._drift.text import lines
from ..plugin_utils._terminal import Line, show

# Writing the report takes at most this share of the run, in processor time, which does not depend on the other work of
# the machine. A write of less than QUICK seconds is never delayed.
SHARE = 0.02
QUICK = 0.05

# The role of playbook drift, whose main tasks judge.
ROLE = OWN + "drift"

CORE = tuple(int(part) for part in release.__version__.split(".")[:2])


class CallbackModule(CallbackBase):
    """The callback of this file."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rdmaops.gpu_fabric.drift"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self._run: Run | None = None
        self._playbooks = 0
        self._ended = False
        self._judges = False
        self._next_write = 0.0
        self._outcomes: dict[tuple[str, str], list[str]] = {}
        self._jobs: dict[tuple[str, str], Task] = {}
        self._check_modes: dict[str, bool] = {}

    # --- the course of the run ---

    def _recorder(self) -> Recorder:
        if self._run is None:
            self._run = Run(Recorder(bool(context.CLIARGS.get("check"))), {})
            publish(self._run)
            # A run that is interrupted, or ends in an error of Ansible, has no event for its end.
            atexit.register(self._at_exit, os.getpid())
        return self._run.recorder

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        self._playbooks += 1
        self._ended = False
        plays = playbook.get_plays()
        self._judges = self._judges or any(map(_judges, plays))
        self._recorder().begin_playbook({play._uuid: play.get_name() for play in plays})

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        variables = play.get_variable_manager().get_vars(play=play, include_hostvars=False)
        hosts = [str(host) for host in variables.get("ansible_play_hosts_all", ())]
        batch = [str(host) for host in variables.get("ansible_play_batch", ())]
        # The implicit localhost is in no batch.
        inventory = {str(host) for host in variables.get("groups", {}).get("all", ())}
        batch += [host for host in hosts if host not in inventory]
        self._recorder().begin_play(play._uuid, str(play.get_name()), hosts, batch)
        if time.monotonic() >= self._next_write:
            self._write(["report"])

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._recorder().stop("no hosts were left to continue")

    def v2_playbook_on_stats(self, stats: t.Any) -> None:  # noqa: ARG002
        arguments = context.CLIARGS.get("args")
        playbooks = len(arguments) if isinstance(arguments, (list, tuple)) else 1
        self._ended = self._playbooks >= playbooks
        self._recorder().end(self._ended)
        if self._ended:
            self._conclude()
        else:
            self._write(["report"])

    def _at_exit(self, pid: int) -> None:
        if os.getpid() == pid and not self._ended:
            self._conclude()

    def _conclude(self) -> None:
        self._write(["report", "html", "prometheus"])
        choice = self.get_option("table")
        recorder = self._recorder()
        if choice == "always" or (choice == "check" and recorder.check_mode and self._judges):
            # A JSON document on standard output must stay one.
            to_stderr = str(constants.DEFAULT_STDOUT_CALLBACK).endswith(("json", "jsonl"))
            terminal = (sys.stderr if to_stderr else sys.stdout).isatty()
            width = self._display.columns if terminal else 0
            show(self._display, [Line(""), *lines(recorder.document(), width)], to_stderr)

    def _write(self, names: t.Sequence[str]) -> None:
        paths = {name: self.get_option(name) for name in names}
        if self._run is None or not any(paths.values()):
            return
        began = time.thread_time()
        written, problems = write(self._run.recorder.document(), paths)
        for path in written:
            self._run.problems.pop(path, None)
        for path, why in problems.items():
            if path not in self._run.problems:
                self._display.error(why, wrap_text=False)
            self._run.problems[path] = why
        seconds = time.thread_time() - began
        self._next_write = time.monotonic() + seconds / SHARE if seconds > QUICK else 0.0

    # --- results ---

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self._record(result, OK)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self._record(result, SKIPPED)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self._record(result, UNREACHABLE, fatal=True)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self._record(result, FAILED, fatal=not ignore_errors)

    # If no_log hides an item, only its event shows how it ended.

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        self._record_item(result, OK)

    def v2_runner_item_on_skipped(self, result: t.Any) -> None:
        self._record_item(result, SKIPPED)

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        self._record_item(result, FAILED)

    def _record_item(self, result: t.Any, outcome: str) -> None:
        key = (_part(result, "host").get_name(), _part(result, "task")._uuid)
        self._outcomes.setdefault(key, []).append(outcome)

    def _record(self, result: t.Any, outcome: str, fatal: bool = False) -> None:
        recorder = self._recorder()
        source = _part(result, "task")
        fields = _fields(result, source)
        output = _part(result, "result")
        host = str(_part(result, "host").get_name())
        uuid = source._uuid
        outcomes = self._outcomes.pop((host, uuid), [])
        task = _task(source, fields, host)
        if task.action == VERDICT_ACTION:
            if outcome == FAILED:
                _keep_stats(output)
            return
        if task.action == "ansible.builtin.async_status" and self._end_job(host, outcome, output, uuid):
            return
        limits = Limits(self.get_option("max_diff"))
        objects = objects_of(task, outcome, output, limits, outcomes, lambda: self._predicts(task.action))
        for resource in objects:
            if resource.get("job"):
                self._jobs[(host, resource["job"])] = task
        recorder.add(host, objects, uuid)
        # With run_once, a failure is that of every host (Ansible's strategies).
        if fatal and (fields.get("any_errors_fatal") or fields.get("run_once")):
            recorder.stop("task '%s' failed on %s, which ends the play" % (task.name, host), uuid)

    def _end_job(self, host: str, outcome: str, result: t.Mapping[str, t.Any], uuid: str) -> bool:
        """Replace the objects of background tasks by their results."""
        items = result.get("results")
        ended = False
        for entry in items if isinstance(items, list) else [result]:
            identity = str(entry.get("ansible_job_id")) if isinstance(entry, dict) else ""
            task = self._jobs.get((host, identity))
            if task is None or not entry.get("finished"):
                continue
            started = self._recorder().job(host, identity)
            failed = entry.get("failed") or (outcome == FAILED and not isinstance(items, list))
            # The item is that of the loop that started the job.
            entry = {name: value for name, value in entry.items() if name not in ("ansible_loop_var", "results")}
            objects = objects_of(task, FAILED if failed else OK, entry, Limits(self.get_option("max_diff")))
            for resource in objects:
                resource["item"] = started["item"] if started else None
            self._recorder().add(host, objects, uuid)
            ended = True
        return ended

    def _predicts(self, action: str) -> bool:
        """Return whether a module's documentation promises a check mode."""
        if action not in self._check_modes:
            self._check_modes[action] = _has_check_mode(action)
        return self._check_modes[action]


def _judges(play: t.Any) -> bool:
    """Return whether a play judges the drift, by its role or by a task."""
    roles = [str(role.get_name(include_role_fqcn=True)) for role in play.roles]
    return ROLE in roles or any(map(_has_verdict, [*play.pre_tasks, *play.tasks, *play.post_tasks]))


def _has_verdict(entry: t.Any) -> bool:
    """Return whether a task, or one of a block, judges the drift."""
    if isinstance(entry, Block):
        return any(map(_has_verdict, [*entry.block, *entry.rescue, *entry.always]))
    return bool(getattr(entry, "resolved_action", None) == VERDICT_ACTION or entry.action == VERDICT_ACTION)


def _part(result: t.Any, name: str) -> t.Any:
    """Return a part of a result by its public name, which exists since ansible-core 2.19."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, "_" + name)


def _fields(result: t.Any, task: t.Any) -> t.Mapping[str, t.Any]:
    """Return the keywords of a task as they were when it ran.

    Since ansible-core 2.21 the result's task has them. Before, that is the task as written, and the result has them.
    """
    return task.dump_attrs() if CORE >= (2, 21) else _part(result, "task_fields") or {}


def _task(task: t.Any, fields: t.Mapping[str, t.Any], host: str) -> Task:
    action = str(getattr(task, "resolved_action", None) or task.action)
    role = getattr(task, "_role", None)
    delegate_to = fields.get("delegate_to")
    if "." not in action:
        action = "ansible.builtin." + action
    arguments = fields.get("args")
    conditions = [str(condition).strip().lower() for condition in fields.get("changed_when") or ()]
    return Task(
        name=str(fields.get("name") or task.name or action),
        action=action.replace("ansible.legacy.", "ansible.builtin.", 1),
        role=None if role is None else str(role.get_name(include_role_fqcn=True)),
        check_mode=bool(fields.get("check_mode")),
        diff=bool(fields.get("diff")),
        handler=isinstance(task, Handler),
        delegate_to=None if delegate_to in (None, "", host) else str(delegate_to),
        never_changes=conditions == ["false"],
        conditional=bool(task.when or task.loop),
        arguments=arguments if isinstance(arguments, dict) else {},
    )


def _has_check_mode(action: str) -> bool:
    from ansible.plugins.loader import fragment_loader, module_loader
    from ansible.utils.plugin_docs import get_plugin_docs

    try:
        documentation = get_plugin_docs(action, "module", module_loader, fragment_loader, False)[0]
        return documentation["attributes"]["check_mode"]["support"] == "full"
    except Exception:  # unreadable documentation promises nothing
        return False


def _keep_stats(result: t.Mapping[str, t.Any]) -> None:
    """Set the custom statistics of a verdict that fails its task.

    Ansible takes them from tasks that succeed only, and AWX shows them as the artifacts of a job, also a failed one. A
    callback gets the statistics at the very end, after the one that AWX reads: those of the calling object are the
    same.
    """
    data = dict((result.get("ansible_stats") or {}).get("data") or {})
    data.update((result.get("invocation") or {}).get("ansible_stats") or {})
    frame = sys._getframe(1)
    while frame is not None:
        stats = getattr(frame.f_locals.get("self"), "_stats", None)
        if stats is not None and hasattr(stats, "set_custom_stats"):
            for name, value in data.items():
                stats.set_custom_stats(name, value)
            return
        frame = frame.f_back  # type: ignore[assignment]
