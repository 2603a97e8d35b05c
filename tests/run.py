# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the parts of `make test`, each within its time, and count what passed, failed and was skipped."""

from __future__ import annotations

import argparse
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
import tempfile
import threading
import time
import typing as t
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / ".cache" / "test"
COLLECTION = "ansible_collections.rdmaops.gpu_fabric"
FQCN_PATH = Path("ansible_collections/rdmaops/gpu_fabric")

# What the budgets of `make test` may add up to, on two quiet cores.
TOTAL_LIMIT = 40 * 60
# On a slow day: what they may take together, as a multiple of their budgets, and what one of them may take of that.
HARD = 1.5
HARD_PART = 2

# What needs a Kubernetes API server.
CLUSTER = (
    "tests/integration/cluster",
    "tests/integration/exporter/test_daemonset.py",
    "tests/integration/lab_cluster",
)

# Where tests write what they have tried and lost (tests/support/faults.py).
FAULTS = "faults.jsonl"

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

    Without a budget in `make test` a part runs in `make test-all`, or when it is named.
    """

    name: str
    about: str
    budget: int
    budget_all: int
    run: t.Callable[[Runner], object]


def budget_of(part: Part, everything: bool) -> int:
    return part.budget_all if everything or not part.budget else part.budget


def clock(seconds: float) -> str:
    """Minutes and seconds, for people."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def clean_environment() -> dict[str, str]:
    """Return the caller's environment less what was set for other work: it must not decide a test."""
    other = re.compile(r"ANSIBLE_|MOLECULE_|PYTHON(PATH|HOME|STARTUP)$|PYTEST_|MYPY|RUFF_|GIT_|REQUIRE_ALL$")
    environment = {name: value for name, value in os.environ.items() if not other.match(name)}
    # The clone may belong to another user than the one who tests.
    environment.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0=str(ROOT))
    return environment


