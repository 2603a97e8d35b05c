# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action drift_verdict: judge the drift report of this run. Its documentation is in the module of this name."""

from __future__ import annotations

import os
import typing as t

from ..module_utils._errors import FabricError
from ..modules.drift_verdict import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._drift.configmap import ConfigMaps, connect
from ..plugin_utils._drift.publish import artifact, send
from ..plugin_utils._drift.report import load, merge, totals
from ..plugin_utils._drift.run import FILES, current, write
from ..plugin_utils._drift.text import sentence

Json = t.Dict[str, t.Any]

NOT_ENABLED = (
    "Judging the drift of this run: the callback rdmaops.gpu_fabric.drift did not record it, so nothing is known. "
    "Enable it with 'callbacks_enabled = rdmaops.gpu_fabric.drift' in section [defaults] of ansible.cfg, or with the "
    "environment variable ANSIBLE_CALLBACKS_ENABLED=rdmaops.gpu_fabric.drift"
)


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Judge, write and publish, set the statistics, and fail if the verdict requires it."""
        run = current()
        if run is None:
            raise FabricError(NOT_ENABLED)
        problems = list(run.problems.values())
        report, unread = self._report(run.recorder.document(running=True), arguments)
        problems += unread
        paths = {name: self._loader.path_dwim(arguments[name]) for name in FILES if arguments[name]}
        files, unwritten = write(report, paths)
        problems += unwritten.values()
        verdict, counts, message = report["verdict"], totals(report), sentence(report)
        published, unpublished = self._publish(report, message, arguments)
        problems += unpublished
        data = {
            "drift_verdict": verdict,
            "drift_counts": counts,
            "drift_hosts": {
                status: [host for host, entry in report["hosts"].items() if entry["status"] == status]
                for status in ("drift", "unknown")
            },
            "drift_message": message,
        }
        failed = bool(problems) or (arguments["drift_fail"] and verdict in arguments["fail_on"])
        if arguments["artifact"]:
            data["drift_report"] = artifact(report)
        whole = [path for path in files if path != os.path.abspath(paths.get("prometheus", ""))]
        text = sentence(report, 1) + (". All of it: %s" % whole[-1] if whole else "")
        result: Json = {"changed": False, "failed": failed, "verdict": verdict, "counts": counts, "files": files}
        result.update(published=published, msg="%s. %s" % ("; ".join(problems), text) if problems else text)
        if failed:
            # Ansible shows this key of a failed task only with -vvv; the callback reads it.
            result["invocation"] = {"ansible_stats": data}
        else:
            result["ansible_stats"] = {"data": data, "per_host": False, "aggregate": False}
        return result

    def _report(self, own: Json, arguments: Json) -> tuple[Json, list[str]]:
        """Return this run's report with those of other slices, and why some of these could not be read.

        A run that only merges has no report itself.
        """
        configmap = arguments["configmap"]
        if not arguments["merge"] and not (configmap and configmap["merge"]):
            return own, []
        reports = [("this run", own)] if own["hosts"] else []
        problems: list[str] = []
        for path in map(self._loader.path_dwim, arguments["merge"]):
            try:
                reports.append((path, load(path)))
            except FabricError as exc:
                problems.append(str(exc))
        if configmap and configmap["merge"]:
            published, unread = ConfigMaps(configmap, connect(configmap)).reports()
            reports += published
            problems += unread
        if not reports:
            raise FabricError("; ".join(problems))
        missing = list(problems)
        if arguments["slices"] and len(reports) != arguments["slices"]:
            missing.append("there are %d reports, but slices is %d" % (len(reports), arguments["slices"]))
        return merge(reports, missing), problems

    @staticmethod
    def _publish(report: Json, message: str, arguments: Json) -> tuple[list[str], list[str]]:
        """Return where the report was published, and why it was not."""
        published, problems = [], []
        if arguments["configmap"]:
            configmap = arguments["configmap"]
            try:
                published.append(ConfigMaps(configmap, connect(configmap)).publish(report, message, configmap["merge"]))
            except FabricError as exc:
                problems.append(str(exc))
        if arguments["url"]:
            try:
                published.append(send(report, arguments["url"]))
            except FabricError as exc:
                problems.append(str(exc))
        return published, problems


__all__ = ("NOT_ENABLED", "ActionModule")
