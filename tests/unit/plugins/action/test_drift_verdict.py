# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action drift_verdict: when the task fails, what it says, sets and writes."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.rdmaops.gpu_fabric.plugins.action import drift_verdict as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import run
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import Recorder, dumps
from ansible_collections.rdmaops.gpu_fabric.tests.support.actions import run_action
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import entry
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any


def recorded(host: str, *statuses: str, name: str = "n") -> Recorder:
    recorder = Recorder(True, "2026-11-21T12:00:00Z")
    recorder.begin_playbook({"p": "One", "q": "Judge"})
    recorder.begin_play("p", "One", [host], [host])
    recorder.add(host, [entry(status, f"{name}{number}") for number, status in enumerate(statuses)])
    recorder.begin_play("q", "Judge", ["localhost"], ["localhost"])
    return recorder


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_runs", [])


def publish(*statuses: str, **problems: str) -> None:
    run.publish(run.Run(recorded("gpu-1", *statuses), problems))


def act(directory: Path, arguments: Json = None, check_mode: bool = True) -> Json:
    return run_action(plugin, arguments or {}, directory, check_mode=check_mode)


def statistics(done: Json) -> Json:
    """Return what the run keeps; of a failed task by the callback."""
    return done["invocation"]["ansible_stats"] if done["failed"] else done["ansible_stats"]["data"]


# what was found, the arguments, the verdict, whether the task fails
@pytest.mark.parametrize(
    ("statuses", "given", "verdict", "failed"),
    [
        (["in_sync"], {}, "in_sync", False),
        (["drift"], {}, "drift", True),
        (["unknown"], {}, "unknown", True),
        ([], {}, "unknown", True),
        (["drift"], {"drift_fail": False}, "drift", False),
        (["unknown"], {"drift_fail": False}, "unknown", False),
        (["drift", "unknown"], {"fail_on": ["unknown"]}, "drift", False),
        (["unknown"], {"fail_on": ["drift"]}, "unknown", False),
        (["drift"], {"fail_on": ["drift"]}, "drift", True),
        (["drift"], {"fail_on": []}, "drift", False),
    ],
)
def test_when_it_fails(tmp_path: Path, statuses: list[str], given: Json, verdict: str, failed: bool) -> None:
    publish(*statuses)
    done = act(tmp_path, given)
    assert (done["verdict"], done["failed"], done["changed"]) == (verdict, failed, False)
    data = statistics(done)
    assert [data["drift_" + name] for name in ("verdict", "counts")] == [verdict, done["counts"]]
    assert data["drift_message"].startswith(f"The verdict is {verdict}: ")
    assert done["counts"] == {status: statuses.count(status) for status in ("in_sync", "unknown", "drift")}
    # What a failed task returns is printed, but for its invocation.
    assert ("ansible_stats" in done, "invocation" in done) == (not failed, failed)
    assert failed or done["ansible_stats"]["per_host"] is False


def test_the_message_names_what_drifted(tmp_path: Path) -> None:
    publish("in_sync", "drift")
    done = act(tmp_path)
    assert done["msg"] == "The verdict is drift: 1 drift, 0 unknown, 1 in sync, on 1 hosts; gpu-1: k n1: differs"
    assert statistics(done)["drift_hosts"] == {"drift": ["gpu-1"], "unknown": []}
    assert statistics(done)["drift_message"] == done["msg"]


def test_the_message_is_one_sentence_and_names_the_file(tmp_path: Path) -> None:
    publish(*["drift"] * 5, "unknown")
    done = act(tmp_path, {"report": "r.json", "html": "r.html", "prometheus": "r.prom"})
    assert done["msg"] == (
        "The verdict is drift: 5 drift, 1 unknown, 0 in sync, on 1 hosts; gpu-1: k n0: differs; and 5 more objects."
        f" All of it: {tmp_path}/r.html"
    )
    # What a workflow and a notification get names more.
    assert "gpu-1: k n4: differs; gpu-1: k n5: " in statistics(done)["drift_message"]
    assert "All of it" not in act(tmp_path, {"prometheus": "r.prom"})["msg"]


def test_without_the_callback(tmp_path: Path) -> None:
    error = message_of(AnsibleActionFail, act, tmp_path, {"drift_fail": False})
    assert "did not record it, so nothing is known. Enable it with 'callbacks_enabled" in error


def test_files_are_written_in_check_mode_too(tmp_path: Path) -> None:
    publish("drift")
    done = act(tmp_path, {"report": "d/r.json", "html": str(tmp_path / "r.html"), "prometheus": "r.prom"})
    assert done["files"] == [str(tmp_path / name) for name in ("d/r.json", "r.html", "r.prom")]
    report = json.loads((tmp_path / "d/r.json").read_text())
    assert (report["verdict"], report["complete"]) == ("drift", True)
    assert "Drift" in (tmp_path / "r.html").read_text()
    assert 'verdict{verdict="drift"} 1' in (tmp_path / "r.prom").read_text()


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    publish("in_sync")
    done = act(tmp_path, {"report": "file/r.json", "html": "r.html", "drift_fail": False})
    assert done["failed"] is True
    assert done["verdict"] == "in_sync"
    assert done["msg"].startswith(f"Writing {tmp_path}/file/r.json: File exists")
    assert done["msg"].endswith(
        f"The verdict is in_sync: 0 drift, 0 unknown, 1 in sync, on 1 hosts. All of it: {tmp_path}/r.html"
    )
    assert done["files"] == [str(tmp_path / "r.html")]


