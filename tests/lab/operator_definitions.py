# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource definitions of operators for training jobs, as their projects publish them.

They come as Go modules, whose checksums versions.toml pins, into Go's own cache; nothing of them is kept here.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
import typing as t

from . import gobuild
from .progress import LabError


def directory(name: str, settings: t.Mapping[str, t.Any]) -> pathlib.Path:
    """Return the directory of an operator's module. LabError: it is not to be had, or is another one."""
    about: dict[str, t.Any] = settings["cluster"]["operators"][name]
    go = gobuild.toolchain()
    if go is None:
        raise LabError(
            f"the definitions of {name} are fetched by Go, and there is no `go` in PATH nor in /usr/local/go/bin"
        )
    module = f"{about['module']}@{about['version']}"
    argv = [go, "mod", "download", "-json", module]
    # Outside of any module, and by the toolchain that is there.
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment, cwd="/", check=False)
    try:
        download = json.loads(done.stdout)
    except ValueError:
        download = {"Error": done.stderr.strip() or f"rc {done.returncode}"}
    if download.get("Error"):
        raise LabError(f"{module} is not to be had: {download['Error']}")
    if download["Sum"] != about["sum"]:
        raise LabError(f"{module}: the checksum is {download['Sum']}, and {about['sum']} is pinned")
    return pathlib.Path(download["Dir"])


def fetch(name: str, settings: t.Mapping[str, t.Any]) -> list[pathlib.Path]:
    """Return the files with an operator's definitions. LabError: see ``directory``."""
    place = directory(name, settings)
    return [place / definition for definition in settings["cluster"]["operators"][name]["definitions"]]


def until_established(wait: t.Callable[[], object], limit: float) -> None:
    """Call what runs `kubectl wait --for=condition=Established` until the definitions have conditions.

    It fails while one has none yet, as right after its creation.
    """
    end = time.monotonic() + limit
    while True:
        try:
            wait()
        except (AssertionError, LabError) as error:
            if "accessor error" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


__all__ = ["directory", "fetch", "until_established"]
