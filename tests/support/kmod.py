# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""modprobe of kmod in a root directory of its own, and what the kernel makes of the parameters that it passes."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import config

RELEASE = "1.2.3-oracle"
# A text, a symbolic link (Path) or a directory (None).
Tree = dict[str, str | Path | None]


class Oracle:
    """modprobe in a root directory of its own."""

    def __init__(self, root: Path, version: int) -> None:
        self.root = root
        self.version = version

    def fill(self, tree: Tree) -> None:
        """Replace what an earlier test left."""
        for directory in [*config.DIRECTORIES, "/srv"]:
            shutil.rmtree(self.root / directory[1:], ignore_errors=True)
        for left in (self.root / "etc").iterdir():
            if left.is_file():
                left.unlink()
        fill(self.root, tree)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = ["chroot", str(self.root), "/usr/sbin/modprobe", *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def options(self) -> list[tuple[bytes, bytes]]:
        done = self.run("--showconfig")
        assert done.returncode == 0, done.stderr
        return shown(done.stdout, self.version)

    def parameters(self, name: str = "ib_core") -> str:
        """Return the parameters that `modprobe NAME` would pass to the kernel, as one string."""
        # Not -n alone: modprobe looks for the module in the running kernel first.
        done = self.run("-S", RELEASE, "--ignore-install", "--show-depends", name)
        assert done.returncode == 0, done.stderr
        lines = [line for line in os.fsdecode(without_eof(done.stdout, self.version)).split("\n") if line]
        # A value may have a line break of its own kind, never a newline.
        match = re.fullmatch(rf"insmod /lib/modules/{RELEASE}/kernel/ib_core\.ko ?(.*)", lines[-1], re.S)
        assert match, lines
        return match.group(1)


def fill(root: Path, tree: Tree) -> None:
    for path, content in tree.items():
        where = root / path[1:]
        where.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            where.mkdir()
        elif isinstance(content, Path):
            where.symlink_to(content)
        else:
            where.write_bytes(content.encode("utf-8", "surrogateescape"))


def shown(output: bytes, version: int) -> list[tuple[bytes, bytes]]:
    """Return module and parameters of the options lines that `modprobe --showconfig` printed."""
    matches = [re.match(rb"options ([^ ]*) (.+)\Z", line, re.S) for line in without_eof(output, version).split(b"\n")]
    return [(match.group(1), match.group(2)) for match in matches if match]


def without_eof(output: bytes, version: int) -> bytes:
    """Drop the byte 0xff that kmod 30 has for a backslash at the end of a file (there freadline_wrapped() adds EOF).

    Nothing else in these tests has that byte: it is in no UTF-8 text.
    """
    return output if version >= 34 else output.replace(b"\xff", b"")


def ours(tree: config.Tree) -> list[tuple[bytes, bytes]]:
    return [(os.fsencode(d.module), os.fsencode(d.rest)) for d in tree.directives if d.command == "options"]


SPACES = " \t\n\v\f\r\xa0"


def kernel_words(text: str) -> list[tuple[str, str]]:
    """Split parameters character by character, as the kernel does; a second opinion on the regular expression."""
    # The kernel sees bytes.
    latin = text.encode("utf-8", "surrogateescape").decode("latin-1")
    words = []
    at = 0
    while at < len(latin):
        if latin[at] in SPACES:
            at += 1
            continue
        name, value, at = next_arg(latin, at)
        if value is None and name == "--":
            break
        words.append((_decoded(name).replace("-", "_"), "1" if value is None else _decoded(value)))
    return words


def next_arg(text: str, at: int) -> tuple[str, str | None, int]:
    """Return a name, its value and where they end, as next_arg() of the kernel's lib/cmdline.c does."""
    quoted = text[at] == '"'
    start = at + quoted
    end, equals = _end_of_word(text, start, quoted)
    closed = end > start and text[end - 1] == '"'
    if not equals:
        return text[start : end - (quoted and closed)], None, end
    first = equals + 1
    opened = text[first:end].startswith('"')
    value = text[first + opened : end - (closed and (opened or quoted))]
    return text[start:equals], value, end


def _end_of_word(text: str, start: int, inside: bool) -> tuple[int, int]:
    """Return where a word ends, and the place of its equals sign, or 0."""
    equals = 0
    for at in range(start, len(text)):
        if text[at] in SPACES and not inside:
            return at, equals
        if not equals and text[at] == "=" and at > start:
            equals = at
        if text[at] == '"':
            inside = not inside
    return len(text), equals


def _decoded(latin: str) -> str:
    return latin.encode("latin-1").decode("utf-8", "surrogateescape")


def dummy_module() -> bytes:
    """Return the smallest module that depmod accepts: an ELF object with a .modinfo section and nothing in it."""
    names = b"\0.modinfo\0.shstrtab\0"
    info = b"license=GPL\0name=ib_core\0"
    section = struct.Struct("<IIQQQQIIQQ")
    header = struct.Struct("<16sHHIQQQIHHHHHH")
    at_info = header.size
    at_names = at_info + len(info)
    at_sections = at_names + len(names)
    sections = section.pack(*[0] * 10)
    sections += section.pack(1, 1, 2, 0, at_info, len(info), 0, 0, 1, 0)
    sections += section.pack(10, 3, 0, 0, at_names, len(names), 0, 0, 1, 0)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return header.pack(ident, 1, 62, 1, 0, 0, at_sections, 0, 64, 0, 0, 64, 3, 2) + info + names + sections


__all__ = ["RELEASE", "Oracle", "Tree", "dummy_module", "fill", "kernel_words", "ours", "shown"]
