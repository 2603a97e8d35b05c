# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the tests, how each is run, and what it reads."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from . import words
from .runner import Part, Runner, clock, counts
from .tree import COLLECTION, FQCN_PATH, ROOT, export, files, interpreters

# What needs a Kubernetes API server.
CLUSTER = (
    "tests/integration/cluster",
    "tests/integration/exporter/test_daemonset.py",
    "tests/integration/lab_cluster",
)
# Compares pages with the code.
PAGES = "tests/unit/docs"


def lint(runner: Runner) -> None:
    """Everything that reads the code without running it."""
    scripts = Path(sys.prefix) / "bin"
    headers(runner)
    plain_words(runner)
    runner.command("ruff check", [str(scripts / "ruff"), "check", "--no-fix", "."], limit=300)
    runner.command("ruff format", [str(scripts / "ruff"), "format", "--check", "."], limit=300)
    runner.command("yamllint", [str(scripts / "yamllint"), "--strict", "."], limit=300)
    mypy(runner)
    # mypy does not read them: what they import has to be there.
    apart = ["tests/integration", "tests/faults", "tests/artifact"]
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--long", *apart]
    runner.command("pytest --collect-only", collect, limit=300)
    vermin = [
        str(scripts / "vermin"),
        "--target=3.8-",
        "--violations",
        "--no-tips",
        "plugins",
        *files("roles/*/files/*.py"),
    ]
    runner.command("vermin: what nodes run, on Python 3.8", vermin, limit=300)
    compile_with_old_pythons(runner)
    for name in files("*.sh", ".ci/run", "tests/lab/demo"):
        if (ROOT / name).read_bytes().startswith(b"#!/usr/bin/env bash"):
            runner.command(f"bash -n {name}", ["bash", "-n", name], limit=60)
    runner.command("antsibull-changelog lint", [str(scripts / "antsibull-changelog"), "lint"], limit=300)
    docs = ["lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all", "--skip-rstcheck", "."]
    runner.command("antsibull-docs lint", [str(scripts / "antsibull-docs"), *docs], limit=600)
    reference = [sys.executable, str(ROOT / "tests" / "tools" / "reference.py"), "--check"]
    runner.command("docs/reference and the roles' READMEs are what the code says", reference, limit=600)
    runner.command("ansible-lint", [str(scripts / "ansible-lint"), "--offline", "--strict", "--nocolor"], limit=900)


def headers(runner: Runner) -> None:
    """Every file says whose it is and under which licence."""
    # Recorded output of real tools is kept as it was; JSON and go.sum have no comments; antsibull-changelog writes two files.
    exempt = re.compile(
        r"(^|/)fixtures/|^LICENSE$|^LICENSES/|\.(json|patch|sum|xml|png|svg|gz|xz|zst|lz4|img|bin|license)$|^CHANGELOG.md$|^changelogs/changelog.yaml$"
    )
    began = time.monotonic()
    wrong = []
    for name in files():
        content = (ROOT / name).read_bytes()[:2000].decode(errors="replace")
        # REUSE-IgnoreStart
        notices = ["Copyright: (c) 2026, rdmaops contributors", "SPDX-License-Identifier: GPL-3.0-or-later"]
        # REUSE-IgnoreEnd
        if name.startswith(("plugins/modules/", "plugins/module_utils/")):
            notices.append("GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)")
        if content and not exempt.search(name):
            wrong += [f"{name}: no line '{line}'" for line in notices if line not in content]
    for line in wrong:
        runner.say(f"    {line}")
    seconds = time.monotonic() - began
    runner.add("licence headers", "failed" if wrong else "passed", seconds, f"{len(wrong)} missing" if wrong else "")


