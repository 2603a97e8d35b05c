# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Reads an initramfs as the kernel unpacks it, without writing a file.

https://docs.kernel.org/driver-api/early-userspace/buffer-format.html: any number of cpio archives ("newc"), each
compressed or not, with zero bytes between them; what comes later replaces what came before.
"""

from __future__ import annotations

import bz2
import lzma
import mmap
import os
import re
import shutil
import stat
import struct
import subprocess
import threading
import typing as t
import zlib

from .contents import Contents, InitramfsError, closure

CHUNK = 1 << 20
# More than any real image unpacks to; what says more is broken, or made to fill the memory.
MAX_UNPACKED = 8 << 30
MAX_KEPT_FILE = 4 << 20
MAX_KEPT = 64 << 20
MAX_MEMBERS = 1000000
TOOL_SECONDS = 300

# What decompresses, by the first bytes (lib/decompress.c). Of LZ4 the kernel knows the legacy format only.
TOOLS = {
    b"\x28\xb5\x2f\xfd": ("zstd", ["zstd", "-dcq"]),
    b"\x02\x21\x4c\x18": ("lz4", ["lz4", "-dcq"]),
    b"\x89LZO": ("lzop", ["lzop", "-dcq"]),
}
CPIO = (b"070701", b"070702")

_MODULES = re.compile(r"^(?:usr/)?lib/modules/([^/]+)/(?:.*/)?([^/]+?)(\.ko(?:\.(?:xz|zst|gz))?)?$")
_LISTS = re.compile(r"^(?:usr/)?lib/modules/[^/]+/modules\.(?:dep|softdep)$")
_SPECIAL = ("conf/modules", "config", "etc/cmdline")
# modprobe.d(5), kmod 30 and later; systemd's list for modules-load.d(5) is the same without the last.
_MODPROBE_D = re.compile(r"^(?:etc|run|usr/local/lib|usr/lib|lib)/modprobe\.d/[^/]+\.conf$")
_LOAD_D = ("etc", "run", "usr/local/lib", "usr/lib", "lib")


class _Broken(Exception):
    """The image is not what it should be; the text says how."""


class _Stream:
    """Bytes that arrive in pieces, read in the sizes that the format asks for."""

    def __init__(self, pieces: t.Iterator[bytes], budget: list[int]) -> None:
        self.pieces = pieces
        self.buffer = b""
        self.at = 0
        self.position = 0
        self.budget = budget

    def _more(self) -> bool:
        piece = next(self.pieces, b"")
        self.budget[0] -= len(piece)
        if self.budget[0] < 0:
            raise _Broken("it unpacks to more than %d GiB" % (MAX_UNPACKED >> 30))
        self.buffer, self.at = self.buffer[self.at :] + piece, 0
        return bool(piece)

    def read(self, size: int) -> bytes:
        """Return that many bytes, fewer at the end."""
        while len(self.buffer) - self.at < size and self._more():
            pass
        data = self.buffer[self.at : self.at + size]
        self.at += len(data)
        self.position += len(data)
        return data

    def skip(self, size: int) -> bool:
        while size > 0:
            here = min(size, len(self.buffer) - self.at)
            self.at += here
            self.position += here
            size -= here
            if size and not self._more():
                return False
        return True

    def skip_zeros(self) -> bytes:
        """Go to the next byte that is not zero, and return the six from there without taking them."""
        while True:
            rest = self.buffer[self.at :].lstrip(b"\0")
            gone = len(self.buffer) - self.at - len(rest)
            self.at += gone
            self.position += gone
            if len(rest) >= 6 or not self._more():
                return self.buffer[self.at : self.at + 6]


class _Image:
    """What is collected from the members of all archives."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.modules: set[str] = set()
        self.versions: set[str] = set()
        self.links: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        # cpio gives the data of hard-linked files with the last of their names only (dracut links equal files).
        self.shared: dict[str, tuple[int, ...]] = {}
        self.shared_data: dict[tuple[int, ...], bytes] = {}
        self.kept = 0
        self.members = 0


