# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The cpio archives ("newc") of an initramfs, and what is collected from their members."""

from __future__ import annotations

import re
import stat
import typing as t

from .contents import BrokenImage

# More than any real image unpacks to; a larger size means a broken image, or one that is to fill the memory.
MAX_UNPACKED = 8 << 30
MAX_KEPT_FILE = 4 << 20
MAX_KEPT = 64 << 20
MAX_MEMBERS = 1000000

CPIO = (b"070701", b"070702")

_MODULES = re.compile(r"^(?:usr/)?lib/modules/([^/]+)/(?:.*/)?([^/]+?)(\.ko(?:\.(?:xz|zst|gz))?)?$")
DEPENDENCIES = re.compile(r"^(?:usr/)?lib/modules/[^/]+/modules\.(dep|softdep)$")
_CONFIGURATION = re.compile(r"(?:^|/)modprobe\.d/[^/]+\.conf$")
_SPECIAL = ("conf/modules", "config", "etc/cmdline")


class Budget:
    """The bytes that one file may still unpack to."""

    def __init__(self) -> None:
        self.left = MAX_UNPACKED

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise BrokenImage("it unpacks to more than %d GiB" % (MAX_UNPACKED >> 30))


class Stream:
    """Bytes that arrive in pieces, read in the sizes that the format asks for."""

    def __init__(self, pieces: t.Iterator[bytes], budget: Budget | None = None) -> None:
        self.pieces = pieces
        self.buffer = b""
        self.at = 0
        self.position = 0
        self.budget = budget

    def _more(self) -> bool:
        piece = next(self.pieces, b"")
        if self.budget is not None:
            self.budget.spend(len(piece))
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


class Member(t.NamedTuple):
    name: str
    mode: int
    links: int
    size: int
    # Archive, inode and device: the same for the names of one file.
    file: tuple[int, ...]


class Image:
    """What is collected from the members of all archives."""

    def __init__(self) -> None:
        self.current = ""  # the name of the image that is being read
        self.names: set[str] = set()
        self.modules: set[str] = set()
        # By kernel version and by image: dictionaries keep the order in which the images are loaded.
        self.versions: dict[str, dict[str, None]] = {}
        self.configurations: dict[str, dict[str, None]] = {}
        self.links: dict[str, str] = {}
        self.data: dict[str, bytes] = {}
        # cpio gives the data of hard-linked files with the last of their names only (dracut links equal files).
        self.shared: dict[str, tuple[int, ...]] = {}
        self.shared_data: dict[tuple[int, ...], bytes] = {}
        self.kept = 0
        self.members = 0

    def register(self, member: Member) -> bool:
        """Note the name of a member; return whether its data are needed."""
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise BrokenImage("it has more than %d members" % MAX_MEMBERS)
        if not member.name or ".." in member.name.split("/"):
            return False
        self.names.add(member.name)
        module = _MODULES.match(member.name)
        if module:
            self.versions.setdefault(module.group(1), {})[self.current] = None
            if module.group(3):
                self.modules.add(module.group(2).replace("-", "_"))
        if _CONFIGURATION.search(member.name) and not stat.S_ISDIR(member.mode):
            self.configurations.setdefault(self.current, {})[member.name] = None
        if not _is_needed(member):
            return False
        self.kept += member.size
        if self.kept > MAX_KEPT:
            raise BrokenImage("its configuration files are larger than %d MiB" % (MAX_KEPT >> 20))
        return True

    def store(self, member: Member, data: bytes) -> None:
        if stat.S_ISLNK(member.mode):
            self.links[member.name] = data.decode("utf-8", "surrogateescape")
            self.data.pop(member.name, None)
            return
        self.links.pop(member.name, None)
        self.data[member.name] = data
        if member.links > 1:
            self.shared[member.name] = member.file
            if data:
                self.shared_data[member.file] = data

    def texts(self) -> dict[str, str]:
        """Return the texts of the files that were kept."""
        files = dict(self.data)
        for path, file in self.shared.items():
            if path in files and not files[path] and file in self.shared_data:
                files[path] = self.shared_data[file]
        return {path: data.decode("utf-8", "surrogateescape") for path, data in files.items()}


def _is_needed(member: Member) -> bool:
    if stat.S_ISLNK(member.mode):
        return member.size <= 4096
    if not stat.S_ISREG(member.mode) or member.size > MAX_KEPT_FILE:
        return False
    name = member.name
    configuration = name.endswith(".conf") or name in _SPECIAL or DEPENDENCIES.match(name) is not None
    return configuration or (member.links > 1 and member.size <= 1 << 16)


def _next_member(stream: Stream, archive: int) -> Member | None:
    """Read the header and the name of the next member; None for the trailer."""
    start = stream.position
    header = stream.read(110)
    if len(header) < 110:
        raise BrokenImage("it ends inside a header (byte %d of archive %d): the image is truncated" % (start, archive))
    if header[:6] not in CPIO:
        raise BrokenImage("no cpio header at byte %d of archive %d" % (start, archive))
    if not re.fullmatch(rb"[0-9A-Fa-f]{104}", header[6:]):
        raise BrokenImage("a damaged cpio header at byte %d of archive %d" % (start, archive))
    fields = [int(header[at : at + 8], 16) for at in range(6, 110, 8)]
    inode, mode, links, size, length = fields[0], fields[1], fields[4], fields[6], fields[11]
    if not 0 < length <= 4096:
        raise BrokenImage("a name of %d bytes at byte %d of archive %d" % (length, start, archive))
    raw = stream.read(length)
    name = raw.rstrip(b"\0").decode("utf-8", "surrogateescape")
    if not stream.skip(-(110 + length) % 4) or len(raw) < length:
        raise BrokenImage("it ends inside a name (byte %d of archive %d): the image is truncated" % (start, archive))
    if name == "TRAILER!!!":
        return None
    name = "/".join(part for part in name.split("/") if part not in ("", "."))
    return Member(name, mode, links, size, (archive, inode, fields[7], fields[8]))


def read_archive(stream: Stream, image: Image, archive: int) -> None:
    """Read one cpio archive up to and with its trailer; ``archive`` is its number, for messages."""
    while True:
        member = _next_member(stream, archive)
        if member is None:
            return
        data = stream.read(member.size) if image.register(member) else None
        complete = stream.skip(member.size) if data is None else len(data) == member.size
        if not complete or not stream.skip(-member.size % 4):
            name = member.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")[:200]
            raise BrokenImage("it ends inside '%s' (archive %d): the image is truncated" % (name, archive))
        if data is not None:
            image.store(member, data)


__all__ = ("CPIO", "DEPENDENCIES", "Budget", "Image", "Stream", "read_archive")
