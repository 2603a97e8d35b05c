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

from .bls import BlsEntry, parse_entry, version_compare
from .entry import BootEntry, Machine
from .files import BootError, Files, finish

# systemd-gpt-auto-generator(8), bootctl(1): where the EFI partition is mounted, then the extended boot partition.
ESP = ("/efi", "/boot/efi", "/boot")

# A section larger than this is not a command line or os-release (GRUB's UKI_SECTION_SIZE_MAX).
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
            prefix = re.search(r"^\s*(?:set\s+)?prefix=(?:\(\S+?\))?'?\"?(/[^'\"\s]*)", text, re.MULTILINE)
            stubs.append((prefix.group(1) if prefix else "/boot/grub") + "/grub.cfg")
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
    """Return offset and size in the file of each section of a PE image, the first of a name; {} for another file."""
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


def _uki_texts(files: Files, path: str) -> dict[str, str | None]:
    """Return the sections of a unified image, those that describe the kernel with their text."""
    try:
        with open(files.real(path), "rb") as image:
            sections = pe_sections(image.read(MAX_HEADER))
            texts: dict[str, str | None] = dict.fromkeys(sections)
            for name in (".cmdline", ".uname", ".osrel"):
                offset, size = sections.get(name, (0, 0))
                if 0 < size <= MAX_SECTION:
                    image.seek(offset)
                    texts[name] = image.read(size).split(b"\0")[0].decode("utf-8", "replace").strip()
    except OSError as exc:
        raise BootError("Reading the unified kernel image %s: %s" % (path, exc.strerror or exc)) from exc
    return texts


def _addons(files: Files, path: str) -> list[str]:
    """Return the addons with arguments for a unified image, in the order of load_all_addons() of systemd's stub.c.

    The directory of an image's own addons has its name without the boot counter (get_extra_dir() of efi util.c).
    """
    directory, name = path.rsplit("/", 1)
    esp = next((place for place in ESP if path.startswith(place + "/")), "")
    own = "%s/%s.extra.d" % (directory, _counted(name)[0])
    places = [
        "%s/%s" % (place, addon)
        for place in (esp + "/loader/addons", own)
        for addon in files.names(place)
        if addon.lower().endswith(".addon.efi") and not addon.startswith(".")
    ]
    return [place for place in places if ".cmdline" in _uki_texts(files, place)]


def uki_entry(files: Files, path: str, title: str | None = None) -> BootEntry:
    """Return what a unified kernel image boots (https://uapi-group.org/specifications/specs/unified_kernel_image/)."""
    texts = _uki_texts(files, path)
    cmdline = texts.get(".cmdline")
    addons = _addons(files, path)
    pretty = re.search(r"^PRETTY_NAME=['\"]?([^'\"\n]*)", texts.get(".osrel") or "", re.MULTILINE)
    problem = "The initramfs is part of the unified kernel image %s and is not inspected" % path
    if ".linux" not in texts:
        problem = "%s is not a unified kernel image: it has no .linux section" % path
    elif addons:
        cmdline = None
        problem = (
            "The command line of the unified kernel image %s is not known: it has addons (%s), which systemd-stub "
            "appends if it is new enough and Secure Boot accepts their signatures" % (path, ", ".join(addons))
        )
    elif ".cmdline" not in texts:
        problem = "The unified kernel image %s has no command line: the boot loader sets it" % path
    return BootEntry(
        "uki",
        path,
        None,
        cmdline,
        path,
        texts.get(".uname"),
        title=title or (pretty.group(1) if pretty else None),
        problem=problem,
        parts=() if cmdline is None else ((path, 0, cmdline),),
        remedy="change /etc/kernel/cmdline and rebuild the image (kernel-install add, or dracut --uefi)",
    )


def firmware_entry(files: Files, machine: Machine) -> BootEntry | None:
    """Return the entry of a unified image that the firmware starts itself, None if a boot loader was at work.

    systemd-stub sets StubInfo, and a loader before it LoaderInfo. The stub is named in StubImageIdentifier, an older
    one in LoaderImageIdentifier if no loader has set that (stub.c and export-vars.c of systemd).
    """
    if "StubInfo" not in machine.loader or "LoaderInfo" in machine.loader:
        return None
    name = machine.loader.get("StubImageIdentifier") or machine.loader.get("LoaderImageIdentifier")
    path = name and "/" + name.replace("\\", "/").lstrip("/")
    place = files.locate(path, machine, ESP, subvolumes=False) if path else None
    if place is None:
        problem = "The firmware started a unified kernel image without a boot loader, and "
        problem += (
            "this one, %s, was not found on the mounted partitions; mount the EFI partition" % path
            if path
            else "it did not report which one"
        )
        return BootEntry("uki", problem=problem)
    return uki_entry(files, place)


