# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Galaxy does with an artifact: galaxy-importer takes it, and has nothing to say against it.

Its settings are its defaults and the tags that Galaxy requires. ansible-test is run by `make test`: the importer would run
it in a container. flake8, off by default too, is asked for W503 and W504 at once, of which every line that is broken at an
operator has one; ruff judges the code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.artifact.conftest import run
from ansible_collections.rdmaops.gpu_fabric.tests.support.environment import locked

pytestmark = pytest.mark.long

SAID = re.compile(r"^(WARNING|ERROR|CRITICAL): ", re.MULTILINE)
LINTED = "...ansible-lint run complete\nCollection loading complete\nImporter processing completed successfully\n"
FAULT = "- name: Use a module that does not exist\n  not_there:\n    option: value\n"


def imported(artifact: Path, place: Path) -> tuple[int, str]:
    """Return how galaxy-importer ended, and what it printed."""
    venv = locked("galaxy-importer", sys.executable)
    (place / "home").mkdir(parents=True)
    (place / "importer.cfg").write_text("[galaxy-importer]\nCHECK_REQUIRED_TAGS = True\n")
    environment = {
        "HOME": str(place / "home"),
        "PATH": f"{venv / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "GALAXY_IMPORTER_CONFIG": str(place / "importer.cfg"),
    }
    argv = [str(venv / "bin" / "python"), "-m", "galaxy_importer.main", str(artifact)]
    done = subprocess.run(
        argv, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_is_said_against_the_artifact(tarball: Path, tmp_path: Path) -> None:
    status, printed = imported(tarball, tmp_path)
    assert SAID.findall(printed) == [], printed
    assert status == 0, printed
    assert printed.endswith(LINTED), printed


def test_what_is_wrong_would_be_said(tarball: Path, tmp_path: Path) -> None:
    """A small copy of the artifact, with a fault of each kind."""
    source = tmp_path / "source"
    with tarfile.open(tarball) as archive:
        archive.extractall(source, filter="data")
    for name in ("MANIFEST.json", "FILES.json"):
        (source / name).unlink()
    for path in [*source.glob("plugins/*"), *source.glob("roles/*"), *source.glob("docs"), *source.glob("playbooks")]:
        if path.name != "node_labels":
            shutil.rmtree(path)
    text = "namespace: rdmaops\nname: gpu_fabric\nversion: 0.1.0\nreadme: README.md\nauthors: [x]\ntags: [linux]\n"
    (source / "galaxy.yml").write_text(text + "repository: https://example.org\nlicense: [GPL-3.0-or-later]\n")
    (source / "CHANGELOG.md").unlink()
    shutil.rmtree(source / "changelogs")
    (source / "roles/node_labels/tasks/main.yml").write_text(FAULT)
    galaxy = Path(sys.executable).parent / "ansible-galaxy"
    run([galaxy, "collection", "build", "--output-path", tmp_path], cwd=source)
    artifact = next(tmp_path.glob("*.tar.gz"))
    status, printed = imported(artifact, tmp_path / "one")
    assert status == 0, printed
    assert "WARNING: No changelog found." in printed
    assert re.search(r"^WARNING: roles/node_labels/tasks/main\.yml:1:\d+: syntax-check", printed, re.MULTILINE), printed
    (source / "roles/node_labels/README.md").unlink()
    run([galaxy, "collection", "build", "--force", "--output-path", tmp_path], cwd=source)
    status, printed = imported(artifact, tmp_path / "two")
    assert status == 1
    assert "ERROR: The import failed for the following reason: No role readme found." in printed
