# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is supported, and the tests that say so: the rows of docs/support.md and of the table of `make test-all`.

Each row runs tests of this repository with another ansible-core, Python or system than that of `make dev`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, environment
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import copy_of, mounted

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Tests of plugins that Ansible loads: in them a change of its API shows.
LOADED = tuple(f"tests/unit/plugins/{kind}" for kind in ("action", "callback", "filter", "modules", "plugin_utils"))
# Of what runs on nodes.
ON_NODES = ("tests/unit/plugins/module_utils", "tests/unit/plugins/modules", "tests/unit/roles/rdma_exporter")
# Real runs of ansible-playbook on this machine: check mode, the drift callback, actions, filters, refusals, inventories.
PLAYBOOKS = (
    "tests/integration/test_modules.py",
    "tests/integration/test_bad_input.py",
    "tests/integration/test_inventories.py",
    "tests/integration/test_mistakes.py",
    "tests/integration/drift/test_drift.py",
    "tests/integration/drift/test_drift_secrets.py",
    "tests/integration/drift/test_drift_stopped.py",
    "tests/integration/drift/test_drift_verdict.py",
)
# Roles and playbooks with all that they need: what templates give to modules is different before ansible-core 2.19.
ROLES = (
    "tests/integration/attachment",
    "tests/integration/awx",
    "tests/integration/cluster",
    "tests/integration/drift/test_drift_role.py",
    "tests/integration/exporter",
    "tests/integration/images/test_training_image_role.py",
    "tests/integration/kubernetes",
    "tests/integration/monitoring",
    "tests/integration/switch_telemetry",
)
ARTIFACT = ("tests/artifact/test_artifact.py",)
NEWEST_PYTHON = "3.13"
TESTS_APART = ("-n", "2")
FILES_APART = (*TESTS_APART, "--dist", "loadfile")
# cel-python, which the claims' lint needs, is on the host that has the kubeconfig, and not on nodes.
NODES_APART = (*TESTS_APART, "--ignore=tests/unit/plugins/module_utils/_claims")


class Row(t.NamedTuple):
    """Tests, and what they run with: the name of a lock in requirements/ and a Python, or a Debian root."""

    scope: str
    tests: tuple[str, ...]
    lock: str
    python: str
    root: str = ""
    # Run by `make test`, too.
    core: bool = False
    # Tests marked `long` among them: one for each Python of nodes.
    long: bool = False
    # Which tests, as pytest's -k takes it.
    only: str = ""
    # How its files run, and which do not: two at once, but for ansible-playbook that mounts and makes namespaces.
    apart: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.scope}, {self.where}"

    @property
    def where(self) -> str:
        python = f"Python {self.python}"
        if self.lock.startswith("python-"):
            return python
        return f"ansible-core {version('ansible-core', self.lock)}, {python}{' of Debian 13' if self.root else ''}"


ROWS = (
    Row("plugins", LOADED, "ansible-core-2.18", "3.11", apart=TESTS_APART),
    Row("playbooks", PLAYBOOKS[:1], "ansible-core-2.18", "3.11", core=True),
    Row("playbooks, all", PLAYBOOKS, "ansible-core-2.18", "3.11", long=True),
    Row("roles", ROLES, "ansible-core-2.18", "3.11", apart=FILES_APART),
    Row("artifact", ARTIFACT, "ansible-core-2.18", "3.11"),
    Row("plugins", LOADED, "dev", "3.11", apart=TESTS_APART),
    Row("playbooks, all", PLAYBOOKS, "dev", "3.11", long=True),
    Row("artifact", ARTIFACT, "dev", "3.11"),
    Row("plugins", LOADED, "ansible-core-2.20", "3.12", apart=TESTS_APART),
    Row("playbooks, all", PLAYBOOKS, "ansible-core-2.20", "3.12", long=True),
    Row("artifact", ARTIFACT, "ansible-core-2.20", "3.12"),
    Row("plugins", LOADED, "ansible-core-newest", NEWEST_PYTHON, root="python", apart=TESTS_APART),
    # The root has its own Python alone.
    Row(
        *("playbooks, all", PLAYBOOKS, "ansible-core-newest", NEWEST_PYTHON, "python"),
        long=True,
        only=f"{NEWEST_PYTHON} or not python_of_a_node",
    ),
    Row("artifact", ARTIFACT, "ansible-core-newest", NEWEST_PYTHON, root="python"),
    *(
        Row("module code", ON_NODES, "python-3.8", python, apart=NODES_APART)
        for python in ("3.8", "3.9", "3.12", "3.13")
    ),
)


