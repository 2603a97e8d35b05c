# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module modprobe_options as Ansible runs it, on a directory that stands for an image."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils import basic

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import modprobe_options
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import module_arguments

OURS = "/etc/modprobe.d/zz-rdmaops-mlx5_core.conf"
TEXT = HEADER + '\noptions mlx5_core debug_mask=0\noptions mlx5_core probe_vf="N N"\n'
OPTIONS = {"probe-vf": "N N", "debug_mask": 0}


class Run(t.Protocol):
    """Runs the module and returns exit status and result."""

    def __call__(self, **arguments: t.Any) -> tuple[int, dict[str, t.Any]]: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    # Tests of controller plugins make this process a controller, whose warnings go to its display.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False, raising=False)

    def call(**arguments: t.Any) -> tuple[int, dict[str, t.Any]]:
        given = {"name": "mlx5-core", "root": str(tmp_path), **arguments}
        with module_arguments(given), pytest.raises(SystemExit) as ended:
            modprobe_options.main()
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return call


def files(root: Path) -> dict[str, str]:
    return {str(path)[len(str(root)) :]: path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_four_step_drill(run: Run, tmp_path: Path) -> None:
    rc, checked = run(options=OPTIONS, _ansible_check_mode=True, _ansible_diff=True)
    assert (rc, checked["changed"], files(tmp_path)) == (0, True, {})
    assert checked["diff"] == [{"before_header": OURS, "after_header": OURS, "before": "", "after": TEXT}]

    rc, done = run(options=OPTIONS, _ansible_diff=True)
    assert (rc, files(tmp_path)) == (0, {OURS: TEXT})
    # Since ansible-core 2.21 only on request (_ansible_inject_invocation).
    checked.pop("invocation", None)
    assert {key: done[key] for key in checked} == checked

    rc, again = run(options=OPTIONS)
    assert (rc, again["changed"], again["actions"], again["diff"]) == (0, False, [], [])
    assert again["parameters"]["probe_vf"]["configured"] == {"value": "N N", "path": OURS, "line": 3}

    rc, checked_again = run(options=OPTIONS, _ansible_check_mode=True)
    assert (rc, checked_again["changed"], files(tmp_path)) == (0, False, {OURS: TEXT})


def test_absent_drill(run: Run, tmp_path: Path) -> None:
    run(options=OPTIONS)
    assert run(options={"debug-mask": 7}, state="absent")[1]["actions"] == [f"Write {OURS}"]
    assert files(tmp_path) == {OURS: HEADER + '\noptions mlx5_core probe_vf="N N"\n'}
    assert run(options={"debug-mask": 7}, state="absent")[1]["changed"] is False
    assert run(state="absent", _ansible_check_mode=True)[1]["actions"] == [f"Remove {OURS}"]
    assert list(run(state="absent")[1]["parameters"]) == ["probe_vf"]
    assert files(tmp_path) == {}
    assert run(state="absent")[1]["changed"] is False
    assert run(state="absent", _ansible_check_mode=True)[1]["changed"] is False


def test_an_image_has_no_live_values(run: Run) -> None:
    result = run(options=OPTIONS)[1]
    assert result["parameters"]["debug_mask"]["live"] is None
    assert result["parameters"]["debug_mask"]["cmdline"]["running"] is None
    assert result["reload_required"] is False
    # There is no boot loader in this image.
    assert result["parameters"]["debug_mask"]["next_boot"] is None
    assert result["initramfs_stale"] is None
    assert len(result["problems"]) == 1


# arguments, message
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    (
        {"name": "a/b", "options": OPTIONS},
        "name: 'a/b' is not the name of a kernel module. Write it as lsmod shows it, without directory and suffix, for "
        "example mlx5_core.",
    ),
    (
        {"options": {"x": True}},
        "options: x is a boolean, and only strings and integers define exactly what reaches the kernel. Quote it as "
        "the kernel should see it, for example x: 'Y'. (YAML reads on, off, yes and no as booleans.)",
    ),
    (
        {"options": OPTIONS, "path": "/etc/modprobe.d/mine"},
        "/etc/modprobe.d/mine: kmod does not read this file. The path must end in .conf and be directly in one of "
        "/etc/modprobe.d, /run/modprobe.d, /usr/local/lib/modprobe.d, /usr/lib/modprobe.d, /lib/modprobe.d, best "
        "in the first.",
    ),
    (
        {"options": OPTIONS, "unknown": 1},
        "Unsupported parameters for (basic.py) module: unknown. Supported parameters include: initramfs, name, "
        "on_conflict, options, path, root, state.",
    ),
    ({"options": OPTIONS, "state": "there"}, "value of state must be one of: present, absent, got: there"),
    (
        {"options": OPTIONS, "on_conflict": "force"},
        "value of on_conflict must be one of: fail, warn, take_over, got: force",
    ),
]


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input(run: Run, tmp_path: Path, arguments: dict[str, t.Any], message: str, check_mode: bool) -> None:
    rc, result = run(**arguments, _ansible_check_mode=check_mode)
    assert rc == 1
    assert result["failed"] is True
    assert result["msg"] == message
    assert files(tmp_path) == {}


