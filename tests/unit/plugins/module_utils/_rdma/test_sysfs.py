# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import kernel, sysfs
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree


@pytest.mark.parametrize(("text", "mode"), [("Y\n", "shared"), ("N\n", "exclusive"), ("N", "exclusive")])
def test_live_mode(tmp_path: Path, text: str, mode: str) -> None:
    write_tree(tmp_path, {"module/ib_core/parameters/netns_mode": text})
    assert sysfs.live_mode(str(tmp_path)) == mode


def test_no_mode_without_ib_core(tmp_path: Path) -> None:
    assert sysfs.live_mode(str(tmp_path)) is None


def test_ib_core_of_an_old_kernel(tmp_path: Path) -> None:
    (tmp_path / "module/ib_core").mkdir(parents=True)
    assert message_of(sysfs.SysfsError, sysfs.live_mode, str(tmp_path)) == (
        f"ib_core is loaded, but {tmp_path}/module/ib_core/parameters/netns_mode is missing: its kernel or driver "
        "package is older than Linux 5.2, which introduced the network namespace mode"
    )


@pytest.mark.parametrize("text", ["", "1\n", "shared\n", "\x00"])
def test_a_mode_that_is_none(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"module/ib_core/parameters/netns_mode": text})
    message = message_of(sysfs.SysfsError, sysfs.live_mode, str(tmp_path))
    path = f"{tmp_path}/module/ib_core/parameters/netns_mode"
    assert message == f"Could not parse {path}: it has {text!r} instead of Y or N"


def test_an_unreadable_mode_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module/ib_core/parameters/netns_mode").mkdir(parents=True)
    message = message_of(sysfs.SysfsError, sysfs.live_mode, str(tmp_path))
    assert message == f"Could not read {tmp_path}/module/ib_core/parameters/netns_mode: Is a directory"


def test_devices(tmp_path: Path) -> None:
    assert sysfs.devices(str(tmp_path)) == []
    for name in ("mlx5_1", "mlx5_0", "rxe0"):
        (tmp_path / "class/infiniband" / name).mkdir(parents=True)
    assert sysfs.devices(str(tmp_path)) == ["mlx5_0", "mlx5_1", "rxe0"]


def test_devices_that_cannot_be_listed(tmp_path: Path) -> None:
    write_tree(tmp_path, {"class/infiniband": ""})
    message = message_of(sysfs.SysfsError, sysfs.devices, str(tmp_path))
    assert message == f"Could not list {tmp_path}/class/infiniband: Not a directory"


OTHERS = (
    "kernel/drivers/infiniband/core/ib_cm.ko: kernel/drivers/infiniband/core/ib_core.ko\n"
    "kernel/drivers/infiniband/core/not_ib_core.ko:\n"
    "kernel/drivers/infiniband/core/ib_core.kobold:\n"
)

IB_CORE = "kernel/drivers/infiniband/core/ib_core.ko"
# file, its text, availability
INDEXES = [
    ("modules.dep", OTHERS, None, None),
    ("modules.dep", f"{OTHERS}{IB_CORE}: kernel/net/x.ko\n", "module", IB_CORE),
    ("modules.dep", "updates/dkms/ib_core.ko.xz:", "module", "updates/dkms/ib_core.ko.xz"),
    ("modules.dep", "extra/mlnx-ofa_kernel/ib_core.ko.zst: a.ko\n", "module", "extra/mlnx-ofa_kernel/ib_core.ko.zst"),
    ("modules.dep", "kernel/ib_core.ko.gz:\n" + OTHERS, "module", "kernel/ib_core.ko.gz"),
    ("modules.builtin", IB_CORE + "\n", "builtin", IB_CORE),
    ("modules.builtin", "kernel/drivers/infiniband/core/ib_cm.ko\n", None, None),
]


@pytest.mark.parametrize(("name", "text", "how", "path"), INDEXES)
@pytest.mark.parametrize("directory", ["lib/modules", "usr/lib/modules"])
def test_available(tmp_path: Path, name: str, text: str, how: str | None, path: str | None, directory: str) -> None:
    write_tree(tmp_path, {f"{directory}/6.1.0/{name}": text})
    assert kernel.available("6.1.0", str(tmp_path)) == kernel.Availability(False, how, path)
    assert kernel.available("6.1.1", str(tmp_path)) == kernel.Availability(False, None, None)


def test_loaded(tmp_path: Path) -> None:
    (tmp_path / "sys/module/ib_core").mkdir(parents=True)
    assert kernel.available(root=str(tmp_path)) == kernel.Availability(True, None, None)


def test_the_running_kernel_by_default(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"lib/modules/{os.uname().release}/modules.dep": "ib_core.ko:"})
    assert kernel.available(root=str(tmp_path)).how == "module"


def test_an_image_with_an_absolute_lib_link_stays_in_its_root(tmp_path: Path) -> None:
    (tmp_path / "lib").symlink_to("/nowhere")
    write_tree(tmp_path, {"usr/lib/modules/6.1.0/modules.dep": "kernel/ib_core.ko:"})
    assert kernel.available("6.1.0", str(tmp_path)).how == "module"


RECORDINGS = sorted((Path(__file__).parents[1] / "fixtures").glob("proc_*.json"))


def test_there_are_recordings() -> None:
    assert RECORDINGS


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_tree(tmp_path: Path, path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    write_tree(tmp_path, recorded["files"])
    for name in recorded["devices"]:
        (tmp_path / "sys/class/infiniband" / name).mkdir(parents=True)
    assert sysfs.live_mode(str(tmp_path / "sys")) == "shared"
    assert sysfs.devices(str(tmp_path / "sys")) == ["rxe0", "rxe1"]
    loaded, how, module = kernel.available(recorded["kernel"], str(tmp_path))
    assert (loaded, how) == (True, "module")
    # what `modinfo -n` says of it
    assert recorded["modinfo"].endswith(f"/lib/modules/{recorded['kernel']}/{module}")


@given(st.text(alphabet="ib_core.ko:/ \nxz", max_size=60))
def test_any_index(text: str) -> None:
    expected = [
        line.split(":", 1)[0].strip()
        for line in text.split("\n")
        if line.split(":", 1)[0].strip().rsplit("/", 1)[-1] in ("ib_core.ko", "ib_core.ko.xz")
    ]
    assert kernel._find(text) == (expected[0] if expected else None)


def test_import_is_cheap() -> None:
    """The mode is read on every call of a module: no sockets, no foreign functions."""
    program = f"import sys; import {sysfs.__name__}; print({{'socket', 'ctypes'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-I", "-B", "-c", program], capture_output=True, text=True)
    assert result.stdout == "set()\n"
