# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to reach the mode: the live switch, and new images."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.model import ModeError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.switch import image_mismatch, to_rebuild
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma_mode.fakes import (
    IMAGE,
    OURS,
    FakeHost,
    run,
)


@pytest.mark.parametrize(
    ("files", "code", "runtime"), [(OURS, errno.EBUSY, "require"), ({}, errno.EPERM, "auto")], ids=["busy", "denied"]
)
def test_an_error_of_the_switch_is_an_error(tmp_path: Path, files: dict[str, str], code: int, runtime: str) -> None:
    """With runtime=require, a namespace that comes in between is one too."""
    host = FakeHost(tmp_path, files=files)
    host.switch_error = OSError(code, os.strerror(code))
    with pytest.raises(OSError, match=os.strerror(code)):
        run(host, runtime=runtime)


def test_a_switch_that_the_kernel_only_claims_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path, files=OURS)
    monkeypatch.setattr(host, "switch", host.done.append)
    assert message_of(ModeError, run, host) == (
        "Switching the RDMA subsystem from shared to exclusive: the kernel reported success, but the mode is shared"
    )
    assert host.done == ["exclusive"]


# what is not known of the next boot
@pytest.mark.parametrize("missing", ["contents", "entry", "kernel version"])
def test_an_unknown_image_cannot_be_rebuilt(tmp_path: Path, missing: str) -> None:
    src = FakeHost(tmp_path).sources()
    assert to_rebuild(src) == (IMAGE, "7.2.12")
    assert src.entry is not None
    unknown = {
        "contents": src._replace(contents=None),
        "entry": src._replace(entry=None),
        "kernel version": src._replace(entry=src.entry._replace(kernel_version=None)),
    }
    assert message_of(ModeError, to_rebuild, unknown[missing]) == (
        "Rebuilding the initramfs of the default boot entry: the version of its kernel is not known. Rebuild it by hand"
        ", or set initramfs to report"
    )


# what the new image has of modprobe.d, what is wrong with it
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("options ib_core netns_mode=0\n", None),
        ("options ib_core netns_mode=N\n", None),
        ("options ib_core netns_mode=1\n", "it carries netns_mode=1 instead of 0"),
        ("\0", "its modprobe.d files cannot be read"),
    ],
)
def test_a_new_image_must_have_the_mode(text: str, reason: str | None) -> None:
    new = Contents(IMAGE, "initramfs-tools", ["ib_core"], [], {"/etc/modprobe.d/a.conf": text})
    assert image_mismatch(new, "0") == reason


def test_a_full_boot_stops_it_before_anything_is_written(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, forced=True)
    host.space_on_boot = False
    with pytest.raises(ModeError, match=r"^no space on /boot$"):
        run(host)
    assert host.done == []
