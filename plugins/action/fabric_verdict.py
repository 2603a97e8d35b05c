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
from ..plugin_utils._fabric.page import page
from ..plugin_utils._fabric.table import table
from ..plugin_utils._fabric.verdict import judge
from ..plugin_utils._fabric.vocabulary import CHECK_MODE, NO_RESULT

MAX_REASONS = 10

display = Display()


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Judge, show the table, write the files, and fail if the verdict requires it."""
        request = {name: arguments[name] for name in ("pairs", "rails", "tests")}
        started = arguments["started"] or _now()
        values = (arguments["nodes"], arguments["results"], request, arguments["min_share"], started)
        report = judge(*values, arguments["nccl"], self._silence(arguments))
        if not self._task.no_log:
            display.display(table(report))
        files, errors = self._write(report, arguments)
        message = summary(report)
        if errors:
            message = "Could not write the report: %s. %s" % ("; ".join(errors), message)
        failed = bool(errors) or report["verdict"] in arguments["fail_on"]
        result = {"changed": bool(files), "failed": failed, "msg": message}
        return {**result, "files": files, "verdict": report["verdict"], "report": report}

    def _silence(self, arguments: dict[str, t.Any]) -> str:
        """Return why a result is missing, if nothing else explains it."""
        return CHECK_MODE if self._task.check_mode and not arguments["results"] else NO_RESULT

    def _write(self, report: dict[str, t.Any], arguments: dict[str, t.Any]) -> tuple[list[str], list[str]]:
        """Write the files whose text differs; return their paths, and why some could not be written."""
        texts = {
            "json_path": json.dumps(report, indent=1, allow_nan=False) + "\n",
            "html_path": page(report),
        }
        files, errors = [], []
        for name, text in texts.items():
            if not arguments[name]:
                continue
            path = self._loader.path_dwim(arguments[name])
            try:
                if self.write_report(path, text):
                    files.append(path)
            except (FabricError, OSError) as exc:
                errors.append(str(exc))
        return files, errors


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(report: dict[str, t.Any]) -> str:
    """Return the verdict and its first reasons, as one message."""
    reasons = report["reasons"]
    text = "The verdict on the fabric is %s" % report["verdict"]
    if reasons:
        text += ": " + "; ".join(reasons[:MAX_REASONS])
    if len(reasons) > MAX_REASONS:
        text += "; and %d more reasons" % (len(reasons) - MAX_REASONS)
    return text


__all__ = ("MAX_REASONS", "ActionModule", "summary")
