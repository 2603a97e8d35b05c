# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Rebuilds an initramfs so that, at any moment, the image that the machine boots is a whole one.

Neither tool does that by itself: update-initramfs(8) renames the new image before its data are on the disk and before
it is checked, dracut(8) copies over the old one. So both build beside the image here; the new image is read, synced
and only then renamed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import typing as t

from .. import _command
from .._files import HEADER, FileError, in_root, read_text
from .._files_write import atomic_write, free_bytes, fsync_directory, remove
from .contents import Contents, InitramfsError
from .inspect import UNFINISHED, inspect

Runner = t.Callable[[t.Sequence[str], float], t.Tuple[int, str, str]]

# An emulated machine takes 100 s for what takes 10 s elsewhere.
TIMEOUT = 900.0
# For cleaning up after that.
GRACE = 10.0

PREVIOUS = ".rdmaops-previous"
# Names that no boot loader's generator takes for an image; a random end, as a killed run's tool may still be writing.
NEW = ".rdmaops-new."

DRACUT_DROP_IN = "/etc/dracut.conf.d/zz-rdmaops.conf"
# dracut copies /etc/modprobe.d in hostonly mode only (its module 90kernel-modules); a generic image needs this item.
DRACUT_ITEMS = "/etc/modprobe.d/zz-rdmaops-*.conf"

# Where both tools put a tree of some hundred megabytes, in a directory of its own so that a later run can clean up.
SCRATCH = "/var/tmp"
WORK = "rdmaops-initramfs."

HOOKS = "/etc/initramfs/post-update.d"

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Maker(t.NamedTuple):
    """What builds an image: a tool that is installed, and the tool that created the image in place, or ``unknown``."""

    tool: str
    kind: str


def tools(root: str = "/") -> list[str]:
    """Return which of initramfs-tools and dracut are installed.

    Both may be: Debian's dracut conflicts with initramfs-tools, and mkinitramfs is in initramfs-tools-core.
    """
    return [
        name
        for name, command in (("initramfs-tools", "mkinitramfs"), ("dracut", "dracut"))
        if any(
            os.access(in_root(root, directory + "/" + command), os.X_OK)
            for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
        )
    ]


def run(argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
    """Run a command and return its exit code (127: not started, 124: stopped after ``timeout``), stdout and stderr."""
    try:
        return _command.run(argv, timeout, env={"PATH": _PATH, "LANG": "C", "HOME": "/root"}, grace=GRACE)
    except OSError as exc:
        return 127, "", "%s: %s" % (argv[0], exc.strerror or exc)
    except _command.TimedOut as exc:
        return 124, exc.out, exc.err + "\nstopped after %d seconds" % timeout


def _size(count: int) -> str:
    return "%.1f MiB (%d bytes)" % (count / (1 << 20), count)


def _disabled(root: str) -> str | None:
    path = "/etc/initramfs-tools/update-initramfs.conf"
    for number, line in enumerate((read_text(in_root(root, path)) or "").splitlines(), 1):
        if line.split("#")[0].replace(" ", "") == "update_initramfs=no":
            text = "%s:%d says update_initramfs=no; set it to yes, or build and check the image yourself"
            return text % (path, number)
    return None


def _no_modules(kernel_version: str, root: str) -> str | None:
    modules = "/lib/modules/%s/modules.dep" % kernel_version
    if os.path.exists(in_root(root, modules)):
        return None
    text = "%s is missing: install the modules of kernel %s, or boot a kernel that has them"
    return text % (modules, kernel_version)


def _orphans(directory: str) -> list[str]:
    """Return what rebuilds have left beside images that are gone: a kernel's package removes the image only."""
    names = set(os.listdir(directory))
    return [
        os.path.join(directory, name)
        for name in names
        for suffix in (PREVIOUS, UNFINISHED)
        if name.endswith(suffix) and name[: -len(suffix)] not in names
    ]


def _no_room(real: str, inner: str) -> str | None:
    """Return why the directory of an image cannot take another one."""
    directory, shown = os.path.dirname(real), os.path.dirname(inner)
    if not os.access(directory, os.W_OK):
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            return "%s is mounted read-only; remount it writable" % shown
        return "%s is not writable; run as root (become: true)" % shown
    orphans = [os.stat(path) for path in _orphans(directory)]
    # A rebuild begins by removing them.
    free = free_bytes(directory) + sum(orphan.st_blocks * 512 for orphan in orphans if orphan.st_nlink == 1)
    needed = 2 * os.path.getsize(real)
    if free < needed:
        text = "%s has %s free and %s are needed (twice the image); remove old kernels, or enlarge that file system"
        return text % (shown, _size(free), _size(needed))
    return None


def _obstacle(maker: Maker, image: str, root: str, kernel_version: str | None) -> str | None:
    real, inner = _target(image, kernel_version, root)
    return (
        (_disabled(root) if maker.tool == "initramfs-tools" else None)
        or (_no_modules(kernel_version, root) if kernel_version is not None else None)
        or _no_room(real, inner)
    )


def _maker(image: str, root: str, doing: str) -> Maker:
    """Return what builds an image: the tool that created the one in place, as another one's may not boot."""
    installed = tools(root)
    both = "mkinitramfs (initramfs-tools) and dracut"
    if not installed:
        text = "neither %s is installed; build the image with the tool that created it"
        raise InitramfsError(doing + text % both.replace(" and ", " nor "))
    kind = inspect([image], root).kind
    if kind == "unknown" and len(installed) > 1:
        text = (
            "it does not show which tool created it, and both %s are installed; build the image with the tool that "
            "created it, or remove the other one"
        )
        raise InitramfsError(doing + text % both)
    if kind not in ("unknown", *installed):
        text = "it was created by %s, and of %s this system has %s; build the image with the tool that created it"
        raise InitramfsError(doing + text % (kind, both, " and ".join(installed)))
    return Maker(installed[0] if kind == "unknown" else kind, kind)


def preflight(image: str, root: str = "/", kernel_version: str | None = None) -> Maker:
    """Return what will build ``image``; raise InitramfsError for what is known to stop it. Changes nothing."""
    doing = "Rebuilding the initramfs %s: " % image
    try:
        maker = _maker(image, root, doing)
        obstacle = _obstacle(maker, image, root, kernel_version)
    except (FileError, OSError) as exc:
        raise InitramfsError(doing + str(exc)) from exc
    if obstacle is not None:
        raise InitramfsError(doing + obstacle)
    return maker


def leftovers(real: str) -> list[str]:
    """Return the unfinished images that a stopped run left beside an image (paths on this machine)."""
    directory, name = os.path.split(real)
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(directory, other) for other in names if other.startswith("." + name + NEW)]


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _same_as(name: str, real: str, source: str) -> None:
    """Let ``name`` be the file ``source``: by a link if the file system has links (FAT has none), else by a copy."""
    temporary = "%s/.%s%slink" % (os.path.dirname(real), os.path.basename(real), NEW)
    if os.path.lexists(temporary):
        os.unlink(temporary)
    try:
        os.link(source, temporary)
    except OSError as exc:
        if exc.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        shutil.copy2(source, temporary)
        _fsync(temporary)
    os.rename(temporary, name)
    if os.path.lexists(temporary):  # rename(2): two names of one file are left as they are
        os.unlink(temporary)
    fsync_directory(os.path.dirname(real))


