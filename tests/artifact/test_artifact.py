# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection, installed where there is nothing but ansible-core."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.artifact.conftest import run
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root
from ansible_collections.rdmaops.gpu_fabric.tests.support.environment import create

NAME = "rdmaops.gpu_fabric"
MODULES = sorted(path.stem for path in (COLLECTION / "plugins" / "modules").glob("*.py") if path.stem != "__init__")
ROLES = sorted(path.parents[1].name for path in COLLECTION.glob("roles/*/meta/argument_specs.yml"))
PLAYBOOKS = sorted(path.stem for path in (COLLECTION / "playbooks").glob("*.yml"))

# What a user gets, and nothing else.
TOP = {
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MAINTAINERS.md",
    "MANIFEST.json",
    "README.md",
    "SECURITY.md",
    "bindep.txt",
    "changelogs",
    "docs",
    "inventories",
    "meta",
    "playbooks",
    "plugins",
    "requirements.txt",
    "roles",
}


class Empty(t.NamedTuple):
    """An environment with ansible-core and this collection's artifact."""

    bin: Path
    env: dict[str, str]
    cwd: Path

    def run(self, tool: str, *arguments: str | Path, limit: int = 120) -> str:
        return run([self.bin / tool, *arguments], limit=limit, env=self.env, cwd=self.cwd)


@pytest.fixture(scope="session")
def empty(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Empty:
    base = tmp_path_factory.mktemp("empty")
    home = base / "home"
    home.mkdir()
    venv = base / "venv"
    # The ansible-core of this very interpreter, and what it needs, as they are locked.
    pinned = base / "constraints.txt"
    there = importlib.metadata.distributions()
    pinned.write_text("".join(f"{package.name}=={package.version}\n" for package in there))
    create(venv, sys.executable, ["ansible-core", "-c", pinned])
    env = {"HOME": str(home), "PATH": f"{venv / 'bin'}{os.pathsep}/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    target = Empty(venv / "bin", env, base)
    target.run("ansible-galaxy", "collection", "install", "--offline", tarball)
    return target


def test_tarball_holds_what_a_user_needs_and_nothing_else(tarball: Path) -> None:
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=COLLECTION)
    tracked = set(listed.split("\0"))
    with tarfile.open(tarball) as archive:
        members = {member.name for member in archive.getmembers() if not member.isdir()}
    assert {name.split("/")[0] for name in members} <= TOP
    assert members - tracked == {"MANIFEST.json", "FILES.json"}
    assert not [name for name in members if name.startswith("inventories/lab") or "__pycache__" in name]
    expected = {name for name in tracked if name.startswith(("plugins/", "roles/", "playbooks/", "meta/"))}
    assert expected <= members


def test_tarball_size_is_that_of_text(tarball: Path) -> None:
    assert tarball.stat().st_size < 2_000_000


def test_galaxy_lists_the_version(empty: Empty) -> None:
    listed = json.loads(empty.run("ansible-galaxy", "collection", "list", "--format", "json"))
    (versions,) = (collections for collections in listed.values() if NAME in collections)
    assert versions[NAME] == {"version": "0.1.0"}


def test_installed_files_are_those_of_the_manifest(empty: Empty) -> None:
    printed = empty.run("ansible-galaxy", "collection", "verify", "--offline", NAME)
    assert "Successfully verified" in printed


def test_every_module_and_role_is_documented(empty: Empty) -> None:
    modules = json.loads(empty.run("ansible-doc", "--json", "--list", "--type", "module", NAME))
    roles = json.loads(empty.run("ansible-doc", "--json", "--list", "--type", "role", NAME))
    assert MODULES
    assert ROLES
    assert sorted(modules) == [f"{NAME}.{name}" for name in MODULES]
    assert sorted(roles) == [f"{NAME}.{name}" for name in ROLES]
    assert all(modules.values())


@pytest.mark.parametrize("name", MODULES)
def test_module_documentation_is_shown(empty: Empty, name: str) -> None:
    shown = json.loads(empty.run("ansible-doc", "--json", "--type", "module", f"{NAME}.{name}"))[f"{NAME}.{name}"]
    assert shown["doc"]["description"]
    # run_summary has none.
    assert shown["doc"]["options"] or "\noptions: {}\n" in (COLLECTION / f"plugins/modules/{name}.py").read_text()
    assert shown["examples"].strip()
    assert shown["return"]


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_playbook_is_found_by_its_full_name(empty: Empty, name: str) -> None:
    empty.run("ansible-playbook", "-i", "gpu-1,", "--syntax-check", f"{NAME}.{name}")


def test_modules_answer_in_check_mode(empty: Empty) -> None:
    need_root()
    printed = empty.run("ansible-playbook", "--check", "--diff", COLLECTION / "tests" / "artifact" / "use.yml")
    assert "All assertions passed" in printed
    assert "+options rdmaops_artifact answer=42" in printed
