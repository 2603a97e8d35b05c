# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action drift_verdict: judge the drift report of this run. Its documentation is in the module of this name."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.modules.drift_verdict import ARGUMENT_SPEC
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift_report import load, merge, totals
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift_run import FILES, current, write
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift_text import sentence

NOT_ENABLED = (
    "Judging the drift of this run: the callback rdmaops.gpu_fabric.drift has not taken it down, so nothing is known. "
    "Enable it by 'callbacks_enabled = rdmaops.gpu_fabric.drift' in section [defaults] of ansible.cfg, or by the "
    "environment variable ANSIBLE_CALLBACKS_ENABLED=rdmaops.gpu_fabric.drift"
)


class ActionModule(ActionBase):
    """The action of this file."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Judge, write the files, set the statistics, and fail where the verdict asks for it."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        run = current()
        if run is None:
            raise AnsibleActionFail(NOT_ENABLED)
        report = run.recorder.document(running=True)
        problems = list(run.problems.values())
        try:
            report = self._merged(report, arguments["merge"])
        except FabricError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        paths = {name: self._loader.path_dwim(arguments[name]) for name in FILES if arguments[name]}
        files, unwritten = write(report, paths)
        problems += unwritten.values()
        verdict, counts, message = report["verdict"], totals(report), sentence(report)
        data = {
            "drift_verdict": verdict,
            "drift_counts": counts,
            "drift_hosts": {
                status: [host for host, entry in report["hosts"].items() if entry["status"] == status]
                for status in ("drift", "unknown")
            },
            "drift_message": message,
        }
        result.update(
            changed=False,
            verdict=verdict,
            counts=counts,
            files=files,
            msg=message,
            ansible_stats={"data": data, "per_host": False, "aggregate": False},
        )
        if problems:
            result["msg"] = "%s. %s" % ("; ".join(problems), message)
        result["failed"] = bool(problems) or (arguments["drift_fail"] and verdict in arguments["fail_on"])
        return result

    def _merged(self, own: dict[str, t.Any], paths: t.Sequence[str]) -> dict[str, t.Any]:
        """Return this run's report with those of other slices. A run that only merges has none of its own."""
        if not paths:
            return own
        reports = [("this run", own)] if own["hosts"] else []
        for path in paths:
            path = self._loader.path_dwim(path)
            reports.append((path, load(path)))
        return merge(reports)


__all__ = ("NOT_ENABLED", "ActionModule")
