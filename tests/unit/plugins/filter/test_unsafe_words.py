# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values against the patterns that they must match to be copied into a file."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.unsafe_words import unsafe_words

PATTERN = "[a-z0-9.]*"

# value, words that are quoted
CASES: tuple[tuple[t.Any, list[str]], ...] = (
    ("plain", []),
    ("", []),
    (None, []),
    (12, []),
    (["a", "b"], []),
    (["a", ["b", None, "c d"]], ['"c d"']),
    (("x", "Y"), ['"Y"']),
    (True, ['"True"']),
    ("a\n", ['"a\\n"']),
    ("plain; $(id)", ['"plain; $(id)"']),
    ("\u202ea", ['"\\u202ea"']),
    ("A" * 200, ['"%s"' % ("A" * 200)]),
    ("A" * 201, ['"%s..."' % ("A" * 197)]),
    ("a" * 4000, []),
    ("a" * 4001, ['"%s..."' % ("a" * 197)]),
)


@pytest.mark.parametrize(("value", "quoted"), CASES)
def test_words_that_do_not_match_are_quoted(value: t.Any, quoted: list[str]) -> None:
    assert unsafe_words([value], {"option": PATTERN}) == [f"option is {word}." for word in quoted]


def test_a_pattern_is_for_the_whole_word() -> None:
    assert unsafe_words(["axb"], {"option": "a|b"}) == ['option is "axb".']


def test_values_are_in_the_order_of_the_patterns() -> None:
    assert unsafe_words(["1", "x"], {"first": "[0-9]", "second": "[a-z]"}) == []
    assert unsafe_words(["x", "1"], {"first": "[0-9]", "second": "[a-z]"}) == ['first is "x".', 'second is "1".']


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="there are 1 values for 2 patterns"):
        unsafe_words(["x"], {"first": "x", "second": "x"})
