# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's programs: from the cache, PATH, a release archive or their source code, as versions.toml lists them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import typing as t

from . import config, gobuild, release
from .progress import LabError, say

MODULES = config.HERE / "go"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)")


class Unavailable(LabError):
    """A program that this machine can get in no way."""


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    package: str
    # Arguments that make it print its version; None if it cannot.
    version_arguments: tuple[str, ...] | None
    # Its name in PATH and in archives.
    elsewhere: str


@dataclasses.dataclass(frozen=True)
class Build:
    """What one `go build` builds."""

    name: str
    version: str
    module: str
    programs: dict[str, Program]
    on_path: tuple[str, ...]
    release: str
    sums: str
    ldflags: tuple[str, ...]

    def key(self) -> str:
        """The name of its place in the cache: other sources or other flags make another."""
        digest = hashlib.sha256(json.dumps([self.ldflags, *sorted(p.package for p in self.programs.values())]).encode())
        module = MODULES / self.module
        for path in (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))):
            digest.update(path.read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"


def builds(settings: t.Mapping[str, t.Any]) -> dict[str, Build]:
    table = settings["tools"]
    builds = {}
    for name, own in table.items():
        # Another build of the same version and the same sources.
        like = own.get("like", name)
        entry = {"module": like, **table[like], **own}
        programs = {
            program: Program(
                program,
                about["package"],
                tuple(about["says"]) if "says" in about else None,
                about.get("elsewhere", program),
            )
            for program, about in own["programs"].items()
        }
        builds[name] = Build(
            name,
            entry["version"],
            entry["module"],
            programs,
            tuple(entry.get("on_path", ())),
            entry.get("release", ""),
            entry.get("sums", ""),
            tuple(flag.format(version=entry["version"]) for flag in entry.get("ldflags", ())),
        )
    return builds


def build_of(settings: t.Mapping[str, t.Any], name: str) -> Build:
    known = builds(settings)
    for build in known.values():
        if name in build.programs:
            return build
    names = ", ".join(sorted(program for build in known.values() for program in build.programs))
    raise LabError(f"the lab has no program {name!r}; it has: {names}")


def architecture() -> str:
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise Unavailable(f"the lab's programs exist for {', '.join(ARCHITECTURES)}, this machine is {machine}")
    return ARCHITECTURES[machine]


def version_of(path: str | pathlib.Path, arguments: t.Sequence[str]) -> str | None:
    """Return the version that a program prints; CNI plugins print it on standard error if run without a command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CNI_")}
    try:
        done = subprocess.run(
            [str(path), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = VERSION.search(done.stdout) or VERSION.search(done.stderr)
    return match[1] if match else None


def from_path(build: Build, program: Program) -> tuple[pathlib.Path | None, str]:
    """Return the program in PATH, or why it is not used."""
    if not build.on_path or program.version_arguments is None:
        return None, "PATH: not looked at for this program"
    path = shutil.which(program.elsewhere)
    if path is None:
        return None, f"PATH: no {program.elsewhere}"
    version = version_of(path, program.version_arguments)
    if version is None:
        return None, f"PATH: {path} tells no version"
    if not version.startswith(build.on_path):
        return None, f"PATH: {path} is version {version}, wanted is {' or '.join(build.on_path)}x"
    return pathlib.Path(path), ""


def check(build: Build, program: Program, path: pathlib.Path) -> None:
    """Fail unless a program that was fetched or built runs here and has the right version."""
    if program.version_arguments is None:
        return
    version = version_of(path, program.version_arguments)
    if version != build.version.removeprefix("v"):
        raise LabError(f"{program.name} should be {build.version} and says {version or 'nothing'}")


def get(name: str, places: config.Places | None = None, settings: t.Mapping[str, t.Any] | None = None) -> pathlib.Path:
    """The path of a program; fetched or built if it is missing."""
    places = places or config.places()
    settings = settings or config.versions()
    build = build_of(settings, name)
    program = build.programs[name]
    cached = places.cache / "tools" / build.key() / name
    if cached.exists():
        return cached
    path, why = from_path(build, program)
    if path:
        return path
    with config.lock(
        places.cache / "tools" / f"{build.name}.lock", f"another command gets {build.name} {build.version}", wait=True
    ):
        if not cached.exists():
            make(build, program, cached.parent, settings, [why])
    return cached


def make(
    build: Build, program: Program, place: pathlib.Path, settings: t.Mapping[str, t.Any], tried: list[str]
) -> None:
    """Fetch or build a program into its place in the cache; the error names the failure of each way."""
    limits = settings["cluster"]["limits"]
    # Left by a killed command: no other command works on this build.
    for old in place.parent.glob(f".{build.name}.*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{build.name}.", dir=place.parent) as work:
        directory = pathlib.Path(work)
        ways: tuple[t.Callable[[], list[Program]], ...] = (
            lambda: release.fetch(build, program, settings, architecture(), directory),
            lambda: gobuild.build(build, directory, MODULES, place.parent / f"{build.name}.log", limits["build"]),
        )
        for way in ways:
            try:
                there = way()
                for item in there:
                    check(build, item, directory / item.name)
            except LabError as error:
                tried.append(str(error))
                say(f"{program.name} {build.version}: {str(error).splitlines()[0]}")
                continue
            place.mkdir(exist_ok=True)
            for item in there:
                (directory / item.name).chmod(0o755)
                (directory / item.name).replace(place / item.name)
            return
    ways_tried = "\n".join(f"  - {text}" for text in tried)
    raise Unavailable(f"{program.name} {build.version} is to be had in no way:\n{ways_tried}")


__all__ = ["Build", "Program", "Unavailable", "builds", "get"]
