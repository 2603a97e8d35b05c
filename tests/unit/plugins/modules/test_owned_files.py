# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are ours: written whole, kept in sync, never somebody else's."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER, FileError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files_write import atomic_write
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host.owned_files import decide
from ansible_collections.rdmaops.gpu_fabric.tests.support.disk_calls import recorded
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for


def wish(path: Path, content: str, mode: str = "0644") -> dict[str, str]:
    return {"path": str(path), "content": content, "mode": mode}


def test_the_four_step_drill(tmp_path: Path) -> None:
    path = tmp_path / "unit.d" / "ours.conf"
    wishes = [wish(path, "[Service]\nLimitMEMLOCK=infinity\n")]

    decision, result = decide(wishes)
    assert decision.result()["changed"] is True
    assert decision.actions == [f"Write {path}"]
    assert result["changed_paths"] == [str(path)]
    assert result["resources"][0]["status"] == "drift"
    assert not path.parent.exists()

    decision, result = decide(wishes)
    decision.carry_out()
    assert path.read_text() == HEADER + "\n[Service]\nLimitMEMLOCK=infinity\n"
    assert os.listdir(path.parent) == ["ours.conf"]

    for _again in range(2):
        decision, result = decide(wishes)
        assert decision.result() == {"changed": False, "actions": [], "diff": []}
        assert result["resources"][0]["status"] == "in_sync"


@pytest.mark.parametrize("mode", ["0600", "0644"])
def test_who_reads_a_new_file(tmp_path: Path, mode: str) -> None:
    """A file that is there keeps its permissions."""
    path = tmp_path / "ours.conf"
    for content in ("keys", "other keys"):
        decision, _result = decide([wish(path, content, mode if content == "keys" else "0644")])
        decision.carry_out()
        assert path.read_text() == f"{HEADER}\n{content}\n"
        assert f"{path.stat().st_mode & 0o777:04o}" == mode


def test_a_local_edit_is_drift_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "ours.conf"
    path.write_text(HEADER + "\nedited\n")
    decision, result = decide([wish(path, "wanted")])
    headers = {"before_header": str(path), "after_header": str(path)}
    contents = {"before": HEADER + "\nedited\n", "after": HEADER + "\nwanted\n"}
    assert decision.result()["diff"] == [{**headers, **contents}]
    assert result["resources"][0]["configured"] == "different"


def test_ours_is_removed_where_it_is_not_wanted(tmp_path: Path) -> None:
    path = tmp_path / "ours.conf"
    path.write_text(HEADER + "\nold\n")
    decision, _result = decide([wish(path, "")])
    decision.carry_out()
    assert not path.exists()


def test_a_foreign_file_stops_everything_before_anything_is_written(tmp_path: Path) -> None:
    ours, foreign = tmp_path / "a.conf", tmp_path / "b.conf"
    foreign.write_text("somebody's\n")
    assert message_of(FileError, decide, [wish(ours, "x"), wish(foreign, "y")]) == (
        f"Writing {foreign}: the file exists and was not written by this collection. "
        "Move its contents to a file of another name, or remove it, and run again"
    )
    assert foreign.read_text() == "somebody's\n"
    assert not ours.exists()


def test_a_foreign_file_is_left_where_none_is_wanted(tmp_path: Path) -> None:
    foreign = tmp_path / "b.conf"
    foreign.write_text("somebody's\n")
    decision, _result = decide([wish(foreign, "")])
    assert not decision.changed


def test_a_relative_path_is_refused() -> None:
    with pytest.raises(FileError, match=r"^Writing etc/x: the path must be absolute$"):
        decide([wish(Path("etc/x"), "y")])


def test_a_nul_in_a_path_is_refused() -> None:
    with pytest.raises(FileError, match=r"^path is '/etc/x\\x00'; a path cannot have a NUL$"):
        decide([wish(Path("/etc/x\0"), "y")])


def test_a_write_that_is_cut_off_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ours.conf"
    path.write_text("old\n")

    def cut(*_names: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", cut)
    assert message_of(FileError, atomic_write, str(path), "new\n") == f"Writing {path}: Input/output error"
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["ours.conf"]


def test_the_order_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch)
    atomic_write(str(tmp_path / "ours.conf"), "new\n")
    assert calls == [
        "fsync .ours.conf.rdmaops-new of 4 bytes",
        "rename .ours.conf.rdmaops-new ours.conf",
        "fsync directory of ours.conf",
    ]


def test_a_leftover_of_a_power_cut_is_used_up(tmp_path: Path) -> None:
    path = tmp_path / "ours.conf"
    (tmp_path / ".ours.conf.rdmaops-new").write_text("half a fi")
    atomic_write(str(path), "whole\n")
    assert os.listdir(tmp_path) == ["ours.conf"]
    assert path.read_text() == "whole\n"


def waited_for() -> list[int]:
    """Inodes of the files for whose lock a process waits: "1: -> FLOCK ADVISORY WRITE 42 fe:00:1234 0 EOF" (locks(5))."""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [int(fields[6].split(":")[2]) for fields in lines if fields[1] == "->"]


def test_two_writers_at_once_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ours.conf"
    second = threading.Thread(target=atomic_write, args=(str(path), "second\n"))
    fsync = os.fsync

    def in_the_middle(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        second.start()
        inode = os.fstat(handle).st_ino
        wait_for(lambda: inode in waited_for() or not second.is_alive())
        assert second.is_alive()
        assert not path.exists()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", in_the_middle)
    atomic_write(str(path), "first, and longer\n")
    second.join(20)
    assert path.read_text() == "second\n"
    assert os.listdir(tmp_path) == ["ours.conf"]


def test_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ours.conf"
    path.write_text("old\n")
    path.chmod(0o640)
    atomic_write(str(path), "new\n")
    assert path.stat().st_mode & 0o777 == 0o640