def _inside(root: str, real: str) -> str:
    base = os.path.abspath(root)
    return real if base == "/" else real[len(base) :]


def _target(image: str, version: str | None, root: str) -> tuple[str, str]:
    """Return the file to build, on this machine and as it is called inside the root.

    A boot entry may name a link (/initrd.img), or a copy on the EFI partition, which a hook makes from the file in
    /boot (Debian's systemd-boot has one).
    """
    real = in_root(root, image)
    if version is not None:
        original = in_root(root, "/boot/initrd.img-" + version)
        copied = os.path.basename(original) == os.path.basename(real) and original != real
        if copied and os.path.isfile(original) and os.path.isdir(in_root(root, HOOKS)):
            real = original
    return real, _inside(root, real)


class _Build:
    def __init__(self, image: str, version: str, root: str, run: Runner, timeout: float) -> None:
        self.image = image
        self.real, self.inner = _target(image, version, root)
        self.version = version
        self.root = root
        self.run = run
        self.timeout = timeout
        self.maker = preflight(image, root, version)
        self.work = "%s/%s%s" % (SCRATCH, WORK, os.urandom(8).hex())
        directory, name = os.path.split(self.inner)
        self.new = os.path.join(directory, ".%s%s%s" % (name, NEW, os.urandom(4).hex()))

    def fail(self, text: str, argv: t.Sequence[str], rc: int, stderr: str) -> t.NoReturn:
        lines = stderr.strip().splitlines()
        output = ": " + " / ".join(lines[-5:]) if lines else ""
        raise InitramfsError(
            "Rebuilding the initramfs %s: %s (exit code %d)%s. The previous image is in place."
            % (self.image, text, rc, output),
            argv,
            rc,
            stderr,
        )

    def command(self) -> list[str]:
        if self.maker.tool == "initramfs-tools":
            return ["env", "TMPDIR=" + self.work, "mkinitramfs", "-o", self.new, self.version]
        # dracut runs the hooks itself, with the name of the file that it wrote: not yet the image's.
        return ["env", "NO_POST_UPDATE_HOOKS=1", "dracut", "--tmpdir", self.work, "--force", self.new, self.version]

    def call(self, argv: list[str]) -> tuple[int, str, str]:
        return self.run(argv if os.path.abspath(self.root) == "/" else ["chroot", self.root, *argv], self.timeout)

    def build(self) -> Contents:
        """Build the new image beside the old one and read it."""
        from .reader import read

        argv = self.command()
        rc, _out, stderr = self.call(argv)
        if rc != 0:
            self.fail("%s failed" % argv[2], argv, rc, stderr)
        place = in_root(self.root, self.new)
        if not os.path.isfile(place):
            self.fail("the tool created no image", argv, rc, stderr)
        contents = read([(self.image, place)])
        if self.version not in contents.versions:
            self.fail("the new image has no modules of kernel %s" % self.version, argv, rc, stderr)
        if self.maker.kind not in ("unknown", contents.kind):
            text = "the tool that created the new image is %s, that of the image in place is %s"
            self.fail(text % (contents.kind, self.maker.kind), argv, rc, stderr)
        return contents

    def install(self) -> None:
        """Put the new image, which was read and is good, in the place of the old one."""
        place = in_root(self.root, self.new)
        directory = os.path.dirname(self.real)
        _fsync(place)
        _same_as(self.real + PREVIOUS, self.real, self.real)
        with open(self.real + UNFINISHED, "w", encoding="utf-8"):
            pass
        fsync_directory(directory)
        os.rename(place, self.real)
        fsync_directory(directory)
        self.hooks()
        os.unlink(self.real + UNFINISHED)
        fsync_directory(directory)

    def hooks(self) -> None:
        """Run what boot loaders hang in (Debian policy: initramfs generators call these after an update)."""
        if not os.path.isdir(in_root(self.root, HOOKS)):
            return
        argv = ["run-parts", "--arg=" + self.version, "--arg=" + self.inner, HOOKS]
        rc, _out, stderr = self.call(argv)
        if rc != 0:
            _same_as(self.real, self.real, self.real + PREVIOUS)
            self.fail("a hook in %s failed" % HOOKS, argv, rc, stderr)


