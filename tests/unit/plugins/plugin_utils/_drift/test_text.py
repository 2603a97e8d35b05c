# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Table, sentence, metrics, page and files: they say what the report says, whatever is in it."""

from __future__ import annotations

import json
import os
import re
import stat
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import page as pages
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import run
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import text as texts
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import Recorder
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._terminal import BAD
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import entry
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page

Json = t.Any


def report(hosts: t.Mapping[str, t.Sequence[Json]], complete: bool = True, check_mode: bool = True) -> Json:
    recorder = Recorder(check_mode, "2026-11-21T12:00:00Z")
    recorder.begin_play("p", "Play", hosts, hosts)
    for host, objects in hosts.items():
        recorder.add(host, objects)
    if complete:
        recorder.end()
    return recorder.document()


MODE = {"kind": "rdma_netns_mode", "name": "ib_core", "desired": "exclusive", "live": "shared"}


# --- one object, one sentence -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (entry("drift", **MODE), "rdma_netns_mode ib_core: live shared, wanted exclusive"),
        (
            entry("drift", **{**MODE, "configured": "exclusive", "next_boot": "exclusive"}),
            "rdma_netns_mode ib_core: live shared, configured exclusive, next boot exclusive, wanted exclusive",
        ),
        (entry("drift", **{**MODE, "next_boot": "shared"}), "rdma_netns_mode ib_core: live shared, wanted exclusive"),
        (entry("drift", desired=None, live={"a": [1]}), 'k n: live {"a": [1]}, wanted nothing'),
        (entry("drift", desired=1), "k n: live unknown, wanted 1"),
        (entry("drift", kind="x.y.module", name="/f"), "module /f by 'T': differs"),
        (entry("drift", kind="x.y.module", name="T"), "module T: differs"),
        (entry("drift", item="a", delegated_to="h", repaired=True), "k n (a) on h: differs, repaired"),
        (entry("drift", item="n", why="because"), "k n: differs (because)"),
        (entry("unknown", why="the task failed"), "k n: the task failed"),
        (entry("unknown"), "k n: not known"),
        (entry("unknown", name=None), "k : not known"),
        (entry(), "k n: in sync"),
    ],
)
def test_an_object_in_words(item: Json, said: str) -> None:
    assert texts.describe(item) == said


def test_the_sentence_names_drift_first_and_no_more_than_ten() -> None:
    document = report({"a": [entry("unknown", why="w")], "b": [entry("drift", **MODE), entry()]})
    assert texts.sentence(document) == (
        "The verdict is drift: 1 drift, 1 unknown, 1 in sync, on 2 hosts; "
        "b: rdma_netns_mode ib_core: live shared, wanted exclusive; a: k n: w"
    )
    many = report({"a": [entry("drift", str(number)) for number in range(13)]})
    assert texts.sentence(many).endswith("a: k 9: differs; and 3 more objects")
    assert texts.sentence(report({"a": [entry()]}, complete=False)).endswith(
        "not complete: the run is in progress, or was stopped"
    )
    long = report({"a": [entry("drift", why="w" * 1000)]})
    assert texts.sentence(long).endswith("; a: k n: differs (" + "w" * 280 + "...")
    assert texts.sentence(report({"a": many["hosts"]["a"]["objects"][:10]})).endswith("; a: k 9: differs")
    for number, rest in ((3, ""), (4, " and 1 more"), (5, " and 2 more")):
        unfinished = {**long, "complete": False, "incomplete": [f"gpu-{host}: not come to" for host in range(number)]}
        assert texts.sentence(unfinished).endswith(
            "; not complete: gpu-0: not come to, gpu-1: not come to, gpu-2: not come to" + rest
        )
    unfinished = {**long, "complete": False, "incomplete": ["w" * 200, "v" * 201]}
    assert texts.sentence(unfinished).endswith("; not complete: " + "w" * 200 + ", " + "v" * 197 + "...")
    assert texts.sentence(report({})) == "The verdict is unknown: nothing was checked"


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table() -> None:
    document = report({"gpu-1": [entry()], "gpu-2": [entry("drift", **MODE), entry("unknown", why="w " * 90)]})
    assert texts.table(document, 60) == (
        "Drift: DRIFT\n"
        "host     drift  unknown  in sync\n"
        "gpu-2        1        1        0\n"
        "gpu-1        0        0        1\n"
        "\n"
        "drift\n"
        "  gpu-2: rdma_netns_mode ib_core: live shared, wanted\n"
        "    exclusive\n"
        "\n"
        "unknown\n"
        f"  gpu-2: k n: {'w ' * 21}w\n"
        f"    {'w ' * 27}w\n"
        f"    {'w ' * 26}w...\n"
    )
    assert texts.table(report({}), 60) == "Drift: UNKNOWN\nNothing was checked.\n"
    assert "\nnot complete\n  the run is in progress" in texts.table(report({"a": [entry()]}, complete=False), 60)
    assert texts.lines(document)[0] == ("Drift: DRIFT", BAD)