def files(*patterns: str) -> list[str]:
    """Return the files that git tracks, or would: what a clone or the next commit holds."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(argv, cwd=ROOT, env=clean_environment(), check=True, capture_output=True, timeout=60)
    return sorted({name for name in os.fsdecode(listed.stdout).split("\0") if name and (ROOT / name).is_file()})


def export(target: Path) -> Path:
    """Copy what a user gets to where ansible-test wants to find it, and return that directory.

    Tests are read by ruff and mypy: ansible-test's rules are about code that Ansible loads.
    """
    shutil.rmtree(target, ignore_errors=True)
    tree = target / FQCN_PATH
    tree.mkdir(parents=True)
    for name in files():
        if name.startswith(("tests/", "molecule/", ".")):
            continue
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    return tree


def interpreters() -> dict[str, str]:
    """Return every Python 3.8 to 3.13 of this machine: version to path.

    A pyenv shim exits 127 when its version is not selected, so shims are looked behind: each candidate is run.
    """
    directories = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    roots = [entry.parent for entry in directories if entry.name == "shims"]
    roots += [Path(os.environ["PYENV_ROOT"])] if os.environ.get("PYENV_ROOT") else []
    for root in (*roots, Path.home() / ".pyenv"):
        directories += sorted((root / "versions").glob("3.*/bin"))
    found: dict[str, str] = {}
    for minor in range(8, 14):
        version = f"3.{minor}"
        for directory in directories:
            candidate = directory / f"python{version}"
            if directory.name == "shims" or not os.access(candidate, os.X_OK):
                continue
            argv = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                answer = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
                if answer.returncode == 0 and answer.stdout.strip() == version:
                    found[version] = str(candidate)
                    break
    return found


class Runner:
    """Runs checks of one part after the other and remembers how they went."""

    def __init__(self, *, everything: bool, require_all: bool) -> None:
        self.everything = everything
        self.require_all = require_all
        self.checks: list[Check] = []
        self.times: dict[str, float] = {}
        self.stopped: set[str] = set()
        self.part = ""
        self.deadline = 0.0
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
            RDMAOPS_FAULTS=str(OUTPUT / FAULTS),
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
        return OUTPUT / self.part / (re.sub(r"[^A-Za-z0-9._-]+", "-", name) + ".log")

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
        limit = min(limit, self.deadline - began)
        with log.open("wb") as sink:
            sink.write(f"$ {shlex.join(argv)}\n".encode())
            sink.flush()
            if limit <= 0:
                sink.write(b"not started: the part is out of time\n")
                self.stopped.add(self.part)
                return None, 0.0
            try:
                process = subprocess.Popen(
                    list(argv),
                    cwd=cwd or ROOT,
                    env={**self.environment, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                sink.write(f"cannot run {argv[0]}: {error}\n".encode())
                return 127, time.monotonic() - began
            # A daemon that a command leaves behind keeps the pipe open: reading is left to a thread.
            reader = threading.Thread(target=self._copy, args=(process, sink, live), daemon=True)
            reader.start()
            status: int | None
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
                self._stop(process)
            except BaseException:
                self._stop(process)
                raise
            reader.join(5)
            if status is None:
                sink.write(f"stopped after {limit:.0f} s\n".encode())
                if time.monotonic() >= self.deadline:
                    self.stopped.add(self.part)
        return status, time.monotonic() - began

    @staticmethod
    def _copy(process: subprocess.Popen[bytes], sink: t.BinaryIO, live: bool) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):
            while chunk := os.read(process.stdout.fileno(), 65536):
                sink.write(chunk)
                sink.flush()
                if live:
                    sys.stdout.buffer.write(chunk)
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
        status, seconds = self.execute(name, [*argv, *arguments], limit=limit, live=True, env=env)
        failures = sum(check.status == "failed" for check in self.checks)
        self.junit(report, prefix=prefix)
        new_failures = sum(check.status == "failed" for check in self.checks) - failures
        if status is None:
            self.add(f"pytest {name}", "failed", seconds, "stopped: out of time")
        elif status == 5:
            self.add(f"pytest {name}", "failed", seconds, f"missing: no test in {' '.join(arguments)}")
        elif status != 0 and not new_failures:
            self.add(f"pytest {name}", "failed", seconds, f"exit status {status}")

    def run(self, part: Part, ends: float) -> None:
        """Run one part, and write down its time."""
        budget = budget_of(part, self.everything)
        self.part = part.name
        shutil.rmtree(OUTPUT / part.name, ignore_errors=True)
        (OUTPUT / part.name).mkdir(parents=True)
        began = time.monotonic()
        self.deadline = min(began + HARD_PART * budget, ends)
        self.say(f"\n== {part.name}: {part.about} (budget {clock(budget)})")
        try:
            part.run(self)
        except (OSError, subprocess.SubprocessError) as error:
            self.add(part.name, "failed", time.monotonic() - began, f"{type(error).__name__}: {error}")
        if not any(check.part == part.name for check in self.checks):
            self.add(part.name, "failed", 0, "nothing was tested")
        self.times[part.name] = time.monotonic() - began


# --- the parts ----------------------------------------------------------------------------------------------------


def lint(runner: Runner) -> None:
    """Everything that reads the code without running it."""
    scripts = Path(sys.prefix) / "bin"
    headers(runner)
    runner.command("ruff check", [str(scripts / "ruff"), "check", "--no-fix", "."], limit=60)
    runner.command("ruff format", [str(scripts / "ruff"), "format", "--check", "."], limit=60)
    runner.command("yamllint", [str(scripts / "yamllint"), "--strict", "."], limit=60)
    mypy(runner)
    vermin = [
        str(scripts / "vermin"),
        "--target=3.8-",
        "--violations",
        "--no-tips",
        "plugins",
        *files("roles/*/files/*.py"),
    ]
    runner.command("vermin: what nodes run, on Python 3.8", vermin, limit=60)
    compile_with_old_pythons(runner)
    for name in files("*.sh", ".ci/run", "tests/lab/demo"):
        if (ROOT / name).read_bytes().startswith(b"#!/usr/bin/env bash"):
            runner.command(f"bash -n {name}", ["bash", "-n", name], limit=10)
    runner.command("antsibull-changelog lint", [str(scripts / "antsibull-changelog"), "lint"], limit=60)
    docs = ["lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all", "--skip-rstcheck", "."]
    runner.command("antsibull-docs lint", [str(scripts / "antsibull-docs"), *docs], limit=120)
    reference = [sys.executable, str(ROOT / "tests" / "tools" / "reference.py"), "--check"]
    runner.command("docs/reference and the roles' READMEs are what the code says", reference, limit=120)
    runner.command("ansible-lint", [str(scripts / "ansible-lint"), "--offline", "--strict", "--nocolor"], limit=240)


def headers(runner: Runner) -> None:
    """Every file says whose it is and under which licence."""
    # Recorded output of real tools is kept as it was; JSON and go.sum have no comments; antsibull-changelog writes two files.
    exempt = re.compile(
        r"(^|/)fixtures/|^LICENSE$|\.(json|patch|sum|xml|png|svg|gz|xz|zst|lz4|img|bin|license)$|^CHANGELOG.md$|^changelogs/changelog.yaml$"
    )
    began = time.monotonic()
    wrong = []
    for name in files():
        content = (ROOT / name).read_bytes()[:2000].decode(errors="replace")
        wanted = ["Copyright: (c) 2026, rdmaops contributors", "SPDX-License-Identifier: GPL-3.0-or-later"]
        if name.startswith(("plugins/modules/", "plugins/module_utils/")):
            wanted.append("GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)")
        if content and not exempt.search(name):
            wrong += [f"{name}: no line '{line}'" for line in wanted if line not in content]
    for line in wrong:
        runner.say(f"    {line}")
    seconds = time.monotonic() - began
    runner.add("licence headers", "failed" if wrong else "passed", seconds, f"{len(wrong)} missing" if wrong else "")


def mypy(runner: Runner) -> None:
    """Check types by the collection's own package name, which a checkout does not have in its path."""
    stage = ROOT / ".cache" / "mypy-path" / FQCN_PATH
    stage.parent.mkdir(parents=True, exist_ok=True)
    if not stage.is_symlink():
        stage.symlink_to("../../../..")
    packages = [
        "plugins.action",
        "plugins.callback",
        "plugins.filter",
        "plugins.module_utils",
        "plugins.modules",
        "plugins.plugin_utils",
    ]
    packages += ["roles.rdma_exporter.files.rdma_exporter", "tests.support", "tests.lab", "tests.benchmarks"]
    argv = [str(Path(sys.prefix) / "bin" / "mypy")]
    for package in packages:
        if files(package.replace(".", "/") + "/*.py"):
            argv += ["-p", f"{COLLECTION}.{package}"]
    argv += ["-m", f"{COLLECTION}.tests.run"]
    scenarios, places = tests_of_scenarios()
    for module in scenarios:
        argv += ["-m", module]
    path = [ROOT / ".cache" / "mypy-path", ROOT, *places]
    runner.command("mypy", argv, limit=180, env={"MYPYPATH": os.pathsep.join(map(str, path))})


