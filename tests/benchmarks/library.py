# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring: samples, a case with its peer, playbooks whose tasks are timed, the table and the JSON."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import typing as t
from pathlib import Path

HERE = Path(__file__).resolve().parent


class BenchmarkError(Exception):
    """A measurement failed; the text has the reason and what to do."""


class Sample(t.NamedTuple):
    """Measured values of one thing."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def summary(self) -> dict[str, float | int]:
        return {
            "median": round(self.median, 6),
            "minimum": round(min(self.values), 6),
            "maximum": round(max(self.values), 6),
            "runs": len(self.values),
        }


class Case(t.NamedTuple):
    """What was measured, against which peer of the same run, and the ratio that is the goal; some have none."""

    name: str
    unit: str
    subject: Sample
    peer_name: str | None = None
    peer: Sample | None = None
    goal: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        # Processor time comes in ticks: a short peer may have used none.
        return self.subject.median / self.peer.median if self.peer and self.peer.median else None

    @property
    def met(self) -> bool | None:
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio <= self.goal

    def document(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            **self.subject.summary(),
            "peer": {"name": self.peer_name, **self.peer.summary()} if self.peer else None,
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "goal": self.goal,
            "met": self.met,
            "note": self.note,
        }


def limited(name: str, unit: str, subject: Sample, limit: float, note: str = "") -> Case:
    """Return a case whose goal is a figure of its own, and not a peer's."""
    return Case(name, unit, subject, "at most", Sample([limit]), 1.0, note)


def environment(more: t.Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of what is measured: Python keeps what it has compiled, as an installed one has it."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**known, **(more or {})}


class Timing(t.NamedTuple):
    """What one command took: wall clock, and processor time of it and its children."""

    wall: float
    cpu: float


def time_command(argv: t.Sequence[str], *, limit: float, env: t.Mapping[str, str] | None = None) -> Timing:
    """Run a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
            env=environment(env),
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{' '.join(argv)} was stopped after {limit:.0f} s") from error
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-40:])
        raise BenchmarkError(f"{' '.join(argv)} exited with {done.returncode}:\n{end}")
    return Timing(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def interleave(subjects: t.Mapping[str, t.Callable[[], float]], *, runs: int, warm_up: int = 1) -> dict[str, Sample]:
    """Measure several things in turn, there and back, so that a slow minute of the machine hits all of them."""
    values_of: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(warm_up + runs):
        names = list(subjects) if number % 2 == 0 else list(subjects)[::-1]
        for name in names:
            value = subjects[name]()
            if number >= warm_up:
                values_of[name].append(value)
    return {name: Sample(values) for name, values in values_of.items()}


class Task(t.NamedTuple):
    """A task of a timed playbook, as the callback saw it."""

    play: str
    name: str
    status: str
    changed: bool
    seconds: float
    cpu: float | None
    result: t.Mapping[str, t.Any]


class Play(t.NamedTuple):
    """A play of a timed playbook: from its start to that of the next. `controller` is what ansible-playbook has worked."""

    name: str
    seconds: float
    cpu: float | None
    controller: float | None = None


class Played(t.NamedTuple):
    """A playbook's run: its tasks and plays in order."""

    tasks: list[Task]
    plays: list[Play]
    timing: Timing

    def named(self, name: str) -> list[Task]:
        return [task for task in self.tasks if task.name == name]

    def sample(self, name: str) -> Sample:
        values = [task.seconds for task in self.named(name) if task.status == "ok"]
        if not values:
            raise BenchmarkError(f"no task named '{name}' has succeeded")
        return Sample(values)

    def cpu_sample(self, name: str) -> Sample | None:
        values = [task.cpu for task in self.named(name) if task.status == "ok" and task.cpu is not None]
        return Sample(values) if values else None


def read_events(text: str) -> tuple[list[Task], list[Play]]:
    """Read what callback/task_times.py has written."""
    tasks: list[Task] = []
    plays: list[Play] = []
    started: dict[str, t.Any] | None = None
    for line in text.splitlines():
        event = json.loads(line)
        if event["event"] == "task":
            play = started["name"] if started else ""
            result = event["result"]
            changed = bool(result.get("changed"))
            tasks.append(Task(play, event["name"], event["status"], changed, event["seconds"], event["cpu"], result))
            continue
        if started:
            cpu, controller = (difference(event.get(key), started.get(key)) for key in ("cpu", "controller"))
            plays.append(Play(started["name"], event["at"] - started["at"], cpu, controller))
        started = event
    return tasks, plays


def difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def play(
    plays: t.Sequence[t.Mapping[str, t.Any]],
    *,
    inventory: Path,
    host: str,
    workplace: Path,
    pid: int | None = None,
    check: bool = False,
    limit: float = 1800,
    enter: t.Sequence[str] = (),
    env: t.Mapping[str, str] | None = None,
) -> Played:
    """Run plays on one host in one ansible-playbook, each task timed. ``enter`` stands before the command."""
    workplace.mkdir(parents=True, exist_ok=True)
    playbook = workplace / "playbook.yml"
    # JSON is YAML.
    playbook.write_text(json.dumps(list(plays), indent=1))
    events = workplace / "events.jsonl"
    events.unlink(missing_ok=True)
    argv = [*enter, str(Path(sys.executable).parent / "ansible-playbook")]
    argv += ["--inventory", str(inventory), "--limit", host, *(["--check"] if check else [])]
    timing = time_command(
        [*argv, str(playbook)],
        limit=limit,
        env={
            "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "task_times",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_FORCE_COLOR": "0",
            "TASK_TIMES": str(events),
            "TASK_TIMES_PID": str(pid or 0),
            **(env or {}),
        },
    )
    tasks, wall = read_events(events.read_text())
    return Played(tasks, wall, timing)


def table(cases: t.Sequence[Case]) -> str:
    """Lay the cases out for people."""
    rows = [("case", "median", "min", "max", "runs", "peer", "ratio", "goal", "")]
    for case in cases:
        rows.append(
            (
                case.name,
                f"{case.subject.median:.3f} {case.unit}",
                f"{min(case.subject.values):.3f}",
                f"{max(case.subject.values):.3f}",
                str(len(case.subject.values)),
                f"{case.peer_name} {case.peer.median:.3f} {case.unit}" if case.peer else "",
                "" if case.ratio is None else f"{case.ratio:.2f}",
                "" if case.goal is None else f"<= {case.goal:g}",
                {True: "met", False: "MISSED", None: ""}[case.met],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 5, 8}
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines += [f"{case.name}: {case.note}" for case in cases if case.note]
    return "\n".join(lines)


def document(cases: t.Sequence[Case], started: str, problems: t.Sequence[str]) -> dict[str, t.Any]:
    return {
        "schema": 1,
        "started": started,
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "load": os.getloadavg()[0],
            "python": platform.python_version(),
        },
        "cases": [case.document() for case in cases],
        "problems": list(problems),
    }


__all__ = [
    "BenchmarkError",
    "Case",
    "Play",
    "Played",
    "Sample",
    "Task",
    "Timing",
    "difference",
    "document",
    "environment",
    "interleave",
    "limited",
    "play",
    "read_events",
    "table",
    "time_command",
]