def test_without_a_terminal_no_line_is_wrapped() -> None:
    document = report({"gpu-1": [entry("drift", **MODE, why="w " * 90), entry("unknown", "m", why="v" * 1000)]})
    shown = texts.table(document).splitlines()
    assert f"  gpu-1: rdma_netns_mode ib_core: live shared, wanted exclusive ({'w ' * 90})" in shown
    # A traceback is cut, and the report has it.
    assert max(map(len, shown)) == 2 + texts.MAX_LINE


@pytest.mark.parametrize("width", [0, 80])
@pytest.mark.parametrize("why", ["w", "w " * 400])
def test_the_table_of_many_hosts_fits_on_a_screen(width: int, why: str) -> None:
    wrong = {f"h{number:03}": [entry("drift", why=why), entry("unknown", "m", why=why)] for number in range(150)}
    document = report({**{f"s{number}": [entry()] for number in range(20)}, **wrong, "u": [entry("unknown")]})
    document.update(complete=False, incomplete=[f"gpu-{number}: not come to: {why}" for number in range(13)])
    shown = texts.table(document, width).splitlines()
    # With the empty line before it.
    assert len(shown) < 60
    assert shown[2].split() == ["h000", "1", "1", "0"]
    assert "and 155 more hosts: 134 drift, 1 unknown, 20 in sync" in shown
    if why == "w":
        counted = ["  and 134 more, in the report", "  and 141 more, in the report", "  and 8 more, in the report"]
        assert [line for line in shown if line.endswith("more, in the report")] == counted


# the hosts that are not listed, what is said of them
@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([], None),
        (["drift"], "and 1 more hosts: 1 drift"),
        (["unknown", "in_sync", "in_sync"], "and 3 more hosts: 1 unknown, 2 in sync"),
    ],
)
def test_the_hosts_beyond_the_table_are_counted(statuses: list[str], said: str | None) -> None:
    every = ["drift"] * texts.MAX_HOSTS + statuses
    shown = texts.table(report({f"h{number:02}": [entry(status)] for number, status in enumerate(every)})).splitlines()
    assert [line for line in shown if "more hosts" in line] == ([said] if said else [])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("a bc def", ["a bc def"]),
        ("a bc def ghi", ["a bc def", "ghi"]),
        ("abcdefghijklm", ["abcdefgh", "ijklm"]),
        ("a bcdefghijklm", ["a bcdefg", "hijklm"]),
        ("宽宽宽 宽宽宽", ["宽宽宽", "宽宽宽"]),
        ("a bc def ghi jkl mno", ["a bc def", "ghi j..."]),
    ],
)
def test_a_text_in_lines(text: str, rows: list[str]) -> None:
    assert texts.wrap(text, 8, 2) == rows


NAMES = st.text(min_size=1) | st.sampled_from(
    ["\x1b[31mred", "a\nb", "\u202eback", "\ud800", "宽宽宽", "e\u0301", "\0"]
)


@settings(max_examples=60)
@given(NAMES, NAMES, st.sampled_from(["drift", "unknown", "in_sync"]), st.integers(0, 200))
def test_no_text_steers_the_terminal_or_widens_the_table(host: str, name: str, status: str, width: int) -> None:
    shown = texts.table(report({host: [entry(status, name, why=name, item=host)]}), width)
    for line in shown.splitlines():
        assert line.isprintable(), line
        assert not width or texts.columns(line) <= max(width, texts.MIN_WIDTH)
    assert texts.sentence(report({host: [entry(status, name)]})).isprintable()


# --- Prometheus ---------------------------------------------------------------------------------------------------


