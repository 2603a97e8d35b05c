# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: it says what the report says, whatever the names are, and needs nothing else."""

from __future__ import annotations

import itertools
import re
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.page import page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import Fabric, many

SLOW = settings(max_examples=60)

Json = t.Any
PORT = {"device": "mlx5_0", "netdev": "ens1", "state": "ACTIVE", "rate_gbps": 400.0}
TESTS = ["rping", "ib_write_bw"]


def pairs_of(names: t.Sequence[str]) -> list[list[str]]:
    return [list(pair) for pair in itertools.combinations(names, 2)]


def good_results(pairs: t.Sequence[t.Sequence[str]], rails: int, gbps: float) -> list[Json]:
    return [
        {"client": client, "server": server, "rail": rail, "test": test, "ok": True, "gbps": gbps}
        for (client, server), rail, test in itertools.product(pairs, range(rails), TESTS)
    ]


def report(names: t.Sequence[str], text: str = "x", rails: int = 2, pairs: Json = None, **more: Json) -> Json:
    """A report in which a text is in every place where there can be one."""
    free = {"reachable": True, "problems": [], "busy": []}
    port = {**PORT, "link_layer": "Ethernet"}
    nodes: Json = {name: {**free, "rails": [{"rail": rail, **port} for rail in range(rails)]} for name in names}
    first = nodes[names[0]]
    check: Json = {"rail": 0, "test": "memlock", "ok": False, "error": text}
    first.update(problems=[text], busy=[text], pod=text, claims=[text], checks=[check])
    first["rails"][0].update(device=text, netdev=text, state=text, protocol=text)
    pairs = pairs_of(names) if pairs is None else pairs
    results = good_results(pairs, rails, 380.0)
    if results:
        results[0].update(ok=False, error=text)
        results[-1].update(skipped=text)
    wanted = {"pairs": pairs, "rails": list(range(rails)), "tests": [*TESTS, "memlock"]}
    return {**judge(nodes, results, wanted, 0.8, text), **more}


def names_on(page: Page) -> list[str]:
    return [element.text for element in page.find("bdi")]


# --- whatever the names are ---------------------------------------------------------------------------------------

PLAIN = Page(page(report(["a", "b", "c"])))
TEXTS = st.text(min_size=1, max_size=12) | st.text("<>&\"'/ -!=\r\n\t\u202e\u200f\x1b;#amp", min_size=1, max_size=12)


@SLOW
@given(st.lists(TEXTS, min_size=3, max_size=3, unique=True), TEXTS)
def test_any_text_comes_back_and_makes_no_tag(names: list[str], text: str) -> None:
    # HTML has no NUL: what a browser shows for one is there instead.
    seen = [name.replace("\0", "\ufffd") for name in names]
    read = Page(page(report(names, text)))
    for name in seen:
        assert name in names_on(read)
    assert text.replace("\0", "\ufffd") in names_on(read)
    titles = [value for key, value in read.attributes if key == "title"]
    assert any(value == seen[0] for value in titles)
    assert any(value and value.startswith(f"{seen[0]} → {seen[1]}, rail 0, rping: fail") for value in titles)
    assert read.tags == PLAIN.tags
    assert [key for key, _value in read.attributes] == [key for key, _value in PLAIN.attributes]


# name that is meant to break out
BREAKING = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style><b>",
    "a\nb\r\nc\rd",
    "&lt;&amp;&#39;&notin;",
    "\u202egnp.exe",
    "<!-- --><![CDATA[",
    "gpu 01",
]


@pytest.mark.parametrize("name", BREAKING)
def test_names_that_are_meant_to_break_out(name: str) -> None:
    read = Page(page(report([name, "b", "c"], name)))
    assert names_on(read).count(name) > 5
    assert read.tags == PLAIN.tags


def test_every_character_of_a_name_stays_text() -> None:
    name = "<>&\"'\0\ud800\r\u202e"
    text = page(report([name, "b", "c"], name, started=name))
    assert text.encode("utf-8")
    assert "\r" not in text
    read = Page(text)
    assert names_on(read).count(name.replace("\0", "\ufffd").replace("\ud800", "\ufffd")) > 5
    assert read.tags == PLAIN.tags