def tests_of_scenarios() -> tuple[list[str], list[Path]]:
    """Return the modules of Molecule's tests, and the folders of those that others import by their bare name."""
    modules, places = [], []
    for name in files("molecule/*.py"):
        path = Path(name)
        if path.stem == "conftest" or path.stem.startswith("test_"):
            modules.append(".".join(path.with_suffix("").parts))
        else:
            modules.append(path.stem)
            places.append(ROOT / path.parent)
    return modules, sorted(set(places))


def compile_with_old_pythons(runner: Runner) -> None:
    """Let every Python of this machine read what managed nodes run."""
    sources = files("plugins/*.py", "roles/*/files/*.py")
    code = "import sys\nfor path in sys.argv[1:]:\n    compile(open(path, 'rb').read(), path, 'exec')\n"
    found = interpreters()
    for version, path in found.items():
        runner.command(f"compile: what nodes run, by Python {version}", [path, "-c", code, *sources], limit=60)
    if "3.8" not in found:
        runner.say("  note    no Python 3.8 on this machine: vermin alone has judged what it can read")


def sanity(runner: Runner) -> None:
    """Run ansible-test sanity on a copy: it refuses to run outside ansible_collections/NAMESPACE/NAME."""
    # Outside the checkout: it asks git which files there are, and what git ignores it does not test.
    with tempfile.TemporaryDirectory(prefix="rdmaops-sanity-") as base:
        sanity_in(runner, export(Path(base)))


