# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action fabric_verdict: judge measurements on the controller. Its documentation is in the module of this name."""

from __future__ import annotations

import datetime
import json
import typing as t

from ansible.utils.display import Display

from ..module_utils._errors import FabricError
from ..modules.fabric_verdict import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._fabric.conditions import conditions
from ..plugin_utils._fabric.page import page
from ..plugin_utils._fabric.table import lines, sentence
from ..plugin_utils._fabric.verdict import LIMITS, judge
from ..plugin_utils._fabric.vocabulary import CHECK_MODE, NO_RESULT
from ..plugin_utils._terminal import show

display = Display()


class Files(t.NamedTuple):
    """Paths of files with the report, those among them that were changed, and why others were not written."""

    present: list[str]
    changed: list[str]
    errors: list[str]


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Judge, show the table, write the files, and fail if the verdict requires it."""
        request = {name: arguments[name] for name in ("pairs", "rails", "tests")}
        started = arguments["started"] or _now()
        values = (arguments["nodes"], arguments["results"], request, arguments["min_share"], started)
        limits = {name: arguments[name] for name in LIMITS}
        report = judge(*values, arguments["nccl"], self._silence(arguments), limits, arguments["baseline"])
        if not self._task.no_log:
            show(display, lines(report))
        files = self._write(report, arguments)
        message = sentence(report, files.present[-1] if files.present and not self._task.check_mode else None)
        if files.errors:
            message = "Could not write the report: %s. %s" % ("; ".join(files.errors), message)
        failed = bool(files.errors) or report["verdict"] in arguments["fail_on"]
        result = {"changed": bool(files.changed), "failed": failed, "msg": message}
        result.update(files=files.changed, verdict=report["verdict"])
        result["conditions"] = conditions(report, arguments["node_names"])
        if not failed:
            # Ansible prints what a failed task returns, and with -v also the others, except for those with this key.
            result.update(report=report, _ansible_verbose_override=True)
        return result

    def _silence(self, arguments: dict[str, t.Any]) -> str:
        """Return why a result is missing, if nothing else explains it."""
        if self._task.check_mode and not arguments["results"]:
            return CHECK_MODE
        return str(arguments["missing"] or NO_RESULT)

    def _write(self, report: dict[str, t.Any], arguments: dict[str, t.Any]) -> Files:
        """Write the files whose text differs."""
        texts = {
            "json_path": json.dumps(report, indent=1, allow_nan=False) + "\n",
            "html_path": page(report),
        }
        files = Files([], [], [])
        for name, text in texts.items():
            if not arguments[name]:
                continue
            path = self._loader.path_dwim(arguments[name])
            try:
                if self.write_report(path, text):
                    files.changed.append(path)
                files.present.append(path)
            except (FabricError, OSError) as exc:
                files.errors.append(str(exc))
        return files


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


__all__ = ("ActionModule",)
