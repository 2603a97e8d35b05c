# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs from their source code, by the Go toolchain."""

from __future__ import annotations

import os
import pathlib
import shutil
import typing as t

from .progress import LabError, run_logged, step

if t.TYPE_CHECKING:
    from .tools import Build, Program


def toolchain() -> str | None:
    # The second is where Go's own installation instructions put it.
    return shutil.which("go", path=os.environ.get("PATH", os.defpath) + ":/usr/local/go/bin")


def arguments(go: str, build: Build, directory: pathlib.Path, modules: pathlib.Path) -> list[str]:
    """The command that builds all programs of a module together, so that what they share compiles once."""
    flags = " ".join(["-s", "-w", *(f"-X {flag}" for flag in build.ldflags)])
    return [
        # Builds must not starve virtual machines that are in use.
        *("nice", "-n", "10", go, "build", "-C", str(modules / build.module)),
        *("-v", "-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={flags}", "-o", f"{directory}/"),
        *(program.package for program in build.programs.values()),
    ]


def file_name(package: str) -> str:
    """What `go build` calls a program: the last part of its package that is not a major version."""
    *_, before, last = package.split("/")
    return before if last.startswith("v") and last[1:].isdigit() else last


def build(
    build: Build, directory: pathlib.Path, modules: pathlib.Path, log: pathlib.Path, limit: float
) -> list[Program]:
    go = toolchain()
    if go is None:
        raise LabError("Go: no `go` in PATH nor in /usr/local/go/bin")
    environment = {**os.environ, "CGO_ENABLED": "0"}
    for name in ("GOOS", "GOARCH"):
        environment.pop(name, None)
    with step(f"building {', '.join(build.programs)} {build.version} with Go"):
        try:
            argv = arguments(go, build, directory, modules)
            run_logged(argv, log, f"building {build.name}", limit, environment)
        except LabError as error:
            raise LabError(f"Go: {error}") from error
    for program in build.programs.values():
        (directory / file_name(program.package)).rename(directory / program.name)
    return list(build.programs.values())
