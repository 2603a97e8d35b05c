# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments from requirements/*.lock, created once and kept in .cache/environments."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.suite import tree
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

KEPT = COLLECTION / ".cache" / "environments"
UV = COLLECTION / ".deps" / "uv" / "bin" / "uv"
# What `make dev` takes from the collections of others.
OTHERS = ("ansible/posix", "kubernetes/core")


class CannotMake(Exception):
    """An environment could not be created; the text is the output of the tool."""


def interpreter(version: str) -> str:
    """Return the path of the Python of that version, as 3.8."""
    interpreters = tree.interpreters()
    if version not in interpreters:
        raise CannotMake(
            f"there is no Python {version} on this machine, which has {', '.join(interpreters) or 'none from 3.8 on'}"
        )
    return interpreters[version]


def create(venv: Path, python: str, arguments: t.Sequence[str | Path]) -> None:
    """Make a virtual environment with what pip's ``arguments`` name."""
    # The machine's own certificates: a site's package index may have one of the site's.
    how = [UV, "pip", "install", "--quiet", "--no-config", "--system-certs", "--python", venv / "bin/python"]
    make: list[str | Path] = [UV, "venv", "--quiet", "--no-config", "--no-python-downloads", "--python", python, venv]
    if not UV.exists():
        how = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        make = [python, "-m", "venv", venv]
    for argv in (make, [*how, *arguments]):
        words = [str(word) for word in argv]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise CannotMake(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def site_packages(venv: Path) -> Path:
    (packages,) = venv.glob("lib/python3.*/site-packages")
    return packages


def link_checkout(site: Path) -> None:
    """Let an environment find this checkout, and the collections of others that `make dev` has fetched."""
    links = {"rdmaops/gpu_fabric": COLLECTION}
    links.update({name: COLLECTION / ".deps" / "ansible_collections" / name for name in OTHERS})
    for name, target in links.items():
        link = site / "ansible_collections" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def locked(name: str, python: str, link: bool = False) -> Path:
    """Return the kept environment of requirements/NAME.lock for that Python (a path); make it where there is none."""
    lock = COLLECTION / "requirements" / f"{name}.lock"
    family = f"{name}-{digest(os.path.realpath(python), str(link))[:4]}"
    place = KEPT / f"{family}-{digest(lock.read_text(encoding='utf-8'), str(COLLECTION))[:12]}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{family}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (place / ".made").exists():
            for old in KEPT.glob(f"{family}-*"):
                shutil.rmtree(old)
            # Scripts name their interpreter by its path: it is made where it stays.
            create(place, python, ["--require-hashes", "-r", lock])
            if link:
                link_checkout(site_packages(place))
            (place / ".made").touch()
    return place


def for_modules(python: str) -> Path:
    """Return an environment in which module code is imported as on a node: Ansible's module_utils, and no Ansible.

    module_utils of the ansible-core of `make dev` run on every Python that it supports on nodes.
    """
    place = locked("python-3.8", python)
    site = site_packages(place)
    (site / "ansible").mkdir(exist_ok=True)
    (site / "ansible" / "__init__.py").touch()
    link = site / "ansible" / "module_utils"
    link.unlink(missing_ok=True)
    link.symlink_to(site_packages(Path(sys.prefix)) / "ansible" / "module_utils")
    link_checkout(site)
    return place


__all__ = [
    "KEPT",
    "CannotMake",
    "create",
    "digest",
    "for_modules",
    "interpreter",
    "link_checkout",
    "locked",
    "site_packages",
]
