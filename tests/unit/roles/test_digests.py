# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digests that come with the collection: there for what roles install by default, and literal."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

Json = t.Any
LITERAL = re.compile(r"sha256:[0-9a-f]{64}")
ARCHITECTURES = {"amd64", "arm64"}
ROLES = sorted((COLLECTION / "roles").iterdir())


def read(role: str, part: str) -> Json:
    return yaml.safe_load((COLLECTION / "roles" / role / part / "main.yml").read_text(encoding="utf-8"))


def literals(value: Json) -> list[str]:
    return [text for part in value.values() for text in literals(part)] if isinstance(value, dict) else [value]


def test_the_default_versions_have_one_for_each_architecture() -> None:
    known, given = read("kubernetes", "vars"), read("kubernetes", "defaults")
    programs = known["__kubernetes_digests"][given["kubernetes_version"]]
    assert set(programs) == ARCHITECTURES
    assert all(set(digests) == set(known["__kubernetes_own_packages"]) for digests in programs.values())
    plugins = known["__kubernetes_cni_digests"][given["kubernetes_cni_plugins_version"]]
    assert set(plugins) == ARCHITECTURES
    network, wanted = read("secondary_network", "vars"), read("secondary_network", "defaults")
    same = network["__secondary_network_cni_plugins_digests"]
    assert set(same[wanted["secondary_network_cni_plugins_version"]]) == ARCHITECTURES
    # Two roles know the same archives.
    assert {f"v{version}": digests for version, digests in same.items()} == known["__kubernetes_cni_digests"]
    every = [*literals(known["__kubernetes_digests"]), *literals(known["__kubernetes_cni_digests"])]
    assert [text for text in every if not LITERAL.fullmatch(text)] == []
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_no_default_takes_a_checksum_from_a_file_of_checksums(role: Path) -> None:
    known = yaml.safe_load((role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    checksums = {name: value for name, value in known.items() if name.endswith("_checksum")}
    assert {name: value for name, value in checksums.items() if value and not LITERAL.fullmatch(value)} == {}
