# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian root directory with a kernel and what makes its initramfs, for tests that run the real tools.

Made once by mmdebstrap and kept in the lab's cache; tests work on copies.
"""

from __future__ import annotations

import fcntl
import hashlib
import shlex
import shutil
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import aptsource, config
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail

COMMON = ("linux-image-amd64", "busybox", "cpio", "kmod", "lz4", "lzop", "systemd-sysv", "udev", "xz-utils", "zstd")
PACKAGES = {
    "initramfs-tools": (*COMMON, "initramfs-tools", "grub-emu", "grub2-common", "grub-pc-bin"),
    # With mkinitramfs: dracut conflicts with initramfs-tools, and not with initramfs-tools-core, which has the command.
    "dracut": (*COMMON, "dracut", "binutils", "initramfs-tools-core"),
    "node": (
        *COMMON, "initramfs-tools", "grub2-common", "grub-pc-bin", "iproute2", "openssh-server", "python3",
        "rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "infiniband-diags",
        "perftest",
    ),
    "network": ("netplan.io", "network-manager"),
    "torch": ("python3-torch", "python3-torchvision", "openmpi-bin"),
    # With what the tests of a controller and its modules call.
    "python": ("python3", "python3-venv", "git", "iproute2", "kmod", "openssh-client", "systemd"),
}  # fmt: skip
# The kernel's installation makes an image at once, which takes dracut a minute or more with its own settings.
DRACUT_SMALL = """early_microcode="no"
compress="zstd -1 -T0"
dracutmodules+=" base kernel-modules systemd-modules-load dracut-systemd "
drivers+=" ext4 virtio_blk "
add_drivers+=" ib_uverbs mlx5_ib "
filesystems+=" ext4 "
"""
FILES: dict[str, dict[str, str]] = {name: {} for name in PACKAGES}
FILES["dracut"] = {"etc/dracut.conf.d/test.conf": DRACUT_SMALL}
LEAVE_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")

# What the tools look at, in a mount namespace that goes with the command.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/run"
shift
exec "$@"
"""


def debian_root(name: str) -> Path:
    """Return the kept root directory of that name (see PACKAGES); create it if there is none. It is never changed."""
    need_root()
    tool = need_tool("mmdebstrap")
    settings = config.versions()
    settings["kernel"]["suite"] = settings["debian"]["suite"]
    sources = aptsource.of_this_machine(settings)
    lines = aptsource.one_line(settings, sources)
    recipe = "\n".join([lines, *PACKAGES[name], *LEAVE_OUT, *FILES[name].values()])
    roots = config.places().cache / "roots"
    place = roots / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    roots.mkdir(parents=True, exist_ok=True)
    with (roots / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            return place
        for old in roots.glob(f"{name}-*"):
            shutil.rmtree(old)
        new = roots / f"{name}-new"
        shutil.rmtree(new, ignore_errors=True)
        # What mmdebstrap mounts in the new root goes with it, even when it is killed.
        argv = ["unshare", "--mount", "--propagation", "private", "--fork", "--kill-child"]
        argv += [tool, "--mode=root", "--variant=apt", "--include=" + ",".join(PACKAGES[name])]
        argv += ['--aptopt=APT::Install-Recommends "false"']
        argv += [f'--aptopt={key} "{value}"' for key, value in sources.options.items()]
        argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEAVE_OUT]
        for path, text in FILES[name].items():
            write = f'mkdir -p "$1/{Path(path).parent}" && printf %s {shlex.quote(text)} > "$1/{path}"'
            argv.append(f"--essential-hook={write}")
        argv += [settings["debian"]["suite"], str(new), "-"]
        done = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode != 0:
            shutil.rmtree(new, ignore_errors=True)
            skip_or_fail(f"mmdebstrap cannot make a root directory from {sources.archive}: {done.stderr[-400:]}")
        new.rename(place)
    return place


def copy_of(name: str, target: Path) -> Path:
    """Copy the root directory of that name to ``target``."""
    source = debian_root(name)
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True, timeout=300)
    return target


def kernel(root: Path) -> str:
    """Return the version of the one kernel in a root."""
    (version,) = [path.name for path in (root / "lib/modules").iterdir()]
    return version


def mounted(root: Path, argv: t.Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` on this machine with /proc, /dev, /sys and /run mounted in ``root``."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", str(root), *argv]


def inside(root: Path, *argv: str) -> str:
    """Run a command inside ``root`` and return what it printed."""
    command = mounted(root, ["chroot", str(root), *argv])
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, (argv, done.returncode, done.stderr[-2000:])
    return done.stdout


__all__ = ["copy_of", "debian_root", "inside", "kernel", "mounted"]
