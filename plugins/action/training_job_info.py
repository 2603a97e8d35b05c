# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action training_job_info: wait for a job in short polls and report its state. Its documentation is in the module."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..modules.training_job_info import ARGUMENT_SPEC
from ..plugin_utils._progress import clock

MODULE = "rdmaops.gpu_fabric.training_job_info"
# How long reads may fail, in seconds: an API server may be upgraded while a job runs for days.
PATIENCE = 300
PAUSE = 10

display = Display()


class ActionModule(ActionBase):
    """The action of this file."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Wait until the job has the desired state or a limit is reached."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        began = last_read = last_queued = time.monotonic()
        info: dict[str, t.Any] = {}
        known = arguments["known"]
        while True:
            waited = time.monotonic() - began
            slice_s = max(0, min(arguments["progress_interval"], int(arguments["wait_timeout"] - waited)))
            module_args = {**self._task.args, "wait_timeout": slice_s, "known": known}
            info = self._execute_module(module_name=MODULE, module_args=module_args, task_vars=task_vars)
            waited = time.monotonic() - began
            if "state" not in info:
                if not known or waited >= arguments["wait_timeout"] or time.monotonic() - last_read > PATIENCE:
                    break
                self._show_progress(arguments, waited, "could not be read: %s" % info.get("msg"))
                time.sleep(min(PAUSE, slice_s))
                continue
            last_read, known = time.monotonic(), info["progress"]
            if info["queued"]:
                last_queued = last_read
            info["waited_s"] = int(waited)
            info["gave_up"] = None
            info["looked_once"] = bool(self._task.check_mode or not arguments["wait_timeout"])
            if info["reached"] or info["looked_once"]:
                break
            info["gave_up"] = reached_limit(info, arguments, waited, last_read - last_queued)
            if info["gave_up"]:
                break
            last = " | %s" % info["last_line"] if info["last_line"] else ""
            self._show_progress(arguments, waited, info["progress"] + last)
        result.update(info)
        return result

    def _show_progress(self, arguments: t.Mapping[str, t.Any], waited: float, text: str) -> None:
        if not self._task.no_log:
            # Not to standard output, which a program may read.
            display.display(
                "%s %s/%s: %s" % (clock(waited), arguments["namespace"], arguments["name"], text), stderr=True
            )


def reached_limit(
    info: t.Mapping[str, t.Any], arguments: t.Mapping[str, t.Any], waited: float, admitted: float
) -> str | None:
    """Return the limit that has been reached; ``admitted`` is the time since the job was last in a queue."""
    if waited >= arguments["wait_timeout"]:
        return "wait_timeout"
    if info["state"] == "pending" and 0 < arguments["start_timeout"] <= admitted:
        return "start_timeout"
    return None
