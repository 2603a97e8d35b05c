# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time of the demonstration goes: what it takes to get, build and boot machines, and what the collection adds."""

from __future__ import annotations

import json
import pathlib
import typing as t

# What anybody waits for who wants two machines of this kind with these packages, rebooted once.
FLOOR = ("packages of this machine", "image", "boot", "packages of the nodes", "reboot")
PACKAGE_ACTIONS = ("package", "apt", "dnf")


class Task(t.NamedTuple):
    """A task of a playbook: from its start until the last host had done it."""

    name: str
    action: str
    seconds: float


def read_lines(path: pathlib.Path) -> list[dict[str, t.Any]]:
    """Read a file with a JSON document in each line; none where there is no file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def tasks(events: t.Iterable[t.Mapping[str, t.Any]]) -> list[Task]:
    """Return the tasks that tests/benchmarks/callback recorded: one for each start, whatever the number of hosts."""
    tasks: dict[float, Task] = {}
    for event in events:
        if event["event"] != "task":
            continue
        known = tasks.get(event["begun"])
        seconds = max(event["seconds"], known.seconds if known else 0.0)
        tasks[event["begun"]] = Task(event["name"], event["action"].rpartition(".")[2], seconds)
    return list(tasks.values())


def parts(
    total: float, before: float, lab: t.Iterable[t.Mapping[str, t.Any]], done: t.Iterable[Task]
) -> dict[str, float]:
    """Return the seconds of each part of the demonstration; they add up to its total.

    ``before`` is what this machine's packages took; ``lab`` has the steps of the lab as progress.step writes them.
    """
    steps, done = list(lab), list(done)

    def step(begins: str) -> float:
        return float(sum(row["seconds"] for row in steps if row["what"].startswith(begins)))

    seconds_of = {
        "packages of this machine": before,
        "image": step("building the image"),
        "boot": step("booting "),
        "packages of the nodes": sum(row.seconds for row in done if row.action in PACKAGE_ACTIONS),
        "reboot": sum(row.seconds for row in done if row.action in ("reboot", "node_reboot")),
    }
    seconds_of["the collection"] = total - sum(seconds_of.values())
    return {name: round(seconds, 1) for name, seconds in seconds_of.items()}


def floor(seconds_of: t.Mapping[str, float]) -> float:
    return sum(seconds_of[name] for name in FLOOR)


__all__ = ["FLOOR", "Task", "floor", "parts", "read_lines", "tasks"]