def test_a_carriage_return_is_not_left_to_the_browser() -> None:
    assert "\r" not in page(report(["a\rb", "c", "d"], "e\rf"))


def test_lone_surrogates_do_not_spoil_the_file() -> None:
    text = page(report(["a\udcff", "b\ud800", "c"]))
    assert text.encode("utf-8")
    assert "a\ufffd" in names_on(Page(text))


def test_the_page_needs_nothing_else() -> None:
    text = page(report(["a", "b", "c"]))
    assert not {"script", "link", "img", "iframe", "object", "base", "form", "a"} & set(PLAIN.tags)
    assert not {"src", "href", "srcset", "action", "style"} & {key for key, _value in PLAIN.attributes}
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    assert "default-src 'none'" in str(PLAIN.attributes)


# --- what it says -------------------------------------------------------------------------------------------------


def good(names: t.Sequence[str], pairs: Json = None, rails: int = 1, gbps: float = 388.0, **change: Json) -> Json:
    port = {**PORT, "netdev_mtu": 9000, "gid_index": 3}
    nodes = {name: {"reachable": True, "rails": [{"rail": rail, **port} for rail in range(rails)]} for name in names}
    pairs = pairs_of(names) if pairs is None else pairs
    results = good_results(pairs, rails, gbps)
    results[0].update(change)
    wanted = {"pairs": pairs, "rails": list(range(rails)), "tests": TESTS}
    return judge(nodes, results, wanted, 0.8, "now")


def maps(read: Page) -> list[tuple[str, str]]:
    """The cells of the heat maps that stand for a measurement."""
    cells = [(cell.attributes.get("class") or "", cell.text) for cell in read.find("td")]
    return [cell for cell in cells if re.fullmatch("pass|fail|unknown|[pf][0-9]", cell[0])]


# bandwidth, class and text of its cell
SHARES = [
    (160.0 - 1, ("f2", "39!")),
    (160.0, ("f1", "40!")),
    (319.9, ("f1", "79!")),
    (320.0, ("p1", "80")),
    (350.0, ("p2", "87")),
    (380.0, ("p3", "95")),
    (400.0, ("p3", "100")),
    (480.0, ("p3", "120")),
]


@pytest.mark.parametrize(("gbps", "expected"), SHARES)
def test_the_colour_is_by_share(gbps: float, expected: tuple[str, str]) -> None:
    assert sorted(maps(Page(page(good(["a", "b"], gbps=gbps))))) == sorted([("pass", "ok"), expected])


# change of the ping's result, class and text of its cell, verdict
@pytest.mark.parametrize(
    ("change", "cell", "verdict"),
    [
        ({}, ("pass", "ok"), "pass"),
        ({"ok": False}, ("fail", "fail"), "fail"),
        ({"ok": None}, ("unknown", "?"), "unknown"),
        ({"skipped": "in use"}, ("unknown", "?"), "unknown"),
    ],
)
def test_a_ping(change: Json, cell: tuple[str, str], verdict: str) -> None:
    text = page(good(["a", "b"], **change))
    assert maps(Page(text))[0] == cell
    assert f'<header class="banner {verdict}"><h1>Fabric check: <span class="badge {verdict}"><b>{verdict}</b>' in text
    assert f"<title>Fabric check: {verdict}</title>" in text


def test_unknown_is_hatched_and_has_no_other_colour() -> None:
    styles = re.findall(r"\.unknown\{([^}]*)\}", page(good(["a", "b"])))
    assert "repeating-linear-gradient" in styles[0]
    assert not any(name in styles[0] for name in ("--p1", "--p2", "--p3", "green"))


def test_an_unread_bandwidth_is_not_shown_as_a_number() -> None:
    assert maps(Page(page(report(["a", "b"], rails=1)))) == [("fail", "fail"), ("unknown", "?")]


