# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkout: its files as git lists them, and the environment and interpreters that tests use."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = ROOT / ".cache" / "test"
COLLECTION = "ansible_collections.rdmaops.gpu_fabric"
FQCN_PATH = Path("ansible_collections/rdmaops/gpu_fabric")


def clean_environment() -> dict[str, str]:
    """Return the caller's environment less what was set for other work: it must not decide a test."""
    other = re.compile(r"ANSIBLE_|MOLECULE_|PYTHON(PATH|HOME|STARTUP)$|PYTEST_|MYPY|RUFF_|GIT_|REQUIRE_ALL$")
    environment = {name: value for name, value in os.environ.items() if not other.match(name)}
    # The clone may belong to another user than the one who tests.
    environment.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0=str(ROOT))
    return environment


def git(*arguments: str) -> str:
    argv = ["git", *arguments]
    answer = subprocess.run(argv, cwd=ROOT, env=clean_environment(), check=True, capture_output=True, timeout=60)
    return os.fsdecode(answer.stdout)


def files(*patterns: str) -> list[str]:
    """Return the files that git tracks, or would: what a clone or the next commit holds."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def digest(*patterns: str) -> str:
    """Return a hash of the files that match, their names and modes included."""
    total = hashlib.sha256()
    for name in files(*patterns):
        path = ROOT / name
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        total.update(f"{name}\0{path.lstat().st_mode:o}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def commit() -> str:
    """Return the commit that is checked out."""
    return git("rev-parse", "HEAD").strip()


def cache(environ: t.Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what outlives a checkout."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".cache"
    return Path(base) / "rdmaops"


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
    pythons: dict[str, str] = {}
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
                    pythons[version] = str(candidate)
                    break
    return pythons
