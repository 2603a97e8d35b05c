# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift: both shapes of a result that Ansible hands out, its events, and what it writes when."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible import context
from ansible.playbook.block import Block
from ansible.playbook.handler import Handler
from ansible.playbook.task import Task as AnsibleTask
from ansible.utils.context_objects import CLIArgs

from ansible_collections.rdmaops.gpu_fabric.plugins.callback import drift as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import run

Json = t.Any
FORMS = ["2.19", "2.18"]


class Screen:
    """What was shown, and where."""

    columns = 79
    verbosity = 0

    def __init__(self) -> None:
        self.parts: list[tuple[str, bool]] = []
        self.errors: list[str] = []

    def display(self, text: str, color: str | None = None, stderr: bool = False) -> None:
        self.parts.append((text, stderr))

    @property
    def text(self) -> str:
        return "".join(text for text, _stderr in self.parts)

    @property
    def tables(self) -> int:
        return self.text.count("\nDrift: ")

    def error(self, text: str, wrap_text: bool = True) -> None:
        self.errors.append(text)


class Place:
    """A callback with its options, on a screen."""

    def __init__(self, path: Path, **options: Json) -> None:
        self.screen = Screen()
        self.callback = plugin.CallbackModule(display=self.screen)
        self.callback._plugin_options = {
            "report": str(path / "r.json"), "html": None, "prometheus": None, "table": "check", "max_diff": 100, **options,
        }  # fmt: skip
        self.path = path

    def start(self, *plays: Json) -> None:
        self.callback.v2_playbook_on_start(SimpleNamespace(get_plays=lambda: list(plays)))

    def begin(self) -> None:
        """Start a playbook and its first play."""
        self.start(play())
        self.callback.v2_playbook_on_play_start(play())

    def end(self) -> None:
        self.callback.v2_playbook_on_stats(None)

    def ok(self, output: Json, *of: Json, **more: Json) -> None:
        self.callback.v2_runner_on_ok(result(output, *of, **more))

    def report(self) -> Json:
        return json.loads((self.path / "r.json").read_text())


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing behind for other tests, or for the end of this process."""
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"check": True, "args": ("play.yml",)}))
    monkeypatch.setattr(run, "_runs", [])
    monkeypatch.setattr(plugin.atexit, "register", lambda *_arguments: None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def play(key: str = "p", hosts: str = "ab", batch: str | None = None, inventory: str = "abc", **parts: Json) -> Json:
    """Return a play of playbook drift, or one with other parts."""
    known = {
        "ansible_play_hosts_all": list(hosts),
        "ansible_play_batch": list(hosts if batch is None else batch),
        "groups": {"all": list(inventory)},
    }
    manager = SimpleNamespace(get_vars=lambda play, include_hostvars: known)
    parts = {"roles": [role("rdmaops.gpu_fabric.drift")], "pre_tasks": [], "tasks": [], "post_tasks": [], **parts}
    return SimpleNamespace(_uuid=key, get_name=lambda: key, get_variable_manager=lambda: manager, **parts)


def role(name: str) -> Json:
    return SimpleNamespace(get_name=lambda include_role_fqcn: name)


def task(action: str = "ansible.builtin.copy", kind: Json = AnsibleTask, **more: Json) -> Json:
    loaded = kind.load({"name": "T", "action": action})
    for name, value in {"_resolved_action": action, **more}.items():
        setattr(loaded, name, value)
    return loaded


def result(answer: Json, of: Json = None, host: str = "a", form: str = "2.19", **fields: Json) -> Json:
    parts = {
        "host": SimpleNamespace(get_name=lambda: host),
        # Since 2.21 the keywords are read from the task, and before from the result.
        "task": of or task(**fields),
        "result": answer,
        "task_fields": {"name": "T", "check_mode": True, "diff": True, **fields},
    }
    return SimpleNamespace(**(parts if form == "2.19" else {"_" + name: value for name, value in parts.items()}))


def recorded_run() -> run.Run:
    current = run.current()
    assert current is not None
    return current


def seen(place: Place, host: str = "a") -> list[str]:
    report = place.callback._recorder().document()
    return [entry["status"] for entry in report["hosts"].get(host, {"objects": []})["objects"]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("event", "answer", "statuses"),
    [
        ("v2_runner_on_ok", {"changed": False}, ["in_sync"]),
        ("v2_runner_on_ok", {"changed": True}, ["drift"]),
        ("v2_runner_on_failed", {}, ["unknown"]),
        ("v2_runner_on_unreachable", {}, ["unknown"]),
        ("v2_runner_on_skipped", {}, ["unknown"]),
        ("v2_runner_on_skipped", {"skip_reason": "Conditional result was False"}, []),
    ],
)
def test_events(place: Place, form: str, event: str, answer: Json, statuses: list[str]) -> None:
    place.begin()
    getattr(place.callback, event)(result(answer, form=form))
    assert seen(place) == statuses


@pytest.mark.parametrize(
    ("of", "fields", "wanted"),
    [
        (task("copy"), {}, {"action": "ansible.builtin.copy"}),
        (task("ansible.legacy.copy"), {}, {"action": "ansible.builtin.copy"}),
        (task("a.b.c"), {"name": "Shown"}, {"action": "a.b.c", "name": "Shown"}),
        (task(), {"name": ""}, {"name": "T"}),
        (task(), {"check_mode": False, "diff": None}, {"check_mode": False, "diff": False}),
        (task(), {"delegate_to": "x"}, {"delegate_to": "x"}),
        (task(), {"delegate_to": "a"}, {"delegate_to": None}),
        (task(), {"changed_when": [False]}, {"never_changes": True}),
        (task(), {"changed_when": ["false"]}, {"never_changes": True}),
        (task(), {"changed_when": ["x is changed"]}, {"never_changes": False}),
        (task(), {"changed_when": [False, True]}, {"never_changes": False}),
        (task(), {"changed_when": None}, {"never_changes": False}),
        (task(), {"args": {"path": "/p"}}, {"arguments": {"path": "/p"}}),
        (task(), {"args": "text"}, {"arguments": {}}),
        (task(when=["x"]), {}, {"conditional": True}),
        (task(loop=["x"]), {}, {"conditional": True}),
        (task(), {}, {"conditional": False, "handler": False, "role": None}),
        (task(kind=Handler), {}, {"handler": True}),
        (
            task(_role=SimpleNamespace(get_name=lambda include_role_fqcn: "c.r" if include_role_fqcn else "r")),
            {},
            {"role": "c.r"},
        ),
    ],
)
def test_what_is_known_of_a_task(of: Json, fields: Json, wanted: Json) -> None:
    record = plugin._task(of, {"name": "T", "check_mode": True, "diff": True, **fields}, "a")
    assert {name: getattr(record, name) for name in wanted} == wanted


def test_the_keywords_of_a_task_since_2_21(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has them no longer; its task is the one that ran."""
    monkeypatch.setattr(plugin, "CORE", (2, 21))
    place.start(play())
    output = result({"changed": True}, task(check_mode=False, name="As it ran"))
    del output.task_fields
    place.callback.v2_runner_on_ok(output)
    (entry,) = place.callback._recorder().document()["hosts"]["a"]["objects"]
    assert (entry["task"], entry["repaired"]) == ("As it ran", True)


