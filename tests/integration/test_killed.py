# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that is killed, as by the end of its ssh connection, before every step that it takes on files.

Python's audit events (PEP 578) are where it stops: open, mkdir, rename, link, remove. What is there then is whole, the old
or the new, and the next run converges.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import modprobe_options, owned_files
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._cni import test_install as cni
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs import rebuild_host as initramfs

EVENTS = ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.truncate")
# More steps than any of them takes.
MOST = 60


def killed_at(step: int, root: Path, action: t.Callable[[], object]) -> bool:
    """Do something in a process of its own, which kills itself before a step; return whether it came to that step."""
    child = os.fork()
    if child == 0:
        left = [step]

        def watch(event: str, given: tuple[t.Any, ...]) -> None:
            if event in EVENTS and any(
                isinstance(argument, str) and argument.startswith(str(root)) for argument in given
            ):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(watch)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                action()
            os._exit(0)
        finally:
            os._exit(1)
    _pid, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed by itself"
    return os.WIFSIGNALED(status)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def at_every_step(
    subject: str,
    root: Path,
    prepare: t.Callable[[], None],
    act: t.Callable[[], object],
    left: t.Callable[[str], bool],
    kept: str = "",
) -> None:
    """Kill before each step; what is there then, apart from ``left``, is from before or from after, and whole.

    In files whose names end in ``kept``, it may be either of the two at the end.
    """
    prepare()
    before = tree(root)
    assert not killed_at(MOST, root, act)
    after = tree(root)
    assert before != after
    steps = 0
    with faults.tried("module killed", subject) as tally:
        while True:
            prepare()
            if not killed_at(steps, root, act):
                break
            with tally.one(f"before step {steps}"):
                for name, data in tree(root).items():
                    assert left(name) or data in (before.get(name), after.get(name)), name
                assert not killed_at(MOST, root, act)
                for name, data in tree(root).items():
                    either = kept and name.endswith(kept) and data in (*before.values(), *after.values())
                    assert either or data == after.get(name), name
                assert tree(root).keys() == after.keys()
            steps += 1
            assert steps < MOST


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    # Tests of controller plugins make this process a controller, whose warnings go to its display.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False, raising=False)

    def call(which: t.Any, **arguments: t.Any) -> None:
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            which.main()
        assert not ended.value.code

    return call


@pytest.mark.parametrize("header", [HEADER, "# mine"])
def test_modprobe_options(tmp_path: Path, module: t.Callable[..., None], header: str) -> None:
    path = tmp_path / "etc/modprobe.d/zz-rdmaops-mlx5_core.conf"
    given = {"name": "mlx5_core", "options": {"x": "2"}, "root": str(tmp_path), "on_conflict": "take_over"}

    def prepare() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        for entry in path.parent.iterdir():
            entry.unlink()
        path.write_text(f"{header}\noptions mlx5_core x=1\n")

    # kmod reads what ends in .conf and does not begin with a dot.
    at_every_step(
        "modprobe_options",
        tmp_path,
        prepare,
        lambda: module(modprobe_options, **given),
        lambda name: Path(name).name.startswith(".") or not name.endswith(".conf"),
    )


def test_owned_files(tmp_path: Path, module: t.Callable[..., None]) -> None:
    files = [{"path": str(tmp_path / name), "content": f"new {name}"} for name in ("a.conf", "b.conf")]

    def prepare() -> None:
        for name in ("a.conf", "b.conf"):
            (tmp_path / name).write_text(f"{HEADER}\nold {name}\n")
            (tmp_path / f".{name}.rdmaops-new").unlink(missing_ok=True)

    at_every_step(
        "owned_files",
        tmp_path,
        prepare,
        lambda: module(owned_files, files=files),
        lambda name: name.startswith("."),
    )


def test_cni_install(tmp_path: Path) -> None:
    root = tmp_path / "host"
    root.mkdir()
    place = cni.Place(root)
    place.mirror = tmp_path / "mirror"
    place.mirror.mkdir()
    old = place.archive("old.tgz", bridge=b"old", macvlan=b"old")
    new = place.archive("new.tgz", bridge=b"new", macvlan=b"new")

    def prepare() -> None:
        for entry in [path for path in root.rglob("*") if path.is_file()]:
            entry.unlink()
        place.run(old)

    # The record says what is ours before it is written; what is being written has a name that no runtime looks for.
    at_every_step(
        "cni_install",
        root,
        prepare,
        lambda: place.run(new),
        lambda name: name == place.record.name or Path(name).name.startswith(".") or "rdmaops" in name,
    )


def test_the_initramfs(tmp_path: Path) -> None:
    host = initramfs.Host(tmp_path)

    def prepare() -> None:
        for directory in (host.image.parent, tmp_path / "var/tmp"):
            for entry in directory.iterdir():
                entry.unlink() if entry.is_file() else entry.rmdir()
        host.image.write_bytes(initramfs.OLD)
        host.images = [initramfs.NEW]

    at_every_step(
        "initramfs",
        tmp_path,
        prepare,
        host.rebuild,
        lambda name: ".rdmaops-new." in name or name.endswith(".rdmaops-unfinished"),
        # Built again over what is good already, the image that is kept is the one before the last.
        kept=".rdmaops-previous",
    )
    assert host.image.read_bytes() == initramfs.NEW