def test_everything_of_the_report_is_there() -> None:
    found = report(["a", "b", "c"], "some text", started="2026-11-21T12:00:00Z")
    text = page(found)
    read = Page(text)
    assert found["reasons"]
    assert all(reason in names_on(read) for reason in found["reasons"])
    assert all(entry["why"] in names_on(read) for entry in found["skipped"])
    assert all(entry["what"] in names_on(read) for entry in found["skipped"])
    assert "report schema 1, started 2026-11-21T12:00:00Z" in text
    assert len(maps(read)) == 12
    assert {"400 Gb/s", "mlx5_0", "ens1", "ACTIVE", "3"} <= set(names_on(Page(page(good(["a", "b"])))))


def test_a_ring_of_many_is_a_list_by_rail() -> None:
    names = [f"gpu-{place}" for place in range(32)]
    pairs = [[name, names[(place + 1) % 32]] for place, name in enumerate(names)]
    read = Page(page(good(names, pairs, rails=8)))
    assert len(maps(read)) == 32 * 8 * 2
    assert read.tags.count("figure") == 2


def test_many_that_were_left_out_for_one_reason_are_one_row() -> None:
    names = [f"gpu-{place}" for place in range(6)]
    found = good(names)
    found["skipped"] = [{"what": f"w{place}", "why": "in use"} for place in range(30)]
    read = Page(page(found))
    assert names_on(read).count("in use") == 1
    assert {f"w{place}" for place in range(30)} <= set(names_on(read))


def test_nothing_at_all() -> None:
    text = page(judge({}, [], {"pairs": [], "rails": [], "tests": []}, 1, ""))
    Page(text)
    assert "nothing was requested: wanted has no pairs" in text


def test_tests_of_one_end_and_gpus_are_on_the_page() -> None:
    shown = page(report(["a", "b"], "the limit is 65536 bytes"))
    assert "GPUDirect RDMA: not proven: whether there are GPUs is not known on a, b" in shown
    checks = shown.partition("<h2>Tests of one end</h2>")[2].partition("<h2>")[0]
    assert checks.count("memlock") >= 4
    assert "the limit is 65536 bytes" in checks


def rails_of(read: Page) -> list[tuple[str, str | None, bool]]:
    """Of each rail: its heading, the group of which one is open at a time, and whether it is open."""
    rails = [element for element in read.find("details") if element.attributes.get("class") == "rail"]
    headings = [element.text for element in read.find("h3")]
    return [
        (text, rail.attributes.get("name"), "open" in rail.attributes)
        for text, rail in zip(headings, rails, strict=True)
    ]


def test_rails_of_many_nodes_are_open_one_at_a_time_the_worst_first() -> None:
    fabric = many(12, 3, [tuple(pair) for pair in pairs_of([f"gpu-{place:02}" for place in range(12)])])
    fabric.slow(rails=[2], gbps=100.0)
    next(result for result in fabric.results if result["rail"] == 1)["ok"] = None
    read = Page(page(fabric.report()))
    assert rails_of(read) == [("Rail 2", "rail", True), ("Rail 1", "rail", False), ("Rail 0", "rail", False)]
    assert [element.attributes["id"] for element in read.find("input")] == ["wrong"]
    # The pings of rail 2 are good, and its bandwidths come before them.
    assert [element.text.split()[0] for element in read.find("figcaption")][:2] == ["ib_write_bw", "rping"]


def test_rails_of_few_nodes_are_all_open() -> None:
    read = Page(page(Fabric().slow(rails=[1], gbps=100.0).report()))
    assert rails_of(read) == [("Rail 1", None, True), ("Rail 0", None, True)]
    assert not read.find("input")


def test_the_worst_measurements_come_first_and_the_rest_is_counted() -> None:
    fabric = Fabric("abcdef")
    for place, result in enumerate(fabric.of(rails=[1], tests="ib_")):
        result["gbps"] = 300.0 - 10 * place
    shown = page(fabric.report()).partition("<h2>The worst measurements</h2>")[2].partition("<h2>")[0]
    assert [cell.text for cell in Page(shown).find("th")][5:7] == ["e → f", "d → f"]
    assert Page(shown).tags.count("tr") == 1 + 10
    assert "And 5 more that are not pass." in shown
    assert "worst measurements" not in page(Fabric().report())
