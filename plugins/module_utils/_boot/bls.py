# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Entries of the Boot Loader Specification, as GRUB's blscfg and as systemd-boot read and sort them.

https://uapi-group.org/specifications/specs/boot_loader_specification/; the two readers differ in several points.
"""

from __future__ import annotations

import functools
import re
import typing as t

from .files import Files


class BlsEntry(t.NamedTuple):
    """One file of loader/entries; ``line`` is that of the first ``options``."""

    id: str
    path: str
    title: str | None
    linux: str
    options: list[tuple[int, str]]
    initrd: list[str]
    keys: t.Mapping[str, str]

    @property
    def line(self) -> int | None:
        return self.options[0][0] if self.options else None


def parse_entry(path: str, text: str, grub: bool) -> BlsEntry | None:
    """Parse an entry; None where it starts no kernel.

    GRUB (blscfg.c) stops reading at the first line without a value, an empty one too, and uses the first ``options``
    only; systemd-boot (boot.c, line_get_key_value()) skips such lines and joins all ``options``.
    """
    keys: dict[str, str] = {}
    options: list[tuple[int, str]] = []
    initrd: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = line.lstrip(" \t") if grub else line.strip()
        if line.startswith("#"):
            continue
        blank = " " if grub and " " in line else r"[ \t]"
        key, value = [*re.split(blank, line, maxsplit=1), ""][:2]
        value = value.lstrip(" \t")
        if not value:
            if grub:
                break
            continue
        if key == "options":
            options.append((number, value))
        elif key == "initrd":
            initrd.append(value)
        else:
            keys.setdefault(key, value)
    linux = keys.get("linux") or keys.get("efi") or keys.get("uki")
    if not linux or (grub and "linux" not in keys):
        return None
    name = path.rsplit("/", 1)[-1]
    if grub and name.endswith(".conf"):
        name = name[:-5]
    return BlsEntry(name, path, keys.get("title"), linux, options[:1] if grub else options, initrd, keys)


_SEGMENT = re.compile(r"[0-9]+|[a-zA-Z]+")


def rpm_compare(one: str, two: str) -> int:
    """Compare versions as vercmp() of blscfg.c does, which is rpm's: -1, 0 or 1."""
    if one == two:
        return 0
    at = bt = 0
    while at < len(one) or bt < len(two):
        while at < len(one) and not (one[at].isascii() and one[at].isalnum()) and one[at] not in "~+":
            at += 1
        while bt < len(two) and not (two[bt].isascii() and two[bt].isalnum()) and two[bt] not in "~+":
            bt += 1
        left, right = one[at : at + 1], two[bt : bt + 1]
        if "~" in (left, right):
            if left != "~":
                return 1
            if right != "~":
                return -1
            at, bt = at + 1, bt + 1
            continue
        if "+" in (left, right):
            if not left:
                return -1
            if not right:
                return 1
            if left != "+":
                return 1
            if right != "+":
                return -1
            at, bt = at + 1, bt + 1
            continue
        if not left or not right:
            break
        a, b = _SEGMENT.match(one, at), _SEGMENT.match(two, bt)
        if a is None or b is None:
            return 0
        if a.group()[0].isdigit() != b.group()[0].isdigit():
            return 1 if a.group()[0].isdigit() else -1
        x, y = a.group(), b.group()
        if x[0].isdigit():
            x, y = x.lstrip("0"), y.lstrip("0")
            if len(x) != len(y):
                return 1 if len(x) > len(y) else -1
        if x != y:
            return 1 if x > y else -1
        at, bt = a.end(), b.end()
    if at >= len(one) and bt >= len(two):
        return 0
    return -1 if at >= len(one) else 1


def _split(name: str) -> tuple[str, str, str]:
    """Split as split_package_string() does: name, version, release; missing ones are filled from the left."""
    parts = name.rsplit("-", 2)
    parts += [""] * (3 - len(parts))
    return parts[0], parts[1], parts[2]


