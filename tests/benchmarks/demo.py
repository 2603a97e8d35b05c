# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time of the last `make demo` went, against what it takes to build, boot, reboot and install alone."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Sample
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import Place
from ansible_collections.rdmaops.gpu_fabric.tests.lab import times
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

REPORT = COLLECTION / ".cache/demo/report.json"


def read(path: Path) -> dict[str, t.Any]:
    """Return the report of the last demonstration."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BenchmarkError("there is no report of a demonstration: run 'make demo'") from None
    if "parts" not in report:
        raise BenchmarkError(f"{path} is of an older demonstration, without its times: run 'make demo'")
    return t.cast("dict[str, t.Any]", report)


def rows(report: t.Mapping[str, t.Any]) -> list[Case]:
    """Return the whole against its floor, and each part."""
    parts = report["parts"]
    whole, floor = Sample([report["seconds"]]), Sample([times.floor(parts)])
    slowest = ", ".join(f"{task['name']} {task['seconds']:.0f} s" for task in report["slowest"][:5])
    note = f"{report['verdict']}; the slowest tasks: {slowest}" if slowest else report["verdict"]
    cases = [Case("make demo", "s", whole, "boot and packages", floor, note=note)]
    return cases + [Case(f"make demo, {name}", "s", Sample([seconds])) for name, seconds in parts.items()]


def demo(_place: Place) -> list[Case]:
    return rows(read(REPORT))


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"demo": demo}

__all__ = ["CASES", "read", "rows"]
