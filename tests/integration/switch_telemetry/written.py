# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role, with its files in a directory of a test's own."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import program


def places(directory: Path) -> dict[str, t.Any]:
    """Return variables that keep the role away from the machine's own directories."""
    return {
        "switch_telemetry_program": str(program("gnmic")),
        "switch_telemetry_directory": str(directory.parent / "lib"),
        "__switch_telemetry_config_directory": str(directory),
        "__switch_telemetry_unit_directory": str(directory),
        "__switch_telemetry_record": str(directory.parent / "record.json"),
        "__switch_telemetry_judge_seconds": "2",
    }


def role(tasks_from: str = "main", **variables: t.Any) -> t.Any:
    return site.role("switch_telemetry", tasks_from, **variables)


__all__ = ["places", "role"]
