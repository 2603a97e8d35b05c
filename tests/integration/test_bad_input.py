# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input, as a user meets it: through Ansible, on this machine. A clear message, a failure, nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, site, skip_or_fail

HEADER = "# Managed by Ansible (rdmaops.gpu_fabric). Local changes will be overwritten.\n"

# What is wrong; the module; its options; what the message says. ROOT stands for the image's directory.
CASES: list[tuple[str, str, dict[str, t.Any], str]] = [
    ("unknown option", "rdma_system", {"netns_mode": "shared", "mode": "x"}, "Unsupported parameters"),
    (
        "a mode that does not exist",
        "rdma_system",
        {"netns_mode": "private"},
        "value of netns_mode must be one of: exclusive, shared, got: private",
    ),
    ("no mode", "rdma_system", {}, "missing required arguments: netns_mode"),
    ("a name with a slash", "modprobe_options", {"name": "../x", "options": {"a": "1"}}, "../x"),
    ("an empty name", "modprobe_options", {"name": "", "options": {"a": "1"}}, "name"),
    ("a boolean", "modprobe_options", {"name": "mlx5_core", "options": {"prof_sel": True}}, "Quote it"),
    ("a list", "modprobe_options", {"name": "mlx5_core", "options": {"prof_sel": [1]}}, "prof_sel"),
    ("null", "modprobe_options", {"name": "mlx5_core", "options": {"prof_sel": None}}, "prof_sel"),
    ("a float", "modprobe_options", {"name": "mlx5_core", "options": {"prof_sel": 1.5}}, "prof_sel"),
    (
        "the option that another module owns",
        "modprobe_options",
        {"name": "ib_core", "options": {"netns_mode": "0"}},
        "rdma_system",
    ),
    ("a drop-in of another owner", "modprobe_options", {"name": "foreign", "options": {"a": "1"}}, "foreign.conf"),
    (
        "a path that kmod does not read",
        "modprobe_options",
        {"name": "x", "options": {"a": "1"}, "path": "/etc/x.conf"},
        "kmod does not read this file",
    ),
    (
        "a conflicting line",
        "modprobe_options",
        {"name": "taken", "options": {"a": "1"}},
        "/etc/modprobe.d/theirs.conf:1",
    ),
]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return a root directory with other people's files in it."""
    directory = tmp_path / "etc/modprobe.d"
    directory.mkdir(parents=True)
    (directory / "zz-rdmaops-foreign.conf").write_text("options foreign a=2\n")
    (directory / "theirs.conf").write_text("options taken a=2\n")
    return tmp_path


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_every_bad_input_is_refused(image: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    need_root()
    before = tree(image)
    tasks = []
    for title, module, options, _message in CASES:
        further = {"root": str(image)} if module == "modprobe_options" else {}
        tasks.append({"name": title, "rdmaops.gpu_fabric." + module: {**options, **further}, "ignore_errors": True})
    run = site.run_tasks(tmp_path_factory.mktemp("book"), tasks, limit=300)
    results = {name: result for name, _host, result in run.tasks}
    wrong = []
    for title, _module, _options, message in CASES:
        result = results[title]
        if not result.get("failed") or result.get("changed") or message not in result["msg"]:
            wrong.append((title, message, result.get("msg")))
    assert wrong == []
    assert tree(image) == before


@pytest.mark.parametrize("content", [b"options x a=1\x00\n", b"\xff\xfe\x00binary"])
def test_a_binary_file_in_modprobe_d(image: Path, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    (image / "etc/modprobe.d/zz.conf").write_bytes(content)
    before = tree(image)
    options = {"name": "mine", "options": {"a": "1"}, "root": str(image)}
    task = {"name": "Options", "rdmaops.gpu_fabric.modprobe_options": options}
    result = site.run_tasks(tmp_path_factory.mktemp("book"), [task], limit=300)
    assert result.rc == 2
    assert "zz.conf" in result.messages()
    assert "Nothing has been changed" in result.messages()
    assert tree(image) == before


def test_a_host_without_rdma(tmp_path: Path) -> None:
    need_root()
    if os.path.isdir("/sys/module/ib_core"):
        skip_or_fail("needs a machine without RDMA")
    task = {"name": "Mode", "rdmaops.gpu_fabric.rdma_system": {"netns_mode": "exclusive"}}
    result = site.run_tasks(tmp_path, [task], limit=300)
    assert result.rc == 2
    assert "Looking for the RDMA subsystem: kernel" in result.messages()
    assert "set on_absent to ignore" in result.messages()


def test_no_root() -> None:
    need_root()
    options = {"_ansible_check_mode": False, "netns_mode": "exclusive"}
    program = (
        "import os, sys\n"
        f"sys.path[:0] = {sys.path[1:]!r}\n"
        "from ansible.module_utils import basic\n"
        "from ansible_collections.rdmaops.gpu_fabric.tests.support.module import module_arguments\n"
        "from ansible_collections.rdmaops.gpu_fabric.plugins.modules import rdma_system\n"
        f"with module_arguments({options!r}):\n"
        # All is imported: it may be where only root may enter.
        "    os.seteuid(65534)\n"
        "    rdma_system.main()\n"
    )
    argv = [sys.executable, "-B", "-c", program]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "needs root; set become: true" in json.loads(done.stdout)["msg"]