def plain_words(runner: Runner) -> None:
    """Texts for users do without the turns of words.txt."""
    began = time.monotonic()
    wrong = words.problems(ROOT)
    for line in wrong:
        runner.say(f"    {line}")
    seconds = time.monotonic() - began
    runner.add("plain English", "failed" if wrong else "passed", seconds, f"{len(wrong)} turns" if wrong else "")


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
    packages += [
        "roles.rdma_exporter.files.rdma_exporter",
        "tests.support",
        "tests.lab",
        "tests.benchmarks",
        "tests.mutants",
    ]
    argv = [str(Path(sys.prefix) / "bin" / "mypy")]
    for package in packages:
        if files(package.replace(".", "/") + "/*.py"):
            argv += ["-p", f"{COLLECTION}.{package}"]
    argv += ["-m", f"{COLLECTION}.tests.run"]
    for name in files("molecule/*.py"):
        argv += ["-m", ".".join((COLLECTION, *Path(name).with_suffix("").parts))]
    path = [ROOT / ".cache" / "mypy-path", ROOT]
    runner.command("mypy", argv, limit=900, env={"MYPYPATH": os.pathsep.join(map(str, path))})


def compile_with_old_pythons(runner: Runner) -> None:
    """Let every Python of this machine read what managed nodes run."""
    sources = files("plugins/*.py", "roles/*/files/*.py")
    code = "import sys\nfor path in sys.argv[1:]:\n    compile(open(path, 'rb').read(), path, 'exec')\n"
    pythons = interpreters()
    for version, path in pythons.items():
        runner.command(f"compile: what nodes run, by Python {version}", [path, "-c", code, *sources], limit=300)
    if "3.8" not in pythons:
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
        if not any(path for pattern in patterns for path in tree.rglob(pattern)):
            argv += ["--skip-test", test]
    status, seconds = runner.execute("sanity", argv, limit=1800, live=True, cwd=tree, env=environment)
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
        runner.execute("pip", [*argv, "--dest", str(cache), f"pip=={version}"], limit=600)
    (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(
        "import glob, os, runpy, sys\n"
        "here = os.path.dirname(os.path.abspath(os.environ['GET_PIP']))\n"
        f"sys.path.insert(0, glob.glob(here + '/pip-{version}-*.whl')[0])\n"
        "specs = [a for a in sys.argv[1:] if not a.startswith('-')]\n"
        "sys.argv = ['pip', 'install', '--disable-pip-version-check', '--no-index', '--find-links', here, *specs]\n"
        "runpy.run_module('pip', run_name='__main__', alter_sys=True)\n"
    )


def docs(runner: Runner) -> None:
    """Compare what pages say with the code."""
    runner.pytest("docs", "-n", "2", PAGES, limit=900)


def unit(runner: Runner) -> None:
    """Run the tests that need nothing but Python."""
    runner.pytest("unit", "-n", "2", f"--ignore={PAGES}", "tests/unit", limit=7200)


def integration(runner: Runner) -> None:
    """Run the tests against real tools and this machine's kernel."""
    apart = [f"--ignore={place}" for place in CLUSTER]
    if runner.everything:
        get = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "tool", "gnmic", "gnmi_target"]
        runner.execute("gNMIc and what it asks", get, limit=3000, live=True)
    runner.pytest("integration", "-n", "2", "--dist", "loadfile", *apart, "tests/integration", limit=3600)


def cluster(runner: Runner) -> None:
    """Run what needs an API server, once its programs are there."""
    # If they cannot be had, each test reports it.
    get = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), "tool"]
    runner.execute("programs of the control plane", get, limit=3000, live=True)
    if runner.everything:
        from ansible_collections.rdmaops.gpu_fabric.tests.lab import operators

        runner.execute("operators of training jobs", [*get, *operators.OPERATORS], limit=3000, live=True)
    # A file has a control plane of its own, or shares the lab's.
    runner.pytest("cluster", "-n", "2", "--dist", "loadfile", *CLUSTER, limit=7200)


def artifact(runner: Runner) -> None:
    """Build the artifact and use it where nothing else is installed."""
    runner.pytest("artifact", "tests/artifact", limit=1800)
    if runner.everything:
        runner.command("site", [str(ROOT / "tests" / "tools" / "site" / "build.sh")], limit=900)
    else:
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
        lines.append(f"  {row.where:52}{row.scope:16}{numbers}{clock(time.monotonic() - began):>8}")
    runner.say(f"\n  {'ran with':52}{'what':16}{'passed':>9}{'failed':>9}{'skipped':>9}{'time':>8}")
    for line in lines:
        runner.say(line)


