# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's log with lines that are not NCCL's, too long, or too many."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_log import nccl_log
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.nccl_logs import EVIDENCE, LOGS, OWN
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read


def test_long_lines_take_no_time() -> None:
    """Each of these would take a pattern that goes back for ever."""
    for junk in ("1:" * 5000, "[" * 5000, "a-1 " * 5000, "(" * 5000, "1:1:1 [0] " * 3000, ":".join("1" * 5000)):
        nccl_log(junk + " NCCL INFO Using network IB\n")
        nccl_log(junk + " " + OWN + "Using network IB\n")


LINES: dict[str, Callable[[int], str]] = {
    "other warnings": lambda number: f"{OWN[:-5]}WARN w{number:07d}",
    "other processes": lambda number: f"n{number}:1:2 [0] NCCL INFO Using network N{number}",
    "other channels": lambda number: OWN + f"Channel 0/0 : {number}[0] -> 1[0] [send] via NET/N{number}/0",
    "other devices": lambda number: OWN + "NET/IB : Using" + "".join(f" [{at}]m{number}x{at}:1/IB" for at in range(60)),
    "other ranks": lambda number: OWN + f"comm 0x1 rank {number} nranks 9",
    "comm": lambda _number: OWN + "comm" * 1900,
    "spaces": lambda _number: OWN + "Using network a" + " " * 7900 + "b",
    "versions": lambda _number: OWN + "NCCL version " + "1." * 3900 + "1 x y",
    "bare versions": lambda _number: "x: NCCL version " + "1." * 3900 + "1 x y",
    "names of hosts": lambda _number: OWN + "a" * 7900 + " NCCL ",
    "beginnings": lambda _number: OWN * 300,
}


def hostile_log(name: str, size: int) -> str:
    lines: list[str] = []
    while size > 0:
        lines.append(LINES[name](len(lines)) + "\n")
        size -= len(lines[-1])
    return "".join(lines)


def seconds(text: str) -> float:
    """Return the processor time that a log takes, which other work on the machine hardly changes."""
    began = time.process_time()
    nccl_log(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", LINES)
def test_a_hostile_log_costs_no_more_than_its_length(name: str) -> None:
    """A quarter of what training_job_info reads of a pod; what grows with the square takes 5 to 300 s here."""
    assert seconds(hostile_log(name, 1 << 20)) < 2


@pytest.mark.long
@pytest.mark.parametrize("name", LINES)
def test_a_hostile_log_of_the_largest_size(name: str) -> None:
    assert seconds(hostile_log(name, 4 << 20)) < 4


def test_what_a_hostile_log_names_is_limited() -> None:
    lines = [LINES[name](number) for name in LINES if name.startswith("other") for number in range(2000)]
    result = nccl_log("\n".join(lines))
    assert [len(result[name]) for name in ("errors", "devices", "ranks")] == [100, 1000, 2000]
    assert result["errors"][::99] == ["w0000000", "w0000099"]
    assert result["left_out"] == {"devices": 119_000, "ranks": 0, "socket_ranks": 0, "errors": 1900}
    assert result["network"] == "N0, N1, N2, N3, N4, N5, N6, N7, N8, N9, and 1990 more"


def test_a_long_warning_is_cut() -> None:
    assert nccl_log(OWN[:-5] + "WARN " + "x" * 5000)["errors"] == ["x" * 1024]


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match=f"nccl_log needs the text .* type {type(value).__name__}"):
        nccl_log(value)


@given(st.text())
def test_arbitrary_text_is_unknown(text: str) -> None:
    result = nccl_log(text)
    assert (result["transport"], result["evidence"], result["gpudirect"]) == ("unknown", None, None)


@given(st.text(max_size=60))
def test_arbitrary_messages_of_nccl(text: str) -> None:
    message = text.replace("\n", " ").replace("\r", " ")
    assert nccl_log(OWN + message + "\n")["transport"] == "unknown"


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(list(LOGS)), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from(["noise ", "x: ", "[a] ", "'", "using rdma NET/IB ", "a b c "]),
)
def test_no_rdma_without_a_line_of_it(names: list[str], chance: random.Random, noise: str) -> None:
    lines = [line for name in names for line in read(name).splitlines()]
    kept = [line for line in lines if chance.random() < 0.5]
    chance.shuffle(kept)
    changed = []
    for line in kept:
        changed += [line] * chance.choice((1, 1, 2))
        if chance.random() < 0.2:
            changed.append(noise + line[: chance.randrange(len(line) + 1)])
    result = nccl_log("\n".join(changed))
    if not any(EVIDENCE.search(line) for line in changed):
        assert result["transport"] != "rdma"
    if any("via NET/Socket" in line for line in kept):
        assert result["transport"] in ("socket", "mixed")
    if result["transport"] == "unknown":
        assert result["gpudirect"] in (None, False)
