# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next boot gives, from all that can set a parameter."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import default
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import inspect as inspect_module
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import prediction
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import (
    Prediction,
    Sources,
    initramfs_stale,
    initramfs_state,
    is_builtin,
    parameter_state,
    predict,
    sources,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

IMAGE = "/boot/initrd.img-7.2"
MICROCODE = "/boot/amd-ucode.img"
CMDLINE_UNKNOWN = Prediction(None, False, "the kernel command line of the next boot is not known")
IMAGE_UNKNOWN = Prediction(None, False, "the initramfs of the next boot is not known")
CMDLINE_WINS = "the kernel command line of the next boot sets it"
FORCED = "the initramfs loads the module itself"
ARGUMENT = "the initramfs loads the module with this argument"
BUILTIN = "the module is built into the kernel, which does not read modprobe.d"
WHERE = (
    "the initramfs contains the module with another value, and it is not known whether the module is loaded there or "
    "later"
)


def state(contains: bool, forced: bool, value: str | None, argument: str | None = None) -> dict[str, t.Any]:
    return {"image": IMAGE, "contains_module": contains, "forced": forced, "value": value, "argument": argument}


NONE: dict[str, t.Any] = {}
# configured, next command line, initramfs, what is known, prediction
PREDICTIONS: list[tuple[str | None, str | None, dict[str, t.Any] | None, dict[str, t.Any], Prediction]] = [
    ("0", None, None, NONE, Prediction("0", True, None)),
    (None, None, None, NONE, Prediction(None, True, None)),
    ("0", "1", None, NONE, Prediction("1", True, CMDLINE_WINS)),
    ("0", "1", state(True, True, "0"), NONE, Prediction("1", True, CMDLINE_WINS)),
    ("0", "1", None, {"initramfs_known": False}, Prediction("1", True, CMDLINE_WINS)),
    ("0", "1", None, {"uncertainty": "why"}, Prediction("1", True, CMDLINE_WINS)),
    ("0", None, None, {"cmdline_known": False}, CMDLINE_UNKNOWN),
    ("0", None, state(True, True, "0"), {"cmdline_known": False}, CMDLINE_UNKNOWN),
    ("0", None, None, {"initramfs_known": False}, IMAGE_UNKNOWN),
    # The table of what was seen in virtual machines: a stale image that loads the module ignores modprobe.d.
    ("0", None, state(False, False, None), NONE, Prediction("0", True, None)),
    ("0", None, state(True, True, None), NONE, Prediction(None, True, FORCED)),
    ("0", None, state(True, True, "0"), NONE, Prediction("0", True, None)),
    ("0", None, state(True, True, "N"), NONE, Prediction("N", True, None)),
    ("0", None, state(True, True, "1"), NONE, Prediction("1", True, FORCED)),
    ("0", None, state(True, False, "0"), NONE, Prediction("0", True, None)),
    ("0", None, state(True, False, "1"), NONE, Prediction(None, False, WHERE)),
    ("0", None, state(True, False, None), NONE, Prediction(None, False, WHERE)),
    (None, None, state(True, False, "0"), NONE, Prediction(None, False, WHERE)),
    (None, None, state(True, False, None), NONE, Prediction(None, True, None)),
    # forced, but the module is not there: it comes from the root file system
    ("0", None, state(False, True, "1"), NONE, Prediction("0", True, None)),
    ("0", "1", state(True, True, "2", "2"), NONE, Prediction("2", True, ARGUMENT)),
    ("0", "1", state(True, False, "2", "2"), NONE, Prediction("1", True, CMDLINE_WINS)),
    ("0", None, None, {"builtin": True}, Prediction(None, True, BUILTIN)),
    ("0", "1", None, {"builtin": True}, Prediction("1", True, CMDLINE_WINS)),
    ("0", None, None, {"uncertainty": "why"}, Prediction(None, False, "why")),
    ("0", None, state(True, False, "1"), {"uncertainty": "why"}, Prediction(None, False, "why")),
    ("0", None, state(True, True, "1"), {"uncertainty": "why"}, Prediction("1", True, FORCED)),
]


@pytest.mark.parametrize(("configured", "cmdline", "initramfs", "known", "expected"), PREDICTIONS)
def test_predict(
    configured: str | None,
    cmdline: str | None,
    initramfs: dict[str, t.Any] | None,
    known: dict[str, t.Any],
    expected: Prediction,
) -> None:
    assert predict(configured, cmdline, initramfs, **known) == expected


def image(**fields: t.Any) -> Contents:
    modprobe = {"/etc/modprobe.d/a.conf": "options ib-core netns_mode=0\n"}
    return Contents(IMAGE, "initramfs-tools", ["ib_core"], [], modprobe)._replace(**fields)


def test_initramfs_state() -> None:
    assert initramfs_state(None, "ib_core", "netns_mode") is None
    assert initramfs_state(image(), "ib_core", "netns_mode") == state(True, False, "0")
    assert initramfs_state(image(), "ib_core", "x") == state(True, False, None)
    assert initramfs_state(image(), "other", "netns_mode") == state(False, False, None)
    assert initramfs_state(image(forced=["ib_core"]), "ib_core", "netns_mode") == state(True, True, "0")


def test_initramfs_state_follows_kmod_inside_the_image() -> None:
    texts = {"/usr/lib/modprobe.d/a.conf": "options ib_core netns_mode=1\n", "/etc/modprobe.d/a.conf": ""}
    assert initramfs_state(image(modprobe=texts), "ib_core", "netns_mode") == state(True, False, None)
    assert initramfs_state(image(modprobe={"/etc/modprobe.d/a.conf": "\0"}), "ib_core", "netns_mode") is None


def test_arguments_on_a_list_of_modules_beat_modprobe_d() -> None:
    contents = image(forced=["ib_core"], arguments={"ib_core": "netns-mode=1"})
    assert initramfs_state(contents, "ib_core", "netns_mode") == state(True, True, "1", "1")
    assert initramfs_state(contents, "ib_core", "x") == state(True, True, None)
    assert initramfs_state(contents, "other", "netns_mode") == state(False, False, None)


def test_the_command_line_can_force_a_module() -> None:
    result = initramfs_state(image(kind="dracut"), "ib_core", "netns_mode", "rd.driver.pre=ib_core")
    assert result == state(True, True, "0")


# state, configured, stale
STALE = [
    (None, "0", None),
    (state(False, False, None), "0", False),
    (state(True, False, None), "0", True),
    (state(True, False, None), None, False),
    (state(True, True, "0"), None, True),
    (state(True, True, "N"), "0", False),
    (state(True, True, "1"), "0", True),
]


@pytest.mark.parametrize(("result", "configured", "stale"), STALE)
def test_initramfs_stale(result: dict[str, t.Any] | None, configured: str | None, stale: bool | None) -> None:
    assert initramfs_stale(result, configured) is stale


def looked(**fields: t.Any) -> Sources:
    entry = BootEntry("grub", cmdline="ro quiet", initrd=[IMAGE], kernel_version="7.2")
    return Sources("/", entry, "ro ib_core.netns_mode=1", image(), True, False, False, [])._replace(**fields)


def test_view() -> None:
    result = parameter_state(looked(), "ib_core", "netns_mode", "0")
    assert (result.cmdline, result.initramfs) == ({"running": "1", "next_boot": None}, state(True, False, "0"))
    assert (result.next_boot, result.stale) == (Prediction("0", True, None), False)


def test_view_of_a_stale_image_and_of_a_new_one() -> None:
    src = looked(contents=image(forced=["ib_core"]))
    assert parameter_state(src, "ib_core", "netns_mode", "1").stale is True
    assert parameter_state(src, "ib_core", "netns_mode", "1").next_boot.value == "0"
    new = parameter_state(src, "ib_core", "netns_mode", "1", rebuilt=True)
    assert (new.stale, new.next_boot, new.initramfs) == (False, Prediction("1", True, None), state(True, True, "1"))


def test_a_rebuild_that_was_stopped_has_to_be_done_again() -> None:
    assert parameter_state(looked(unfinished=True), "ib_core", "netns_mode", "0").stale is True
    assert parameter_state(looked(unfinished=True), "ib_core", "netns_mode", "0", rebuilt=True).stale is False
    assert parameter_state(looked(unfinished=True), "other", "x", None).stale is False
    unreadable = image(modprobe={"/etc/modprobe.d/a.conf": "\0"})
    assert parameter_state(looked(unfinished=True, contents=unreadable), "ib_core", "netns_mode", "0").stale is None


def test_view_without_an_initramfs() -> None:
    result = parameter_state(looked(contents=None, has_initramfs=False), "ib_core", "netns_mode", "0")
    assert (result.initramfs, result.stale, result.next_boot) == (None, False, Prediction("0", True, None))


def test_view_of_what_cannot_be_read() -> None:
    # A unified kernel image has its initramfs inside: whether there is one is not known (None).
    for has_initramfs in (True, None):
        src = looked(contents=None, has_initramfs=has_initramfs)
        result = parameter_state(src, "ib_core", "netns_mode", "0")
        assert (result.initramfs, result.stale, result.next_boot) == (None, None, IMAGE_UNKNOWN)
    src = looked(entry=None, contents=None, has_initramfs=None, running=None)
    result = parameter_state(src, "ib_core", "netns_mode", "0")
    assert result.cmdline == {"running": None, "next_boot": None}
    assert result.next_boot == CMDLINE_UNKNOWN


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[BootEntry, Contents | Exception], None]:
    """Put a boot entry and what its image contains in the place of this machine's."""

    def put(entry: BootEntry, contents: Contents | Exception) -> None:
        def inspect(images: list[str], root: str) -> Contents:
            assert (images, root) == (list(entry.initrd), "/")
            if isinstance(contents, Exception):
                raise contents
            return contents

        monkeypatch.setattr(default, "default_entry", lambda _root: entry)
        # In a container it is not known whether /etc survives a reboot.
        monkeypatch.setattr(prediction.persistence, "problem", lambda _paths: None)
        monkeypatch.setattr(inspect_module, "inspect", inspect)

    return put