def sanity_in(runner: Runner, tree: Path) -> None:
    home = ROOT / ".cache" / "sanity" / "home"
    get_pip_stand_in(runner, home / ".ansible" / "test" / "cache")
    pythons = ROOT / ".cache" / "sanity" / "pythons"
    shutil.rmtree(pythons, ignore_errors=True)
    pythons.mkdir(parents=True)
    for version, path in interpreters().items():
        (pythons / f"python{version}").symlink_to(path)
    directories = [str(Path(sys.prefix) / "bin"), str(pythons)]
    directories += [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if "shims" not in entry]
    environment = {"HOME": str(home), "PATH": os.pathsep.join(directories)}
    # pip's configuration stays what it is for the caller.
    with contextlib.suppress(OSError):
        (home / ".config").mkdir(parents=True, exist_ok=True)
        (home / ".config" / "pip").symlink_to(Path.home() / ".config" / "pip")
    argv = [str(Path(sys.prefix) / "bin" / "ansible-test"), "sanity", "--local", "--junit", "--color", "no"]
    # What has nothing to look at would count as skipped.
    for test, patterns in {
        "empty-init": ["modules/__init__.py"],
        "pslint": ["*.ps1", "*.psm1"],
        "shellcheck": ["*.sh"],
    }.items():
        if not any(found for pattern in patterns for found in tree.rglob(pattern)):
            argv += ["--skip-test", test]
    status, seconds = runner.execute("sanity", argv, limit=600, live=True, cwd=tree, env=environment)
    failures = sum(check.status == "failed" for check in runner.checks)
    runner.junit(*sorted((tree / "tests" / "output" / "junit").glob("*.xml")))
    if status != 0 and sum(check.status == "failed" for check in runner.checks) == failures:
        reason = "stopped: out of time" if status is None else f"exit status {status}"
        runner.add("ansible-test sanity", "failed", seconds, reason)


def get_pip_stand_in(runner: Runner, cache: Path) -> None:
    """Give ansible-test the pip that it bootstraps its environments with.

    It would fetch get-pip.py of this version from a file host of the Ansible project, which not every site reaches.
    The wheel of the same version comes from the package index instead.
    """
    version = "24.2"
    cache.mkdir(parents=True, exist_ok=True)
    if not list(cache.glob(f"pip-{version}-*.whl")):
        for python in (ROOT / ".deps" / "uv" / "bin" / "python", Path(sys.executable)):
            if subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True, timeout=60).returncode == 0:
                break
        argv = [str(python), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        runner.execute("pip", [*argv, "--dest", str(cache), f"pip=={version}"], limit=120)
    (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(
        "import glob, os, runpy, sys\n"
        "here = os.path.dirname(os.path.abspath(os.environ['GET_PIP']))\n"
        f"sys.path.insert(0, glob.glob(here + '/pip-{version}-*.whl')[0])\n"
        "specs = [a for a in sys.argv[1:] if not a.startswith('-')]\n"
        "sys.argv = ['pip', 'install', '--disable-pip-version-check', '--no-index', '--find-links', here, *specs]\n"
        "runpy.run_module('pip', run_name='__main__', alter_sys=True)\n"
    )


def unit(runner: Runner) -> None:
    """Run the tests that need nothing but Python."""
    runner.pytest("unit", "-n", "2", "tests/unit", limit=7200)


def integration(runner: Runner) -> None:
    """Run the tests against real tools and this machine's kernel."""
    apart = [f"--ignore={place}" for place in CLUSTER]
    if runner.everything:
        get = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "tool", "gnmic", "gnmi_target"]
        runner.execute("gNMIc and what it asks", get, limit=3000, live=True)
    runner.pytest("integration", "-n", "2", "--dist", "loadfile", *apart, "tests/integration", limit=3600)


def cluster(runner: Runner) -> None:
    """Run what needs an API server, once its programs are there."""
    # Where there is no way to have them, each test says so.
    get = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "tool"]
    runner.execute("programs of the control plane", get, limit=3000, live=True)
    # A file has a control plane of its own, or shares the lab's.
    runner.pytest("cluster", "-n", "2", "--dist", "loadfile", *CLUSTER, limit=7200)


def artifact(runner: Runner) -> None:
    """Build the artifact and use it where nothing else is installed."""
    runner.pytest("artifact", "tests/artifact", limit=1800)
    if not runner.everything:
        support(runner, everything=False)


