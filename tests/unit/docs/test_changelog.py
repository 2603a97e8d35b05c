# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CHANGELOG.md is what antsibull-changelog writes of the releases, and the last of them is the collection's version."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

RELEASES = "changelogs/changelog.yaml"


def test_the_changelog_is_what_the_releases_say(tmp_path: Path) -> None:
    for name in ("galaxy.yml", "changelogs/config.yaml", RELEASES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(COLLECTION / name, tmp_path / name)
    (tmp_path / "changelogs/fragments").mkdir()
    program = Path(sys.executable).with_name("antsibull-changelog")
    done = subprocess.run([program, "generate"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "CHANGELOG.md").read_text() == (COLLECTION / "CHANGELOG.md").read_text()


def test_the_last_release_is_the_version_of_the_collection() -> None:
    version = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    releases = yaml.safe_load((COLLECTION / RELEASES).read_text(encoding="utf-8"))["releases"]
    assert max(releases, key=lambda name: [int(part) for part in name.split(".")]) == version