def rebuild(
    image: str,
    kernel_version: str,
    root: str = "/",
    run: Runner = run,
    verify: t.Callable[[Contents], str | None] = lambda _contents: None,
    timeout: float = TIMEOUT,
    items: str = DRACUT_ITEMS,
) -> Contents:
    """Build ``image`` for a kernel, and return what the new one contains once it is in place.

    ``verify`` returns None for a good image, else why it is not. The image that was there before is kept as
    ``<image>.rdmaops-previous``. On InitramfsError the old image is (again) the one in place.
    """
    try:
        build = _Build(image, kernel_version, root, run, timeout)
        lock = os.open(os.path.dirname(build.real), os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                raise InitramfsError(
                    "Rebuilding the initramfs %s: another rebuild is running; wait for it" % image
                ) from exc
            return _rebuild(build, verify, items)
        finally:
            os.close(lock)
    except (FileError, OSError) as exc:
        raise InitramfsError("Rebuilding the initramfs %s: %s" % (image, exc)) from exc


def _clean(build: _Build) -> None:
    for path in [*leftovers(build.real), *_orphans(os.path.dirname(build.real))]:
        os.unlink(path)
    scratch = in_root(build.root, SCRATCH)
    for name in os.listdir(scratch):
        path = os.path.join(scratch, name)
        if name.startswith(WORK) and os.lstat(path).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)


def _rebuild(build: _Build, verify: t.Callable[[Contents], str | None], items: str) -> Contents:
    _clean(build)
    os.mkdir(in_root(build.root, build.work), 0o700)
    drop_in = in_root(build.root, DRACUT_DROP_IN)
    added = False
    try:
        contents = build.build()
        reason = verify(contents)
        if reason is not None and build.maker.tool == "dracut" and read_text(drop_in) is None:
            added = True
            text = '%s\n# A generic image (hostonly=no) does not get /etc/modprobe.d.\n%s+=" %s "\n'
            atomic_write(drop_in, text % (HEADER, "install_items", items))
            contents = build.build()
            reason = verify(contents)
        if reason is not None:
            raise InitramfsError(
                "Rebuilding the initramfs %s: the new image has the same fault: %s. The previous image is in place."
                % (build.image, reason)
            )
        build.install()
        if build.real != in_root(build.root, build.image):
            contents = inspect([build.image], build.root, None)
            reason = verify(contents)
            if reason is not None:
                raise InitramfsError(
                    "Rebuilding the initramfs %s: %s is new and good, and no hook in %s brought it to where it is "
                    "booted from: %s" % (build.image, build.inner, HOOKS, reason)
                )
    except BaseException:
        if added:
            remove(drop_in)
        raise
    finally:
        _clean(build)
    return contents


__all__ = ("DRACUT_DROP_IN", "PREVIOUS", "TIMEOUT", "Maker", "leftovers", "preflight", "rebuild", "run", "tools")
