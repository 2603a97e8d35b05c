# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""initramfs-tools: what the reader says of its images, against lsinitramfs and unmkinitramfs; rebuilding; being killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, InitramfsError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.inspect import inspect
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import copy_of, inside, kernel, mounted

OPTION = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"
MODULES = ("virtio_pci", "virtio_blk", "ext4", "ib_uverbs", "mlx5_ib")


class Root:
    """One root directory, used by all tests here, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = kernel(path)
        self.image = f"/boot/initrd.img-{self.version}"
        # As the package's own scripts have made it: the tests rebuild the other one.
        self.package_image = f"/boot/package.img-{self.version}"

    def write(self, path: str, text: str) -> None:
        (self.path / path.lstrip("/")).write_text(text)

    def configure(
        self, modules: str = "list", compress: str = "zstd", listed: t.Sequence[str] = (), option: str = ""
    ) -> None:
        # Modules that the image only contains come in by a hook, as conf/modules lists what is loaded.
        self.write("/etc/initramfs-tools/conf.d/test", f"MODULES={modules}\nCOMPRESS={compress}\n")
        self.write("/etc/initramfs-tools/modules", "".join(f"{name}\n" for name in listed))
        self.write(
            "/etc/initramfs-tools/hooks/test",
            f'#!/bin/sh\n[ "$1" = prereqs ] && exit 0\n. /usr/share/initramfs-tools/hook-functions\n'
            f"manual_add_modules {' '.join(MODULES)}\n",
        )
        (self.path / "etc/initramfs-tools/hooks/test").chmod(0o755)
        place = self.path / OPTION.lstrip("/")
        place.unlink(missing_ok=True)
        if option:
            place.write_text(option)

    @contextlib.contextmanager
    def program(self, path: str, text: str) -> t.Iterator[None]:
        """Put a program into the root; the one that it replaces is PATH.real meanwhile."""
        place = self.path / path.lstrip("/")
        real = place.with_name(place.name + ".real")
        replaces = place.exists()
        if replaces:
            place.rename(real)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)
        try:
            yield
        finally:
            place.unlink()
            if replaces:
                real.rename(place)

    def update(self) -> None:
        inside(self.path, "update-initramfs", "-u", "-k", self.version)

    def look(self, image: str = "") -> Contents:
        return inspect([image or self.image], root=str(self.path), cache=None)

    def run(self, argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        return rebuild.run(mounted(self.path, argv), timeout)

    def rebuild(self) -> Contents:
        return rebuild.rebuild(self.image, self.version, str(self.path), self.run, fresh)

    def listing(self, image: str) -> set[str]:
        return set(inside(self.path, "lsinitramfs", image).split("\n"))

    def unpacked(self, image: str) -> dict[str, str]:
        """Text of every modprobe.d file, as unmkinitramfs unpacks the image."""
        script = f"rm -rf /tmp/u; unmkinitramfs {image} /tmp/u; cd /tmp/u; if [ -d main ]; then cd main; fi; pwd"
        base = self.path / inside(self.path, "sh", "-c", script).strip().lstrip("/")
        files = {}
        for directory in ("etc", "usr/lib", "run"):
            for path in sorted((base / directory / "modprobe.d").glob("*.conf")):
                files[f"/{directory}/modprobe.d/{path.name}"] = path.read_text()
        return files


def fresh(contents: Contents) -> str | None:
    return None if OPTION in contents.modprobe else "it lacks the option"


def names(listing: t.Iterable[str]) -> list[str]:
    """Module names in a listing, by another expression than the reader's."""
    modules = {Path(line).name.split(".")[0] for line in listing if re.search(r"\.ko(\.\w+)?$", line)}
    return sorted(name.replace("-", "_") for name in modules)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(copy_of("initramfs-tools", tmp_path_factory.mktemp("root") / "debian"))
    shutil.copy2(root.path / root.image.lstrip("/"), root.path / root.package_image.lstrip("/"))
    return root


def agree(root: Root, image: str = "") -> Contents:
    """The reader and the tools say the same of an image, of the one in place by default."""
    image = image or root.image
    result = root.look(image)
    assert result.kind == "initramfs-tools"
    assert list(result.versions) == [root.version]
    assert result.modules == names(root.listing(image))
    assert result.modprobe == root.unpacked(image)
    return result


def test_the_image_of_the_package(root: Root) -> None:
    result = agree(root, root.package_image)
    # MODULES=most contains ib_core without loading it.
    assert "ib_core" in result.modules
    assert result.forced == []


def test_stale_forced_and_rebuilt(root: Root) -> None:
    root.configure(listed=["mlx5-ib"])
    root.update()
    root.write(OPTION, "options ib_core netns_mode=0\n")
    stale = agree(root)
    assert {"ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"} <= set(stale.forced)
    assert OPTION not in stale.modprobe
    before = (root.path / root.image.lstrip("/")).read_bytes()
    result = root.rebuild()
    assert result == agree(root)
    assert result.modprobe[OPTION] == "options ib_core netns_mode=0\n"
    assert (root.path / (root.image + rebuild.PREVIOUS).lstrip("/")).read_bytes() == before
    assert not list((root.path / "var/tmp").iterdir())


