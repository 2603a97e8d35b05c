# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""GRUB's command ``test``, in the order in which grub-core/commands/test.c tries what a word may be."""

from __future__ import annotations

import re
import typing as t

from .entry import Machine
from .files import Files

_OPERATORS: dict[str, t.Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "-eq": lambda a, b: _number(a) == _number(b),
    "-ne": lambda a, b: _number(a) != _number(b),
    "-lt": lambda a, b: _number(a) < _number(b),
    "-le": lambda a, b: _number(a) <= _number(b),
    "-gt": lambda a, b: _number(a) > _number(b),
    "-ge": lambda a, b: _number(a) >= _number(b),
}


def _number(text: str) -> int:
    """Return what strtoul(3) would, for short texts: the number that a text begins with."""
    number = re.match(r"\s*([+-]?\d{1,18})", text, re.ASCII)
    return int(number.group(1)) if number else 0


class _Expression:
    """Tests joined by -o and -a, up to the end or a bracket."""

    def __init__(self) -> None:
        self.either = False
        self.both = True
        self.negate = False

    def add(self, value: bool) -> None:
        self.both = self.both and value is not self.negate
        self.negate = False

    def begin_alternative(self) -> None:
        self.either, self.both = self.value(), True

    def value(self) -> bool:
        return self.either or self.both


def _file_test(files: Files, machine: Machine, operator: str, path: str) -> bool:
    # An empty name is the device itself, a directory.
    place = files.locate(path, machine, subvolumes=False) if path else "/"
    if place is None or operator == "-e":
        return place is not None
    return files.is_dir(place) is (operator == "-d") and (operator != "-s" or files.size(place) > 0)


def _test(files: Files, machine: Machine, words: t.Sequence[str]) -> tuple[bool, int] | None:
    """Return the result of the test that the words begin with, and its length; None if they begin with no test."""
    word, rest = words[0], words[1:]
    if len(rest) >= 2 and rest[0] in _OPERATORS:
        return _OPERATORS[rest[0]](word, rest[1]), 3
    if rest and word in ("-n", "-z"):
        return (rest[0] != "") is (word == "-n"), 2
    if rest and word in ("-d", "-e", "-f", "-s"):
        return _file_test(files, machine, word, rest[0]), 2
    return None


def evaluate(files: Files, machine: Machine, words: t.Sequence[str]) -> bool:
    """Return what the arguments of ``test`` evaluate to."""
    expression = _Expression()
    outer: list[_Expression] = []
    at = 0
    while at < len(words):
        word, test = words[at], _test(files, machine, words[at:])
        at += test[1] if test else 1
        if test:
            expression.add(test[0])
        elif word == "!":
            expression.negate = not expression.negate
        elif word == "(":
            outer.append(expression)
            expression = _Expression()
        elif word == ")":
            if not outer:
                break
            value = expression.value()
            expression = outer.pop()
            expression.add(value)
        elif word == "-o":
            expression.begin_alternative()
        elif word != "-a":
            expression.add(word != "")
    return bool(words) and expression.value()


__all__ = ("evaluate",)