def test_metrics() -> None:
    document = report({"gpu-1": [entry("drift"), entry(name="m")], "gpu-2": [entry("unknown")]})
    lines = texts.metrics(document).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples == [
        'gpu_fabric_drift_objects{host="gpu-1",status="in_sync"} 1',
        'gpu_fabric_drift_objects{host="gpu-1",status="unknown"} 0',
        'gpu_fabric_drift_objects{host="gpu-1",status="drift"} 1',
        'gpu_fabric_drift_objects{host="gpu-2",status="in_sync"} 0',
        'gpu_fabric_drift_objects{host="gpu-2",status="unknown"} 1',
        'gpu_fabric_drift_objects{host="gpu-2",status="drift"} 0',
        'gpu_fabric_drift_verdict{verdict="in_sync"} 0',
        'gpu_fabric_drift_verdict{verdict="unknown"} 0',
        'gpu_fabric_drift_verdict{verdict="drift"} 1',
        "gpu_fabric_drift_complete 1",
        "gpu_fabric_drift_check_mode 1",
        "gpu_fabric_drift_timestamp_seconds 1795262400",
    ]
    for name in {re.split(r"[{ ]", line)[0] for line in samples}:
        assert [line.split()[1] for line in lines if line[0] == "#" and line.split()[2] == name] == ["HELP", "TYPE"]
    assert "timestamp" not in texts.metrics({**document, "started": "yesterday"})
    assert "gpu_fabric_drift_complete 0" in texts.metrics(report({}, complete=False))


SAMPLE = re.compile(r'gpu_fabric_drift_[a-z_]+(\{([a-z]+="(\\[\\"n]|[^"\\])*",?)+\})? [0-9]+')


@settings(max_examples=60)
@given(NAMES)
def test_any_host_makes_valid_metrics(host: str) -> None:
    shown = texts.metrics(report({host: [entry()]}))
    shown.encode("utf-8")
    for line in shown.removesuffix("\n").split("\n"):
        assert line.startswith("# ") or SAMPLE.fullmatch(line), line


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else_and_runs_nothing() -> None:
    text = pages.page(report({"gpu-1": [entry("drift", **MODE)]}))
    reader = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "form"}.intersection(reader.tags)
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    for name, value in reader.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "style")
        assert name != "href" or str(value).startswith("#")


def checked(page: Page) -> list[str | None]:
    return [button.attributes["id"] for button in page.find("input") if "checked" in button.attributes]


def test_the_page_says_what_the_report_says() -> None:
    content = report(
        {
            "gpu-1": [entry()],
            "gpu-2": [
                entry("drift", **MODE, role="r.s.t", diff="--- a\n-old\n+new", delegated_to="kube", repaired=True),
                entry("unknown", "m", why="no answer", item="i"),
            ],
        },
        complete=False,
    )
    reader = Page(pages.page(content))
    words = " ".join(reader.text.split())
    for text in ("ib_core", "exclusive", "shared", "r.s.t", "-old", "+new", "on kube", "repaired by this run"):
        assert text in words, text
    for text in ("no answer", "m (i)", "The run is not complete", "the run is in progress, or was stopped"):
        assert text in words, text
    for text in ("Started 2026-11-21T12:00:00Z", "Mode check", "Objects 1 drift, 1 unknown, 1 in sync"):
        assert text in words, text
    rows = [row.attributes["class"] for row in reader.find("tr") if "class" in row.attributes]
    assert rows == ["drift", "unknown", "in_sync"]
    sections = [section.attributes["class"] for section in reader.find("section")]
    assert sections == ["has-unknown has-drift", "has-in_sync"]
    assert checked(reader) == ["f-wrong"]
    assert checked(Page(pages.page(report({"a": [entry()]})))) == ["f-all"]
    assert "Nothing was checked." in Page(pages.page(report({}))).text


def test_labels_are_escaped() -> None:
    shown = texts.metrics(report({'a\\b"c\nd\re\ud800': [entry()]}))
    assert 'host="a\\\\b\\"c\\nd e?",status="in_sync"} 1' in shown


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("wrong", ["in_sync"]),
        ("drift", ["in_sync", "unknown"]),
        ("unknown", ["in_sync", "drift"]),
        ("in_sync", ["unknown", "drift"]),
        ("all", []),
    ],
)
def test_what_a_filter_hides(name: str, hidden: list[str]) -> None:
    text = pages.page(report({"a": [entry()]}))
    rows = [rule for rule in text.split("\n") if rule.startswith(f"#f-{name}:checked~main tr.")]
    assert rows == (
        [",".join(f"#f-{name}:checked~main tr.{status}" for status in hidden) + "{display:none}"] if hidden else []
    )


