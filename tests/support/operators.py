# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource definitions of operators for training jobs, as their projects publish them.

They come as Go modules, whose checksums versions.toml pins, into Go's own cache; nothing of them is kept here.
"""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, gobuild
from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster


def names() -> list[str]:
    return list(config.versions()["cluster"]["operators"])


def fetch(name: str) -> list[Path]:
    """Return the files with an operator's definitions; skip where its module is not to be had."""
    about: dict[str, t.Any] = config.versions()["cluster"]["operators"][name]
    go = gobuild.toolchain()
    if go is None:
        skip_or_fail(
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
        skip_or_fail(f"{module} is not to be had: {download['Error']}")
    assert download["Sum"] == about["sum"], f"{module}: the checksum is {download['Sum']}, and {about['sum']} is pinned"
    return [Path(download["Dir"]) / definition for definition in about["definitions"]]


def install(plane: Cluster, *names: str) -> None:
    """Have an API server know an operator's kinds. Nothing acts on them: there are no controllers."""
    for name in names:
        files = [argument for file in fetch(name) for argument in ("-f", str(file))]
        definitions = plane.kubectl("apply", "--server-side", *files, "-o", "name").split()
        plane.established(*definitions)


__all__ = ["fetch", "install", "names"]
