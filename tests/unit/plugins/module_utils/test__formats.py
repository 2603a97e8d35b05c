# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON and YAML of others: a value or a ValueError, whatever the libraries make of it."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._formats import (
    all_yaml,
    from_json,
    from_yaml,
    json_dictionary,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm.chart import loader

DEEP = 100_000


@pytest.mark.parametrize(("text", "value"), [('{"a": [1]}', {"a": [1]}), (b'"x"', "x"), ("null", None)])
def test_json(text: str | bytes, value: object) -> None:
    assert from_json(text) == value


@pytest.mark.parametrize("text", ["", "{", "[" * DEEP, '{"a":' * DEEP, "9" * 5000, b"\xff"])
def test_what_is_no_json(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        from_json(text)
    assert type(caught.value) is not RecursionError


def test_a_dictionary_or_nothing() -> None:
    assert json_dictionary('{"a": 1}') == {"a": 1}
    for text in (None, "", "null", "[1]", '"x"', "{", '{"a":' * DEEP):
        assert json_dictionary(text) == {}


def test_yaml() -> None:
    assert from_yaml("a: [1]\n") == {"a": [1]}
    assert all_yaml("a: 1\n---\nb: 2\n", loader()) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("text", ["a: b: c", "[" * 1500, "a: 0x_", "? [a]\n: b", "!!python/object:os.x {}", "\x00"])
def test_what_is_no_yaml(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_yaml(text)
    with pytest.raises(ValueError, match=r"\w"):
        all_yaml(text, loader())


@pytest.mark.parametrize("level", ["[", "{a: ", "- ", "? ", "- - ? "])
def test_yaml_that_nests_deeply(level: str) -> None:
    """libyaml's own loader ends the process."""
    for load in (from_yaml, lambda text: all_yaml(text, loader()), lambda text: all_yaml(text, yaml.SafeLoader)):
        with pytest.raises(ValueError, match="^it is nested too deeply$"):
            load(level * 2000)
    with pytest.raises(ValueError, match="^it is nested too deeply$"):
        from_yaml(level * DEEP)


@pytest.mark.parametrize("kind", [loader(), yaml.SafeLoader])
def test_yaml_that_nests_as_much_as_it_may(kind: type) -> None:
    value = all_yaml("[" * 200 + "]" * 200, kind)
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 200


def test_aliases() -> None:
    assert from_yaml("a: &x [1]\nb: [*x, *x]\n") == {"a": [1], "b": [[1], [1]]}
    for text in ("a: &x\n  b: *x\n", "&x [*x]", "&x [1, {a: [*x]}]"):
        with pytest.raises(ValueError, match="^an alias refers to a value that contains it$"):
            from_yaml(text)
    more = "\n".join(f"x{number}: &x{number} [{', '.join([f'*x{number - 1}'] * 10)}]" for number in range(1, 9))
    with pytest.raises(ValueError, match="^its aliases expand to more than 1000000 values$"):
        from_yaml("x0: &x0 1\n" + more)


def test_a_date_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="month must be in"):
        from_yaml("2001-99-99")
    assert all_yaml("2001-99-99", loader()) == ["2001-99-99"]
