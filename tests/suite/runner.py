# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs what a part consists of, within its time, and remembers how each check went."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import typing as t
import xml.etree.ElementTree as ET
from pathlib import Path

from .load import Others, Pace
from .tree import OUTPUT, ROOT, clean_environment

# A part is stopped after this many times its budget: a processor at half speed and others who take half of its time
# together make it four times as slow.
HARD = 4

# Says where tests write what they have tried and lost (tests/support/faults.py).
FAULTS = "RDMAOPS_FAULTS"

Status = t.Literal["passed", "failed", "skipped"]


class Check(t.NamedTuple):
    """One thing that was tested."""

    part: str
    name: str
    status: Status
    seconds: float
    reason: str = ""


class Part(t.NamedTuple):
    """One part of the tests, with the seconds that it may take (in `make test`, in `make test-all`).

    Without a budget in `make test` a part runs in `make test-all`, or when it is named. `tests` are git's pathspecs for
    what it reads besides what users get; a part with `pages` reads everything.
    """

    name: str
    about: str
    budget: int
    budget_all: int
    run: t.Callable[[Runner], object]
    tests: tuple[str, ...] = ()
    pages: bool = False


class Outcome(t.NamedTuple):
    """What came of a part: how long it took and might have taken, the share of the processors that others had."""

    counts: dict[Status, int]
    seconds: float
    allowed: float
    others: float
    stopped: bool
    # kind -> how often a fault was tried, and how often something was lost
    faults: dict[str, tuple[int, int]]
    commit: str
    ended: str


def faults_in(path: Path) -> dict[str, tuple[int, int]]:
    """Return how often each kind of fault was tried, and how often something was lost."""
    kinds: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            tried, lost = kinds.get(record["kind"], (0, 0))
            kinds[record["kind"]] = (tried + record["tried"], lost + record["lost"])
    return kinds


def budget_of(part: Part, everything: bool) -> int:
    return part.budget_all if everything or not part.budget else part.budget


def counts(checks: t.Iterable[Check]) -> dict[Status, int]:
    counted = collections.Counter(check.status for check in checks)
    return {status: counted[status] for status in ("passed", "failed", "skipped")}


