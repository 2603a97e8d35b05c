# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mutants of a Python file: each is one small mistake, in one place.

* a comparison by its neighbour (`<` by `<=`, `==` by `!=`, `in` by `not in`, ...), `and` by `or`, `+` by `-`, `*` by `//`,
  `&` by `|`; a `not` is dropped;
* a condition, or one operand of `and` and `or`, by True or False;
* a constant by another: True by False, a number by the next one, a text without blanks by the empty one;
* a returned value by None;
* a call, a raise, a continue, a break, a deletion, an augmented assignment, or an assignment to a key or an attribute by
  `pass`.
"""

from __future__ import annotations

import ast
import collections
import copy
import hashlib
import itertools
import typing as t

PAIRS = (
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.FloorDiv),
    (ast.BitAnd, ast.BitOr),
)
NEIGHBOURS: dict[type[ast.AST], t.Any] = {old: new for pair in PAIRS for old, new in (pair, pair[::-1])}
LEFT_ALONE = {"annotation", "returns", "decorator_list"}


class Mutant(t.NamedTuple):
    """Bytes `start` to `end` of a file are replaced."""

    identity: str
    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.identity} {self.path}:{self.line} {old} -> {new}"


def idle(node: ast.AST) -> bool:
    """Return whether a node is for people or type checkers alone, or cannot be placed (an f-string, before Python 3.12)."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Attribute(attr="TYPE_CHECKING")):
            return True
    return False


def walk(node: ast.AST) -> t.Iterator[ast.AST]:
    """Go through what is run, in the order of the file."""
    yield node
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if isinstance(node, ast.Call) and field == "args" and ast.unparse(node.func) == "t.cast":
            children = children[1:]
        for child in children:
            if isinstance(child, ast.AST) and field not in LEFT_ALONE and not idle(child):
                yield from walk(child)


def replacements(node: ast.AST) -> t.Iterator[tuple[t.Any, str]]:
    """Yield what of a node is replaced, and by what."""
    yield from operators(node)
    match node:
        case ast.Constant():
            yield from constants(node)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield value, "None"
        case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Delete():
            yield node, "pass"
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
    for condition in conditions(node):
        yield condition, "False"
        if not isinstance(node, ast.While):
            yield condition, "True"


def operators(node: ast.AST) -> t.Iterator[tuple[t.Any, str]]:
    """Yield a node with another operator, or without its `not`."""
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                if type(operator) in NEIGHBOURS:
                    other = copy.deepcopy(node)
                    other.ops[index] = NEIGHBOURS[type(operator)]()
                    yield node, ast.unparse(other)
        case ast.BoolOp() | ast.BinOp() if type(node.op) in NEIGHBOURS:
            replaced = copy.deepcopy(node)
            replaced.op = NEIGHBOURS[type(node.op)]()
            yield node, ast.unparse(replaced)
        case ast.UnaryOp(op=ast.Not()):
            yield node, ast.unparse(node.operand)


def constants(node: ast.Constant) -> t.Iterator[tuple[t.Any, str]]:
    """Yield another constant."""
    match node.value:
        case bool() as value:
            yield node, repr(not value)
        case int() | float() as value:
            yield node, repr(value + 1)
        case str() as value if not any(character.isspace() for character in value):
            yield node, repr("" if value else "mutant")


def conditions(node: ast.AST) -> list[ast.expr]:
    """Return the conditions of a node, or the operands of `and` and `or`."""
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            return [node.test]
        case ast.BoolOp():
            return node.values
        case ast.comprehension():
            return node.ifs
    return []


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *itertools.accumulate(len(line) for line in lines)]
    repeated: collections.Counter[str] = collections.Counter()
    mutants = []
    for node in walk(ast.parse(source)):
        for place, new in replacements(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            old = source.encode()[start:end].decode()
            change = "\n".join((path, lines[place.lineno - 1].decode().strip(), old, new))
            repeated[change] += 1
            identity = hashlib.sha256(f"{change}\n{repeated[change]}".encode()).hexdigest()[:10]
            # An operand may bind in another way than the one that it replaces.
            text = f"({new})" if isinstance(place, ast.expr) else new
            mutants.append(Mutant(identity, path, place.lineno, start, end, old, text))
    return mutants


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with the mutant in it."""
    data = source.encode()
    return (data[: mutant.start] + mutant.new.encode() + data[mutant.end :]).decode()


def chosen(mutants: list[Mutant], seed: str, count: int) -> list[Mutant]:
    """Choose as many, the same ones for the same seed."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256((seed + mutant.identity).encode()).digest())[:count]
