# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write down when each play and task began and ended, one JSON document per line."""

from __future__ import annotations

DOCUMENTATION = r"""
name: task_times
type: aggregate
short_description: Write the duration and the result of each task to a file
description:
  - For the benchmarks, which run one host at a time, and for the demonstration.
    Where several hosts do a task, each has an event, with the seconds since the task began for the first.
options:
  path:
    description: The file to append to.
    type: path
    required: true
    env:
      - name: TASK_TIMES
  pid:
    description:
      - A process of this machine whose processor time is written down too, with that of the processes below it.
      - The host's QEMU, for a virtual machine. Its processor time is what the host has worked, and does not depend on what else runs here.
        For a host that is a network namespace, the first of its processes.
    type: int
    env:
      - name: TASK_TIMES_PID
author:
  - rdmaops contributors (@rdmaops)
"""

import json
import os
import time
import typing as t

from ansible.plugins.callback import CallbackBase

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.processes import cpu


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.began = 0.0
        self.began_cpu: float | None = None

    def cpu(self) -> float | None:
        """Return the processor seconds that the process and those below it have used."""
        pid = self.get_option("pid")
        return cpu(pid) if pid and os.path.exists(f"/proc/{pid}") else None

    @staticmethod
    def controller() -> float:
        """Return the processor seconds of ansible-playbook and of what it has waited for."""
        return sum(os.times()[:4])

    def write(self, **event: t.Any) -> None:
        with open(self.get_option("path"), "a", encoding="utf-8") as sink:
            sink.write(json.dumps(event, default=str) + "\n")

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self.write(
            event="play", name=play.get_name(), at=time.monotonic(), cpu=self.cpu(), controller=self.controller()
        )

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self.began_cpu = self.cpu()
        self.began = time.monotonic()

    def ended(self, status: str, result: t.Any) -> None:
        now = time.monotonic()
        cpu = self.cpu()
        self.write(
            event="task",
            name=result.task.get_name(),
            action=result.task.action,
            begun=self.began,
            status=status,
            seconds=now - self.began,
            cpu=None if cpu is None or self.began_cpu is None else cpu - self.began_cpu,
            result=result.result,
        )

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self.ended("ok", result)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self.ended("skipped", result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self.ended("failed", result)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self.ended("unreachable", result)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self.write(event="end", name="", at=time.monotonic(), cpu=self.cpu(), controller=self.controller())
