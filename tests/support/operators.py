# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of operators for training jobs on a test's API server."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, operator_definitions
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError
from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster


def names() -> list[str]:
    return list(config.versions()["cluster"]["operators"])


def fetch(name: str) -> list[Path]:
    """Return the files with an operator's definitions; skip where its module is not to be had."""
    try:
        return operator_definitions.fetch(name, config.versions())
    except LabError as exc:
        skip_or_fail(str(exc))


def install(plane: Cluster, *names: str) -> None:
    """Have an API server know an operator's kinds. Nothing acts on them: there are no controllers."""
    for name in names:
        files = [argument for file in fetch(name) for argument in ("-f", str(file))]
        definitions = plane.kubectl("apply", "--server-side", *files, "-o", "name").split()
        plane.established(*definitions)


__all__ = ["fetch", "install", "names"]