class _Choice(t.NamedTuple):
    id: str
    esp: str
    path: str
    entry: BlsEntry | None  # None for a unified image
    sort_key: str | None
    version: str
    machine_id: str
    tries: int | None


def _compare(a: _Choice, b: _Choice) -> int:
    """Order entries as config_entry_compare() of systemd's boot.c does."""
    both = bool(a.sort_key and b.sort_key)
    keys: list[tuple[t.Any, ...]] = [(choice.tries == 0, not choice.sort_key) for choice in (a, b)]
    if both:
        keys = [(*key, choice.sort_key, choice.machine_id) for key, choice in zip(keys, (a, b))]
    if keys[0] != keys[1]:
        return -1 if keys[0] < keys[1] else 1
    newest = version_compare(b.version, a.version) if both else 0
    return newest or version_compare(b.id, a.id)


def _counted(name: str) -> tuple[str, int | None]:
    """Take boot counting out of a name: ``debian+3-1.conf`` has three tries left."""
    counter = re.match(r"(?s)(.*)\+(\d{1,9})(?:-\d+)?(\.(?:conf|efi))$", name, re.IGNORECASE)
    return (counter.group(1) + counter.group(3), int(counter.group(2))) if counter else (name, None)


def _bls_choices(files: Files, esp: str) -> t.Iterator[_Choice]:
    for name in files.names(esp + "/loader/entries"):
        if not name.lower().endswith(".conf") or name.startswith((".", "auto-")):
            continue
        path = esp + "/loader/entries/" + name
        entry = parse_entry(path, files.read(path) or "", grub=False)
        if entry is not None:
            identity, tries = _counted(name.lower())
            get = entry.keys.get
            yield _Choice(identity, esp, path, entry, get("sort-key"), get("version", ""), get("machine-id", ""), tries)


def _uki_choices(files: Files, esp: str) -> t.Iterator[_Choice]:
    for name in files.names(esp + "/EFI/Linux"):
        if not name.lower().endswith(".efi"):
            continue
        path = esp + "/EFI/Linux/" + name
        identity, tries = _counted(name.lower())
        text = _uki_texts(files, path).get(".osrel") or ""
        release = dict(re.findall(r"^([A-Z_]+)=['\"]?([^'\"\n]*)", text, re.MULTILINE))
        # bootspec_pick_name_version_sort_key() of systemd's bootspec-fundamental.c.
        version = release.get("IMAGE_VERSION") or release.get("VERSION") or release.get("VERSION_ID")
        version = version or release.get("BUILD_ID") or ""
        yield _Choice(identity, esp, path, None, release.get("IMAGE_ID") or release.get("ID"), version, "", tries)


def _partitions(files: Files) -> list[str]:
    """Return the mount points of ESP, without those that lead to the same directory."""
    partitions: dict[str, str] = {}
    for esp in ESP:
        partitions.setdefault(files.real(esp), esp)
    return list(partitions.values())


def _choices(files: Files, partitions: t.Sequence[str]) -> list[_Choice]:
    """Return the entries in the order of systemd-boot's menu."""
    choices: dict[str, _Choice] = {}
    for esp in partitions:
        for choice in (*_bls_choices(files, esp), *_uki_choices(files, esp)):
            choices.setdefault(choice.id, choice)
    return sorted(choices.values(), key=functools.cmp_to_key(_compare))


def _settings(files: Files, partitions: t.Sequence[str]) -> dict[str, str]:
    """Return the settings in the first loader.conf."""
    for esp in partitions:
        text = files.read(esp + "/loader/loader.conf")
        if text is not None:
            lines = [line.split(None, 1) for line in text.splitlines()]
            return {words[0]: words[1].strip() for words in lines if len(words) == 2 and not words[0].startswith("#")}
    return {}


def _default(choices: t.Sequence[_Choice], settings: t.Mapping[str, str], variables: t.Mapping[str, str]) -> _Choice:
    """Choose as config_select_default_entry() of boot.c does: the variables come before the file.

    A pattern that matches no entry is skipped.
    """
    saved = variables.get("LoaderEntryLastBooted")
    patterns = [variables.get("LoaderEntryOneShot")]
    for pattern in (variables.get("LoaderEntryDefault"), settings.get("default")):
        patterns.append(saved if pattern == "@saved" else pattern)
    for pattern in patterns:
        for choice in choices if pattern else ():
            if fnmatch.fnmatchcase(choice.id, t.cast(str, pattern).lower()):
                return choice
    return next((choice for choice in choices if choice.tries != 0), choices[0])


def systemd_boot_entry(files: Files, machine: Machine) -> BootEntry | None:
    """Return the entry that systemd-boot boots by default, None if there are no entries."""
    partitions = _partitions(files)
    choices = _choices(files, partitions)
    if not choices:
        return None
    chosen = _default(choices, _settings(files, partitions), machine.loader)
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


__all__ = ("firmware_entry", "grub_config", "pe_sections", "systemd_boot_entry", "uki_entry")