def test_censored_items_end_as_their_events_said(place: Place) -> None:
    place.start(play())
    of = task(loop=["x"])
    item = {"censored": "hidden", "changed": True}
    place.callback.v2_runner_item_on_ok(result(item, of))
    place.callback.v2_runner_item_on_failed(result(item, of))
    place.callback.v2_runner_item_on_skipped(result(item, of, host="b"))
    place.callback.v2_runner_on_failed(result({**item, "results": [item, item]}, of))
    assert seen(place) == ["drift", "unknown"]
    # The next run of the task begins anew.
    place.ok({**item, "results": [item, item]}, of)
    assert seen(place) == ["drift", "unknown", "drift"] or seen(place) == ["drift", "drift"]


def test_the_report_is_written_at_every_play_and_at_the_end(place: Place) -> None:
    place.start(play("p"), play("q"))
    assert not (place.path / "r.json").exists()
    place.callback.v2_playbook_on_play_start(play("p"))
    assert place.report()["complete"] is False
    assert place.report()["hosts"] == {}
    for host in "ab":
        place.ok({}, host=host)
    place.callback.v2_playbook_on_play_start(play("q"))
    assert list(place.report()["hosts"]) == ["a", "b"]
    assert (place.report()["verdict"], place.report()["check_mode"]) == ("unknown", True)
    place.end()
    assert (place.report()["verdict"], place.report()["complete"]) == ("in_sync", True)
    assert place.screen.text.startswith("\nDrift: IN_SYNC\n")
    assert {stderr for _text, stderr in place.screen.parts} == {False}