def _wanted(name: str) -> bool:
    return name.endswith(".conf") or name in _SPECIAL or _LISTS.match(name) is not None


def _archive(stream: _Stream, image: _Image, what: int) -> None:
    """Read one cpio archive up to and with its trailer."""
    while True:
        start = stream.position
        header = stream.read(110)
        if len(header) < 110:
            raise _Broken("it ends inside a header (byte %d of archive %d): the image is truncated" % (start, what))
        if header[:6] not in CPIO:
            raise _Broken("no cpio header at byte %d of archive %d" % (start, what))
        try:
            if b"_" in header or b" " in header or b"+" in header or b"-" in header:
                raise ValueError
            fields = [int(header[at : at + 8], 16) for at in range(6, 110, 8)]
        except ValueError:
            raise _Broken("a damaged cpio header at byte %d of archive %d" % (start, what)) from None
        inode, mode, links, size, length = fields[0], fields[1], fields[4], fields[6], fields[11]
        if not 0 < length <= 4096:
            raise _Broken("a name of %d bytes at byte %d of archive %d" % (length, start, what))
        raw = stream.read(length)
        name = raw.rstrip(b"\0").decode("utf-8", "surrogateescape")
        if not stream.skip(-(110 + length) % 4) or len(raw) < length:
            raise _Broken("it ends inside a name (byte %d of archive %d): the image is truncated" % (start, what))
        if name == "TRAILER!!!":
            return
        image.members += 1
        if image.members > MAX_MEMBERS:
            raise _Broken("it has more than %d members" % MAX_MEMBERS)
        parts = [part for part in name.split("/") if part not in ("", ".")]
        name = "/".join(parts)
        data = None
        key = (what, inode, fields[7], fields[8])
        if ".." not in parts and name:
            image.names.add(name)
            found = _MODULES.match(name)
            if found:
                image.versions.add(found.group(1))
                if found.group(3):
                    image.modules.add(found.group(2).replace("-", "_"))
            keep = stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and (_wanted(name) or (links > 1 and size <= 1 << 16)))
            if keep and size <= (4096 if stat.S_ISLNK(mode) else MAX_KEPT_FILE):
                data = stream.read(size)
                image.kept += size
                if image.kept > MAX_KEPT:
                    raise _Broken("its configuration files are larger than %d MiB" % (MAX_KEPT >> 20))
        if data is None:
            if not stream.skip(size):
                raise _Broken("it ends inside '%s' (archive %d): the image is truncated" % (_shown(name), what))
        elif len(data) < size:
            raise _Broken("it ends inside '%s' (archive %d): the image is truncated" % (_shown(name), what))
        elif stat.S_ISLNK(mode):
            image.links[name] = data.decode("utf-8", "surrogateescape")
            image.files.pop(name, None)
        else:
            image.links.pop(name, None)
            image.files[name] = data
            if links > 1:
                image.shared[name] = key
                if size:
                    image.shared_data[key] = data
        if not stream.skip(-size % 4):
            raise _Broken("it ends inside '%s' (archive %d): the image is truncated" % (_shown(name), what))


def _shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")[:200]


def _pieces(data: mmap.mmap, start: int, end: int) -> t.Iterator[bytes]:
    for at in range(start, end, CHUNK):
        yield data[at : min(at + CHUNK, end)]


def _zlib(data: mmap.mmap, start: int, end: int, ended: list[int]) -> t.Iterator[bytes]:
    decoder = zlib.decompressobj(31)
    at, rest = start, b""
    while not decoder.eof:
        if not rest:
            rest = data[at : min(at + CHUNK, end)]
            at += len(rest)
        piece = decoder.decompress(rest, CHUNK)
        if not rest and not piece:
            raise _Broken("its gzip data end early: the image is truncated")
        rest = decoder.unconsumed_tail
        if piece:
            yield piece
    ended[0] = at - len(decoder.unused_data)


