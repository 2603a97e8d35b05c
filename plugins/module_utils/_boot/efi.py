# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Boot loaders of the EFI partition: systemd-boot, unified kernel images, and where GRUB's own configuration is."""

from __future__ import annotations

import fnmatch
import functools
import re
import struct
import typing as t

from .bls import parse_entry, version_compare
from .entry import BootEntry, Machine
from .files import BootError, Files, finish

# systemd-gpt-auto-generator(8), bootctl(1): where the EFI partition is mounted, then the extended boot partition.
ESP = ("/efi", "/boot/efi", "/boot")

# A section larger than this is no command line or os-release (GRUB's UKI_SECTION_SIZE_MAX).
MAX_SECTION = 4096 * 4
MAX_HEADER = 1 << 20


def grub_config(files: Files) -> str | None:
    """Return GRUB's real configuration on the EFI partition, or the one that the few lines there go on with."""
    real, stubs = [], []
    for vendor in files.names("/boot/efi/EFI"):
        path = "/boot/efi/EFI/%s/grub.cfg" % vendor
        text = files.read(path) if files.exists(path) else None
        if text is None:
            continue
        if re.search(r"^\s*(menuentry|submenu|blscfg)\b", text, re.MULTILINE):
            real.append(path)
        else:
            found = re.search(r"^\s*(?:set\s+)?prefix=(?:\(\S+?\))?'?\"?(/[^'\"\s]*)", text, re.MULTILINE)
            stubs.append((found.group(1) if found else "/boot/grub") + "/grub.cfg")
    for target in stubs:
        for path in (target, "/boot" + target):
            if files.exists(path):
                return path
    if len(real) > 1:
        release = files.read("/etc/os-release") or files.read("/usr/lib/os-release") or ""
        identity = re.search(r"^ID=['\"]?([\w.-]+)", release, re.MULTILINE)
        name = {"rhel": "redhat", "ol": "redhat"}.get(identity.group(1), identity.group(1)) if identity else ""
        own = [path for path in real if path.split("/")[4].lower() == name]
        if len(own) != 1:
            raise BootError(
                "Several boot loader configurations were found, and it cannot be determined which is used: %s"
                % ", ".join(real)
            )
        real = own
    return real[0] if real else None


def pe_sections(data: bytes) -> dict[str, tuple[int, int]]:
    """Return offset and size in the file of each section of a PE image, the first of a name; {} if it is none."""
    try:
        if data[:2] != b"MZ":
            return {}
        (start,) = struct.unpack_from("<I", data, 0x3C)
        if data[start : start + 4] != b"PE\0\0":
            return {}
        count, optional = struct.unpack_from("<2xH12xH", data, start + 4)
        sections: dict[str, tuple[int, int]] = {}
        for number in range(min(count, 96)):
            name, size, raw_size, raw = struct.unpack_from("<8sI4xII", data, start + 24 + optional + 40 * number)
            sections.setdefault(name.rstrip(b"\0").decode("ascii", "replace"), (raw, min(size, raw_size)))
        return sections
    except struct.error:
        return {}


def uki_entry(files: Files, path: str, title: str | None = None) -> BootEntry:
    """Return what a unified kernel image boots (https://uapi-group.org/specifications/specs/unified_kernel_image/)."""
    values: dict[str, str] = {}
    try:
        with open(files.real(path), "rb") as image:
            sections = pe_sections(image.read(MAX_HEADER))
            for name in (".cmdline", ".uname", ".osrel"):
                offset, size = sections.get(name, (0, 0))
                if 0 < size <= MAX_SECTION:
                    image.seek(offset)
                    values[name] = image.read(size).split(b"\0")[0].decode("utf-8", "replace").strip()
    except OSError as exc:
        raise BootError("Reading the unified kernel image %s: %s" % (path, exc.strerror or exc)) from exc
    pretty = re.search(r"^PRETTY_NAME=['\"]?([^'\"\n]*)", values.get(".osrel", ""), re.MULTILINE)
    problem = "The initramfs is part of the unified kernel image %s and is not inspected" % path
    if ".linux" not in sections:
        problem = "%s is not a unified kernel image: it has no .linux section" % path
    elif ".cmdline" not in sections:
        problem = "The unified kernel image %s has no command line: the boot loader sets it" % path
    return BootEntry(
        "uki",
        path,
        None,
        values.get(".cmdline"),
        path,
        values.get(".uname"),
        title=title or (pretty.group(1) if pretty else None),
        problem=problem,
        parts=((path, 0, values[".cmdline"]),) if ".cmdline" in values else (),
        remedy="change /etc/kernel/cmdline and rebuild the image (kernel-install add, or dracut --uefi)",
    )


class _Choice(t.NamedTuple):
    id: str
    esp: str
    path: str
    entry: t.Any  # a BlsEntry, None for a unified image
    sort_key: str | None
    version: str
    machine_id: str
    left: int | None


