# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A lock on a host for as long as kubeadm runs there, and a mark while something is half done.

The lock is of the kind that belongs to an open file (flock(2)). kubeadm inherits that file, so that the lock is held
for as long as kubeadm runs, even if the module that started it was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import typing as t

from .. import _files_write
from .._errors import FabricError
from .._files import FileError, because
from .._formats import from_json
from .node import STARTED

Json = t.Dict[str, t.Any]

LOCK = "/run/rdmaops/kubeadm.lock"
# Reading the state of the host holds the lock, shared, for a moment.
_LOOK_S = 2.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class AtWork(FabricError):
    """kubeadm is at work on this host; the text has its process, its start, and how to see it."""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        # The process ended meanwhile: ENOENT or ESRCH.
        return ""


def start_time(stat: str) -> str | None:
    """Return when a process was started, in ticks since the boot, of /proc/PID/stat; None for one that has ended."""
    # proc_pid_stat(5): the state is field 3, the start field 22, and the name before them may have any character.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None


def process(pid: int, root: str = "/") -> Json:
    """Return what identifies a process: its PID, its start and the boot."""
    return {
        "pid": pid,
        "start": start_time(_read(os.path.join(root, "proc/%d/stat" % pid))),
        "boot": _read(os.path.join(root, _BOOT_ID[1:])).strip() or None,
    }


def mark_in(text: str | None) -> Json | None:
    """Return the mark of an action of kubeadm: its name, its start, and its process."""
    try:
        value = from_json(text or "")
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("action"), str):
        return None
    pid = value.get("pid")
    words = {
        name: value[name] if isinstance(value.get(name), str) else None for name in ("action", "since", "start", "boot")
    }
    return {**words, "pid": pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None}


def runs(mark: Json, root: str = "/") -> bool | None:
    """Return whether the process that a mark names still runs; None if it names none."""
    if None in (mark["pid"], mark["start"], mark["boot"]):
        return None
    now = process(mark["pid"], root)
    if now["boot"] is None:
        return None
    return (now["boot"], now["start"]) == (mark["boot"], mark["start"])


def holder(root: str = "/") -> tuple[bool, Json | None]:
    """Return whether a module, or a kubeadm that outlived it, has the lock of this host, and its mark."""
    try:
        handle = os.open(os.path.join(root, LOCK[1:]), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False, None
    except OSError as exc:
        raise FileError("Reading %s: %s" % (LOCK, because(exc))) from exc
    try:
        return (False, None) if _locked(handle, fcntl.LOCK_SH) else (True, _noted(handle))
    finally:
        os.close(handle)


def _noted(handle: int) -> Json | None:
    return mark_in(os.pread(handle, 4096, 0).decode("utf-8", "replace"))


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def at_work(mark: Json | None) -> str:
    """Return who is at work, and what to do about it, as sentences."""
    if mark is None:
        who, see = "kubeadm is still at work", "pgrep -a kubeadm"
    else:
        since = " since %s" % mark["since"] if mark["since"] else ""
        who = "kubeadm %s is still at work%s, PID %s" % (mark["action"], since, mark["pid"])
        see = "ps -fp %s" % mark["pid"]
    return "%s. Wait until it has ended (%s shows it), and run again" % (who, see)


class Work:
    """What this process does to the host by kubeadm; ``root`` moves the lock and the mark."""

    def __init__(self, root: str = "/", clock: t.Callable[[], float] = time.time) -> None:
        self.root = root
        self.clock = clock
        # The lock, for programs to inherit.
        self.handles: tuple[int, ...] = ()
        self._mark: Json = {}
        self._half_done = False

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    @contextlib.contextmanager
    def alone(self, doing: str, action: str) -> t.Iterator[None]:
        """Exclude every other module that changes this host by kubeadm."""
        path = self.path(LOCK)
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise FileError("Writing %s: %s" % (LOCK, because(exc))) from exc
        try:
            self._take(handle, doing)
            self.handles = (handle,)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock()))
            self._mark = {"action": action, "since": since, **process(os.getpid())}
            self._note()
            yield
        finally:
            # A program that has inherited it keeps the lock.
            self.handles = ()
            os.close(handle)

    def _take(self, handle: int, doing: str) -> None:
        end = time.monotonic() + _LOOK_S
        while not _locked(handle, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise _refused(doing, _noted(handle))
            time.sleep(0.05)
        # If the lock's file was removed, the mark still names the process at work.
        mark = mark_in(_read(self.path(STARTED)))
        if mark is not None and runs(mark, self.root):
            raise _refused(doing, mark)

    @contextlib.contextmanager
    def begun(self) -> t.Iterator[None]:
        """Leave a mark on the host as long as something is half done."""
        path = self.path(STARTED)
        self._half_done = True
        # The mark must not name a program that has ended.
        self._mark.update(process(os.getpid()))
        _files_write.atomic_write(path, json.dumps(self._mark) + "\n", 0o644)
        yield
        # Not in `finally`: a failed action is half done.
        self._half_done = False
        _files_write.remove(path)

    def started(self, pid: int) -> None:
        """Note which process is at work now: it may outlive this one."""
        if self.handles:
            self._mark.update(process(pid))
            self._note()

    def _note(self) -> None:
        text = json.dumps(self._mark) + "\n"
        # The lock keeps others away even if a full disk has no room for a name in it.
        with contextlib.suppress(FabricError, OSError):
            os.ftruncate(self.handles[0], 0)
            os.pwrite(self.handles[0], text.encode("ascii"), 0)
            if self._half_done:
                _files_write.atomic_write(self.path(STARTED), text, 0o644)


def _refused(doing: str, mark: Json | None) -> AtWork:
    return AtWork("%s: nothing was changed, because %s" % (doing, at_work(mark)))


__all__ = ("LOCK", "AtWork", "Work", "at_work", "holder", "mark_in", "process", "runs", "start_time")
