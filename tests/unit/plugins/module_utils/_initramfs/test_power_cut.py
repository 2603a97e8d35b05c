# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At every point of a rebuild the image in place is a whole one."""

from __future__ import annotations

import errno
import os
import re
import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.disk_calls import recorded
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.rebuild_host import (
    NAME,
    NEW,
    OLD,
    Host,
)


@pytest.mark.parametrize("has_links", [True, False])
def test_the_order_on_the_disk(host: Host, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    """After a power cut the image in place is whole, and one whose hooks have not all run is marked."""

    def link(*_names: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    host.file("etc/initramfs/post-update.d/hook", "")
    calls = recorded(monkeypatch)

    def run(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        calls.extend(["hooks"] * ("run-parts" in argv))
        return host.run(argv, timeout)

    host.rebuild(run=run)
    new = re.compile(r"\.rdmaops-new\.[0-9a-f]{8}")
    assert [new.sub(".new", call).replace(NAME, "image").replace(".rdmaops-", ".") for call in calls] == [
        f"fsync .image.new of {len(NEW)} bytes",
        *([] if has_links else [f"fsync .image.new.link of {len(OLD)} bytes"]),
        "rename .image.new.link image.previous",
        "fsync directory of .image.new image image.previous",
        "fsync directory of .image.new image image.previous image.unfinished",
        "rename .image.new image",
        "fsync directory of image image.previous image.unfinished",
        "hooks",
        "unlink image.unfinished",
        "fsync directory of image image.previous",
    ]


# What touches the disk in a rebuild. A run is killed before the first, the second, ... such call, until one is not.
DISK_CALLS = ("link", "rename", "unlink", "mkdir", "fsync", "open")


def killed_before(call: int, host: Host) -> bool:
    """Run a rebuild in a child that is killed before its n-th call; tell whether it was."""
    pid = os.fork()
    if pid == 0:
        remaining = call

        def counted(real: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
            def wrapper(*args: t.Any, **more: t.Any) -> t.Any:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **more)

            return wrapper

        try:
            for name in DISK_CALLS:
                setattr(os, name, counted(getattr(os, name)))
            host.rebuild()
        finally:
            os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("kind", ["mkinitramfs", "dracut"])
def test_killed_at_any_point(tmp_path: Path, kind: str) -> None:
    points = 0
    while True:
        points += 1
        root = tmp_path / str(points)
        root.mkdir()
        host = Host(root, kind)
        host.file("etc/initramfs/post-update.d/hook", "")
        if kind == "dracut":
            host.images = [OLD, NEW]
        if not killed_before(points, host):
            break
        in_place = host.image.read_bytes()
        assert in_place in (OLD, NEW)
        if in_place == NEW:
            assert host.beside()[NAME + ".rdmaops-previous"] == OLD
            assert NAME + ".rdmaops-unfinished" in host.beside() or (root / "hooked").exists()
        # The drop-in may be there already.
        host.images = [NEW]
        host.rebuild()
        files = host.beside()
        assert files.pop(NAME) == NEW
        assert files.pop(NAME + ".rdmaops-previous") in (OLD, NEW)
        assert files == {}
        assert host.scratch() == []
    print(f"{kind}: killed at {points - 1} points")
    assert points > 15
