# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills the run, as a closed laptop would, after the task whose number STOP_AFTER says."""

from __future__ import annotations

DOCUMENTATION = """
    name: stop_after
    type: aggregate
    short_description: Kill the run after a task
    description: For tests of what an interrupted run leaves behind.
"""

import os
import signal
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stop_after"

    def __init__(self) -> None:
        super().__init__()
        self.left = int(os.environ["STOP_AFTER"])

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self.count(result)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self.count(result)

    def count(self, result: t.Any) -> None:
        self.left -= 1
        with open(os.environ["STOP_LOG"], "a", encoding="utf-8") as log:
            log.write(f"{result.task.get_name()}\n")
        if self.left == 0:
            os.killpg(os.getpgid(0), signal.SIGKILL)