def grub_compare(one: str, two: str) -> int:
    """Compare entry ids as bls_cmp() does."""
    for a, b in zip(_split(one), _split(two)):
        result = rpm_compare(a, b)
        if result:
            return result
    return 0


def grub_entries(files: Files, directory: str | None = None) -> list[BlsEntry]:
    """Return the entries in the order in which blscfg puts them into the menu, the newest first."""
    entries = []
    for place in ([directory] if directory else []) + ["/boot/loader/entries", "/loader/entries"]:
        place = "/" + re.sub(r"^\([^)]*\)", "", place).strip("/")
        for name in files.names(place):
            if name.startswith(".") or len(name) <= 5 or not name.endswith(".conf"):
                continue
            path = place + "/" + name
            entry = None if files.size(path) > 1 << 20 else parse_entry(path, files.read(path) or "", grub=True)
            if entry is not None:
                entries.append(entry)
        if entries:
            break
    newest = functools.cmp_to_key(grub_compare)
    return sorted(entries, key=lambda entry: newest(entry.id), reverse=True)


def grub_options(
    entry: BlsEntry, env: t.Mapping[str, str], origin: t.Mapping[str, tuple[str, int]]
) -> tuple[str, list[tuple[str, int, str]]]:
    """Expand ``$kernelopts`` and its like as expand_val() of blscfg.c does; also tell which file each part is from."""
    if entry.options:
        line, value = entry.options[0]
        parts = [(entry.path, line, value)]
    else:
        value = env.get("default_kernelopts", "")
        parts = [origin.get("default_kernelopts", (entry.path, 1)) + (value,)] if value else []
    result, at = [], 0
    for found in re.finditer(r"\$([A-Za-z0-9_]*) ?", value, re.ASCII):
        result.append(value[at : found.start()])
        at = found.end()
        name = found.group(1)
        if name in env:
            result.append(env[name] + " ")
            parts.append(origin.get(name, (entry.path, entry.line or 1)) + (env[name],))
    result.append(value[at:])
    return "".join(result).strip(), parts


def version_compare(one: str, two: str) -> int:
    """Compare as strverscmp_improved() of systemd does (the specification's version format): -1, 0 or 1."""

    def valid(char: str) -> bool:
        return char.isascii() and (char.isalnum() or char in "~-^.")

    a, b = one, two
    while True:
        a, b = a[_skip(a, valid) :], b[_skip(b, valid) :]
        for mark in "~", None, "-", "^", ".":
            if mark is None:
                if not a or not b:
                    return (a > "") - (b > "")
                continue
            if a[:1] == mark or b[:1] == mark:
                if a[:1] != b[:1]:
                    return -1 if a[:1] == mark else 1
                a, b = a[1:], b[1:]
        numeric = a[:1].isdigit() or b[:1].isdigit()
        pattern = r"[0-9]*" if numeric else r"[a-zA-Z]*"
        x, y = re.match(pattern, a), re.match(pattern, b)
        left, right = (x.group() if x else ""), (y.group() if y else "")
        if numeric:
            if not left or not right:
                return 1 if left else -1
            key_left, key_right = int(left.lstrip("0")[:400] or 0), int(right.lstrip("0")[:400] or 0)
            if key_left != key_right:
                return 1 if key_left > key_right else -1
        elif left != right:
            size = min(len(left), len(right))
            if left[:size] != right[:size]:
                return 1 if left[:size] > right[:size] else -1
            return 1 if len(left) > len(right) else -1
        elif not left and not a and not b:
            return 0
        a, b = a[len(left) :], b[len(right) :]


def _skip(text: str, valid: t.Callable[[str], bool]) -> int:
    at = 0
    while at < len(text) and not valid(text[at]):
        at += 1
    return at


__all__ = (
    "BlsEntry",
    "grub_compare",
    "grub_entries",
    "grub_options",
    "parse_entry",
    "rpm_compare",
    "version_compare",
)