def molecule(runner: Runner, scenario: str = "default") -> None:
    """Run a scenario on the lab's virtual machines."""
    reports = runner.output / runner.part / "reports"
    reports.mkdir(parents=True)
    environment = {
        # Two checkouts of one name would share the default, which hashes the directory's name.
        "MOLECULE_EPHEMERAL_DIRECTORY": str(ROOT / ".cache" / "molecule" / scenario),
        "RDMAOPS_JUNIT_DIRECTORY": str(reports),
        "NO_COLOR": "1",
    }
    argv = [str(Path(sys.prefix) / "bin" / "molecule"), "test", "--scenario-name", scenario]
    runner.command(f"molecule {scenario}", argv, limit=3 * 3600, live=True, env=environment)
    runner.junit(*sorted(reports.glob("*.xml")), prefix=f"{scenario}: ")
    if runner.part in runner.stopped:
        # The scenario had no time to clean up behind itself.
        lab(["cluster", "down"], ["down"])


def lab(*commands: t.Sequence[str]) -> None:
    """Have lab.py clean up; what it cannot stop does not count as a failed test."""
    for command in commands:
        argv = [sys.executable, str(ROOT / "tests" / "lab" / "lab.py"), *command]
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


def scenario(name: str, about: str, budget_all: int) -> Part:
    tests = (f"molecule/{name}", ":(glob)molecule/*/*.yml", *SUPPORT)
    return Part(f"molecule-{name}", about, 0, budget_all, functools.partial(molecule, scenario=name), tests)


SUPPORT = ("tests/support", "tests/lab", "tests/suite/parts.py")
INTEGRATION = ("tests/integration", *(f":(exclude){place}" for place in CLUSTER), *SUPPORT)
UNIT = ("tests/unit", "tests/tools", "tests/mutants", "tests/benchmarks", "tests/suite", "tests/run.py", *SUPPORT)
# Budgets are seconds on two processors without other work.
PARTS = (
    Part("lint", "ruff, yamllint, mypy, vermin, old Pythons, docs, ansible-lint", 180, 200, lint, pages=True),
    Part("sanity", "ansible-test sanity on an exported copy", 250, 300, sanity, pages=True),
    Part("docs", "pages against the code", 25, 25, docs, pages=True),
    Part("unit", "pytest without root, tools or machines", 125, 4800, unit, UNIT),
    Part("integration", "pytest with real tools and this kernel", 360, 2400, integration, INTEGRATION),
    Part("cluster", "modules and roles on a real Kubernetes API server", 530, 5400, cluster, (*CLUSTER, *SUPPORT)),
    Part("artifact", "the built collection in an empty environment, and what Galaxy says of it", 60, 480, artifact, pages=True),
    Part("molecule", "nodes, from a fresh Debian to RDMA in exclusive mode", 870, 1500, molecule,
         ("molecule/default", *SUPPORT)),
    # Only in `make test-all`.
    scenario("cluster", "the cluster side, and its removal", 600),
    scenario("fabric", "verdicts on a fabric that is whole, and broken", 1500),
    scenario("spaces", "faults between 32 nodes that are network namespaces", 5400),
    scenario("dracut", "a node that boots an image of dracut's, to exclusive mode and back", 2400),
    scenario("rails", "two rails of a host in one network, apart after a reboot too", 1500),
    scenario("switches", "telemetry of switches", 1500),
    scenario("pods", "RDMA devices in pods, and training there", 2700),
    scenario("training", "the image by its playbook, a training over RDMA, refusals, and the inventories' experiments", 6600),
    scenario("shares", "the shared device plugin, and unprivileged pods with RDMA devices", 1500),
    scenario("dra", "RDMA devices by claims, from dranet, in mode exclusive", 5400),
    scenario("operators", "jobs of JobSet, Trainer and the MPI Operator, and queues of Kueue", 6600),
    scenario("drift", "nightly runs: in sync, drifted, repaired", 2400),
    Part("support", "every ansible-core, Python and system that is supported", 0, 2400, support, ("tests",)),
    Part("faults", "runs stopped, power cut and sources gone stale on a virtual machine", 0, 7200, faults,
         ("tests/faults", "tests/integration/lab", *SUPPORT)),
    scenario("kubernetes", "a cluster by kubeadm, training on it, and what may go wrong", 9000),
)  # fmt: skip