def test_not_forced_and_options_in_the_list(root: Root) -> None:
    root.configure(option="options ib_core netns_mode=0\n")
    result = root.rebuild()
    assert "ib_core" in result.modules
    assert result.forced == []
    root.configure(listed=["ib_core netns_mode=1"], option="options ib_core netns_mode=0\n")
    result = root.rebuild()
    assert result == agree(root)
    assert "ib_core" in result.forced
    assert result.arguments == {"ib_core": "netns_mode=1"}


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.8, 0.999])
def test_truncated(root: Root, tmp_path: Path, share: float) -> None:
    data = (root.path / root.image.lstrip("/")).read_bytes()
    (tmp_path / "image").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InitramfsError, match=r"truncated|cannot read it"):
        inspect(["/image"], root=str(tmp_path), cache=None)


# What does the work has a PID namespace of its own. When the first process of one is killed, the kernel kills all others,
# and the first one has not ended before they have (pid_namespaces(7)): nothing is left, as after a power cut.
CHILD = """
import sys
from pathlib import Path
from ansible_collections.rdmaops.gpu_fabric.tests.integration.test_initramfs_tools import Root
Root(Path(sys.argv[1])).rebuild()
"""

# A program of the root that stops a rebuild until it is killed.
STOP = "touch /tmp/stopped; exec sleep infinity"
HOOK = f'#!/bin/sh\n[ "$1" = prereqs ] && exit 0\n{STOP}\n'
POST_UPDATE_HOOK = f"#!/bin/sh\n{STOP}\n"


def compressor(size: int) -> str:
    """Return a zstd that stops when it has written ``size`` bytes, or all."""
    return f'#!/bin/sh\n/usr/bin/zstd.real "$@" | head -c {size}\n{STOP}\n'


def kill_when_stopped(root: Root) -> None:
    """Start a rebuild, and kill it and all that it has started when it has come to a program that stops it."""
    stopped = root.path / "tmp/stopped"
    stopped.unlink(missing_ok=True)
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", CHILD, str(root.path)]
    with subprocess.Popen(argv) as unshare:
        try:
            deadline = time.monotonic() + 600
            while not stopped.exists():
                assert unshare.poll() is None, "the rebuild has ended without coming to the stop"
                assert time.monotonic() < deadline, "the rebuild has not come to the stop"
                time.sleep(0.05)
            # proc(5): the processes that unshare has started, by their IDs outside of the namespace.
            (first,) = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
            os.kill(int(first), signal.SIGKILL)
            unshare.wait(timeout=60)
        finally:
            unshare.kill()


# the program that stops, its text, whether the new image is in place by then
STOPS = [
    ("/etc/initramfs-tools/hooks/stop", HOOK, False),
    ("/usr/bin/zstd", compressor(1 << 16), False),
    ("/etc/initramfs/post-update.d/stop", POST_UPDATE_HOOK, True),
]
LONG_STOPS = [("/usr/bin/zstd", compressor(size), False) for size in (0, 1, 1 << 12, 1 << 20, 1 << 40)]


def test_killed_while_building(root: Root, request: pytest.FixtureRequest) -> None:
    root.configure()
    root.update()
    image = root.path / root.image.lstrip("/")
    old = image.read_bytes()
    root.write(OPTION, "options ib_core netns_mode=0\n")
    for path, text, is_new in STOPS + (LONG_STOPS if request.config.getoption("--long") else []):
        image.write_bytes(old)
        with root.program(path, text):
            kill_when_stopped(root)
        assert (OPTION in root.look().modprobe) == is_new
        assert is_new or image.read_bytes() == old
    assert OPTION in root.rebuild().modprobe
    assert root.look().modprobe[OPTION] == "options ib_core netns_mode=0\n"
    beside = {path.name for path in (root.path / "boot").iterdir() if "initrd" in path.name}
    assert beside == {Path(root.image).name, Path(root.image).name + rebuild.PREVIOUS}
    assert not list((root.path / "var/tmp").iterdir())


FULL = """
import os, subprocess, sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import contents, rebuild
root, image = sys.argv[1:]
real = root + image
data = open(real, "rb").read()
size = (len(data) * 5 // 2) // 4096 * 4096
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", os.path.dirname(real)], check=True)
with open(real, "wb") as stream:
    stream.write(data)
try:
    rebuild.preflight(image, root)
except contents.InitramfsError as exc:
    print(exc)
    print(len(data), os.listdir(os.path.dirname(real)))
"""


def test_full_boot(root: Root) -> None:
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", FULL, str(root.path), root.image]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    message, state = done.stdout.splitlines()
    size = int(state.split()[0])
    match = re.fullmatch(
        rf"Rebuilding the initramfs {re.escape(root.image)}: /boot has [\d.]+ MiB \((\d+) bytes\) free and [\d.]+ MiB "
        rf"\((\d+) bytes\) are needed \(twice the image\); remove old kernels, or enlarge that file system",
        message,
    )
    assert match, message
    assert int(match[1]) < 2 * size == int(match[2])
    assert state.split(" ", 1)[1] == str([Path(root.image).name])


@pytest.mark.long
@pytest.mark.parametrize("modules", ["list", "most"])
@pytest.mark.parametrize("compress", ["gzip", "bzip2", "lzma", "xz", "lzop", "lz4", "zstd"])
def test_every_compressor(root: Root, compress: str, modules: str) -> None:
    root.configure(modules=modules, compress=compress, listed=["ib_core"], option="options ib_core netns_mode=0\n")
    result = root.rebuild()
    # unmkinitramfs 0.148.4 does not know its own package's COMPRESS=lzma ("unrecognised compression").
    assert result == (root.look() if compress == "lzma" else agree(root))
    assert "ib_core" in result.forced
    assert fresh(result) is None