def _compare(a: _Choice, b: _Choice) -> int:
    """Order entries as config_entry_compare() of systemd's boot.c does."""
    for one, two in (
        (a.left == 0, b.left == 0),
        (not a.sort_key, not b.sort_key),
        (a.sort_key or "", b.sort_key or "") if a.sort_key and b.sort_key else (0, 0),
        (a.machine_id, b.machine_id) if a.sort_key and b.sort_key else (0, 0),
    ):
        if one != two:
            return -1 if t.cast(t.Any, one) < t.cast(t.Any, two) else 1
    newest = version_compare(b.version, a.version) if a.sort_key and b.sort_key else 0
    return newest or version_compare(b.id, a.id)


def _counted(name: str) -> tuple[str, int | None]:
    """Take boot counting out of a name: ``debian+3-1.conf`` has three tries left."""
    found = re.match(r"(?s)(.*)\+(\d{1,9})(?:-\d+)?(\.(?:conf|efi))$", name, re.IGNORECASE)
    return (found.group(1) + found.group(3), int(found.group(2))) if found else (name, None)


def _uki_choice(files: Files, esp: str, name: str) -> _Choice:
    path = esp + "/EFI/Linux/" + name
    identity, left = _counted(name.lower())
    release: dict[str, str] = {}
    try:
        with open(files.real(path), "rb") as image:
            offset, size = pe_sections(image.read(MAX_HEADER)).get(".osrel", (0, 0))
            if 0 < size <= MAX_SECTION:
                image.seek(offset)
                text = image.read(size).decode("utf-8", "replace")
                release = dict(re.findall(r"^([A-Z_]+)=['\"]?([^'\"\n]*)", text, re.MULTILINE))
    except OSError as exc:
        raise BootError("Reading the unified kernel image %s: %s" % (path, exc.strerror or exc)) from exc
    # bootspec_pick_name_version_sort_key() of systemd's bootspec-fundamental.c.
    version = release.get("IMAGE_VERSION") or release.get("VERSION") or release.get("VERSION_ID")
    version = version or release.get("BUILD_ID") or ""
    return _Choice(identity, esp, path, None, release.get("IMAGE_ID") or release.get("ID"), version, "", left)


def _choices(files: Files) -> tuple[list[_Choice], dict[str, str], str]:
    found: dict[str, _Choice] = {}
    settings: dict[str, str] = {}
    source = ""
    seen = set()
    for esp in ESP:
        real = files.real(esp)
        if real in seen:
            continue
        seen.add(real)
        loader = files.read(esp + "/loader/loader.conf")
        if loader is not None and not source:
            source = esp + "/loader/loader.conf"
            for line in loader.splitlines():
                words = line.split(None, 1)
                if len(words) == 2 and not words[0].startswith("#"):
                    settings[words[0]] = words[1].strip()
        for name in files.names(esp + "/loader/entries"):
            if not name.lower().endswith(".conf") or name.startswith((".", "auto-")):
                continue
            path = esp + "/loader/entries/" + name
            entry = parse_entry(path, files.read(path) or "", grub=False)
            if entry is not None:
                identity, left = _counted(name.lower())
                get = entry.keys.get
                found.setdefault(
                    identity,
                    _Choice(
                        identity, esp, path, entry, get("sort-key"), get("version", ""), get("machine-id", ""), left
                    ),
                )
        for name in files.names(esp + "/EFI/Linux"):
            if name.lower().endswith(".efi"):
                choice = _uki_choice(files, esp, name)
                found.setdefault(choice.id, choice)
    return sorted(found.values(), key=functools.cmp_to_key(_compare)), settings, source


def systemd_boot_entry(files: Files, machine: Machine) -> BootEntry | None:
    """Return the entry that systemd-boot boots by default, None where there are no entries."""
    choices, settings, _source = _choices(files)
    if not choices:
        return None
    variables = machine.loader
    saved = variables.get("LoaderEntryLastBooted")
    default = settings.get("default")
    # config_select_default_entry() of boot.c: the variables come before the file; what matches no entry is passed over.
    for wanted in (
        variables.get("LoaderEntryOneShot"),
        saved if variables.get("LoaderEntryDefault") == "@saved" else variables.get("LoaderEntryDefault"),
        saved if default == "@saved" else default,
    ):
        match = [choice for choice in choices if wanted and fnmatch.fnmatchcase(choice.id, wanted.lower())]
        if match:
            chosen = match[0]
            break
    else:
        chosen = next((choice for choice in choices if choice.left != 0), choices[0])
    if chosen.entry is None:
        return uki_entry(files, chosen.path)
    entry = chosen.entry
    if entry.keys.get("uki") or (entry.keys.get("efi") and not entry.keys.get("linux")):
        place = files.locate(entry.linux, machine, (chosen.esp,))
        if place is None:
            return BootEntry("uki", entry.path, title=entry.title, problem="%s was not found" % entry.linux)
        unified = uki_entry(files, place, entry.title)
        if not entry.options:
            return unified
    result = BootEntry(
        "bls",
        entry.path,
        entry.line,
        " ".join(value for _line, value in entry.options),
        kernel_version=None,
        title=entry.title,
        parts=tuple((entry.path, line, value) for line, value in entry.options),
        remedy="change %s, and /etc/kernel/cmdline for the kernels installed later" % entry.path,
    )
    return finish(files, machine, result, entry.linux, entry.initrd, (chosen.esp,))


__all__ = ("grub_config", "pe_sections", "systemd_boot_entry", "uki_entry")