def _stdlib(decoder: t.Any, name: str, data: mmap.mmap, start: int, end: int, ended: list[int]) -> t.Iterator[bytes]:
    at = start
    while not decoder.eof:
        rest = b""
        if decoder.needs_input:
            rest = data[at : min(at + CHUNK, end)]
            at += len(rest)
            if not rest:
                raise _Broken("its %s data end early: the image is truncated" % name)
        piece = decoder.decompress(rest, CHUNK)
        if piece:
            yield piece
    ended[0] = at - len(decoder.unused_data)


def zstd_end(data: t.Any, start: int, end: int) -> int:
    """Return where a zstd frame ends (RFC 8878, 3.1.1), so that what follows it is found."""
    if start + 4 >= end:
        return end + 1
    descriptor = data[start + 4]
    single = descriptor >> 5 & 1
    at = start + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + ((1 if single else 0), 2, 4, 8)[descriptor >> 6]
    while at + 3 <= end:
        block = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        if block & 1:
            return at + (4 if descriptor >> 2 & 1 else 0)
    return end


def lz4_end(data: t.Any, start: int, end: int) -> int:
    """Return where LZ4's legacy format ends: blocks with their length, up to a zero one (lib/decompress_unlz4.c)."""
    at = start + 4
    while at + 4 <= end:
        (size,) = struct.unpack("<I", data[at : at + 4])
        if size == 0 or (size > 16 << 20 and size != 0x184C2102):
            break
        at += 4 if size == 0x184C2102 else 4 + size
    return min(at, end)


def _tool(name: str, argv: list[str], data: mmap.mmap, start: int, end: int) -> t.Iterator[bytes]:
    path = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/bin:/bin:/usr/local/bin")
    if path is None:
        raise _Broken("it is compressed with %s, and there is no %s to read it: install that package" % (name, argv[0]))
    process = subprocess.Popen(
        [path] + argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=True
    )
    said: list[bytes] = []

    def feed() -> None:
        try:
            for piece in _pieces(data, start, end):
                t.cast(t.IO[bytes], process.stdin).write(piece)
        except (OSError, ValueError):
            pass  # the tool gave up; what it says about that is told below
        finally:
            try:
                t.cast(t.IO[bytes], process.stdin).close()
            except OSError:
                pass

    workers = [
        threading.Thread(target=feed, daemon=True),
        threading.Thread(target=lambda: said.append(t.cast(t.IO[bytes], process.stderr).read(4096)), daemon=True),
    ]
    watch = threading.Timer(TOOL_SECONDS, process.kill)
    watch.daemon = True
    watch.start()
    try:
        for worker in workers:
            worker.start()
        while True:
            piece = t.cast(t.IO[bytes], process.stdout).read(CHUNK)
            if not piece:
                break
            yield piece
        rc = process.wait()
        workers[1].join(10)
        if rc != 0:
            text = b"".join(said).decode("utf-8", "replace").strip() or "exit code %d" % rc
            raise _Broken("%s cannot read it: %s" % (argv[0], text[:300]))
    finally:
        watch.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        for worker in workers:
            worker.join(10)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _bootconfig(data: mmap.mmap, end: int) -> int:
    """Leave out a boot configuration at the end (https://docs.kernel.org/admin-guide/bootconfig.html)."""
    if end >= 20 and data[end - 12 : end] == b"#BOOTCONFIG\n":
        (size,) = struct.unpack("<I", data[end - 20 : end - 16])
        if size <= end - 20:
            return end - 20 - size
    return end