def test_a_file_that_the_callback_could_not_write(tmp_path: Path) -> None:
    publish("in_sync", **{"/r.json": "Writing /r.json: no"})
    done = act(tmp_path)
    assert (done["failed"], done["msg"][:24]) == (True, "Writing /r.json: no. The")


def other(directory: Path, name: str, host: str, *statuses: str) -> str:
    recorder = recorded(host, *statuses)
    recorder.end()
    (directory / name).write_text(dumps(recorder.document()))
    return str(directory / name)


def test_merging(tmp_path: Path) -> None:
    publish()
    other(tmp_path, "s1.json", "gpu-1", "in_sync")
    other(tmp_path, "s2.json", "gpu-2", "in_sync", "drift")
    done = act(tmp_path, {"merge": ["s1.json", str(tmp_path / "s2.json")], "report": "all.json"})
    assert (done["verdict"], done["counts"]["in_sync"]) == ("drift", 2)
    assert list(json.loads((tmp_path / "all.json").read_text())["hosts"]) == ["gpu-1", "gpu-2"]
    # That this run has looked at nothing itself is no reason to doubt the slices.
    assert act(tmp_path, {"merge": ["s1.json"]})["verdict"] == "in_sync"
    # This run is a slice too, once it has looked at something.
    publish("in_sync")
    with pytest.raises(AnsibleActionFail, match="host gpu-1 is in this run and in .*s1.json"):
        act(tmp_path, {"merge": ["s1.json"]})
    assert act(tmp_path, {"merge": ["s2.json"]})["counts"]["in_sync"] == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "it is not a drift report"),
        ('{"schema": 9, "hosts": {}}', "it has schema 9"),
        ('{"schema": 1, "hosts": {}, "left_out": {"in_sync": 3}}', "it was cut to fit a job's artifacts"),
    ],
)
def test_a_slice_that_cannot_be_read_hides_no_other(tmp_path: Path, content: str, said: str) -> None:
    publish("in_sync")
    (tmp_path / "s.json").write_text(content)
    done = act(tmp_path, {"merge": ["s.json"], "report": "r.json", "drift_fail": False})
    assert done["failed"] is True
    assert f"Reading the drift report {tmp_path}/s.json: {said}" in done["msg"]
    assert "The verdict is unknown: 0 drift, 0 unknown, 1 in sync, on 1 hosts; not complete: " in done["msg"]
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == done["verdict"] == "unknown"


def test_no_slice_that_can_be_read(tmp_path: Path) -> None:
    publish()
    with pytest.raises(AnsibleActionFail, match=r"s.json: No such file or directory. Publish the report of every"):
        act(tmp_path, {"merge": ["s.json"], "drift_fail": False})


# how many are wanted, the verdict on two
@pytest.mark.parametrize(("slices", "verdict"), [(0, "in_sync"), (2, "in_sync"), (3, "unknown"), (1, "unknown")])
def test_as_many_slices_as_there_are(tmp_path: Path, slices: int, verdict: str) -> None:
    publish()
    files = [other(tmp_path, f"s{number}.json", f"gpu-{number}", "in_sync") for number in (1, 2)]
    done = act(tmp_path, {"merge": files, "slices": slices})
    assert done["verdict"] == verdict
    assert ("there are 2 reports, but slices is %d" % slices in done["msg"]) == (verdict == "unknown")


def test_the_report_as_an_artifact(tmp_path: Path) -> None:
    publish("in_sync")
    done = act(tmp_path, {"artifact": True})
    assert done["ansible_stats"]["data"]["drift_report"]["hosts"]["gpu-1"]["status"] == "in_sync"
    # What a failed task returns is shown whole, but for the invocation.
    publish("drift")
    done = act(tmp_path, {"artifact": True})
    assert done["failed"] is True
    assert "ansible_stats" not in done
    assert done["invocation"]["ansible_stats"]["drift_report"]["verdict"] == "drift"
    assert "drift_report" not in statistics(act(tmp_path))


def test_what_cannot_be_published_hides_no_verdict(tmp_path: Path) -> None:
    publish("drift")
    configmap = {"namespace": "n", "run": "1", "kubeconfig": str(tmp_path / "none")}
    places = {"url": {"url": "ftp://example.org/x"}, "configmap": configmap, "report": "r.json"}
    done = act(tmp_path, {**places, "drift_fail": False})
    assert done["failed"] is True
    assert done["published"] == []
    assert f"Reading the kubeconfig {tmp_path}/none: no such file" in done["msg"]
    assert "Publishing the drift report at ftp://example.org/x: it is not a URL that begins with http" in done["msg"]
    assert "The verdict is drift: 1 drift, 0 unknown, 0 in sync, on 1 hosts; gpu-1: k n0: differs" in done["msg"]
    assert (tmp_path / "r.json").exists()


def test_a_run_that_was_cut_short_is_not_left_out_of_a_merge(tmp_path: Path) -> None:
    recorder = Recorder(True)
    recorder.begin_play("p", "One", ["a", "b"], ["a"])
    recorder.begin_play("q", "Two", [], [])
    run.publish(run.Run(recorder, {}))
    other(tmp_path, "s.json", "gpu-1", "in_sync")
    assert act(tmp_path, {"merge": ["s.json"]})["verdict"] == "unknown"


@pytest.mark.parametrize("given", [{"fail_on": ["in_sync"]}, {"path": "x"}, {"drift_fail": "perhaps"}])
def test_bad_arguments(tmp_path: Path, given: Json) -> None:
    publish("in_sync")
    with pytest.raises(AnsibleError):
        act(tmp_path, given)
