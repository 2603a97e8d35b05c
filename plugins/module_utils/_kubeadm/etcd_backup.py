# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A copy of the data of etcd on a control-plane host, before it is destroyed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
import typing as t

from .._errors import FabricError
from .._files import because
from .._files_write import free_bytes
from .node import CONF_DIR, PARKED

Run = t.Callable[[t.Sequence[str]], t.Optional[t.Tuple[int, str, str]]]

KEPT = "/var/lib/rdmaops"
_KEYS = CONF_DIR + "/pki/etcd/"
_FILES = {"cacert": "ca.crt", "cert": "server.crt", "key": "server.key"}
# The kubelet ends a static pod, and starts it, within these.
_DOWN_S, _UP_S = 120, 300


class BackupError(FabricError):
    """The data of etcd could not be copied; nothing was destroyed."""


class Etcd:
    """The member of etcd on this host, whose data is in ``directory``; ``root`` moves all files."""

    def __init__(
        self,
        run: Run,
        directory: str,
        root: str = "/",
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.time,
    ) -> None:
        self.run = run
        self.directory = directory
        self.root = root
        self.sleep = sleep
        self.clock = clock

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def keep(self) -> str:
        """Copy the data to a directory of its own that stays, and return its path."""
        name = "etcd-" + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.clock()))
        target = self.path("%s/%s" % (KEPT, name))
        temporary = self.path("%s/.%s.rdmaops-new" % (KEPT, name))
        try:
            os.makedirs(temporary, mode=0o700)
            try:
                if not self._snapshot(temporary):
                    self._copy(temporary)
                # The original will be gone: the copy must survive a power cut.
                os.sync()
                os.rename(temporary, target)
                os.sync()
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
        except OSError as exc:
            raise BackupError(self._error(because(exc))) from exc
        return "%s/%s" % (KEPT, name)

    def _error(self, why: str) -> str:
        return (
            "Copying the data of etcd from %s to %s: %s. Nothing was removed. Set kubernetes_reset_without_backup_ok "
            "(without_backup_ok of the module) to go without a copy" % (self.directory, KEPT, why.rstrip("."))
        )

    def _snapshot(self, target: str) -> bool:
        """Return whether the running member saved a snapshot; a stopped one, or a host without etcdctl, does not."""
        keys = ["--%s=%s" % (name, self.path(_KEYS + file)) for name, file in _FILES.items()]
        answer = self.run(
            ["etcdctl", "--endpoints=https://127.0.0.1:2379", *keys, "snapshot", "save", target + "/snapshot.db"]
        )
        return answer is not None and answer[0] == 0 and os.path.isfile(target + "/snapshot.db")

    def _copy(self, target: str) -> None:
        member = self.path(self.directory + "/member")
        with self._stopped(member):
            needed = sum(
                os.path.getsize(os.path.join(at, name)) for at, _dirs, names in os.walk(member) for name in names
            )
            free = free_bytes(target)
            if free < needed:
                raise BackupError(
                    self._error("%d MiB are needed, and %d are free; free some space" % (needed >> 20, free >> 20))
                )
            shutil.copytree(member, target + "/member")

    @contextlib.contextmanager
    def _stopped(self, member: str) -> t.Iterator[None]:
        """Keep the member stopped; one that ran is started again afterwards.

        etcd has a lock (flock(2)) on its database for as long as it runs, and waits for it when it starts.
        """
        try:
            database = os.fdopen(os.open(os.path.join(member, "snap/db"), os.O_RDONLY | os.O_CLOEXEC), "rb")
        except FileNotFoundError:
            # It has no database yet.
            yield
            return
        with database as lock:
            running = not _locked(lock)
            if running:
                self._park()
            try:
                if running:
                    self._wait(lambda: _locked(lock), _DOWN_S, "it still runs %d s after its manifest was taken away")
                yield
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)
                if running:
                    self._unpark()
            if running:
                # kubeadm removes a member from its cluster through the member itself.
                self._wait(lambda: _runs(lock), _UP_S, "it does not run %d s after its manifest was put back")

    def _manifests(self) -> tuple[str, str]:
        return self.path(CONF_DIR + "/manifests/etcd.yaml"), self.path(PARKED + "/etcd.yaml")

    def _park(self) -> None:
        there, aside = self._manifests()
        if not os.path.exists(there):
            raise BackupError(self._error("its database is in use, and no manifest of a static pod starts it; stop it"))
        os.makedirs(os.path.dirname(aside), mode=0o700, exist_ok=True)
        os.rename(there, aside)

    def _unpark(self) -> None:
        there, aside = self._manifests()
        os.rename(aside, there)
        # An interrupted renewal has left other manifests there.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(aside))

    def _wait(self, done: t.Callable[[], bool], limit: int, else_: str) -> None:
        end = time.monotonic() + limit
        while not done():
            if time.monotonic() > end:
                raise BackupError(self._error((else_ + "; look at journalctl -u kubelet") % limit))
            self.sleep(1)


def _locked(database: t.IO[bytes]) -> bool:
    try:
        fcntl.flock(database, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _runs(database: t.IO[bytes]) -> bool:
    if not _locked(database):
        return True
    fcntl.flock(database, fcntl.LOCK_UN)
    return False


__all__ = ("KEPT", "BackupError", "Etcd")