def test_a_write_that_takes_long_is_made_seldom(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    times, seconds = iter([100.0, 101.0, 120.0, 160.0]), iter([7.0, 8.0, 8.0, 8.04])
    monkeypatch.setattr(plugin.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(plugin.time, "thread_time", lambda: next(seconds))
    written: list[float] = []
    monkeypatch.setattr(plugin, "write", lambda report, paths: (written.append(1.0), ([], {}))[1])
    place.start(play("p"))
    place.callback.v2_playbook_on_play_start(play("p"))
    assert (len(written), place.callback._next_write) == (1, 151.0)
    place.callback.v2_playbook_on_play_start(play("p"))
    assert len(written) == 1
    place.callback.v2_playbook_on_play_start(play("p"))
    assert (len(written), place.callback._next_write) == (2, 0.0)


# check mode, the option, whether there is a table
@pytest.mark.parametrize(
    ("check", "option", "shown"), [(True, "check", 1), (False, "check", 0), (False, "always", 1), (True, "never", 0)]
)
def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool, option: str, shown: int) -> None:
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"check": check, "args": ("play.yml",)}))
    place = Place(tmp_path, table=option)
    place.start(play())
    place.end()
    assert place.screen.tables == shown


VERDICT = "rdmaops.gpu_fabric.drift_verdict"


def block(*tasks: Json) -> Json:
    made = Block()
    made.block = list(tasks)
    return made


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ({"roles": []}, 0),
        ({"roles": [role("rdmaops.gpu_fabric.gpu_node")], "tasks": [block(task("ansible.builtin.copy"))]}, 0),
        ({"roles": [], "tasks": [task(VERDICT)]}, 1),
        ({"roles": [], "tasks": [block(task("ansible.builtin.copy"), block(task(VERDICT)))]}, 1),
    ],
)
def test_only_a_playbook_that_judges_shows_the_table(place: Place, parts: Json, shown: int) -> None:
    place.start(play(**parts))
    place.end()
    assert place.screen.tables == shown


def test_the_table_leaves_a_document_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin.constants, "DEFAULT_STDOUT_CALLBACK", "ansible.posix.jsonl")
    place.start(play())
    place.end()
    assert {stderr for _text, stderr in place.screen.parts} == {True}


def test_the_end_of_the_process_concludes_a_run_that_did_not_end(place: Place) -> None:
    place.begin()
    place.ok({})
    place.callback._at_exit(os.getpid() + 1)
    assert place.screen.parts == []
    place.callback._at_exit(os.getpid())
    assert place.report()["complete"] is False
    assert "not complete" in place.screen.text
    place.end()
    place.callback._at_exit(os.getpid())
    assert place.screen.tables == 2


def test_only_the_last_playbook_ends_the_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"check": True, "args": ("one.yml", "two.yml")}))
    for number in range(2):
        place.start(play(str(number)))
        place.callback.v2_playbook_on_play_start(play(str(number)))
        for host in "ab":
            place.ok({}, host=host)
        place.end()
        assert place.report()["complete"] is (number == 1)
    assert place.screen.tables == 1


def test_the_localhost_that_no_inventory_has(place: Place) -> None:
    place.start(play())
    place.callback.v2_playbook_on_play_start(play("l", hosts="z", batch="", inventory="abc"))
    place.callback._recorder().add("z", [])
    place.end()
    assert "z: play" not in json.dumps(place.report())


