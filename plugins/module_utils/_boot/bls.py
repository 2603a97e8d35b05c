# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Entries of the Boot Loader Specification, as GRUB's blscfg and as systemd-boot read and sort them.

https://uapi-group.org/specifications/specs/boot_loader_specification/; the two readers differ in several points.
"""

from __future__ import annotations

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
    """Parse an entry; None if it starts no kernel.

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


_RPM_TOKEN = re.compile(r"~|\+|[0-9]+|[a-zA-Z]+")


def rpm_key(version: str) -> list[tuple[int, int, str]]:
    """Return a key by which versions sort as with vercmp() of blscfg.c, which is rpm's.

    At the first difference, ``~`` is older than the end of the version, which is older than ``+``, letters and numbers.
    """
    key = []
    for token in _RPM_TOKEN.findall(version):
        if token in "~+":
            key.append((0 if token == "~" else 2, 0, ""))
        elif token.isdigit():
            number = token.lstrip("0")
            key.append((4, len(number), number))
        else:
            key.append((3, 0, token))
    return [*key, (1, 0, "")]


def grub_key(entry_id: str) -> list[list[tuple[int, int, str]]]:
    """Return a key by which entry ids sort as with bls_cmp(): by name, version and release.

    split_package_string() fills missing parts from the left.
    """
    parts = entry_id.rsplit("-", 2)
    return [rpm_key(part) for part in parts + [""] * (3 - len(parts))]


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
    return sorted(entries, key=lambda entry: grub_key(entry.id), reverse=True)


def grub_options(
    entry: BlsEntry, env: t.Mapping[str, str], origin: t.Mapping[str, tuple[str, int]]
) -> tuple[str, list[tuple[str, int, str]]]:
    """Expand ``$kernelopts`` and its like as expand_val() of blscfg.c does; also return the file of each part."""
    if entry.options:
        line, value = entry.options[0]
        parts = [(entry.path, line, value)]
    else:
        value = env.get("default_kernelopts", "")
        parts = [origin.get("default_kernelopts", (entry.path, 1)) + (value,)] if value else []
    result, at = [], 0
    for reference in re.finditer(r"\$([A-Za-z0-9_]*) ?", value, re.ASCII):
        result.append(value[at : reference.start()])
        at = reference.end()
        name = reference.group(1)
        if name in env:
            result.append(env[name] + " ")
            parts.append(origin.get(name, (entry.path, entry.line or 1)) + (env[name],))
    result.append(value[at:])
    return "".join(result).strip(), parts


_IGNORED = re.compile(r"^[^0-9A-Za-z~^.-]+")


def version_compare(left: str, right: str) -> int:
    """Compare as strverscmp_improved() of systemd does (the specification's version format): -1, 0 or 1."""
    while True:
        left, right = _IGNORED.sub("", left), _IGNORED.sub("", right)
        for mark in "~-^.":
            if left.startswith(mark) != right.startswith(mark):
                return -1 if left.startswith(mark) else 1
            if left.startswith(mark):
                left, right = left[1:], right[1:]
            # Only with "~" is a version older than its beginning.
            if mark == "~" and not (left and right):
                return (left > "") - (right > "")
        segments = _leading("[0-9]*", left, right)
        if any(segments):
            # A number is newer than letters, and leading zeros do not count.
            keys = [(segment > "", len(segment.lstrip("0")), segment.lstrip("0")) for segment in segments]
        else:
            segments = _leading("[a-zA-Z]*", left, right)
            keys = [(True, 0, segment) for segment in segments]
        if keys[0] != keys[1]:
            return 1 if keys[0] > keys[1] else -1
        left, right = left[len(segments[0]) :], right[len(segments[1]) :]


def _leading(pattern: str, *texts: str) -> list[str]:
    """Return what each text begins with of a pattern that matches the empty string too."""
    return [t.cast("re.Match[str]", re.match(pattern, text)).group() for text in texts]


__all__ = (
    "BlsEntry",
    "grub_entries",
    "grub_key",
    "grub_options",
    "parse_entry",
    "version_compare",
)
