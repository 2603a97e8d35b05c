# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at work on a host with kubeadm, by real processes, locks and files; kubeadm is a stand-in."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import etcd_backup, work
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.etcd_backup import BackupError, Etcd
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubeadm_hosts import INIT, PLANE, Hosts
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, wait_for

SINCE = r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Hosts]:
    monkeypatch.setattr(work, "_LOOK_S", 0.3)
    made = Hosts(tmp_path)
    yield made
    made.end()


def test_a_second_module(hosts: Hosts) -> None:
    hosts.hold("init.begin", PLANE)
    first = hosts.begin(lambda: hosts.do(PLANE, "init", documents=INIT))
    hosts.reached("init.begin", PLANE)
    kubeadm = hosts.kubeadm(PLANE)
    observed = hosts.look(PLANE)["info"]["membership"]["started"]
    assert (observed["action"], observed["pid"], observed["at_work"]) == ("init", kubeadm, True)
    for action in ("init", "join", "reset", "renew", "unmark"):
        with pytest.raises(FabricError, match=f"kubeadm init is still at work {SINCE}, PID {kubeadm}"):
            hosts.do(PLANE, action, documents=INIT, renew=True)
    hosts.release("init.begin", PLANE)
    assert first.ended() == ""
    assert hosts.look(PLANE)["info"]["membership"]["started"] is None
    assert hosts.events("reset") == []


def test_a_module_that_was_killed_and_the_lock_with_it(hosts: Hosts) -> None:
    """Where the lock's file was removed, the mark names the process that goes on."""
    hosts.hold("init.keys", PLANE)
    first = hosts.begin(lambda: hosts.do(PLANE, "init", documents=INIT))
    hosts.reached("init.keys", PLANE)
    kubeadm = hosts.kubeadm(PLANE)
    wait_for(lambda: json.loads(hosts.mark(PLANE).read_text())["pid"] == kubeadm)
    first.kill()
    (hosts.root(PLANE) / "run/rdmaops/kubeadm.lock").unlink()
    assert hosts.look(PLANE)["info"]["membership"]["started"]["at_work"] is True
    with pytest.raises(FabricError, match=f"kubeadm init is still at work {SINCE}, PID {kubeadm}"):
        hosts.do(PLANE, "init", documents=INIT, clean=True)
    assert hosts.events("reset") == []


def test_a_reboot(hosts: Hosts) -> None:
    """The PID and the start may be those of a process of this boot."""
    hosts.hold("init.keys", PLANE)
    first = hosts.begin(lambda: hosts.do(PLANE, "init", documents=INIT))
    hosts.reached("init.keys", PLANE)
    kubeadm = hosts.kubeadm(PLANE)
    wait_for(lambda: json.loads(hosts.mark(PLANE).read_text())["pid"] == kubeadm)
    stat = Path(f"/proc/{kubeadm}/stat").read_text()
    first.kill()
    os.kill(kubeadm, signal.SIGKILL)
    wait_for(lambda: has_ended(kubeadm))
    proc = hosts.root(PLANE) / "proc"
    proc.unlink()
    for path, text in {f"{kubeadm}/stat": stat, "sys/kernel/random/boot_id": "another\n"}.items():
        (proc / path).parent.mkdir(parents=True, exist_ok=True)
        (proc / path).write_text(text)
    wait_for(lambda: hosts.look(PLANE)["info"]["membership"]["started"]["at_work"] is False)
    made = hosts.plan()["hosts"][PLANE]
    assert (made["action"], made["clean"], made["discard_etcd"]) == ("init", True, False)
    hosts.release("init.keys", PLANE)
    hosts.do(PLANE, "init", documents=INIT, clean=True)
    assert hosts.events("reset") == [PLANE]
    assert hosts.look(PLANE)["info"]["membership"]["started"] is None


def test_a_look_does_not_keep_a_module_away(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the lock for a moment, and a module waits for that."""
    monkeypatch.setattr(work, "_LOOK_S", 30)
    path = hosts.root(PLANE) / "run/rdmaops/kubeadm.lock"
    path.parent.mkdir(parents=True)
    path.touch()
    with path.open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        waiting = hosts.begin(lambda: hosts.do(PLANE, "init", documents=INIT))
        assert not has_ended(waiting.pid)
        # The process has inherited the open file.
        fcntl.flock(look, fcntl.LOCK_UN)
    assert waiting.ended() == ""
    assert hosts.events("init") == [PLANE]


# --- data of etcd ---


class Member:
    """etcd as it is seen from outside: while its manifest is there it runs, and has its database's lock."""

    def __init__(self, root: Path) -> None:
        self.manifest = root / "etc/kubernetes/manifests/etcd.yaml"
        self.database = root / "var/lib/etcd/member/snap/db"
        for path in (self.manifest, self.database):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        self.stops = True
        self.ended = threading.Event()
        self.ran: list[str] = []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.ended.is_set():
            if self.manifest.exists():
                with self.database.open("a") as database:
                    fcntl.flock(database, fcntl.LOCK_EX)
                    self.ran.append("began")
                    while (self.manifest.exists() or not self.stops) and not self.ended.is_set():
                        time.sleep(0.01)
                    # What it has in memory is written when it ends.
                    database.write("pages")
            time.sleep(0.01)

    def end(self) -> None:
        self.ended.set()
        self.thread.join()


@pytest.fixture
def member(tmp_path: Path) -> t.Iterator[Member]:
    made = Member(tmp_path)
    wait_for(lambda: made.ran)
    yield made
    made.end()


def etcd(root: Path) -> Etcd:
    return Etcd(lambda _argv: None, "/var/lib/etcd", str(root), lambda _seconds: time.sleep(0.01))


def test_a_member_is_stopped_for_the_copy_and_started_again(tmp_path: Path, member: Member) -> None:
    kept = etcd(tmp_path).keep()
    assert (tmp_path / kept[1:] / "member/snap/db").read_text() == "pages"
    assert (tmp_path / kept[1:]).stat().st_mode & 0o777 == 0o700
    assert member.manifest.exists()
    assert member.ran == ["began", "began"]
    assert not (tmp_path / "etc/kubernetes/rdmaops-parked").exists()


def test_a_member_that_does_not_stop(tmp_path: Path, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    member.stops = False
    monkeypatch.setattr(etcd_backup, "_DOWN_S", 0)
    with pytest.raises(BackupError, match="it still runs 0 s after its manifest was taken away; look at journalctl"):
        etcd(tmp_path).keep()
    assert member.manifest.exists()
    assert list((tmp_path / "var/lib/rdmaops").iterdir()) == []


def test_a_member_without_a_manifest(tmp_path: Path, member: Member) -> None:
    member.stops = False
    member.manifest.unlink()
    with pytest.raises(BackupError, match="its database is in use, and no manifest of a static pod starts it; stop it"):
        etcd(tmp_path).keep()
    assert list((tmp_path / "var/lib/rdmaops").iterdir()) == []