def version(package: str, lock: str) -> str:
    """Return the version of a package in a lock."""
    text = (COLLECTION / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    match = re.search(rf"^{re.escape(package)}==(\S+)", text, re.MULTILINE)
    if not match:
        raise LookupError(f"requirements/{lock}.lock has no {package}")
    return match[1]


class How(t.NamedTuple):
    """How a row's pytest is started."""

    argv: list[str]
    env: dict[str, str]


def _of(venv: Path, further: Mapping[str, str] = {}) -> How:
    path = os.pathsep.join([str(venv / "bin"), os.environ.get("PATH", os.defpath)])
    site = environment.site_packages(venv)
    known = {"PATH": path, "VIRTUAL_ENV": str(venv), "ANSIBLE_COLLECTIONS_PATH": str(site)}
    return How([str(venv / "bin" / "python"), "-m", "pytest"], {**known, **further})


def prepare(row: Row) -> How:
    """Make what a row needs."""
    if row.root:
        return inside(row)
    if row.lock == "dev":
        return _of(Path(sys.prefix))
    if row.lock.startswith("python-"):
        return _of(environment.for_modules(environment.interpreter(row.python)))
    return _of(environment.locked(row.lock, environment.interpreter(row.python), link=True))


# --- a Debian root ------------------------------------------------------------------------------------------------

VENV = "/opt/controller"
# The checkout at its own path; then as in any root.
ENTER = """
set -e
mkdir -p "$1$2"
mount --bind "$2" "$1$2"
root=$1 checkout=$2
shift 2
exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$checkout" "$@"
"""


def entered(root: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` inside a root, in this checkout, which is mounted there at its own path."""
    return mounted(root, ["sh", "-c", ENTER, "sh", str(root), str(COLLECTION), *argv])


def inside(row: Row) -> How:
    """Make a copy of a Debian root with the lock's packages, for that root's own Python."""
    lock = COLLECTION / "requirements" / f"{row.lock}.lock"
    digest = environment.digest(lock.read_text(encoding="utf-8"), str(COLLECTION))[:12]
    place = environment.KEPT / f"{row.root}-root-{digest}"
    if not (place / ".made").exists():
        for old in environment.KEPT.glob(f"{row.root}-root-*"):
            shutil.rmtree(old)
        environment.KEPT.mkdir(parents=True, exist_ok=True)
        copy_of(row.root, place)
        _fill(place, lock, row.python)
        (place / ".made").touch()
    path = f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    known = {"PATH": path, "VIRTUAL_ENV": VENV, "HOME": "/root", "TMPDIR": "/tmp"}
    # test_artifact.py makes an environment of its own: from the same wheels.
    known.update(UV_FIND_LINKS="/wheels", UV_NO_INDEX="1", UV_OFFLINE="1")
    known["ANSIBLE_COLLECTIONS_PATH"] = f"{VENV}/lib/python{row.python}/site-packages"
    return How(entered(place, [f"{VENV}/bin/python", "-m", "pytest"]), known)


def _fill(root: Path, lock: Path, python: str) -> None:
    """Install from wheels that this machine fetches: the root needs neither names, certificates nor an index."""
    wheels = root / "wheels"
    # manylinux of pip's own order: glibc 2.41 of Debian 13 runs them all.
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (39, 34, 31, 28, 26, 24, 17, 12, 5)]
    platforms += ["--platform=manylinux2014_x86_64"]
    pip = [str(COLLECTION / ".deps/uv/bin/python"), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    fetch = [*pip, "--only-binary=:all:", f"--python-version={python}", *platforms, "--require-hashes"]
    fetch += ["--no-deps", "--dest", str(wheels), "-r", str(lock)]
    make = ["python3", "-m", "venv", VENV]
    install = [f"{VENV}/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links=/wheels"]
    install += ["--no-deps", "--require-hashes", "-r", str(lock)]
    for argv in (fetch, entered(root, make), entered(root, install)):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise environment.CannotMake(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    environment.link_checkout(root / VENV.lstrip("/") / "lib" / f"python{python}" / "site-packages")


# --- the page -----------------------------------------------------------------------------------------------------


def page() -> str:
    """Return the table of docs/support.md: what is run with what."""
    about = {
        "plugins": "unit tests of the plugins that Ansible loads",
        "playbooks": "modules on Python 3.8, filters, actions and the drift callback, really run, in check mode too",
        "playbooks, all": "the same with every Python of nodes, refusals, mistakes, inventories, drift reports",
        "roles": "roles and playbooks on a real API server, Prometheus and a controller, four-step drills",
        "artifact": "the built collection, installed where there is nothing else",
        "module code": "unit tests of what runs on nodes",
    }
    lines = ["| with | what is run | by |", "| --- | --- | --- |"]
    for row in ROWS:
        by = "`make test`" if row.core else "`make test-all`"
        lines.append(f"| {row.where} | {about[row.scope]} | {by} |")
    return "\n".join(lines) + "\n"


__all__ = ["ROWS", "How", "Row", "page", "prepare", "version"]
