# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebuilding an initramfs with a tool that is played here: what is run, what is left behind, what is said."""

from __future__ import annotations

import errno
import os
import re
import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild as module
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.rebuild import (
    DRACUT_DROP_IN,
    preflight,
    rebuild,
    run,
    tool,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.disk_calls import recorded
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from

VERSION = "6.12.1"
IMAGE = f"/boot/initrd.img-{VERSION}"
CONF = "etc/modprobe.d/zz-rdmaops-ib_core.conf"


def cpio(**files: str) -> bytes:
    data = b""
    for name, content in [*files.items(), ("TRAILER!!!", "")]:
        raw = name.encode() + b"\0"
        fields = (1, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0)
        data += b"070701" + b"".join(b"%08x" % field for field in fields) + raw
        data += bytes(-len(data) % 4) + content.encode()
        data += bytes(-len(data) % 4)
    return data


MODULE = {f"lib/modules/{VERSION}/ib_core.ko": ""}
OLD = cpio(**MODULE)
NEW = cpio(**MODULE, **{CONF: "options ib_core netns_mode=0\n"})


class Host:
    """A root directory, and the commands that were run in it."""

    def __init__(self, root: Path, name: str = "mkinitramfs") -> None:
        self.root = root
        self.name = name
        self.calls: list[list[str]] = []
        self.images: list[bytes] = [NEW]
        self.result = (0, "", "")
        self.hook = (0, "", "")
        for path in (f"usr/sbin/{name}", f"lib/modules/{VERSION}/modules.dep"):
            self.file(path, "")
        (root / "usr/sbin" / name).chmod(0o755)
        self.file(IMAGE, OLD)
        for directory in ("var/tmp", "etc/dracut.conf.d"):
            (root / directory).mkdir(parents=True)

    def file(self, path: str, content: str | bytes) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def run(self, argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        assert timeout == 900.0
        self.calls.append(list(argv))
        if "run-parts" in argv:
            self.file("hooked", "")
            return self.hook
        (new,) = (word for word in argv if ".rdmaops-new." in word)
        if self.result[0] == 0:
            self.file(new, self.images.pop(0) if len(self.images) > 1 else self.images[0])
        return self.result

    def rebuild(self, **more: t.Any) -> Contents:
        return rebuild(IMAGE, VERSION, str(self.root), self.run, fresh, **more)

    @property
    def image(self) -> Path:
        return self.root / IMAGE.lstrip("/")

    def beside(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.image.parent.iterdir()}

    def scratch(self) -> list[str]:
        return os.listdir(self.root / "var/tmp")


def fresh(contents: Contents) -> str | None:
    return None if "/" + CONF in contents.modprobe else "it lacks the option"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def dracut(tmp_path: Path) -> Host:
    return Host(tmp_path, "dracut")


NAME = f"initrd.img-{VERSION}"
AFTER = {NAME: NEW, NAME + ".rdmaops-previous": OLD}


def test_initramfs_tools(host: Host) -> None:
    contents = host.rebuild()
    assert contents.image == IMAGE
    assert contents.modules == ["ib_core"]
    ((chroot, root, env, directory, command, option, new, version),) = host.calls
    assert (chroot, root, env, command, option, version) == (
        "chroot",
        str(host.root),
        "env",
        "mkinitramfs",
        "-o",
        VERSION,
    )
    assert directory.startswith("TMPDIR=/var/tmp/rdmaops-initramfs.")
    assert new.startswith(f"/boot/.{NAME}.rdmaops-new.")
    assert host.beside() == AFTER
    assert host.scratch() == []


def test_dracut(dracut: Host) -> None:
    dracut.rebuild()
    (argv,) = dracut.calls
    assert argv[2:6] == ["env", "NO_POST_UPDATE_HOOKS=1", "dracut", "--tmpdir"]
    assert (argv[7], argv[9]) == ("--force", VERSION)
    assert dracut.beside() == AFTER
    assert not (dracut.root / DRACUT_DROP_IN.lstrip("/")).exists()


def test_dracut_generic_image_needs_the_drop_in(dracut: Host) -> None:
    dracut.images = [OLD, NEW]
    dracut.rebuild()
    assert len(dracut.calls) == 2
    assert (dracut.root / DRACUT_DROP_IN.lstrip("/")).read_text() == (
        f"{_files.HEADER}\n"
        "# A generic image (hostonly=no) does not get /etc/modprobe.d.\n"
        'install_items+=" /etc/modprobe.d/zz-rdmaops-*.conf "\n'
    )
    assert dracut.beside() == AFTER
    dracut.images = [NEW]
    dracut.rebuild()
    assert len(dracut.calls) == 3


def test_dracut_still_stale(dracut: Host) -> None:
    dracut.images = [OLD]
    with pytest.raises(InitramfsError) as caught:
        dracut.rebuild()
    assert str(caught.value) == (
        f"Rebuilding the initramfs {IMAGE}: the new image has the same fault: it lacks the option. "
        "The previous image is in place."
    )
    assert len(dracut.calls) == 2
    assert dracut.beside() == {NAME: OLD}
    assert not (dracut.root / DRACUT_DROP_IN.lstrip("/")).exists()
    assert dracut.scratch() == []


def test_the_tool_fails(host: Host) -> None:
    host.result = (1, "", "one\ntwo\nthree\nfour\nfive\nE: no space left\n")
    with pytest.raises(InitramfsError) as caught:
        host.rebuild()
    assert str(caught.value) == (
        f"Rebuilding the initramfs {IMAGE}: mkinitramfs failed (exit code 1): two / three / four / five / "
        "E: no space left. The previous image is in place."
    )
    assert (caught.value.rc, caught.value.cmd[2]) == (1, "mkinitramfs")
    assert host.beside() == {NAME: OLD}


BAD_IMAGES = [
    # what the tool made, text behind "Rebuilding the initramfs IMAGE: "
    (cpio(x=""), f"the new image has no modules of kernel {VERSION} (exit code 0). The previous image is in place."),
    (NEW[:-60], None),
    (b"", None),
]


@pytest.mark.parametrize(("image", "text"), BAD_IMAGES)
def test_the_new_image_is_bad(host: Host, image: bytes, text: str | None) -> None:
    host.images = [image]
    with pytest.raises(InitramfsError) as caught:
        host.rebuild()
    if text is None:
        assert str(caught.value).startswith(f"Reading the initramfs {IMAGE}: it ")
    else:
        assert str(caught.value) == f"Rebuilding the initramfs {IMAGE}: {text}"
    assert host.beside() == {NAME: OLD}
    assert host.scratch() == []


def test_hooks_run_with_the_names_in_place(host: Host) -> None:
    host.file("etc/initramfs/post-update.d/boot-loader", "")
    host.rebuild()
    assert host.calls[1] == [
        "chroot",
        str(host.root),
        "run-parts",
        "--arg=" + VERSION,
        "--arg=" + IMAGE,
        "/etc/initramfs/post-update.d",
    ]
    assert host.beside() == AFTER


def test_a_hook_fails(host: Host) -> None:
    host.file("etc/initramfs/post-update.d/boot-loader", "")
    host.hook = (1, "", "no boot partition\n")
    with pytest.raises(InitramfsError) as caught:
        host.rebuild()
    assert str(caught.value) == (
        f"Rebuilding the initramfs {IMAGE}: a hook in /etc/initramfs/post-update.d failed (exit code 1): "
        "no boot partition. The previous image is in place."
    )
    # Some hooks may have taken the new image: that the work is unfinished is remembered.
    assert host.beside() == {NAME: OLD, NAME + ".rdmaops-previous": OLD, NAME + ".rdmaops-unfinished": b""}
    host.hook = (0, "", "")
    host.rebuild()
    assert host.beside() == AFTER


def test_a_file_system_without_links(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_names: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    host.rebuild()
    assert host.beside() == AFTER


def test_the_entry_names_a_link(host: Host) -> None:
    (host.root / "initrd.img").symlink_to("boot/" + NAME)
    contents = rebuild("/initrd.img", VERSION, str(host.root), host.run, fresh)
    assert contents.image == "/initrd.img"
    assert host.calls[0][6].startswith(f"/boot/.{NAME}.rdmaops-new.")
    assert host.beside() == AFTER
    assert (host.root / "initrd.img").is_symlink()


COPY = f"/efi/debian/{VERSION}/{NAME}"


def test_the_entry_names_a_copy_that_a_hook_makes(host: Host) -> None:
    host.file(COPY, OLD)
    host.file("etc/initramfs/post-update.d/systemd-boot", "")

    def hook(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        if "run-parts" in argv:
            host.file(COPY, host.image.read_bytes())
        return host.run(argv, timeout)

    contents = rebuild(COPY, VERSION, str(host.root), hook, fresh)
    assert contents.image == COPY
    assert host.calls[1][3:5] == ["--arg=" + VERSION, "--arg=" + IMAGE]
    assert host.beside() == AFTER
    assert [path.name for path in (host.root / COPY.lstrip("/")).parent.iterdir()] == [NAME]


def test_a_copy_that_no_hook_makes(host: Host) -> None:
    host.file(COPY, OLD)
    host.file("etc/initramfs/post-update.d/other", "")
    with pytest.raises(InitramfsError) as caught:
        rebuild(COPY, VERSION, str(host.root), host.run, fresh)
    assert str(caught.value) == (
        f"Rebuilding the initramfs {COPY}: {IMAGE} is new and good, and no hook in /etc/initramfs/post-update.d brought "
        "it to where it is booted from: it lacks the option"
    )


def test_leftovers_of_a_killed_run_go(host: Host) -> None:
    host.file(f"/boot/.{NAME}.rdmaops-new.0a1b2c3d", "half")
    host.file("/var/tmp/rdmaops-initramfs.dead/mkinitramfs_x/file", "x")
    host.file("/boot/.initrd.img-other.rdmaops-new.0a1b2c3d", "someone else's")
    host.rebuild()
    assert host.beside() == {**AFTER, ".initrd.img-other.rdmaops-new.0a1b2c3d": b"someone else's"}
    assert host.scratch() == []


def test_two_at_once(host: Host) -> None:
    def nested(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        with pytest.raises(InitramfsError) as caught:
            host.rebuild()
        assert str(caught.value) == f"Rebuilding the initramfs {IMAGE}: another rebuild is running; wait for it"
        return host.run(argv, timeout)

    rebuild(IMAGE, VERSION, str(host.root), nested, fresh)
    assert host.beside() == AFTER


TOOLS = [
    # executables, tool
    ([], None),
    (["usr/sbin/mkinitramfs"], "initramfs-tools"),
    (["usr/bin/dracut"], "dracut"),
    (["usr/bin/dracut", "usr/sbin/mkinitramfs"], "initramfs-tools"),
]


@pytest.mark.parametrize(("names", "expected"), TOOLS)
def test_tool(tmp_path: Path, names: list[str], expected: str | None) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(0o755)
    assert tool(str(tmp_path)) == expected


class TestPreflight:
    def refused(self, host: Host, version: str | None = VERSION) -> str:
        before = host.beside()
        with pytest.raises(InitramfsError) as caught:
            preflight(IMAGE, str(host.root), version)
        assert host.beside() == before
        prefix = f"Rebuilding the initramfs {IMAGE}: "
        assert str(caught.value).startswith(prefix)
        return str(caught.value)[len(prefix) :]

    def test_good(self, host: Host) -> None:
        assert preflight(IMAGE, str(host.root)) == "initramfs-tools"

    def test_no_tool(self, host: Host) -> None:
        (host.root / "usr/sbin/mkinitramfs").unlink()
        assert self.refused(host) == (
            "neither mkinitramfs (initramfs-tools) nor dracut is installed; build the image with the tool that created it"
        )

    def test_no_image(self, host: Host) -> None:
        host.image.unlink()
        assert self.refused(host) == "no such file"

    def test_no_modules(self, host: Host) -> None:
        assert self.refused(host, "5.0") == (
            "/lib/modules/5.0/modules.dep is missing: install the modules of kernel 5.0, or boot a kernel that has them"
        )

    def test_updates_are_switched_off(self, host: Host) -> None:
        host.file("etc/initramfs-tools/update-initramfs.conf", "# update_initramfs=no\nupdate_initramfs=no # mine\n")
        assert self.refused(host) == (
            "/etc/initramfs-tools/update-initramfs.conf:2 says update_initramfs=no; set it to yes, or build and check "
            "the image yourself"
        )

    def test_full(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "free_bytes", lambda _path: 2 * len(OLD) - 1)
        assert self.refused(host) == (
            f"/boot has 0.0 MiB ({2 * len(OLD) - 1} bytes) free and 0.0 MiB ({2 * len(OLD)} bytes) are needed (twice "
            "the image); remove old kernels, or enlarge that file system"
        )
        with pytest.raises(InitramfsError):
            host.rebuild()
        assert host.calls == []

    def test_not_writable(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        allowed = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: allowed(path, mode) and not (mode == os.W_OK and "boot" in str(path))
        )
        assert self.refused(host) == "/boot is not writable; run as root (become: true)"


class TestRun:
    def test_result(self) -> None:
        assert run(["sh", "-c", "echo out; echo $LC_ALL >&2; exit 3"], 60) == (3, "out\n", "C\n")

    def test_missing(self) -> None:
        assert run(["/nothing/here"], 10) == (127, "", "/nothing/here: No such file or directory")

    def test_children_can_clean_up_at_the_timeout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        begun = tmp_path / "begun"
        limits_count_from(begun, monkeypatch)
        script = f"(trap 'echo cleaned' TERM; echo begun; touch {begun}; sleep 60 & wait) & wait"
        assert run(["sh", "-c", script], 1) == (124, "begun\ncleaned\n", "\nstopped after 1 seconds")

    def test_what_ignores_sigterm_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "GRACE", 0.1)
        deaf, survived = tmp_path / "deaf", tmp_path / "survived"
        limits_count_from(deaf, monkeypatch)
        script = f"trap '' TERM; touch {deaf}; sleep 60; touch {survived}"
        assert run(["sh", "-c", script], 0.1)[0] == 124
        assert not survived.exists()


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

    rebuild(IMAGE, VERSION, str(host.root), run, fresh)
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
        left = call

        def counted(real: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
            def wrapper(*args: t.Any, **more: t.Any) -> t.Any:
                nonlocal left
                left -= 1
                if left == 0:
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
        left = host.beside()
        assert left.pop(NAME) == NEW
        assert left.pop(NAME + ".rdmaops-previous") in (OLD, NEW)
        assert left == {}
        assert host.scratch() == []
    print(f"{kind}: killed at {points - 1} points")
    assert points > 15
