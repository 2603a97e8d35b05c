# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md: the tests that it names are there, and a vulnerability can be reported where it says."""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

PAGE = (COLLECTION / "SECURITY.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.M)[2:]
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE)))


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_is_named_is_there(named: str) -> None:
    path, _colons, name = named.partition("::")
    assert re.search(rf"^def {re.escape(name)}\(", (COLLECTION / path).read_text(encoding="utf-8"), re.M), named


def test_every_row_says_what_holds_it() -> None:
    assert len(ROWS) > 10
    assert [row[0] for row in ROWS if "`tests/" not in row[3] and "*to be named*" not in row[3]] == []


def test_where_to_report_is_this_repository() -> None:
    repository = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    assert f"({repository}/security/advisories/new)" in PAGE
    assert "](SECURITY.md)" in (COLLECTION / "README.md").read_text(encoding="utf-8")