def test_a_page_of_many_objects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_IN_SYNC", 3)
    document = report({"a": [entry(name=str(number)) for number in range(5)] + [entry("drift", "x")], "b": [entry()]})
    reader = Page(pages.page(document))
    rows = [row.attributes["class"] for row in reader.find("tr") if "class" in row.attributes]
    assert rows == ["drift", "in_sync", "in_sync", "in_sync", "in_sync", "in_sync"]
    assert "and 2 in sync, in the JSON report" in reader.text
    assert "and 1 in sync, in the JSON report" in reader.text


EVIL = "<script>alert(1)</script>\"' onload=x &amp;"


@settings(max_examples=40)
@given(st.text(min_size=1) | st.just(EVIL))
def test_any_text_is_text(text: str) -> None:
    drifted = entry(
        "drift",
        **dict.fromkeys(("name", "kind", "role", "task", "item", "delegated_to", "desired", "live", "diff"), text),
    )
    unknown = entry("unknown", why=text)
    document = report({text: [drifted, unknown]}, complete=False)
    document["incomplete"].append(text)
    document["started"] = text
    shown = pages.page(document)
    shown.encode("utf-8")
    plain = Page(
        pages.page(report({"h": [entry("drift", desired="x", diff="y"), entry("unknown", why="w")]}, complete=False))
    )
    reader = Page(shown)
    assert set(reader.tags) <= {*plain.tags, "ins", "del", "br", "li"}
    assert {name for name, _value in reader.attributes} <= {
        "lang", "charset", "name", "content", "http-equiv", "class", "href", "title", "type", "id", "checked", "for",
        "role", "aria-label", "scope", "colspan",
    }  # fmt: skip


def test_every_character_of_a_name_stays_text() -> None:
    def shown(name: str) -> str:
        texts_of_one = dict.fromkeys(("name", "kind", "role", "task", "item", "delegated_to", "desired", "why"), name)
        document = report({name: [entry("drift", **texts_of_one, diff="+" + name)]}, complete=False)
        return pages.page({**document, "started": name})

    name = "<>&\"'\0\ud800\r\u202e"
    text = shown(name)
    assert text.encode("utf-8")
    assert "\r" not in text
    reader = Page(text)
    assert reader.tags == Page(shown("x")).tags
    assert reader.text.count(name.replace("\0", "\ufffd").replace("\ud800", "\ufffd")) > 5


# --- files --------------------------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    document = report({"a": [entry()]})
    paths = {name: str(tmp_path / "d" / name) for name in ("report", "html", "prometheus")}
    assert run.write(document, paths) == (list(paths.values()), {})
    assert json.loads(Path(paths["report"]).read_text()) == document
    assert Path(paths["html"]).read_text() == pages.page(document)
    assert Path(paths["prometheus"]).read_text() == texts.metrics(document)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["html", "prometheus", "report"]
    assert run.write(document, {"report": None, "html": ""}) == ([], {})


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_shows_diffs_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """Diffs are of files that others may not read; metrics have names and numbers, and are read by node_exporter."""
    names = {"report": "r.json", "html": "r.html", "prometheus": "r.prom"}
    former = os.umask(umask)
    try:
        run.write(report({"a": [entry()]}), {name: str(tmp_path / file) for name, file in names.items()})
    finally:
        os.umask(former)
    assert modes(tmp_path) == {"r.json": 0o600, "r.html": 0o600, "r.prom": 0o644}


def test_a_report_for_others_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.touch()
    path.chmod(0o640)
    run.write(report({"a": [entry()]}), {"html": str(path)})
    assert modes(tmp_path) == {"r.html": 0o640}


def test_a_file_that_cannot_be_written_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bad = str(tmp_path / "file" / "r.json")
    good = str(tmp_path / "r.html")
    written, problems = run.write(report({}), {"report": bad, "html": good})
    assert written == [good]
    assert list(problems) == [bad]
    assert problems[bad].startswith(f"Writing {bad}: File exists, the drift report's option 'report'. Name a path")