def support(runner: Runner, everything: bool = True) -> None:
    """Run tests with every ansible-core, Python and system that is supported; print a table of what ran with what."""
    import pytest

    from ansible_collections.rdmaops.gpu_fabric.tests.support import environment, matrix

    lines = []
    for row in matrix.ROWS:
        if not (everything or row.core):
            continue
        before, began = len(runner.checks), time.monotonic()
        try:
            how = matrix.prepare(row)
        except (OSError, subprocess.SubprocessError, environment.CannotMake) as error:
            runner.add(row.name, "failed", time.monotonic() - began, f"cannot be prepared: {error}")
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            runner.add(row.name, "skipped", time.monotonic() - began, str(error))
        else:
            arguments = ["-p", "no:cacheprovider", *row.apart, *(["-k", row.only] if row.only else []), *row.tests]
            runner.pytest(
                row.name, *arguments, limit=1800, env=how.env, program=how.argv, long=row.long and everything,
                prefix=f"{row.name}: ",
            )  # fmt: skip
        count = counts(runner.checks[before:])
        numbers = "".join(f"{count[status]:>9}" for status in ("passed", "failed", "skipped"))
        lines.append(f"  {row.where:52}{row.what:16}{numbers}{clock(time.monotonic() - began):>8}")
    runner.say(f"\n  {'ran with':52}{'what':16}{'passed':>9}{'failed':>9}{'skipped':>9}{'time':>8}")
    for line in lines:
        runner.say(line)


def molecule(runner: Runner) -> None:
    """Run the scenarios on the lab's virtual machines."""
    scenarios = ["default"]
    if runner.everything:
        scenarios = sorted(Path(name).parent.name for name in files("molecule/*/molecule.yml"))
    for scenario in scenarios:
        name = f"molecule {scenario}"
        if not (ROOT / "molecule" / scenario / "molecule.yml").is_file():
            runner.add(name, "failed", 0, f"missing: molecule/{scenario}/molecule.yml")
            continue
        reports = OUTPUT / "molecule" / scenario
        reports.mkdir(parents=True, exist_ok=True)
        environment = {
            # Two checkouts of one name would share the default, which hashes the directory's name.
            "MOLECULE_EPHEMERAL_DIRECTORY": str(ROOT / ".cache" / "molecule" / scenario),
            "RDMAOPS_JUNIT_DIRECTORY": str(reports),
            "NO_COLOR": "1",
        }
        argv = [str(Path(sys.prefix) / "bin" / "molecule"), "test", "--scenario-name", scenario]
        runner.command(name, argv, limit=3 * 3600, live=True, env=environment)
        runner.junit(*sorted(reports.glob("*.xml")), prefix=f"{scenario}: ")
        if runner.part in runner.stopped:
            # The scenario had no time to clean up behind itself.
            lab(["cluster", "down"], ["down"])


def lab(*commands: t.Sequence[str]) -> None:
    """Have lab.py clean up; what cannot be ended is no test's result."""
    for words in commands:
        argv = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), *words]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=120, check=False)


def faults(runner: Runner) -> None:
    """Run the tests on a virtual machine; those that break it on purpose come last."""
    try:
        up = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "up"]
        if runner.command("lab up", up, limit=3600, live=True):
            runner.pytest("nodes", "tests/integration/lab", limit=3 * 3600)
            runner.pytest("faults", "--long", "tests/faults", limit=3 * 3600)
    finally:
        # Not the control plane: others may be using it.
        lab(["down"])


PARTS = (
    Part("lint", "ruff, yamllint, mypy, vermin, old Pythons, docs, ansible-lint", 180, 200, lint),
    Part("sanity", "ansible-test sanity on an exported copy", 250, 300, sanity),
    Part("unit", "pytest without root, tools or machines", 120, 4800, unit),
    Part("integration", "pytest with real tools and this kernel", 360, 2400, integration),
    Part("cluster", "modules and roles on a real Kubernetes API server", 530, 5400, cluster),
    Part("artifact", "the built collection in an empty environment, and what Galaxy says of it", 60, 480, artifact),
    Part("molecule", "scenarios on virtual machines", 900, 14400, molecule),
    # Only in `make test-all`.
    Part("support", "every ansible-core, Python and system that is supported", 0, 2400, support),
    Part("faults", "runs stopped, power cut and sources gone stale on a virtual machine", 0, 7200, faults),
)


# --- the report ---------------------------------------------------------------------------------------------------


def counts(checks: t.Iterable[Check]) -> collections.Counter[Status]:
    return collections.Counter(check.status for check in checks)


def tried_and_lost(path: Path) -> dict[str, tuple[int, int]]:
    """Return how often each kind of fault was tried, and how often something was lost."""
    found: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            tried, lost = found.get(one["kind"], (0, 0))
            found[one["kind"]] = (tried + one["tried"], lost + one["lost"])
    return dict(sorted(found.items()))


