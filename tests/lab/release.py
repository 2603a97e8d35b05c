# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs from the archives that their projects release, checked against the sums beside them."""

from __future__ import annotations

import hashlib
import http.client
import os
import pathlib
import re
import shutil
import tarfile
import time
import typing as t
import urllib.error
import urllib.request

from .progress import LabError, step

if t.TYPE_CHECKING:
    from .tools import Build, Program

SUM = re.compile(r"[0-9a-f]{64}")


def bases(settings: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> dict[str, str]:
    """The sites' addresses; the environment's come first."""
    return {
        name: environ.get(f"LAB_RELEASES_{name.upper()}", address).rstrip("/")
        for name, address in settings["releases"].items()
    }


def address(template: str, build: Build, program: Program, arch: str, sites: t.Mapping[str, str]) -> str:
    """A template's address; empty where its site is not to be asked."""
    needed = [name for name in sites if "{" + name + "}" in template]
    if not template or not all(sites[name] for name in needed):
        return ""
    number = build.version.removeprefix("v")
    return template.format(version=build.version, number=number, arch=arch, program=program.elsewhere, **sites)


def sum_of(text: str, name: str) -> str:
    """A file's sum from what a publisher keeps beside it: the bare sum, or lines as sha256sum(1) writes them."""
    words = text.split()
    if len(words) == 1 and SUM.fullmatch(words[0]):
        return words[0]
    for line in text.splitlines():
        digest, _, file = line.strip().partition(" ")
        if SUM.fullmatch(digest) and file.strip().lstrip("*").rpartition("/")[2] == name:
            return digest
    raise LabError(f"the published sums have none of {name}")


def read(url: str, target: t.BinaryIO, connect: float, limit: float) -> str:
    """Download a file and return its sum."""
    digest = hashlib.sha256()
    end = time.monotonic() + limit
    request = urllib.request.Request(url, headers={"User-Agent": "rdmaops-lab"})
    try:
        with urllib.request.urlopen(request, timeout=connect) as answer:
            while part := answer.read(1 << 20):
                digest.update(part)
                target.write(part)
                if time.monotonic() > end:
                    raise LabError(f"release: {url}: not finished after {limit:.0f} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LabError(f"release: {url}: {getattr(error, 'reason', '') or error}") from error
    return digest.hexdigest()


def unpack(archive: pathlib.Path, programs: t.Iterable[Program], directory: pathlib.Path) -> None:
    """Take programs, and nothing else, out of an archive."""
    missing = {program.elsewhere: program for program in programs}
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                program = missing.get(member.name.rpartition("/")[2])
                file = packed.extractfile(member) if program and member.isfile() else None
                if program and file:
                    del missing[program.elsewhere]
                    with (directory / program.name).open("wb") as target:
                        shutil.copyfileobj(file, target)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise LabError(f"release: the archive cannot be read: {error}") from error
    if missing:
        raise LabError(f"release: not in the archive: {', '.join(missing)}")


def fetch(
    build: Build, program: Program, settings: t.Mapping[str, t.Any], arch: str, directory: pathlib.Path
) -> list[Program]:
    """Download what has the program; the answer is every program that came with it."""
    sites = bases(settings, os.environ)
    url = address(build.release, build, program, arch, sites)
    sums = address(build.sums, build, program, arch, sites)
    if not url or not sums:
        why = "the site is switched off" if build.release else "no archive with published sums"
        raise LabError(f"release: {why}")
    limits = settings["cluster"]["limits"]
    download = directory / "download"
    with download.open("w+b") as file:
        read(sums, file, limits["connect"], limits["connect"])
        file.seek(0)
        text = file.read().decode("utf-8", "replace")
    name = url.rpartition("/")[2]
    try:
        published = sum_of(text, name)
    except LabError as error:
        raise LabError(f"release: {sums}: {error}") from error
    with step(f"downloading {url}"), download.open("wb") as file:
        actual = read(url, file, limits["connect"], limits["download"])
    if actual != published:
        raise LabError(f"release: {url} has the sum {actual}, published is {published}: it is not used")
    if not re.search(r"\.(tar\.gz|tgz)$", name):
        download.rename(directory / program.name)
        there = [program]
    else:
        there = list(build.programs.values())
        unpack(download, there, directory)
    for unpacked in there:
        (directory / unpacked.name).chmod(0o755)
    return there
