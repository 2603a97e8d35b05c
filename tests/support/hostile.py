# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile input: mutations of recorded outputs, the same ones for the same name and number.

Pure noise is refused by the first character; what a parser stumbles over looks right almost to the end.
"""

from __future__ import annotations

import copy
import json
import random
import signal
import typing as t

# A whole input is at most so long (bytes or characters).
LARGEST = 64 * 1024
# What no parser may take longer for, in CPU seconds of its process.
PATIENCE = 5.0

# Characters that mean something to shells, templates, YAML, JSON, HTML, terminals, paths, C and Unicode.
TOKENS = (
    "", " ", "\n", "\r\n", "\r", "\t", "\0", "\x1b[31m", "\x85", "\u2028", '"', "'", "`", "\\", "\\\n", "$", "${x}",
    "$(touch /tmp/x)", "`id`", ";", "|", "&", "<", ">", "<!--", "<script>", "&lt;", "]]>", "{{ 7 * 7 }}", "{% raw %}",
    "{", "}", "[", "]", "(", ")", "[[", ": ", "- ", "#", "%", "%s", "%00", "=", "==", ",", ",,", ".", "..", "../",
    "/", "//", "-", "--", "-x", "@", "!", "!!python/object/apply:os.system", "&a", "*a", "<<", "?", "~", "null", "true",
    "NaN", "nan", "inf", "-Infinity", "1e999", "-0", "0x", "0x1g", "08", "9" * 30, "-" + "9" * 20, "9" * 5000, "4294967296",
    "18446744073709551616", "1.7976931348623157e309", "0.0000000000000000001", "\u0660\u0661", "\u00b2", "\u202e",
    "e\u0301", "\U0001f9e8", "\ufeff", "\ufffd", "\udc80", "\ud800", "\u00df", "\u0130", "A" * 300, "=" * 300,
    "-----BEGIN CERTIFICATE-----", "2001-99-99", "1:99:99", "0o9", "0b2", "\x7fELF",
)  # fmt: skip
VALUES: tuple[t.Any, ...] = (
    None, True, False, 0, -1, 1 << 63, 10**30, 1.5, float("nan"), float("inf"), -0.0, "", " ", "0", "x", "a/b/c", "../..",
    [], {}, [[]], [None], {"": None}, {"name": None}, {"x": {"x": {"x": []}}}, "\udc80", "\0", "9" * 5000, "::", "1.2.3.4/33",
)  # fmt: skip


class Slow(Exception):
    """A parser took more than it may."""


def _alarm(_number: int, _frame: object) -> t.NoReturn:
    raise Slow(f"more than {PATIENCE:.0f} s of CPU time")


class Bounded:
    """A block that may take PATIENCE seconds of CPU time; a busy machine is no reason to fail."""

    def __enter__(self) -> None:
        self.former = signal.signal(signal.SIGPROF, _alarm)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)

    def __exit__(self, *_exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.former)


def source(name: str, number: int) -> random.Random:
    """Return what the choices for one input come from."""
    return random.Random(f"{name}:{number}")


def _place(rng: random.Random, length: int) -> tuple[int, int]:
    start = rng.randint(0, length)
    return start, min(length, start + rng.choice((0, 1, 1, 2, 4, 8, 40, 200)))


def text(rng: random.Random, seeds: t.Sequence[str]) -> str:
    """Return one of the seeds with a few things done to it."""
    result = rng.choice(seeds)
    for _step in range(rng.choice((1, 1, 2, 3, 8))):
        start, end = _place(rng, len(result))
        operation = rng.randrange(9)
        if operation == 0:
            result = result[:start] + result[end:]
        elif operation == 1:
            result = result[:start] + rng.choice(TOKENS) + result[end:]
        elif operation == 2:
            result = result[:start] + result[start:end] * rng.choice((2, 3, 50)) + result[end:]
        elif operation == 3:
            result = result[:start]
        elif operation == 4:
            other = rng.choice(seeds)
            result = result[:start] + other[rng.randint(0, len(other)) :]
        elif operation == 5:
            lines = result.split("\n")
            rng.shuffle(lines)
            result = "\n".join(lines[: rng.randint(1, len(lines))])
        elif operation == 6:
            result = result[:start] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) + result[start + 1 :]
        elif operation == 7:
            words = result.split(" ")
            words[rng.randrange(len(words))] = rng.choice(TOKENS)
            result = " ".join(words)
        else:
            token = rng.choice(TOKENS) or "x"
            times = LARGEST // len(token) if rng.random() < 0.05 else rng.choice((2, 10, 100))
            result = result[:start] + token * times + result[start:]
    return result[:LARGEST]


def stretched(rng: random.Random, seeds: t.Sequence[str], size: int) -> str:
    """Return a log of ``size`` characters: one line of a seed again and again, numbered, a part of it up to a thousand times.

    What compares each line with all before it, or tries each of a line's characters as a beginning, takes minutes here.
    """
    line = rng.choice([row for row in rng.choice(seeds).split("\n") if row])
    start, end = _place(rng, len(line))
    part = line[start:end] or rng.choice(TOKENS) or "x"
    head, tail = line[:start] + part * rng.choice((1, 10, 1000)), line[end:]
    lines = (f"{head}{tail}{number}" if start % 2 else f"{head}{number}{tail}" for number in range(size))
    result: list[str] = []
    while size > 0:
        result.append(next(lines))
        size -= len(result[-1]) + 1
    return "\n".join(result)


def octets(rng: random.Random, seeds: t.Sequence[bytes]) -> bytes:
    """Return one of the seeds with a few bytes done to it."""
    result = bytearray(rng.choice(seeds))
    for _step in range(rng.choice((1, 1, 2, 3, 8))):
        start, end = _place(rng, len(result))
        operation = rng.randrange(7)
        if operation == 0:
            del result[start:end]
        elif operation == 1:
            result[start:end] = rng.randbytes(end - start)
        elif operation == 2:
            result[start:start] = result[start:end] * rng.choice((1, 2, 50))
        elif operation == 3:
            del result[start:]
        elif operation == 4 and result:
            result[start % len(result)] ^= 1 << rng.randrange(8)
        elif operation == 5:
            result[start:end] = rng.choice(
                (b"\0" * 4, b"\xff" * 4, b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\x04\x00")
            )
        else:
            other = rng.choice(seeds)
            result[start:] = other[rng.randint(0, len(other)) :]
    return bytes(result[:LARGEST])


def value(rng: random.Random, seeds: t.Sequence[t.Any]) -> t.Any:
    """Return one of the seeds, data such as JSON has, with some of its nodes replaced, gone or doubled."""
    result = copy.deepcopy(rng.choice(seeds))
    for _step in range(rng.choice((1, 1, 2, 4))):
        places: list[tuple[t.Any, t.Any]] = []
        _collect(result, places)
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        operation = rng.randrange(5)
        if operation == 0:
            del holder[key]
        elif operation == 1 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif operation == 2:
            holder[key] = [holder[key]]
        elif operation == 3 and isinstance(holder[key], str):
            holder[key] = text(rng, [holder[key]])
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    return result


def _collect(node: t.Any, places: list[tuple[t.Any, t.Any]]) -> None:
    keys = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        places.append((node, key))
        _collect(node[key], places)


def document(rng: random.Random, seeds: t.Sequence[str]) -> str:
    """Return a JSON text: damaged as a text, or whole and with other values in it."""
    if rng.random() < 0.4:
        return text(rng, seeds)
    if rng.random() < 0.02:
        depth = rng.choice((500, 2000, 30000))
        return rng.choice(('{"a":', "[")) * depth + rng.choice(("", "1" + "]" * depth))
    try:
        return json.dumps(value(rng, [json.loads(rng.choice(seeds))]))
    except ValueError:  # a seed that is no JSON
        return text(rng, seeds)


__all__ = [
    "LARGEST",
    "TOKENS",
    "VALUES",
    "Bounded",
    "Slow",
    "document",
    "octets",
    "source",
    "stretched",
    "text",
    "value",
]