def report_faults(runner: Runner) -> dict[str, tuple[int, int]]:
    """Print what was tried and lost, by kind, where anything was."""
    found = tried_and_lost(OUTPUT / FAULTS)
    if found:
        width = max(26, *(len(kind) + 2 for kind in found))
        runner.say(f"\n{'faults and hostile input':{width}}{'tried':>10}{'lost':>8}")
        total = (sum(tried for tried, _lost in found.values()), sum(lost for _tried, lost in found.values()))
        for kind, (tried, lost) in {**found, "total": total}.items():
            runner.say(f"{kind:{width}}{tried:>10}{lost:>8}")
    return found


def handle_termination(_number: int, _frame: object) -> t.NoReturn:
    raise KeyboardInterrupt


def report(runner: Runner, parts: t.Sequence[Part]) -> str:
    """Print the table, what failed, what was skipped and why; return the last line."""
    runner.say(f"\n{'part':14}{'budget':>8}{'time':>8}{'passed':>9}{'failed':>8}{'skipped':>9}")
    for part in parts:
        budget = budget_of(part, runner.everything)
        taken = runner.times.get(part.name)
        count = counts(check for check in runner.checks if check.part == part.name)
        note = "  not run" if taken is None else ""
        if part.name in runner.stopped:
            note = "  STOPPED: out of time"
        elif taken is not None and taken > budget:
            note = "  over budget"
        runner.say(
            f"{part.name:14}{clock(budget):>8}{clock(taken or 0):>8}"
            f"{count['passed']:>9}{count['failed']:>8}{count['skipped']:>9}{note}"
        )
    total = counts(runner.checks)
    runner.say(
        f"{'total':14}{'':>8}{clock(sum(runner.times.values())):>8}"
        f"{total['passed']:>9}{total['failed']:>8}{total['skipped']:>9}"
    )
    for status in ("skipped", "failed"):
        reasons = collections.Counter(
            (check.part, check.reason if status == "skipped" else f"{check.name}: {check.reason}")
            for check in runner.checks
            if check.status == status
        )
        if reasons:
            runner.say(f"\n{status}:")
        for (name, reason), number in sorted(reasons.items()):
            runner.say(f"  {name}: {f'{number} times: ' if number > 1 else ''}{reason}")
    faults_found = report_faults(runner)
    logs = OUTPUT.relative_to(ROOT)
    runner.say(f"\nlogs and reports: {logs}/")
    summary = {
        "parts": {
            part.name: {
                "budget_s": budget_of(part, runner.everything),
                "seconds": round(runner.times.get(part.name, 0), 1),
                "stopped": part.name in runner.stopped,
                **counts(check for check in runner.checks if check.part == part.name),
            }
            for part in parts
        },
        "faults": {kind: {"tried": tried, "lost": lost} for kind, (tried, lost) in faults_found.items()},
        "checks": [check._asdict() for check in runner.checks],
    }
    (OUTPUT / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped"


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every scenario and the tests marked `long`")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one or more of: {', '.join(names)}")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(names))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}. The parts are: {', '.join(names)}")
    everything = arguments.all
    parts = [
        part
        for part in PARTS
        if (part.name in arguments.parts if arguments.parts else part.budget_all if everything else part.budget)
    ]
    try:
        files("galaxy.yml")
    except (OSError, subprocess.SubprocessError) as error:
        print(f"tests: git must list the files of {ROOT}, a clone of the repository: {error}", file=sys.stderr)
        return 2
    # A shell has what it starts in the background ignore it, and all that is started from here with it: what a part is
    # ended by, and what some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = Runner(
        everything=everything,
        require_all=os.environ.get("REQUIRE_ALL", "") not in ("", "0", "false", "no"),
    )
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / FAULTS).unlink(missing_ok=True)
    whole = sum(HARD * budget_of(part, arguments.all) for part in parts)
    # Parts that are named may take what they need; `make test` as a whole may not.
    ends = time.monotonic() + (whole if arguments.all or arguments.parts else HARD * TOTAL_LIMIT)
    interrupted = False
    try:
        for part in parts:
            runner.run(part, ends)
    except KeyboardInterrupt:
        interrupted = True
        runner.add("interrupted", "failed")
    last = report(runner, parts)
    print(last, flush=True)
    return 1 if interrupted or counts(runner.checks)["failed"] else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, handle_termination)
    sys.exit(main())