def _unpack(data: mmap.mmap, image: _Image) -> None:
    end = _bootconfig(data, len(data))
    budget = [MAX_UNPACKED]
    at, what = 0, 0
    while True:
        skipper = _Stream(_pieces(data, at, end), [end + 1])
        magic = skipper.skip_zeros()
        at += skipper.position
        if not magic:
            break
        what += 1
        ended = [end]
        known = next((tool for first, tool in TOOLS.items() if magic.startswith(first)), None)
        if magic in CPIO:
            stream = _Stream(_pieces(data, at, end), budget)
            _archive(stream, image, what)
            at += stream.position
            continue
        if magic[:2] == b"\x1f\x8b":
            pieces = _zlib(data, at, end, ended)
        elif magic == b"\xfd7zXZ\0" or magic[:3] == b"\x5d\0\0":
            pieces = _stdlib(lzma.LZMADecompressor(memlimit=1 << 30), "xz", data, at, end, ended)
        elif magic[:3] == b"BZh":
            pieces = _stdlib(bz2.BZ2Decompressor(), "bzip2", data, at, end, ended)
        elif known is not None:
            if known[0] == "zstd":
                ended[0] = zstd_end(data, at, end)
            elif magic[:4] == b"\x02\x21\x4c\x18":
                ended[0] = lz4_end(data, at, end)
            if ended[0] > end:
                raise _Broken("its %s data end early: the image is truncated" % known[0])
            pieces = _tool(known[0], known[1], data, at, ended[0])
        elif what == 1:
            raise _Broken("it begins with 0x%s: not a cpio archive and not a known compression" % magic.hex())
        else:
            raise _Broken("data that is not an archive begins at byte %d" % at)
        stream = _Stream(pieces, budget)
        try:
            # Several archives may have been compressed as one.
            while True:
                inner = stream.skip_zeros()
                if not inner:
                    break
                if inner not in CPIO:
                    raise _Broken("archive %d holds no cpio archive" % what)
                _archive(stream, image, what)
        finally:
            t.cast(t.Any, pieces).close()
        at = ended[0]
    if not image.members:
        raise _Broken("it is empty")


def resolve(links: t.Mapping[str, str], name: str) -> str | None:
    """Return the path that a path leads to through the image's symbolic links; None for a loop."""
    todo = [part for part in name.split("/") if part]
    done: list[str] = []
    for _step in range(4096):
        if not todo:
            return "/".join(done)
        part = todo.pop(0)
        if part == "..":
            done = done[:-1]
        elif part != ".":
            here = "/".join([*done, part])
            target = links.get(here)
            if target is None:
                done.append(part)
            else:
                if target.startswith("/"):
                    done = []
                todo = [step for step in target.split("/") if step] + todo
                if len(todo) > 4096:
                    return None
    return None


def requirements(dep: str, softdep: str) -> dict[str, list[str]]:
    """Parse modules.dep(5) and softdep lines (modules.softdep, modprobe.d) into direct dependencies."""
    found: dict[str, list[str]] = {}
    for line in dep.splitlines():
        path, colon, needs = line.partition(":")
        if colon:
            names = [_module_name(need) for need in needs.split()]
            if names:
                found.setdefault(_module_name(path), []).extend(names)
    for line in softdep.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] == "softdep":
            # "pre:" comes before the module, "post:" after it: both are loaded.
            names = [word.replace("-", "_") for word in words[2:] if word not in ("pre:", "post:")]
            found.setdefault(words[1].replace("-", "_"), []).extend(names)
    return found


def _module_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_")


def load_lines(text: str, marks: str = "#") -> list[tuple[str, str]]:
    """Return (module, options) of each line of a list of modules to load."""
    found = []
    for line in text.splitlines():
        words = line.split(None, 1)
        if words and words[0][0] not in marks:
            found.append((words[0].replace("-", "_"), words[1].strip() if len(words) > 1 else ""))
    return found


def kind_of(names: t.Collection[str]) -> str:
    """Tell which tool made an image from the names in it."""
    if "conf/initramfs.conf" in names or "conf/arch.conf" in names:
        return "initramfs-tools"
    if any(name in names for name in ("usr/lib/dracut", "lib/dracut", "usr/lib/dracut-lib.sh", "lib/dracut-lib.sh")):
        return "dracut"
    if "init_functions" in names or ("hooks" in names and "config" in names):
        return "mkinitcpio"
    return "unknown"


