# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles: what Ansible takes of their specifications, and results that a failed module does not have."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

SPECS = sorted(COLLECTION.glob("roles/*/meta/argument_specs.yml"))
TASKS = sorted(COLLECTION.glob("roles/*/tasks/*.yml"))
# The schema of ansible-core 2.21's documentation; it ignores anything else.
ENTRY = {"short_description", "version_added", "description", "author", "options"}
JUDGING = ("changed_when", "failed_when", "until")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.parents[1].name)
def test_entries_of_a_specification(path: t.Any) -> None:
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
        assert set(entry) <= ENTRY


def tasks(entries: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for task in entries:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part) or [])


@pytest.mark.parametrize("path", TASKS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_an_expression_on_a_result_holds_for_a_failed_one(path: t.Any) -> None:
    """ansible-core 2.21 reports the expression's error in the place of the module's message."""
    for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")) or []):
        name = task.get("register")
        for keyword in JUDGING:
            text = str(task.get(keyword, ""))
            for key in (
                re.findall(rf"\b{name}\.(\w+)\b(?!\s*(?:\| default|is (?:not )?defined|or ))", text) if name else ()
            ):
                assert f"{name}.{key} is defined" in text, (task["name"], keyword, text)