@pytest.mark.parametrize("check_mode", [False, True])
def test_somebody_elses_line(run: Run, tmp_path: Path, check_mode: bool) -> None:
    foreign = tmp_path / "etc/modprobe.d/old.conf"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("options mlx5_core debug_mask=1\n")
    before = files(tmp_path)
    rc, result = run(options=OPTIONS, _ansible_check_mode=check_mode)
    assert (rc, result["changed"], result["actions"]) == (1, False, [])
    assert result["conflicts"] == [
        {"path": "/etc/modprobe.d/old.conf", "line": 1, "text": "options mlx5_core debug_mask=1", "wins": False}
    ]
    assert result["msg"] == (
        "Files that are not managed by this task give mlx5_core another value: /etc/modprobe.d/old.conf:1: options "
        "mlx5_core debug_mask=1 (debug_mask is to be 0). Nothing has been changed. Remove what is said there, or set "
        "on_conflict to take_over, which takes the parameter out of files in /etc/modprobe.d and keeps a copy, "
        f"or to warn, which leaves them alone ({OURS} comes later and wins)."
    )
    assert files(tmp_path) == before


def test_a_warning_comes_as_one(run: Run, tmp_path: Path) -> None:
    foreign = tmp_path / "etc/modprobe.d/old.conf"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("options mlx5_core debug_mask=1\n")
    rc, result = run(options=OPTIONS, on_conflict="warn")
    assert rc == 0
    assert len(result["warnings"]) == 1
    warning = "/etc/modprobe.d/old.conf:1: options mlx5_core debug_mask=1 (debug_mask is to be 0)"
    assert warning in str(result["warnings"])


def test_a_write_that_fails(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc/modprobe.d").mkdir(parents=True)

    def refuse(_path: str, *_args: t.Any, **_kwargs: t.Any) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(_files.os, "rename", refuse)
        rc, result = run(options=OPTIONS)
    assert (rc, result["changed"], result["actions"]) == (1, False, [])
    assert result["msg"] == f"Writing {tmp_path}{OURS}: Permission denied; run as root (become: true)"
    assert files(tmp_path) == {}


def test_without_root(run: Run) -> None:
    """Somebody who may not write: root gives its rights up, anybody else has none to begin with."""
    root = Path(tempfile.mkdtemp(prefix="rdmaops-"))
    try:
        (root / "etc/modprobe.d").mkdir(parents=True)
        for path in (root, root / "etc", root / "etc/modprobe.d"):
            path.chmod(0o555)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65534)
        try:
            rc, result = run(options=OPTIONS, root=str(root))
        finally:
            os.seteuid(me)
        assert (rc, result["changed"], result["actions"]) == (1, False, [])
        assert result["msg"] == f"Writing {root}{OURS}: Permission denied; run as root (become: true)"
        assert files(root) == {}
    finally:
        for path in (root / "etc/modprobe.d", root / "etc", root):
            path.chmod(0o755)
        shutil.rmtree(root)


def test_main_uses_the_module_that_ansible_ships() -> None:
    assert modprobe_options.AnsibleModule is basic.AnsibleModule
