# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what a course of events amounts to, what is read back, and merging slices."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import report as util
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import Recorder
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import entry
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any


def begun(hosts: str = "ab", batch: str | None = None, key: str = "p1") -> Recorder:
    recorder = Recorder(True, "2026-11-21T12:00:00Z")
    recorder.begin_playbook({key: "One"})
    recorder.begin_play(key, "One", hosts, hosts if batch is None else batch)
    return recorder


def statuses(recorder: Recorder) -> dict[str, str]:
    return {host: entry["status"] for host, entry in recorder.document()["hosts"].items()}


def ended(recorder: Recorder) -> Json:
    recorder.end()
    return recorder.document()


# the objects' statuses, the verdict
@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ([], "unknown"),
        (["in_sync"], "in_sync"),
        (["in_sync", "unknown"], "unknown"),
        (["unknown", "drift"], "drift"),
        (["drift", "in_sync"], "drift"),
    ],
)
def test_verdicts(given: list[str], verdict: str) -> None:
    recorder = begun("a")
    recorder.add("a", [entry(status, str(number)) for number, status in enumerate(given)])
    document = ended(recorder)
    assert document["verdict"] == verdict
    assert document["complete"] is True
    assert list(document["hosts"]) == (["a"] if given else [])
    assert util.totals(document) == {status: given.count(status) for status in ("in_sync", "unknown", "drift")}


def test_a_run_that_goes_on_is_never_in_sync() -> None:
    recorder = begun("a")
    recorder.add("a", [entry()])
    document = recorder.document()
    assert (document["verdict"], document["complete"], document["finished"]) == ("unknown", False, None)
    assert document["incomplete"] == ["the run is in progress, or was stopped"]
    # For a judge inside of it, what was looked at so far is all.
    document = recorder.document(running=True)
    assert (document["verdict"], document["complete"]) == ("in_sync", True)
    recorder.end(all_playbooks=False)
    assert recorder.document()["complete"] is False
    recorder.end()
    assert recorder.document()["complete"] is True
    recorder.begin_playbook({"p9": "Nine"})
    assert recorder.document()["finished"] is None


def test_known_drift_stays_drift_when_the_run_is_not_complete() -> None:
    recorder = begun("a")
    recorder.add("a", [entry("drift")])
    assert recorder.document()["verdict"] == "drift"


def test_the_worst_look_counts_and_of_equal_ones_the_first() -> None:
    recorder = begun("a")
    recorder.add("a", [entry("drift", live="first", repaired=True)])
    recorder.add("a", [entry("in_sync", live="second")])
    recorder.add("a", [entry("drift", live="third")])
    (row,) = ended(recorder)["hosts"]["a"]["objects"]
    assert (row["status"], row["live"], row["repaired"]) == ("drift", "first", True)
    recorder.add("a", [entry("in_sync", name="m"), entry("unknown", name="m")])
    recorder.add("a", [entry("in_sync", name="m")])
    assert recorder.document()["hosts"]["a"]["objects"][1]["status"] == "unknown"


@pytest.mark.parametrize("name", ["role", "task", "action", "kind", "name", "item", "delegated_to"])
def test_what_makes_two_objects(name: str) -> None:
    recorder = begun("a")
    recorder.add("a", [entry(), entry(**{name: "other"})])
    assert len(recorder.document()["hosts"]["a"]["objects"]) == 2


def test_hosts_in_the_order_of_the_play() -> None:
    recorder = begun("ba")
    for host in "zab":
        recorder.add(host, [entry()])
    assert list(recorder.document()["hosts"]) == ["b", "a", "z"]


def test_hosts_whose_turn_did_not_come() -> None:
    recorder = begun("abc", "a")
    recorder.add("a", [entry()])
    recorder.begin_play("p1", "One", "abc", "b")
    recorder.add("b", [entry()])
    document = ended(recorder)
    assert statuses(recorder) == {"a": "in_sync", "b": "in_sync", "c": "unknown"}
    assert document["incomplete"] == ["c: play 'One' ended before this host's turn"]
    assert document["complete"] is False
    why = "play 'One' ended before this host's turn"
    absent = entry("unknown", "c", task=None, action=None, kind="host", why=why)
    assert document["hosts"]["c"]["objects"] == [absent]


def test_the_next_play_closes_the_one_before() -> None:
    recorder = begun("ab", "a")
    recorder.begin_play("p2", "Two", "a", "a")
    assert statuses(recorder) == {"b": "unknown"}
    assert recorder.document(running=True)["verdict"] == "unknown"


def test_plays_that_were_not_come_to() -> None:
    recorder = Recorder(True)
    recorder.begin_playbook({"p1": "One", "p2": "Two"})
    recorder.begin_play("p1", "One", "a", "a")
    recorder.add("a", [entry()])
    document = ended(recorder)
    assert (document["incomplete"], document["verdict"]) == (["play 'Two' was not reached"], "unknown")


def test_hosts_that_were_stopped() -> None:
    recorder = begun("abc")
    recorder.add("a", [entry("unknown")], "t1")
    recorder.stop("a failed", "t1")
    # The same task is still coming in from other hosts; a later one says that its host went on.
    recorder.add("b", [entry()], "t1")
    recorder.add("c", [entry()], "t2")
    document = ended(recorder)
    assert statuses(recorder) == {"a": "unknown", "b": "unknown", "c": "in_sync"}
    assert document["incomplete"] == ["a: play 'One' ended early: a failed", "b: play 'One' ended early: a failed"]
    # What failed is told; that the host was stopped too is no further object.
    assert len(document["hosts"]["a"]["objects"]) == 1
    assert len(document["hosts"]["b"]["objects"]) == 2


