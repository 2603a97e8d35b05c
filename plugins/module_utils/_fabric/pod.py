# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Where fabric_probe runs its programs: in the container of a pod, with its own user, rights and limits."""

from __future__ import annotations

import re
import typing as t

from .._pod_exec import files
from .._pod_exec import run as pod_exec_run
from .._pod_exec.run import ContainerError, PodExec
from .host import Host, Server, default_route

CAP_IPC_LOCK = 14
_LOOK_S = 30

_WHICH = 'case $(command -v "$1") in ?*) echo "$1";; esac'
_REAL_PATHS = 'for path in "$@"; do readlink -f "$path" 2>/dev/null || echo; done'
_MEMLOCK = re.compile(r"(?m)^Max locked memory\s+(unlimited|\d{1,20})\s")
_EFFECTIVE = re.compile(r"(?m)^CapEff:\s+([0-9a-f]{16})$")


class Pod(Host):
    """A container, in which programs are run by the API server or by crictl."""

    sees_processes = False

    def __init__(self, pod_exec: PodExec) -> None:
        self._exec = pod_exec
        self._mark = pod_exec_run.new_mark()
        self._available: dict[str, bool] = {}
        # By cat it reads what is asked of /proc.
        if not self.which("cat"):
            raise self._lacks("cat is missing")

    def _lacks(self, reason: str) -> ContainerError:
        return ContainerError(
            "The image of the %s lacks programs that are needed: sh, and env, timeout and cat (package coreutils): %s"
            % (self._exec.text, reason)
        )

    def which(self, tool: str) -> str | None:
        if tool not in self._available:
            status, text = self.run(["sh", "-c", _WHICH, "sh", tool], _LOOK_S)
            if status != 0:
                raise self._lacks(" ".join(text.split())[-300:] or "no answer within %d s" % _LOOK_S)
            self._available[tool] = tool in text.split()
        return tool if self._available[tool] else None

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        done = pod_exec_run.run(self._exec, argv, limit, self._mark)
        return done.status, done.text

    def run_for_document(
        self, argv: t.Callable[[str], t.Sequence[str]], _name: str, limit: float
    ) -> tuple[int | None, str, str]:
        # Nothing is written into the container, whose user could perhaps not even do it. Its mark is its own, so that
        # when it is stopped, what runs at the same time goes on.
        done = pod_exec_run.run(self._exec, argv(pod_exec_run.DOCUMENT_PATH), limit, pod_exec_run.new_mark())
        return done.status, done.text, done.document

    def start(self, argv: t.Sequence[str], limit: float, _log: str) -> Server:
        return pod_exec_run.Running(self._exec, argv, limit)

    def end_servers(self) -> None:
        pod_exec_run.sweep(self._exec, pod_exec_run.SERVER)

    def texts(self, paths: t.Sequence[str]) -> list[str]:
        sign = pod_exec_run.new_mark()
        status, text = self.run(files.argv(sign, paths), _LOOK_S)
        texts = files.parse(text, sign) if status == 0 else {}
        return [texts.get(path, "") for path in paths]

    def real_paths(self, paths: t.Sequence[str]) -> list[str]:
        status, text = self.run(["sh", "-c", _REAL_PATHS, "sh", *paths], _LOOK_S)
        lines = text.split("\n")[: len(paths)] if status == 0 else []
        return [*lines, *[""] * (len(paths) - len(lines))]

    def way(self) -> tuple[str | None, str | None]:
        (routes,) = self.texts(["/proc/self/net/route"])
        return default_route(routes), self._exec.address

    def variables(self) -> t.Collection[str]:
        _status, text = self.run(["env"], _LOOK_S)
        return {line.partition("=")[0] for line in text.split("\n") if "=" in line}

    def memlock(self) -> tuple[str, bool]:
        """RLIMIT_MEMLOCK, as /proc has it, and whether the container has CAP_IPC_LOCK, to which it does not apply."""
        limit = memlock_in(*self.texts(["/proc/self/limits", "/proc/self/status"]))
        if not limit:
            raise ContainerError("The limits of the %s cannot be read from its /proc" % self._exec.text)
        return limit

    def close(self) -> None:
        pod_exec_run.sweep(self._exec, self._mark)


def memlock_in(limits: str, status: str) -> tuple[str, bool] | None:
    """RLIMIT_MEMLOCK, and whether CAP_IPC_LOCK is effective, of /proc/PID/limits and /proc/PID/status."""
    limit, effective = _MEMLOCK.search(limits), _EFFECTIVE.search(status)
    if not limit or not effective:
        return None
    return limit.group(1), bool(int(effective.group(1), 16) & 1 << CAP_IPC_LOCK)


__all__ = ("CAP_IPC_LOCK", "Pod", "memlock_in")
