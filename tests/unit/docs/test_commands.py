# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of pages can be typed: their words, playbooks and variables are those of ansible-playbook and of the collection."""

from __future__ import annotations

import argparse
import re
import shlex
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.unit.docs.test_names import FACTS, PAGES, PLAYBOOKS, VARIABLES


def typed(page: Path) -> list[str]:
    """Return the calls of ansible-playbook in a page, each as one line."""
    text = re.sub(r"\\\n +", "", page.read_text(encoding="utf-8"))
    return re.findall(r"^ {4,}(ansible-playbook .*)$", text, re.M)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="ansible-playbook", exit_on_error=False)
    options.add_argument("playbook")
    options.add_argument("-i", dest="inventory")
    options.add_argument("-u", dest="user")
    options.add_argument("-e", dest="extra", action="append", default=[])
    for name in ("--limit", "--tags"):
        options.add_argument(name)
    for name in ("--check", "--diff"):
        options.add_argument(name, action="store_true")
    return options


def names(extra: str) -> list[str]:
    """Return the variables of an option -e."""
    if extra.startswith("{"):
        values: dict[str, t.Any] = yaml.safe_load(extra)
        return list(values)
    name, equals, _value = extra.partition("=")
    assert equals, extra
    return [name]


COMMANDS = [(page.name, line) for page in PAGES for line in typed(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_can_be_typed(page: str, line: str) -> None:
    arguments = parser().parse_args(shlex.split(line)[1:])
    assert arguments.playbook.removeprefix("rdmaops.gpu_fabric.") in PLAYBOOKS
    for name in [name for extra in arguments.extra for name in names(extra)]:
        assert name in VARIABLES | FACTS, f"{page}: {name}"


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 40