def test_a_play_that_was_broken_off_stays_so() -> None:
    recorder = begun("a")
    recorder.stop("no hosts left")
    recorder.add("a", [entry()], "t9")
    assert ended(recorder)["complete"] is False


def test_the_stop_of_one_batch_is_not_that_of_the_next() -> None:
    recorder = begun("ab", "a")
    recorder.add("a", [entry("unknown")])
    recorder.stop("x", "t1")
    recorder.begin_play("p1", "One", "ab", "b")
    recorder.add("b", [entry()], "t1")
    assert statuses(recorder) == {"a": "unknown", "b": "in_sync"}


def test_a_job_is_replaced_and_not_in_the_report() -> None:
    recorder = begun("a")
    recorder.add("a", [entry("unknown", job="j1")])
    assert "job" not in recorder.document()["hosts"]["a"]["objects"][0]
    assert recorder.job("a", "j2") is None
    assert recorder.job("b", "j1") is None
    assert (recorder.job("a", "j1") or {})["name"] == "n"
    recorder.add("a", [entry()])
    assert ended(recorder)["verdict"] == "in_sync"


def test_the_shape() -> None:
    recorder = begun("a")
    recorder.add("a", [entry("drift", desired=1, live=2)])
    document = ended(recorder)
    assert util.validate(json.loads(util.dumps(document)), "x") == document
    assert document["schema"] == 1
    assert document["started"] == "2026-11-21T12:00:00Z"
    assert document["check_mode"] is True
    assert document["hosts"]["a"]["counts"] == {"in_sync": 0, "unknown": 0, "drift": 1}
    wanted = {"role", "task", "kind", "name", "status", "desired", "configured", "live", "next_boot", "diff"}
    assert wanted <= set(document["hosts"]["a"]["objects"][0])


# --- reading and merging ------------------------------------------------------------------------------------------


def slice_of(of: str, says: str = "in_sync", **more: Json) -> Json:
    recorder = begun(of)
    for host in of:
        recorder.add(host, [entry(says)])
    return {**ended(recorder), **more}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        ("[" * 100000, "it is not JSON"),
        ("[]", "it is not a drift report"),
        ("{}", "it is not a drift report"),
        ('{"schema": 1}', "it is not a drift report"),
        (slice_of("a", schema=2), "it has schema 2, and this release of rdmaops.gpu_fabric reads 1"),
        (slice_of("a", schema=True), "it has schema True"),
        (slice_of("a", schema="1"), "it has schema '1'"),
        (slice_of("a", hosts=[]), "hosts is missing, or not a dict"),
        (slice_of("a", complete="yes"), "complete is missing, or not a bool"),
        (slice_of("a", started=1), "started is missing, or not a str"),
        (slice_of("a", verdict="pass"), "verdict is not one of in_sync, unknown, drift"),
        (slice_of("a", hosts={"a": {}}), "host a has no list of objects"),
        (slice_of("a", hosts={"a": {"objects": [{"status": "ok"}]}}), "an object of host a has none of the statuses"),
    ],
)
def test_what_is_no_report(tmp_path: Path, content: Json, said: str) -> None:
    path = tmp_path / "r.json"
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = message_of(FabricError, util.load, str(path))
    assert message.startswith(f"Reading the drift report {path}: ")
    assert said in message


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="No such file or directory. Publish the report of every slice before"):
        util.load(str(tmp_path / "r.json"))


def test_a_report_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "r.json").touch()
    os.truncate(tmp_path / "r.json", util.MAX_BYTES + 1)
    with pytest.raises(FabricError, match="larger than"):
        util.load(str(tmp_path / "r.json"))


def test_merging() -> None:
    merged = util.merge([("f2", slice_of("cd", "drift")), ("f1", slice_of("ab", started="2026-11-20T00:00:00Z"))])
    assert list(merged["hosts"]) == ["a", "b", "c", "d"]
    assert merged["verdict"] == "drift"
    assert merged["complete"] is True
    assert merged["started"] == "2026-11-20T00:00:00Z"
    assert merged["finished"]
    assert set(merged) == set(slice_of("a"))
    assert util.validate(merged, "x")


def test_one_host_in_two_slices() -> None:
    with pytest.raises(FabricError, match="host b is in f1 and in f2. A host belongs to one slice"):
        util.merge([("f1", slice_of("ab")), ("f2", slice_of("bc"))])


# a slice that is not whole, what is said of it
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (slice_of("c", complete=False, incomplete=["why"]), "f2: why"),
        (slice_of("c", complete=False), "f2: it is not complete"),
        (slice_of(""), "f2: nothing was checked"),
    ],
)
def test_a_slice_that_is_not_whole(other: Json, said: str) -> None:
    merged = util.merge([("f1", slice_of("ab")), ("f2", other)])
    assert (merged["verdict"], merged["complete"]) == ("unknown", False)
    assert merged["incomplete"] == [said]


def test_what_a_slice_says_of_itself_is_judged_anew() -> None:
    lying = slice_of("a", "drift", verdict="in_sync")
    lying["hosts"]["a"]["status"] = "in_sync"
    merged = util.merge([("f1", lying)])
    assert (merged["verdict"], merged["hosts"]["a"]["status"]) == ("drift", "drift")


def test_merged_runs_of_both_modes_are_not_of_check_mode() -> None:
    assert util.merge([("f1", slice_of("a")), ("f2", slice_of("b", check_mode=False))])["check_mode"] is False
    assert util.merge([("f1", slice_of("a")), ("f2", slice_of("b", finished=None))])["finished"] is None