def evaluate(name: str, names: t.Collection[str], modules: t.Collection[str], versions: t.Collection[str],
             links: t.Mapping[str, str], files: t.Mapping[str, bytes]) -> Contents:  # fmt: skip
    """Tell from the collected files what the image does. Pure."""
    texts = {path: data.decode("utf-8", "surrogateescape") for path, data in files.items()}

    def text_of(path: str) -> str | None:
        target = resolve(links, path)
        return None if target is None else texts.get(target)

    def listed(directory: str) -> list[str]:
        target = resolve(links, directory)
        inside = [] if target is None else [path for path in (*texts, *links) if path.rsplit("/", 1)[0] == target]
        return sorted({directory + "/" + path.rsplit("/", 1)[-1] for path in inside if path.endswith(".conf")})

    modprobe: dict[str, str] = {}
    dep = softdep = ""
    for path in sorted({*texts, *links}):
        if _LISTS.match(path):
            dep += texts.get(path, "") if path.endswith(".dep") else ""
            softdep += texts.get(path, "") if path.endswith(".softdep") else ""
    real_directories: set[str] = set()
    for base in _LOAD_D:
        directory = resolve(links, base + "/modprobe.d")
        if directory is None or directory in real_directories:
            continue
        real_directories.add(directory)
        for path in listed(base + "/modprobe.d"):
            # A link to /dev/null, or to nothing in the image, is an empty file of that name: it masks others.
            modprobe["/" + path] = text_of(path) or ""
    for text in modprobe.values():
        softdep += "\n" + text
    requires = requirements(dep, softdep)
    kind = kind_of(names)
    loads = load_lines(text_of("conf/modules") or "") if kind == "initramfs-tools" else []
    if kind == "mkinitcpio":
        for found in re.finditer(
            r"^(?:MODULES|earlymodules)=[\"'(]?([^\"')\n]*)", text_of("config") or "", re.MULTILINE
        ):
            loads += [(word.replace("-", "_"), "") for word in re.split(r"[\s,]+", found.group(1)) if word]
    if any(path.rsplit("/", 1)[-1] == "systemd-modules-load" for path in names):
        first: dict[str, str] = {}
        for base in _LOAD_D:
            for path in listed(base + "/modules-load.d"):
                first.setdefault(path.rsplit("/", 1)[-1], text_of(path) or "")
        for text in first.values():
            # systemd-modules-load takes no options: the rest of a line is part of the name.
            loads += [(module, "") for module, rest in load_lines(text, "#;") if not rest]
    if kind == "dracut":
        built_in = " ".join([text_of(path) or "" for path in listed("etc/cmdline.d")] + [text_of("etc/cmdline") or ""])
        for word in built_in.split():
            key, _equals, value = word.partition("=")
            if key == "rd.driver.pre":
                loads += [(module.replace("-", "_"), "") for module in value.split(",") if module]
    present = set(modules)
    needed = closure(requires, [module for module, _options in loads])
    return Contents(
        image=name,
        kind=kind,
        modules=sorted(present),
        forced=[module for module in needed if module in present],
        modprobe=modprobe,
        arguments={module: options for module, options in loads if options},
        requires={module: sorted(set(needs)) for module, needs in sorted(requires.items()) if module in present},
        versions=sorted(versions),
    )


def read(images: t.Sequence[tuple[str, str]]) -> Contents:
    """Read images, given as (name, path on this machine), one after the other, as the boot loader loads them."""
    image = _Image()
    for name, path in images:
        try:
            with open(path, "rb") as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise _Broken("it is not a regular file")
                if os.fstat(stream.fileno()).st_size == 0:
                    raise _Broken("it is empty")
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    _unpack(data, image)
        except OSError as exc:
            advice = "; run as root (become: true)" if isinstance(exc, PermissionError) else ""
            text = "Reading the initramfs %s: %s%s" % (name, exc.strerror or exc, advice)
            raise InitramfsError(text) from exc
        except (_Broken, zlib.error, lzma.LZMAError, EOFError, ValueError, MemoryError) as exc:
            raise InitramfsError("Reading the initramfs %s: %s" % (name, exc)) from exc
    files = dict(image.files)
    for path, key in image.shared.items():
        if path in files and not files[path] and key in image.shared_data:
            files[path] = image.shared_data[key]
    return evaluate(images[-1][0], image.names, image.modules, image.versions, image.links, files)


__all__ = ("evaluate", "kind_of", "load_lines", "lz4_end", "read", "requirements", "resolve", "zstd_end")