def test_sources(boot: t.Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = tmp_path / "cmdline"
    running.write_text("ro x=1\n")
    monkeypatch.setattr(prediction, "PROC_CMDLINE", str(running))
    entry = BootEntry("grub", cmdline="ro", initrd=[IMAGE], kernel_version="7.2")
    boot(entry, image())
    assert sources("/", "ib_core") == Sources("/", entry, "ro x=1\n", image(), True, False, False, [])

    broken = BootEntry("unknown", problem="No boot loader was found.")
    boot(broken, image())
    result = sources("/", "ib_core")
    assert (result.contents, result.has_initramfs, result.problems) == (None, None, ["No boot loader was found."])

    boot(BootEntry("grub", cmdline="ro", kernel_version="7.2"), image())
    result = sources("/", "ib_core")
    assert (result.has_initramfs, result.unfinished) == (False, False)
    assert sources(str(tmp_path), "ib_core").running is None

    boot(entry, InitramfsError("Reading /boot/initrd.img-7.2: Input/output error"))
    result = sources("/", "ib_core")
    assert (result.contents, result.has_initramfs) == (None, True)
    assert result.problems == ["Reading /boot/initrd.img-7.2: Input/output error"]

    running.write_bytes(b"ro x=\xe9\n")
    assert sources("/", "ib_core").running == "ro x=\udce9\n"

    monkeypatch.setattr(prediction, "PROC_CMDLINE", str(tmp_path / "gone"))
    boot(entry, image())
    result = sources("/", "ib_core")
    assert result.running is None
    assert result.problems == [
        f"Reading the running kernel's command line, {tmp_path}/gone: No such file or directory."
    ]


@pytest.mark.parametrize("stopped", [[], [MICROCODE], [IMAGE]])
def test_sources_after_a_rebuild_of_one_of_the_images(
    boot: t.Callable[..., None], monkeypatch: pytest.MonkeyPatch, stopped: list[str]
) -> None:
    boot(BootEntry("grub", cmdline="ro", initrd=[MICROCODE, IMAGE], kernel_version="7.2"), image())
    monkeypatch.setattr(inspect_module, "unfinished", lambda path, _root: path in stopped)
    assert sources("/", "ib_core").unfinished is bool(stopped)


def test_the_kernel_of_the_entry_says_what_is_built_in(
    boot: t.Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = []
    monkeypatch.setattr(prediction, "is_builtin", lambda _root, kernel, _module: kernels.append(kernel))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="6.12"))
    for root in ("/", str(tmp_path)):
        for version in ("7.2", None):
            boot(BootEntry("grub", kernel_version=version), image())
            sources(root, "ib_core")
    assert kernels == ["7.2", "6.12", "7.2", None]


def test_is_builtin(tmp_path: Path) -> None:
    assert not is_builtin(str(tmp_path), "7.2", "ib_core")
    builtin = "kernel/fs/my_ib_core.ko\nkernel/drivers/infiniband/core/ib-uverbs.ko\nkernel/x/ib_core.ko"
    write_tree(tmp_path, {"usr/lib/modules/7.2/modules.builtin": builtin})
    (tmp_path / "lib").symlink_to("usr/lib")
    assert is_builtin(str(tmp_path), "7.2", "ib_core")
    assert is_builtin(str(tmp_path), "7.2", "ib_uverbs")
    assert not is_builtin(str(tmp_path), "7.2", "core")
    (tmp_path / "lib/modules/6.12/modules.builtin").mkdir(parents=True)
    assert is_builtin(str(tmp_path), "6.12", "ib_core") is False
    assert not is_builtin(str(tmp_path), "6.1", "ib_core")
    assert not is_builtin(str(tmp_path), None, "ib_core")
