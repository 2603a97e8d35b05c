# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is full, has no inodes left, or is read-only: the old file stays whole, and nothing half-made is left.

Each on a file system of its own, a few pages large, with every number of pages left to write to.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _cache, _files_write
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.install import InstallError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import BACKUP_SUFFIX, HEADER, FileError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import modprobe_options, owned_files
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import run as drift_run
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults, need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._cni import test_install as cni
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs import rebuild_host as initramfs
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import cpio, text

KIND = "disk full, read-only"
PAGE = os.sysconf("SC_PAGE_SIZE")
# The pages of a file system here, and what a text is that needs several of them.
PAGES = 24
LONG = "x" * 3 * PAGE
DROP_IN = "etc/modprobe.d/zz-rdmaops-mlx5_core.conf"
ENDS = {
    "full": "No space left on device; free some space",
    "no inodes": "No space left on device; free some space",
    "read-only": "Read-only file system; remount it writable, or manage the image that it comes from",
}


class Disk:
    """A file system in memory that can be spoilt."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.filler = root / "filler"

    def _remount(self, options: str) -> None:
        argv = [need_tool("mount"), "-o", "remount," + options, str(self.root)]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)

    def spoil(self, how: str, left: int = 0) -> None:
        """Let nothing be written any more, or ``left`` pages."""
        if how == "read-only":
            self._remount("ro")
        elif how == "no inodes":
            # As many as there are: statvfs(3) counts what is used, and mount(8) sets the whole.
            used = os.statvfs(self.root)
            self._remount(f"nr_inodes={used.f_files - used.f_ffree}")
        else:
            with self.filler.open("wb") as sink, contextlib.suppress(OSError):
                while True:
                    os.write(sink.fileno(), b"f" * PAGE)
            with self.filler.open("r+b") as sink:
                sink.truncate(max(0, sink.seek(0, os.SEEK_END) - left * PAGE))

    def mend(self) -> None:
        self._remount("rw,nr_inodes=1000")
        self.filler.unlink(missing_ok=True)

    def tree(self) -> dict[str, bytes]:
        """Return every file, less copies that were made before something was to be done to it."""
        files = {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        for name, data in list(files.items()):
            if name.endswith(BACKUP_SUFFIX) and files[name[: -len(BACKUP_SUFFIX)]] == data:
                del files[name]
        return {name: data for name, data in files.items() if name != self.filler.name}


@pytest.fixture
def disk(tmp_path: Path) -> t.Iterator[Disk]:
    need_root()
    root = tmp_path / "disk"
    root.mkdir()
    argv = [need_tool("mount"), "-t", "tmpfs", "-o", f"size={PAGES * PAGE},nr_inodes=1000", "rdmaops-test", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        skip_or_fail(f"needs to mount a file system: {done.stderr.strip()}")
    try:
        yield Disk(root)
    finally:
        subprocess.run([need_tool("umount"), str(root)], check=True, timeout=60)


# What is done to the disk, and the pages that are left: too few for the text, or for its directory and name.
SPOILT = [("read-only", 0), ("no inodes", 0), *(("full", left) for left in range(3))]


class Module(t.Protocol):
    """Runs a module in this process and returns whether it failed, and its result."""

    def __call__(self, which: t.Any, /, **arguments: t.Any) -> tuple[bool, dict[str, t.Any]]: ...


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Module:
    # Tests of controller plugins make this process a controller, whose warnings go to its display.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False, raising=False)

    def call(which: t.Any, /, **arguments: t.Any) -> tuple[bool, dict[str, t.Any]]:
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            which.main()
        return bool(ended.value.code), json.loads(capsys.readouterr().out)

    return call


def all_spoilt(disk: Disk, subject: str, attempt: t.Callable[[str], None], converge: t.Callable[[], None]) -> None:
    """Spoil the disk in every way: the attempt fails as it should, all is as it was, and continues once it is repaired."""
    before = disk.tree()
    with faults.tried(KIND, subject) as tally:
        for how, left in SPOILT:
            with tally.one(f"{how}, {left} pages left"):
                disk.spoil(how, left)
                try:
                    attempt(ENDS[how])
                    assert disk.tree() == before
                finally:
                    disk.mend()
    converge()


@pytest.mark.parametrize("old", ["old\n", None])
def test_a_file_is_written_whole_or_not_at_all(disk: Disk, old: str | None) -> None:
    path = disk.root / "etc/x.conf"
    path.parent.mkdir()
    if old is not None:
        path.write_text(old)

    def attempt(end: str) -> None:
        with pytest.raises(FileError) as caught:
            _files_write.atomic_write(str(path), LONG)
        assert str(caught.value) == f"Writing {path}: {end}"

    def converge() -> None:
        _files_write.atomic_write(str(path), LONG)
        assert disk.tree() == {"etc/x.conf": LONG.encode()}

    all_spoilt(disk, "atomic_write", attempt, converge)


def test_what_cannot_be_written_as_text_leaves_nothing(tmp_path: Path) -> None:
    """A surrogate that stands for no byte comes out of JSON and YAML ("\\ud800")."""
    path = tmp_path / "x.conf"
    path.write_text("old\n")
    with faults.tried(KIND, "no text") as tally, tally.one("\\ud800"):
        with pytest.raises(FileError) as caught:
            _files_write.atomic_write(str(path), "a\ud800b\n")
        assert (
            str(caught.value)
            == f"Writing {path}: it contains the character '\\ud800', which cannot be stored in a file. Remove it"
        )
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x.conf": "old\n"}


@pytest.mark.parametrize("state", ["new", "other", "taken over"])
def test_modprobe_options(disk: Disk, module: Module, state: str) -> None:
    given: dict[str, t.Any] = {"name": "mlx5_core", "options": {"x": LONG}, "root": str(disk.root)}
    path = disk.root / DROP_IN
    if state != "new":
        path.parent.mkdir(parents=True)
        path.write_text(f"{HEADER if state == 'other' else '# mine'}\noptions mlx5_core x=1\n")
    if state == "taken over":
        given["on_conflict"] = "take_over"

    def attempt(end: str) -> None:
        failed, result = module(modprobe_options, **given)
        assert failed, result
        assert result["msg"].endswith(end), result["msg"]
        assert str(path.parent if state == "new" else path) in result["msg"]

    def converge() -> None:
        assert module(modprobe_options, **given)[1]["changed"] is True
        assert f"options mlx5_core x={LONG}".encode() in disk.tree()[DROP_IN]
        assert module(modprobe_options, **given)[1]["changed"] is False

    all_spoilt(disk, f"modprobe_options, {state}", attempt, converge)


def test_owned_files(disk: Disk, module: Module) -> None:
    path = disk.root / "unit.conf"
    path.write_text(f"{HEADER}\nold\n")
    given = {"files": [{"path": str(path), "content": LONG}]}

    def attempt(end: str) -> None:
        failed, result = module(owned_files, **given)
        assert (failed, result["msg"]) == (True, f"Writing {path}: {end}")

    def converge() -> None:
        assert module(owned_files, **given)[1]["changed"] is True
        assert module(owned_files, **given)[1]["changed"] is False

    all_spoilt(disk, "owned_files", attempt, converge)


def test_the_initramfs(disk: Disk, tmp_path: Path) -> None:
    """mkinitramfs is played here: it writes what the disk takes, and ends as a shell does that cannot write."""
    host = initramfs.Host(tmp_path)
    boot = tmp_path / "boot"
    before = initramfs.OLD
    for entry in boot.iterdir():
        entry.unlink()
    boot.rmdir()
    boot.symlink_to("disk")
    host.image.write_bytes(before)
    write = host.file

    def file(path: str, content: str | bytes) -> Path:
        try:
            return write(path, content)
        except OSError:
            host.result = (1, "", "mkinitramfs: failed: No space left on device")
            return host.image

    host.file = file  # type: ignore[method-assign]
    run = host.run
    host.run = lambda argv, timeout: (run(argv, timeout), host.result)[1]  # type: ignore[method-assign]
    host.images = [cpio(initramfs.MODULE, text(initramfs.CONF, "options ib_core netns_mode=0\n"), text("pad", LONG))]

    def attempt(end: str) -> None:
        host.result = (0, "", "")
        with pytest.raises(InitramfsError) as caught:
            host.rebuild()
        message = str(caught.value)
        assert message.startswith(f"Rebuilding the initramfs {initramfs.IMAGE}: ")
        assert any(
            word in message
            for word in ("is mounted read-only; remount it writable", "are needed (twice the image)", "No space")
        ), message
        assert host.scratch() == []

    def converge() -> None:
        host.result = (0, "", "")
        host.rebuild()
        assert host.image.read_bytes() == host.images[0]
        assert (boot / (host.image.name + ".rdmaops-previous")).read_bytes() == before

    all_spoilt(disk, "initramfs", attempt, converge)


def test_plugins_and_configuration_of_the_pod_network(disk: Disk, tmp_path: Path) -> None:
    place = cni.Place(disk.root)
    # What is fetched lies elsewhere.
    place.mirror = tmp_path / "mirror"
    place.mirror.mkdir()
    place.run(place.archive(bridge=b"old"))
    new = place.archive(bridge=LONG.encode(), macvlan=LONG.encode())

    def attempt(_end: str) -> None:
        with pytest.raises((InstallError, FileError, cni.FetchError)) as caught:
            place.run(new)
        assert any(word in str(caught.value) for word in ("No space left", "Read-only")), str(caught.value)

    def converge() -> None:
        assert place.run(new)["changed"] is True
        assert (place.bin / "bridge").read_bytes() == LONG.encode()
        assert place.run(new)["changed"] is False

    all_spoilt(disk, "cni_install", attempt, converge)


def test_drift_reports(disk: Disk) -> None:
    report: dict[str, t.Any] = {
        "schema": 1, "started": "2026-11-21T03:00:00Z", "check_mode": True, "complete": True, "incomplete": [],
        "verdict": "in_sync", "hosts": {"h": {"status": "in_sync", "objects": []}}, "note": LONG,
    }  # fmt: skip
    path = disk.root / "report.json"
    path.write_text("{}")

    def attempt(end: str) -> None:
        written, problems = drift_run.write(report, {"report": str(path)})
        assert written == []
        assert problems[str(path)].startswith(f"Writing {path}: {end}, the drift report's option 'report'. Name a path")

    def converge() -> None:
        assert drift_run.write(report, {"report": str(path)}) == ([str(path)], {})
        assert json.loads(path.read_text()) == report

    all_spoilt(disk, "drift report", attempt, converge)


def test_what_is_only_kept_is_no_error(disk: Disk) -> None:
    path = disk.root / "cache.json"

    def attempt(_end: str) -> None:
        _cache.save(str(path), 1, "key", LONG)

    def converge() -> None:
        _cache.save(str(path), 1, "key", LONG)
        assert json.loads(path.read_text())["value"] == LONG

    all_spoilt(disk, "cache", attempt, converge)
