# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment, as far as it can be made without a registry: its build context."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

DEFINITION = COLLECTION / "execution-environment.yml"
# Import names of packages that have another one.
PACKAGES = {"celpy": "cel-python", "yaml": "pyyaml", "websocket": "websocket-client"}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder makes of the definition."""
    path = tmp_path_factory.mktemp("ee") / "context"
    argv = [str(Path(sys.executable).parent / "ansible-builder"), "create", "--output-filename", "Containerfile"]
    argv += ["--file", str(DEFINITION), "--context", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(lines: list[str]) -> set[str]:
    """Return the names of packages in requirements, those of an extra left out."""
    entries = [
        re.match(r"[A-Za-z0-9._-]+", line) for line in lines if not line.startswith("#") and "extra ==" not in line
    ]
    return {normal(match[0]) for match in entries if match}


def imported() -> set[str]:
    """Return the packages that plugins import, beside Ansible's."""
    names = set()
    for file in (COLLECTION / "plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    tops = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"ansible", "ansible_collections"}
    return {normal(PACKAGES.get(top, top)) for top in tops}


def test_the_context_has_what_the_collection_needs(context: Path) -> None:
    definition = yaml.safe_load(DEFINITION.read_text())
    text = (context / "Containerfile").read_text()
    assert f'ARG EE_BASE_IMAGE="{definition["images"]["base_image"]["name"]}"' in text
    assert definition["dependencies"]["ansible_core"]["package_pip"] in text
    assert definition["dependencies"]["ansible_runner"]["package_pip"] in text
    assert definition["additional_build_steps"]["append_final"][0] in text
    build = context / "_build"
    for key, name in (("python", "requirements.txt"), ("system", "bindep.txt")):
        assert (build / name).read_bytes() == (COLLECTION / definition["dependencies"][key]).read_bytes()


def test_every_package_that_plugins_import_is_required() -> None:
    required = packages((COLLECTION / "requirements.txt").read_text().splitlines())
    brought = packages(importlib.metadata.requires("kubernetes") or [])
    # Only network_device imports pyroute2, on a node, where the role gpu_node installs it.
    assert imported() - required - brought == {"pyroute2"}
    # And none is required for nothing.
    assert required - imported() == set()


def test_the_image_has_the_versions_that_are_tested() -> None:
    """ansible-core and ansible-runner of the image take in those of the lock."""
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (COLLECTION / "requirements/dev.lock").read_text(), re.MULTILINE))
    dependencies = yaml.safe_load(DEFINITION.read_text())["dependencies"]
    for name in ("ansible-core", "ansible-runner"):
        requirement = dependencies[name.replace("-", "_")]["package_pip"]
        match = re.fullmatch(rf"{name}~=(\d+\.\d+)\.(\d+)", requirement)
        assert match, requirement
        series, least = match[1], int(match[2])
        assert locked[name].startswith(f"{series}.")
        assert int(locked[name].split(".")[2]) >= least
