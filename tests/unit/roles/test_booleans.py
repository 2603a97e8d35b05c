# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that are true or false: "-e option=false" gives text, which is true to Jinja unless the filter bool reads it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml
from jinja2 import nodes

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import CONDITIONS

ROLES = sorted((COLLECTION / "roles").iterdir())
VALUES = jinja2.Environment()
# The rules of Prometheus have braces of their own.
RULES = jinja2.Environment(variable_start_string="[%", variable_end_string="%]")


def as_condition(template: nodes.Template) -> t.Iterator[str]:
    """Yield the variables that a template takes for true or false as they are."""
    for node in template.find_all((nodes.If, nodes.CondExpr, nodes.Not, nodes.And, nodes.Or)):
        for part in ("test", "node", "left", "right"):
            operand = getattr(node, part, None)
            if isinstance(operand, nodes.Name):
                yield operand.name


def texts(value: t.Any, key: str = "") -> t.Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)
    elif isinstance(value, str):
        yield f"{{% if ({value}) %}}{{% endif %}}" if key in CONDITIONS else value


def templates(role: Path) -> t.Iterator[tuple[str, nodes.Template]]:
    for path in [*role.glob("tasks/*.yml"), *role.glob("vars/*.yml")]:
        for text in texts(yaml.safe_load(path.read_text())):
            yield path.name, VALUES.parse(text)
    for path in role.glob("templates/*.j2"):
        yield path.name, (RULES if path.name == "rules.yml.j2" else VALUES).parse(path.read_text())


# Jinja reads "\Z" in patterns as Python does.
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_text_that_says_false_is_not_true(role: Path) -> None:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    options = {
        name
        for spec in specs.values()
        for name, option in (spec.get("options") or {}).items()
        if option["type"] == "bool"
    }
    for place, template in templates(role):
        assert options.intersection(as_condition(template)) == set(), place
