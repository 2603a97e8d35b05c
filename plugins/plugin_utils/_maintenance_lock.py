# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A lock file for runs on one controller; it is void when the process that it names has ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import typing as t

from ..module_utils._errors import FabricError

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def identity(pid: int) -> dict[str, t.Any]:
    """Return what distinguishes a process from a later one with the same PID, if the system has it."""
    # proc_pid_stat(5): the name of the program may have blanks, and the 22nd field is the start time.
    fields = _read("/proc/%d/stat" % pid).rpartition(")")[2].split()
    return {"pid": pid, "started": fields[19] if len(fields) > 19 else "", "boot_id": _read(BOOT_ID)}


def _alive(owner: t.Mapping[str, t.Any]) -> bool:
    pid = owner.get("pid")
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return {key: owner.get(key) for key in ("pid", "started", "boot_id")} == identity(pid)


def hold(path: str, pid: int, since: str, check_mode: bool) -> None:
    """Lock the file for a process until that ends; refuse while the process that holds it is alive."""
    doing = "Locking out other maintenance runs with %s" % path
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            owner: t.Any = {}
            # The rest of a run that was killed while writing is void.
            with contextlib.suppress(ValueError):
                owner = json.load(stream)
            owner = owner if isinstance(owner, dict) else {}
            if owner.get("pid") != pid and _alive(owner):
                raise FabricError(
                    "%s: the run of process %d on this machine has held it since %s. Wait until it ends, or stop it. "
                    "Runs on different machines exclude each other only with a host in kubernetes_api, by a Lease in "
                    "the cluster" % (doing, owner["pid"], owner.get("since"))
                )
            if not check_mode:
                stream.seek(0)
                stream.truncate()
                json.dump({**identity(pid), "since": since}, stream)
    except OSError as exc:
        raise FabricError("%s: %s. Set another path with node_maintenance_lock_path" % (doing, exc)) from exc


__all__ = ("hold", "identity")
