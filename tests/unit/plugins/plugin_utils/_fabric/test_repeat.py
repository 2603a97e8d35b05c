# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What failed is measured again, with others, before anything is blamed: a made-up fabric with a fault in it."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.inputs import read, unread
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.repeat import again
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.schedule import rounds
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    Fabric,
    blamed,
    good,
    many,
)

Json = t.Any
# client, server, rail, how often it was measured before, Gb/s
Truth = t.Callable[[str, str, int, int], float]
GOOD, BAD = 388.0, 97.0


def measured(fabric: Fabric, truth: Truth) -> Json:
    """Return the report after both passes."""
    for result in fabric.results:
        if result["test"] == "ib_write_bw":
            result["gbps"] = truth(result["client"], result["server"], result["rail"], 0)
    for pair in itertools.chain.from_iterable(again(fabric.report())):
        for rail in pair["rails"]:
            result = good(pair["client"], pair["server"], rail, "ib_write_bw", again=True)
            fabric.results.append({**result, "gbps": truth(pair["client"], pair["server"], rail, 1)})
    return fabric.report()


def slow(condition: t.Callable[[str, str, int, int], bool]) -> Truth:
    return lambda *where: BAD if condition(*where) else GOOD


# what is slow, what is blamed
FAULTS: dict[str, tuple[t.Callable[[str, str, int, int], bool], list[tuple[t.Any, ...]]]] = {
    "a port": (lambda client, server, rail, turn: "b" in (client, server) and rail == 1, [("port", "b", 1)]),
    "a node": (lambda client, server, rail, turn: "c" in (client, server), [("node", "c", None)]),
    "a path": (
        lambda client, server, rail, turn: {client, server} == {"a", "c"} and rail == 0,
        [("pair", ["a", "c"], 0)],
    ),
    "a rail": (lambda client, server, rail, turn: rail == 1, [("rail", None, 1)]),
    "a card that receives": (lambda client, server, rail, turn: server == "c" and rail == 0, [("port", "c", 0)]),
    "a card that sends": (lambda client, server, rail, turn: client == "b" and rail == 1, [("port", "b", 1)]),
    "nothing": (lambda client, server, rail, turn: False, []),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_is_blamed(fault: str) -> None:
    condition, expected = FAULTS[fault]
    report = measured(Fabric("abcdef"), slow(condition))
    assert [
        (kind, sorted(who) if isinstance(who, list) else who, rail) for kind, who, rail in blamed(report)
    ] == expected
    assert report["verdict"] == ("fail" if expected else "pass")
    assert all("again" in suspect["why"] for suspect in report["suspects"])


@pytest.mark.parametrize("fault", [name for name, (_condition, expected) in FAULTS.items() if expected])
def test_a_fault_that_does_not_come_again_is_unknown(fault: str) -> None:
    condition, _expected = FAULTS[fault]
    report = measured(Fabric("abcdef"), slow(lambda *where: condition(*where) and where[3] == 0))
    assert (report["verdict"], report["suspects"]) == ("unknown", [])
    texts = [entry["error"] for entry in report["pairs"] if entry["verdict"] == "unknown"]
    assert texts
    assert all(text.startswith("not repeatable: 97.0 Gb/s (") and "; again: 388.0 Gb/s (" in text for text in texts)


@pytest.mark.parametrize("fault", [name for name, (_condition, expected) in FAULTS.items() if expected])
def test_a_fault_that_could_not_be_measured_again_is_unknown(fault: str) -> None:
    """The time limit ended the run before the second pass."""
    condition, _expected = FAULTS[fault]
    fabric = Fabric("abcdef")
    for result in fabric.results:
        if result["test"] == "ib_write_bw" and condition(result["client"], result["server"], result["rail"], 0):
            result["gbps"] = BAD
    report = fabric.report("not reached within 300 s")
    assert (report["verdict"], report["suspects"]) == ("unknown", [])
    texts = [entry["error"] for entry in report["pairs"] if entry["verdict"] == "unknown"]
    assert texts
    assert all(text.startswith("measured once only: 97.0 Gb/s (") for text in texts)
    assert all(text.endswith("); again: not reached within 300 s") for text in texts)


def test_what_was_measured_again_in_time_and_what_was_not() -> None:
    """Two ports fail, and only one of them had its turn before the time limit."""
    fabric = Fabric("abcdef")
    for result in fabric.results:
        if (
            result["test"] == "ib_write_bw"
            and result["rail"] == 1
            and {"b", "e"} & {result["client"], result["server"]}
        ):
            result["gbps"] = BAD
    for pair in itertools.chain.from_iterable(again(fabric.report())):
        if "b" in pair.values():
            fabric.results.append({**good(pair["client"], pair["server"], 1, "ib_write_bw", again=True), "gbps": BAD})
    report = fabric.report("not reached within 300 s")
    assert (report["verdict"], blamed(report)) == ("fail", [("port", "b", 1)])
    assert {entry["verdict"] for entry in report["pairs"] if "e" in (entry["client"], entry["server"])} >= {"unknown"}


def test_of_a_slow_node_one_rail_stays_slow() -> None:
    report = measured(Fabric("abcd"), slow(lambda *where: "b" in where[:2] and (where[3] == 0 or where[2] == 1)))
    assert blamed(report) == [("port", "b", 1)]
    assert {(entry["rail"], entry["verdict"]) for entry in report["pairs"] if "b" in (entry["client"], entry["server"])} == {
        (0, "pass"), (0, "unknown"), (1, "pass"), (1, "fail"),
    }  # fmt: skip


def test_a_ring_of_64_finds_three_faults() -> None:
    fabric = many(64, 8)

    def condition(client: str, server: str, rail: int, turn: int) -> bool:
        ends = {client, server}
        return ("gpu-07" in ends and rail == 3) or "gpu-30" in ends or (ends == {"gpu-50", "gpu-51"} and rail == 5)

    repeats = again(measured(fabric, slow(condition)))
    report = fabric.report()
    assert sorted(blamed(report), key=str) == sorted(
        [("node", "gpu-30", None), ("port", "gpu-07", 3), ("pair", ["gpu-50", "gpu-51"], 5)], key=str
    )
    # A ring's two rounds, and two more; two of a single rail, for what looks like a port.
    assert [max(len(pair["rails"]) for pair in pairs) for pairs in repeats] == [8, 8, 1, 1]


@pytest.mark.parametrize(("end", "direction"), [("client", "from"), ("server", "to")])
def test_in_a_ring_a_card_that_is_slow_in_one_direction_is_no_path(end: str, direction: str) -> None:
    def condition(client: str, server: str, rail: int, turn: int) -> bool:
        return {"client": client, "server": server}[end] == "gpu-09" and rail == 2

    report = measured(many(20, 4), slow(condition))
    assert blamed(report) == [("port", "gpu-09", 2)]
    assert report["suspects"][0]["direction"] == direction
    assert f"it fails in the direction {direction} it alone" in report["suspects"][0]["why"]


def test_two_nodes_are_measured_again_with_each_other() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.slow()
    assert again(fabric.report()) == [[{"client": "a", "server": "b", "rails": [0]}]]
    report = measured(Fabric("ab", rails=1), slow(lambda *where: where[3] == 0))
    assert report["verdict"] == "unknown"


# What perftest prints when its own clock is not linear.
NO_RATE: Json = {"ok": None, "gbps": None, "error": "perftest counted 500 messages and printed a rate of 0"}


def of_link(fabric: Fabric, client: str, server: str, rail: int) -> Json:
    return next(result for result in fabric.of(client + server, [rail], "ib_") if result["ok"] is not False)


@pytest.mark.parametrize(("gbps", "verdict"), [(GOOD, "pass"), (BAD, "fail")])
def test_of_what_could_not_be_read_the_later_figure_counts(gbps: float, verdict: str) -> None:
    fabric = Fabric("abcd")
    of_link(fabric, "a", "c", 1).update(NO_RATE)
    assert fabric.report()["verdict"] == "unknown"
    assert again(fabric.report(), unread(read(fabric.results)[0])) == [[{"client": "a", "server": "c", "rails": [1]}]]
    fabric.results.append(good("a", "c", 1, "ib_write_bw", again=True, gbps=gbps))
    report = fabric.report()
    assert report["verdict"] == verdict
    place = ("a", "c", 1, "ib_write_bw")
    entry = next(e for e in report["pairs"] if (e["client"], e["server"], e["rail"], e["test"]) == place)
    assert (entry["samples"], entry["verdict"], entry["results"], entry["wanted"]) == ([gbps], verdict, 1, True)
    assert report["again"] == []


def test_one_of_several_results_that_could_not_be_read_is_replaced() -> None:
    fabric = Fabric("ab", rails=1)
    fabric.results.append({**of_link(fabric, "a", "b", 0), **NO_RATE})
    assert fabric.report()["verdict"] == "unknown"
    fabric.results.append(good("a", "b", 0, "ib_write_bw", again=True, gbps=380.0))
    assert [entry["samples"] for entry in fabric.report()["pairs"] if entry["samples"]] == [[GOOD, 380.0]]


def test_what_could_not_be_read_again_stays_unknown() -> None:
    fabric = Fabric("ab", rails=1)
    of_link(fabric, "a", "b", 0).update(NO_RATE)
    fabric.results.append(good("a", "b", 0, "ib_write_bw", again=True, **NO_RATE))
    report = fabric.report()
    assert (report["verdict"], report["again"]) == ("unknown", [])
    assert NO_RATE["error"] in report["reasons"][0]


def test_what_was_skipped_is_not_measured_again() -> None:
    fabric = Fabric("ab", rails=1)
    of_link(fabric, "a", "b", 0).update(ok=None, gbps=None, skipped="the node is busy")
    assert unread(read(fabric.results)[0]) == []


def test_if_nothing_can_be_read_a_node_is_in_two_more_pairs_at_most() -> None:
    fabric = Fabric("abcdef")  # each with the five others
    for result in fabric.results:
        if result["test"] == "ib_write_bw":
            result.update(NO_RATE)
    repeats = again(fabric.report(), unread(read(fabric.results)[0]))
    ends = [end for pairs in repeats for pair in pairs for end in (pair["client"], pair["server"])]
    assert len(repeats) <= 3
    assert max(map(ends.count, ends)) == 2
    assert {tuple(pair["rails"]) for pairs in repeats for pair in pairs} == {(0, 1)}


def test_without_a_second_pass_all_is_as_it_was() -> None:
    report = Fabric().slow("b").report()
    assert (report["verdict"], blamed(report)) == ("fail", [("node", "b", None)])


@given(st.integers(3, 12), st.data())
def test_a_node_is_in_one_pair_of_a_round(number: int, data: st.DataObject) -> None:
    fabric = many(
        number,
        2,
        [
            (pair["client"], pair["server"])
            for pairs in rounds([f"gpu-{n:02}" for n in range(number)])
            for pair in pairs
        ],
    )
    names = sorted(fabric.nodes)
    bad = data.draw(st.sets(st.sampled_from(names), max_size=3))
    for result in fabric.results:
        if result["test"] == "ib_write_bw" and bad & {result["client"], result["server"]}:
            result["gbps"] = BAD
    for pairs in again(fabric.report()):
        ends = list(itertools.chain.from_iterable((pair["client"], pair["server"]) for pair in pairs))
        assert len(ends) == len(set(ends))


def test_a_port_at_85_of_a_hundred_is_found_among_good_ones() -> None:
    report = measured(
        Fabric("abcdef"), lambda client, server, rail, turn: 340.0 if "d" in (client, server) and rail == 0 else GOOD
    )
    assert blamed(report) == [("port", "d", 0)]
    texts = {entry["error"] for entry in report["pairs"] if entry["verdict"] == "fail"}
    assert texts == {"340.0 Gb/s are 87.6% of what the best pair of the rail reaches, the limit is 93%"}


def test_two_pairs_are_not_compared() -> None:
    report = measured(
        many(3, 1, [("gpu-00", "gpu-01"), ("gpu-01", "gpu-02")]),
        lambda client, *_rest: 330.0 if client == "gpu-00" else GOOD,
    )
    assert report["verdict"] == "pass"


def test_what_cannot_be_measured_again_is_unknown() -> None:
    fabric = Fabric("abcd").slow("b", rails=[1])
    (first,) = [pairs[0] for pairs in again(fabric.report())][:1]
    unread = good(first["client"], first["server"], 1, "ib_write_bw", again=True, ok=None, error="no result came back")
    fabric.results.append(unread)
    report = fabric.report()
    assert (report["verdict"], blamed(report)) == ("unknown", [])
    assert any(entry["error"] == "not repeatable: 12.1 Gb/s (a -> b)" for entry in report["pairs"])


def test_a_port_that_is_down_is_not_measured_again() -> None:
    fabric = Fabric("abcd").without("b", rails=[1]).port("b", 1, state="DOWN")
    report = fabric.report()
    assert blamed(report) == [("port", "b", 1)]
    assert again(report) == []


def test_a_path_beside_a_failure_by_chance_is_blamed_and_no_port() -> None:
    """In a ring, n4 fails with both of its neighbors, once by chance."""
    fabric = many(16, 2)

    def condition(client: str, server: str, rail: int, turn: int) -> bool:
        ends = {client, server}
        by_chance = turn == 0 and ends == {"gpu-04", "gpu-05"}
        return rail == 1 and (ends == {"gpu-03", "gpu-04"} or by_chance)

    report = measured(fabric, slow(condition))
    assert blamed(report) == [("pair", ["gpu-03", "gpu-04"], 1)]
    assert report["suspects"][0]["why"] == (
        "rail 1: gpu-03 -> gpu-04 fails again, and both pass with other nodes: the path between them"
    )
    (chance,) = [row for row in report["pairs"] if row["verdict"] == "unknown"]
    assert (chance["client"], chance["server"], chance["rail"]) == ("gpu-04", "gpu-05", 1)
    assert chance["error"].startswith("not repeatable: ")
