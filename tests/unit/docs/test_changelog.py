# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CHANGELOG.md has what the next release will be said to be: version and fragments."""

from __future__ import annotations

import typing as t

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

CHANGELOGS = COLLECTION / "changelogs"


def flat(value: t.Any) -> list[str]:
    """The texts of a fragment, each on one line."""
    if isinstance(value, str):
        return [" ".join(value.split())]
    return [text for one in (value.values() if isinstance(value, dict) else value) for text in flat(one)]


def test_every_fragment_is_in_the_changelog() -> None:
    told = " ".join((COLLECTION / "CHANGELOG.md").read_text(encoding="utf-8").split())
    fragments = sorted((CHANGELOGS / "fragments").glob("*.yml"))
    released = CHANGELOGS / "changelog.yaml"
    assert fragments or released.exists()
    missing = [
        (path.name, text)
        for path in fragments
        for text in flat(yaml.safe_load(path.read_text(encoding="utf-8")))
        if text not in told
    ]
    assert missing == []


def test_the_version_is_that_of_the_collection() -> None:
    version = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    text = (COLLECTION / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0].removeprefix("## ").removeprefix("v").split()[0] == version
