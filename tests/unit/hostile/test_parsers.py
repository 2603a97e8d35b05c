# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every parser against hostile input: it may refuse with its own error, and nothing else may happen.

In the long run each gets 100,000 inputs, otherwise the first hundred of the same ones. An input that is lost is told
with its number:

    FUZZ_FROM=4711 pytest --long tests/unit/hostile/test_parsers.py -k rping    # begins with that one
"""

from __future__ import annotations

import os
import resource

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import faults, hostile
from ansible_collections.rdmaops.gpu_fabric.tests.unit.hostile.inputs import escaped, outputs
from ansible_collections.rdmaops.gpu_fabric.tests.unit.hostile.parsers import PARSERS, Parser

FEW, MANY = 100, 100_000
# What all inputs together may leave behind in memory, in KiB (ru_maxrss of getrusage(2)).
GROWTH = 400 * 1024

LOGS = [path.read_text(errors="surrogateescape") for path in outputs("nccl[-_][!t]*.txt")]


def feed_logs(name: str, count: int, size: int) -> None:
    with faults.tried("parsers", f"{name} of many lines") as tally:
        for number in range(count):
            text = escaped(hostile.stretched(hostile.source(name, number), LOGS, size))
            with tally.one(f"input {number}, {text[:300]!r}"), hostile.Bounded():
                PARSERS[name].call(text)


@pytest.mark.parametrize("name", ["nccl_log", "training log"])
def test_a_log_of_many_lines(name: str) -> None:
    feed_logs(name, 6, 1 << 19)


@pytest.mark.long
@pytest.mark.parametrize("name", ["nccl_log", "training log"])
def test_logs_of_very_many_lines(name: str) -> None:
    feed_logs(name, 200, 4 << 20)


def feed(name: str, parser: Parser, count: int) -> None:
    first = int(os.environ.get("FUZZ_FROM", "0"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    with faults.tried("parsers", name) as tally:
        for number in range(first, first + count):
            value = parser.source(hostile.source(name, number))
            with tally.one(f"input {number}, {str(value)[:300]!r}"), hostile.Bounded():
                try:
                    parser.call(value)
                except parser.refusals:
                    refused += 1
            if len(tally.lost) >= faults.TOLD:
                break
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < GROWTH, f"{name} has grown by {grown} KiB"


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_input(name: str) -> None:
    feed(name, PARSERS[name], FEW)


@pytest.mark.long
@pytest.mark.parametrize("name", PARSERS)
def test_very_much_hostile_input(name: str) -> None:
    feed(name, PARSERS[name], MANY)