def clock(seconds: float) -> str:
    """Minutes and seconds, for people."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Runner:
    """Runs checks of one part after the other and remembers how they went.

    `limit` is the seconds that all parts may take.
    """

    def __init__(
        self,
        *,
        everything: bool,
        require_all: bool,
        limit: float = float("inf"),
        output: Path = OUTPUT,
        commit: str = "",
        pytest_options: t.Sequence[str] = (),
    ) -> None:
        self.everything = everything
        self.require_all = require_all
        self.limit = limit
        self.output = output
        self.pytest_options = list(pytest_options)
        self.checks: list[Check] = []
        self.outcomes: dict[str, Outcome] = {}
        self.commit = commit
        self.stopped: set[str] = set()
        self.part = ""
        self.part_limit = float("inf")
        self.others = Others()
        self.pace = self.part_pace = Pace(self.others)
        self.environment = self._environment()

    def _environment(self) -> dict[str, str]:
        environment = clean_environment()
        scripts = Path(sys.prefix) / "bin"
        site = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        environment.update(
            PATH=f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            VIRTUAL_ENV=sys.prefix,
            # Not ~/.ansible/collections: an installed release of this collection would be tested instead.
            ANSIBLE_COLLECTIONS_PATH=str(site),
            LC_ALL="C.UTF-8",
            PYTHONUNBUFFERED="1",
        )
        if self.require_all:
            environment["REQUIRE_ALL"] = "1"
        return environment

    def say(self, text: str) -> None:
        print(text, flush=True)

    def add(self, name: str, status: Status, seconds: float = 0.0, reason: str = "") -> None:
        if status == "skipped" and self.require_all:
            status, reason = "failed", f"skipped, and REQUIRE_ALL is set: {reason}"
        self.checks.append(Check(self.part, name, status, seconds, reason))
        mark = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}[status]
        self.say(f"  {mark:8}{name}  {seconds:.1f} s{'  ' + reason if reason else ''}")

    def log_of(self, name: str) -> Path:
        return self.output / self.part / (re.sub(r"[^A-Za-z0-9._-]+", "-", name) + ".log")

    def time_left(self, began: float = 0, limit: float = float("inf")) -> float:
        """Return the seconds that a command that began then may still take of its limit, the part's and the whole's."""
        now = time.monotonic()
        whole = self.limit - (now - self.pace.began)
        part = self.part_limit - (now - self.part_pace.began)
        return min(whole, part, limit - (now - began))

    def execute(
        self,
        name: str,
        argv: t.Sequence[str],
        *,
        limit: float,
        live: bool = False,
        cwd: Path | None = None,
        env: t.Mapping[str, str] | None = None,
    ) -> tuple[int | None, float]:
        """Run a command with its output in a log; return its exit status (None: stopped) and its seconds."""
        log = self.log_of(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        log.unlink(missing_ok=True)
        # Not a pipe: a daemon that a command leaves behind may write to the log for as long as it lives.
        with log.open("ab") as sink, log.open("rb") as source:
            sink.write(f"$ {shlex.join(argv)}\n".encode())
            sink.flush()
            source.seek(0, os.SEEK_END)
            if self.time_left() <= 0:
                sink.write(b"not started: the part is out of time\n")
                self.stopped.add(self.part)
                return None, 0.0
            try:
                process = subprocess.Popen(
                    list(argv),
                    cwd=cwd or ROOT,
                    env={**self.environment, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                sink.write(f"cannot run {argv[0]}: {error}\n".encode())
                return 127, time.monotonic() - began
            status: int | None = None
            try:
                while status is None and (left := self.time_left(began, limit)) > 0:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        status = process.wait(min(left, 1))
                    self._show_new(source, live)
            finally:
                if status is None:
                    self._stop(process)
            self._show_new(source, live)
            if status is None:
                sink.write(f"stopped after {time.monotonic() - began:.0f} s\n".encode())
                if self.time_left() <= 0:
                    self.stopped.add(self.part)
        return status, time.monotonic() - began

    @staticmethod
    def _show_new(source: t.BinaryIO, live: bool) -> None:
        """Print what a log has got since the last time."""
        if live:
            sys.stdout.flush()
            shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        # An interrupted pytest still writes its report; Molecule passes the signal on.
        for number, patience in ((signal.SIGINT, 20), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def show(self, name: str, lines: int = 150) -> None:
        """Print the end of a log."""
        text = self.log_of(name).read_text(errors="replace").splitlines()
        for line in text[-lines:]:
            self.say(f"    {line}")

    def command(
        self,
        name: str,
        argv: t.Sequence[str],
        *,
        limit: float,
        live: bool = False,
        cwd: Path | None = None,
        env: t.Mapping[str, str] | None = None,
    ) -> bool:
        """Check that a command exits with 0."""
        status, seconds = self.execute(name, argv, limit=limit, live=live, cwd=cwd, env=env)
        if status == 0:
            self.add(name, "passed", seconds)
            return True
        if not live:
            self.show(name)
        self.add(name, "failed", seconds, "stopped: out of time" if status is None else f"exit status {status}")
        return False

    def junit(self, *reports: Path, prefix: str = "") -> int:
        """Add the cases of JUnit reports; return their number."""
        cases: list[ET.Element] = []
        for report in reports:
            with contextlib.suppress(OSError, ET.ParseError):
                cases += ET.parse(report).iter("testcase")
        passed = 0
        for case in cases:
            name = prefix + "::".join(filter(None, (case.get("classname"), case.get("name"))))
            seconds = float(case.get("time") or 0)
            wrong = [child for child in case if child.tag in ("failure", "error")]
            skipped = [child for child in case if child.tag == "skipped"]
            if wrong:
                self.add(name, "failed", seconds, next(iter((wrong[0].get("message") or "").splitlines()), ""))
            elif skipped and skipped[0].get("type") != "pytest.xfail":
                self.add(name, "skipped", seconds, skipped[0].get("message") or "no reason given")
            else:
                self.checks.append(Check(self.part, name, "passed", seconds))
                passed += 1
        if passed:
            self.say(f"  {'ok':8}{passed} test cases")
        return len(cases)

    def pytest(
        self,
        name: str,
        *arguments: str,
        limit: float,
        env: t.Mapping[str, str] | None = None,
        program: t.Sequence[str] = (sys.executable, "-m", "pytest"),
        long: bool | None = None,
        prefix: str = "",
    ) -> None:
        """Run pytest and count its cases."""
        report = self.log_of(name).with_suffix(".xml")
        report.unlink(missing_ok=True)
        long = self.everything if long is None else long
        argv = [*program, "-q", "--color=no", f"--junitxml={report}", "--durations=5", *(["--long"] if long else [])]
        argv += [*self.pytest_options, *arguments]
        status, seconds = self.execute(name, argv, limit=limit, live=True, env=env)
        failures = sum(check.status == "failed" for check in self.checks)
        self.junit(report, prefix=prefix)
        new_failures = sum(check.status == "failed" for check in self.checks) - failures
        if status is None:
            self.add(f"pytest {name}", "failed", seconds, "stopped: out of time")
        elif status == 5:
            self.add(f"pytest {name}", "failed", seconds, f"missing: no test in {' '.join(arguments)}")
        elif status != 0 and not new_failures:
            self.add(f"pytest {name}", "failed", seconds, f"exit status {status}")

    def checks_of(self, part: str) -> list[Check]:
        return [check for check in self.checks if check.part == part]

    def run(self, part: Part) -> Outcome:
        """Run one part, and remember what came of it."""
        budget = budget_of(part, self.everything)
        self.part = part.name
        shutil.rmtree(self.output / part.name, ignore_errors=True)
        (self.output / part.name).mkdir(parents=True)
        faults = self.output / part.name / "faults.jsonl"
        self.environment[FAULTS] = str(faults)
        self.part_limit = HARD * budget
        self.part_pace = pace = Pace(self.others)
        self.say(f"\n== {part.name}: {part.about} (budget {clock(budget)})")
        began = time.monotonic()
        try:
            part.run(self)
        except (OSError, subprocess.SubprocessError) as error:
            self.add(part.name, "failed", time.monotonic() - began, f"{type(error).__name__}: {error}")
        if not self.checks_of(part.name):
            self.add(part.name, "failed", 0, "nothing was tested")
        outcome = Outcome(
            counts(self.checks_of(part.name)),
            time.monotonic() - began,
            budget * pace.factor(),
            pace.share(),
            part.name in self.stopped,
            faults_in(faults),
            self.commit,
            time.strftime("%Y-%m-%d %H:%M"),
        )
        self.outcomes[part.name] = outcome
        return outcome