@pytest.mark.parametrize(
    ("event", "ignored", "fields", "stopped"),
    [
        ("failed", False, {"any_errors_fatal": True}, True),
        ("failed", False, {"run_once": True}, True),
        ("failed", True, {"any_errors_fatal": True}, False),
        ("failed", False, {}, False),
        ("unreachable", False, {"any_errors_fatal": True}, True),
    ],
)
def test_a_failure_that_ends_the_play(place: Place, event: str, ignored: bool, fields: Json, stopped: bool) -> None:
    place.begin()
    options = {"ignore_errors": ignored} if event == "failed" else {}
    getattr(place.callback, f"v2_runner_on_{event}")(result({}, **fields), **options)
    place.end()
    assert ("b" in place.report()["hosts"]) is stopped


def test_no_hosts_remaining(place: Place) -> None:
    place.begin()
    place.callback.v2_playbook_on_no_hosts_remaining()
    place.end()
    assert list(place.report()["hosts"]) == ["a", "b"]


def test_a_path_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = Place(tmp_path, report=str(tmp_path / "file" / "r.json"), html=str(tmp_path / "r.html"))
    place.begin()
    place.end()
    assert len(place.screen.errors) == 1
    assert "r.json: File exists" in place.screen.errors[0]
    assert (tmp_path / "r.html").exists()
    assert list(recorded_run().problems) == [str(tmp_path / "file" / "r.json")]


def test_a_job_that_ends(place: Place) -> None:
    place.start(play())
    of = task("ansible.builtin.command")
    waiting = task("ansible.builtin.async_status")
    place.ok({"ansible_job_id": "1", "finished": 0, "changed": True}, of)
    place.ok({"ansible_job_id": "1", "finished": 0}, waiting)
    assert seen(place) == ["unknown"]
    place.ok({"ansible_job_id": "2", "finished": 1, "changed": True}, waiting)
    place.ok({"ansible_job_id": "1", "finished": 1, "changed": True}, waiting, host="b")
    assert seen(place) == ["unknown"]
    items = [{"ansible_job_id": "1", "finished": 1, "changed": False, "ansible_loop_var": "item"}, "text"]
    place.ok({"results": items}, waiting)
    assert seen(place) == ["in_sync"]


def test_a_job_that_fails(place: Place) -> None:
    """Its result may lack ``failed``, which the event says; of a loop the event is about all its items."""
    place.start(play())
    waiting = task("ansible.builtin.async_status")
    ended = {"finished": 1, "changed": False}
    started = {"ansible_job_id": "1", "finished": 0, "changed": True}
    for host in "ab":
        place.ok(started, task("ansible.builtin.command"), host)
    place.callback.v2_runner_on_failed(result({"ansible_job_id": "1", **ended}, waiting))
    output = {"results": [{"ansible_job_id": "1", **ended}, {"failed": True}]}
    place.callback.v2_runner_on_failed(result(output, waiting, "b"))
    assert (seen(place, "a"), seen(place, "b")) == (["unknown"], ["in_sync"])


def test_a_verdict_is_no_object_and_its_statistics_are_kept(place: Place) -> None:
    """As ansible-core calls: from a method of what holds the statistics."""
    kept: dict[str, Json] = {}
    place.begin()
    of = task("rdmaops.gpu_fabric.drift_verdict")
    answer = {"ansible_stats": {"data": {"drift_verdict": "drift"}}}

    class Manager:
        _stats = SimpleNamespace(set_custom_stats=kept.__setitem__)

        def send(self) -> None:
            place.callback.v2_runner_on_failed(result(answer, of, any_errors_fatal=True, run_once=True))

    Manager().send()
    assert kept == {"drift_verdict": "drift"}
    assert seen(place) == []
    place.end()
    assert place.report()["incomplete"] == []
    plugin._keep_stats({})


def test_a_module_without_documentation_promises_nothing(place: Place) -> None:
    assert place.callback._predicts("no.such.module") is False
    assert place.callback._check_modes == {"no.such.module": False}


def test_the_action_of_the_same_process_finds_the_run(place: Place) -> None:
    assert run.current() is None
    place.start(play())
    place.ok({"changed": True})
    assert recorded_run().recorder.document(running=True)["verdict"] == "drift"
