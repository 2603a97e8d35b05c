# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README is short, and works for a user who has only the built collection."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

TEXT = (COLLECTION / "README.md").read_text(encoding="utf-8")
VERSION = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"]
NOT_BUILT = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]


def commands() -> list[str]:
    return re.findall(r"^ {4}(\S.*)$", TEXT, re.M)


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 150


def test_it_names_the_version() -> None:
    assert f"**Status: version {VERSION}.**" in TEXT
    assert f"rdmaops-gpu_fabric-{VERSION}.tar.gz" in TEXT


def test_the_first_command_installs_and_five_lines_lead_to_a_verdict() -> None:
    first = commands()[:5]
    assert first[0].startswith("ansible-galaxy collection install ")
    assert "rdmaops.gpu_fabric.verify" in first[4]


def test_what_needs_a_checkout_says_so() -> None:
    paragraphs = re.split(r"\n\n+", TEXT)
    for before, paragraph in itertools.pairwise(paragraphs):
        if re.match(r"    make ", paragraph):
            assert "in a checkout" in before.lower(), paragraph


def test_its_links_lead_to_what_is_built() -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", TEXT):
        if not target.startswith("https://"):
            assert Path(target).parts[0] not in NOT_BUILT, target


def test_it_has_the_command_that_runs_all_tests() -> None:
    assert "    make test " in TEXT
