# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift and the action drift_verdict, as a user meets them: ansible-playbook and ansible-runner, really run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import ansible_runner
import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.callback.drift import CORE
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import validated
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import (
    PROGRAM,
    VERDICT,
    Json,
    Place,
    closed_port,
    copy,
    run_it,
)

SECRET = "Xk7-hunter2-Qz9"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, ["gpu-1", "gpu-2"])


@pytest.fixture
def one(tmp_path: Path) -> Place:
    return Place(tmp_path, ["gpu-1"])


# --- the three verdicts -------------------------------------------------------------------------------------------


def test_in_sync(place: Place) -> None:
    (place.path / "a").write_text("x\n")
    ran = place.check(copy("a"), copy("b", when=False))
    assert ran.rc == 0, ran.output
    assert ran.report["verdict"] == "in_sync"
    assert ran.report["complete"] is True
    assert ran.report["check_mode"] is True
    assert list(ran.report["hosts"]) == ["gpu-1", "gpu-2"]
    assert ran.objects("gpu-1") == {f"{place.path}/a": "in_sync"}
    assert "Drift: IN_SYNC" in ran.output
    assert "[DEPRECATION" not in ran.output
    assert "[WARNING" not in ran.output


def test_drift_fails_the_job_and_names_it(one: Place) -> None:
    ran = one.check(copy("a"))
    assert ran.rc == 2
    assert ran.report["verdict"] == "drift"
    assert ran.objects("gpu-1") == {f"{one.path}/a": "drift"}
    assert ran.report["hosts"]["gpu-1"]["objects"][0]["repaired"] is False
    assert "The verdict is drift: 1 drift, 0 unknown, 0 in sync, on 1 hosts; gpu-1: copy " in ran.output
    assert not (one.path / "a").exists()


def test_outside_of_check_mode_drift_is_repaired_and_the_next_run_is_in_sync(one: Place) -> None:
    one.write(one.play(copy("a")))
    first = one.run(str(one.path / "play.yml"))
    assert first.rc == 0, first.output
    assert (first.report["verdict"], first.report["check_mode"]) == ("drift", False)
    assert first.report["hosts"]["gpu-1"]["objects"][0]["repaired"] is True
    # The table is for runs that only look.
    assert "Drift:" not in first.output
    again = one.run(str(one.path / "play.yml"))
    assert again.report["verdict"] == "in_sync"
    shown = one.run(str(one.path / "play.yml"), RDMAOPS_DRIFT_TABLE="always")
    assert "Drift: IN_SYNC" in shown.output


def test_nothing_looked_at_is_unknown(one: Place) -> None:
    ran = one.check({"name": "Say", "ansible.builtin.debug": {"msg": "hello"}}, copy("a", when=False))
    assert ran.rc == 2
    assert ran.report["verdict"] == "unknown"
    assert "The verdict is unknown: nothing was checked" in ran.output


def test_what_could_not_be_looked_at_is_unknown(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    tasks: dict[str, Json] = {
        "the task failed": {"ansible.builtin.stat": {"path": "/"}, "failed_when": True, "ignore_errors": True},
        "would have run if not in check mode": {"ansible.builtin.command": {"argv": ["true"]}},
        "the task was skipped": {"ansible.builtin.raw": "true"},
        "does not support check mode": {"ansible.builtin.uri": {"url": "http://127.0.0.1:9/"}},
        "the task failed: gone": {"ansible.builtin.fail": {"msg": "gone"}, "ignore_errors": True},
    }
    ran = one.check(copy("a"), *({"name": why, **task} for why, task in tasks.items()))
    assert ran.rc == 2
    assert ran.report["verdict"] == "unknown", ran.output
    found = ran.report["hosts"]["gpu-1"]["objects"]
    assert [found[0]["status"], found[0]["name"]] == ["in_sync", f"{one.path}/a"]
    assert [entry["task"] for entry in found[1:]] == list(tasks)
    for entry in found[1:]:
        assert entry["status"] == "unknown"
        assert entry["task"] in entry["why"], entry


def test_a_module_without_check_mode(one: Place) -> None:
    library = one.path / "library"
    library.mkdir()
    (library / "old_one.py").write_text(
        "#!/usr/bin/python\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "AnsibleModule(argument_spec={'name': {'type': 'str'}}).exit_json(changed=False)\n"
    )
    ran = one.check({"name": "Old", "old_one": {"name": "thing"}})
    assert ran.objects("gpu-1") == {"thing": "unknown"}
    assert ran.whys("gpu-1") == ["the task was skipped: remote module (old_one) does not support check mode"]


def test_no_log_hides_why_a_task_was_skipped(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    library = one.path / "library"
    library.mkdir()
    (library / "old_one.py").write_text(
        "#!/usr/bin/python\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "AnsibleModule(argument_spec={}).exit_json(changed=False)\n"
    )
    # copy's documentation promises a check mode, so that only its condition can have skipped it.
    ran = one.check(copy("a"), copy("b", no_log=True, when=False))
    assert ran.objects("gpu-1") == {f"{one.path}/a": "in_sync"}
    ran = one.check(copy("a"), {"name": "Old", "old_one": {}, "no_log": True, "when": True})
    assert ran.objects("gpu-1") == {f"{one.path}/a": "in_sync", "Old": "unknown"}
    assert ran.whys("gpu-1") == ["the task was skipped, and no_log hides why"]


# --- blocks, loops, handlers, delegation --------------------------------------------------------------------------


def test_a_failure_that_is_rescued_is_unknown(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    block = {
        "block": [run_it("false", check_mode=False)],
        "rescue": [{"name": "Say", "ansible.builtin.debug": {"msg": "rescued"}}],
    }
    ran = one.check(block, copy("a"))
    assert ran.report["verdict"] == "unknown"
    assert ran.objects("gpu-1") == {"Run false": "unknown", f"{one.path}/a": "in_sync"}
    assert ran.report["complete"] is True


def test_items_of_a_loop_are_objects(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    loop = copy("{{ item }}", loop=["a", "b", "c"], ignore_errors=True, failed_when="item == 'c'")
    ran = one.check({**loop, "name": "Copy"})
    statuses = [(found["item"], found["status"]) for found in ran.report["hosts"]["gpu-1"]["objects"]]
    assert statuses == [("a", "in_sync"), ("b", "drift"), ("c", "unknown")]


def test_items_that_were_skipped(one: Place) -> None:
    ran = one.check(
        {
            "name": "Run",
            "ansible.builtin.command": {"argv": ["true", "{{ item }}"]},
            "loop": ["a", "b"],
            "when": "item == 'a'",
        }
    )
    assert [found["item"] for found in ran.report["hosts"]["gpu-1"]["objects"]] == ["a"]
    assert ran.report["verdict"] == "unknown"


@pytest.mark.long
def test_an_empty_loop_is_no_object(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    ran = one.check(copy("a"), {**copy("{{ item }}"), "loop": []})
    assert ran.report["verdict"] == "in_sync"


def test_changed_when_is_respected(one: Place) -> None:
    (one.path / "b").write_text("x\n")
    ran = one.check(
        copy("a", changed_when=False),
        copy("b", changed_when=True),
        run_it("true", changed_when=False, check_mode=False),
    )
    assert ran.objects("gpu-1") == {f"{one.path}/b": "drift"}


def test_handlers_are_no_drift_but_unknown_when_they_fail(one: Place) -> None:
    play = one.play(
        copy("a", notify=["Well", "Badly", "Skipped"]),
        handlers=[
            {"name": "Well", "ansible.builtin.copy": {"dest": "{{ place }}/h", "content": "x"}},
            {"name": "Skipped", "ansible.builtin.command": {"argv": ["true"]}},
            {"name": "Badly", "ansible.builtin.command": {"argv": ["false"]}, "check_mode": False},
        ],
    )
    one.write(play)
    ran = one.run()
    assert ran.objects("gpu-1") == {f"{one.path}/a": "drift", "Badly": "unknown"}


def test_delegated_and_run_once(place: Place) -> None:
    place.write(
        place.play(
            copy("a-{{ inventory_hostname }}", delegate_to="localhost"),
            copy("b", run_once=True),
            copy("c", delegate_to="{{ inventory_hostname }}"),
        )
    )
    ran = place.run()
    where = {
        host: [(Path(found["name"]).name, found["delegated_to"]) for found in entry["objects"]]
        for host, entry in ran.report["hosts"].items()
    }
    assert where == {
        "gpu-1": [("a-gpu-1", "localhost"), ("b", None), ("c", None)],
        "gpu-2": [("a-gpu-2", "localhost"), ("c", None)],
    }


@pytest.mark.long
def test_the_worst_look_counts(one: Place) -> None:
    play = one.play(copy("a"))
    one.write(play, play)
    ran = one.run(str(one.path / "play.yml"))
    assert ran.objects("gpu-1") == {f"{one.path}/a": "drift"}
    assert len(ran.report["hosts"]["gpu-1"]["objects"]) == 1
    assert ran.report["hosts"]["gpu-1"]["objects"][0]["repaired"] is True


@pytest.mark.long
def test_a_task_in_the_background(one: Place) -> None:
    start = run_it("true", register="job", **{"async": 30, "poll": 0})
    wait = {
        "name": "Wait",
        "ansible.builtin.async_status": {"jid": "{{ job.ansible_job_id }}"},
        "register": "state",
        "until": "state is finished",
        "retries": 60,
        "delay": 0.5,
    }
    one.write(one.play(start))
    ran = one.run(str(one.path / "play.yml"))
    assert ran.objects("gpu-1") == {"Run true": "unknown"}
    assert ran.whys("gpu-1") == ["the task runs in the background, and its result was not seen"]
    one.write(one.play(start, wait))
    ran = one.run(str(one.path / "play.yml"))
    assert ran.objects("gpu-1") == {"Run true": "drift"}, ran.output
    one.write(one.play(run_it("false", register="job", **{"async": 30, "poll": 0}), {**wait, "ignore_errors": True}))
    ran = one.run(str(one.path / "play.yml"))
    assert ran.objects("gpu-1") == {"Run false": "unknown"}
    assert ran.whys("gpu-1")[0].startswith("the task failed")
    one.write(one.play(run_it("true", **{"async": 30, "poll": 1})))
    ran = one.run(str(one.path / "play.yml"))
    assert ran.objects("gpu-1") == {"Run true": "drift"}


def test_our_own_modules_tell_about_their_objects(one: Place) -> None:
    """changed_when does not make what was seen disappear."""
    options = {"name": "rdmaops_drift", "options": {"answer": 42}, "root": "{{ place }}/image"}
    (one.path / "image/etc/modprobe.d").mkdir(parents=True)
    ran = one.check(
        {"name": "Options", "rdmaops.gpu_fabric.modprobe_options": options, "changed_when": False},
    )
    found = ran.report["hosts"]["gpu-1"]["objects"]
    assert [(one["kind"], one["status"], one["desired"]) for one in found] == [
        ("modprobe_option", "drift", "42"),
    ], found
    assert found[0]["action"] == "rdmaops.gpu_fabric.modprobe_options"


# --- runs that end early ------------------------------------------------------------------------------------------


def test_an_unreachable_host(place: Place) -> None:
    with (place.path / "hosts").open("a") as hosts:
        hosts.write(f"[far]\ngpu-3 ansible_host=127.0.0.1 ansible_port={closed_port()} ansible_connection=ssh\n")
    (place.path / "a").write_text("x\n")
    ran = place.check(copy("a"))
    assert ran.rc == 4 or ran.rc == 2
    assert ran.report["verdict"] == "unknown"
    assert {host: entry["status"] for host, entry in ran.report["hosts"].items()} == {
        "gpu-1": "in_sync",
        "gpu-2": "in_sync",
        "gpu-3": "unknown",
    }
    assert "could not be reached" in ran.whys("gpu-3")[0]


def test_a_host_that_vanishes_keeps_what_was_seen(place: Place) -> None:
    vanish = {
        "name": "Vanish",
        "ansible.builtin.set_fact": {
            "ansible_connection": "ssh",
            "ansible_port": closed_port(),
            "ansible_host": "127.0.0.1",
        },
    }
    vanish["when"] = "inventory_hostname == 'gpu-2'"
    ran = place.check(copy("a"), vanish, copy("b"))
    assert sorted(ran.objects("gpu-2").values()) == ["drift", "unknown"]
    assert set(ran.objects("gpu-1").values()) == {"drift"}


def serial(path: Path) -> Place:
    place = Place(path, ["gpu-1", "gpu-2", "gpu-3"])
    (path / "a").write_text("x\n")
    return place


def test_serial_batches(tmp_path: Path) -> None:
    place = serial(tmp_path)
    ran = place.check(copy("a"), serial=1)
    assert ran.rc == 0, ran.output
    assert list(ran.report["hosts"]) == ["gpu-1", "gpu-2", "gpu-3"]
    assert ran.report["complete"] is True


def test_batches_that_were_not_come_to_are_unknown(tmp_path: Path) -> None:
    place = serial(tmp_path)
    fail = run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")
    ran = place.check(copy("a"), fail, serial=1, max_fail_percentage=0)
    assert {host: entry["status"] for host, entry in ran.report["hosts"].items()} == {
        "gpu-1": "in_sync",
        "gpu-2": "unknown",
        "gpu-3": "unknown",
    }
    assert ran.report["complete"] is False
    assert ran.report["verdict"] == "unknown"
    assert "gpu-3: play 'Look' ended before this host's turn" in ran.report["incomplete"]
    assert "play 'Judge' was not reached" in ran.report["incomplete"]
    assert ran.rc == 2


@pytest.mark.parametrize(
    "how", [{"any_errors_fatal": True}, pytest.param({"max_fail_percentage": 10}, marks=pytest.mark.long)]
)
def test_hosts_that_were_stopped_are_unknown(tmp_path: Path, how: Json) -> None:
    place = serial(tmp_path)
    fail = run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")
    ran = place.check(copy("a"), fail, copy("z"), **how)
    assert {host: entry["status"] for host, entry in ran.report["hosts"].items()} == dict.fromkeys(
        ("gpu-1", "gpu-2", "gpu-3"), "unknown"
    )
    assert ran.report["complete"] is False
    assert "ended early" in ran.whys("gpu-1")[0]


def test_hosts_that_go_on_after_a_rescue_are_not_stopped(tmp_path: Path) -> None:
    place = serial(tmp_path)
    block = {
        "block": [run_it("false", check_mode=False, when="inventory_hostname == 'gpu-2'")],
        "rescue": [{"name": "Say", "ansible.builtin.debug": {"msg": "rescued"}}],
    }
    ran = place.check(block, copy("a"), any_errors_fatal=True)
    assert {host: entry["status"] for host, entry in ran.report["hosts"].items()} == {
        "gpu-1": "in_sync",
        "gpu-2": "unknown",
        "gpu-3": "in_sync",
    }
    assert ran.report["complete"] is True


@pytest.mark.fault("run stopped")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_is_not_complete(one: Place, number: int) -> None:
    (one.path / "a").write_text("x\n")
    wait = run_it("sleep", "60", check_mode=False)
    # Whether its result is still taken in is a matter of chance: it has to be no object.
    there = run_it("touch", str(one.path / "there"), check_mode=False, changed_when=False)
    one.write(one.play(copy("a")), one.play(there, wait))
    process = subprocess.Popen(
        one.command(str(one.path / "play.yml"), "--check"),
        env=one.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (one.path / "there").exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert (one.path / "there").exists()
        # Ctrl-C on a terminal reaches all processes.
        os.killpg(process.pid, number)
        assert process.wait(60) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
    report = validated(json.loads((one.path / "report.json").read_text()), "the report")
    assert report["complete"] is False
    assert report["verdict"] == "unknown"
    assert report["finished"] is None
    assert report["hosts"]["gpu-1"]["objects"][0]["status"] == "in_sync"


@pytest.mark.long
def test_a_second_playbook_that_is_not_come_to(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    first = one.write(one.play(copy("a")), name="first.yml")
    bad = one.write(one.play(run_it("false", check_mode=False, ignore_errors=False)), name="bad.yml")
    ran = one.run(str(first), str(first), "--check")
    assert ran.report["complete"] is True
    assert ran.output.count("Drift: ") == 1
    ran = one.run(str(bad), str(first), "--check")
    assert ran.report["complete"] is False
    assert ran.output.count("Drift: ") == 1


# --- secrets ------------------------------------------------------------------------------------------------------


def test_no_secret_in_anything(one: Place) -> None:
    hidden = {"no_log": True}
    task = copy("a", SECRET + "\n", **hidden)
    looped = copy(
        "{{ item.file }}",
        "{{ item.secret }}",
        loop=[{"file": "b", "secret": SECRET}, {"file": SECRET, "secret": "x"}],
        **hidden,
    )
    looped["name"] = "Loop"
    failing = run_it("false", SECRET, check_mode=False, ignore_errors=True, **hidden)
    failing_item = run_it(
        "sh",
        "-c",
        "exit {{ item.rc }}",
        check_mode=False,
        ignore_errors=True,
        loop=[{"rc": 0, "s": SECRET}, {"rc": 1, "s": SECRET}],
        **hidden,
    )
    failing_item["name"] = "Items"
    one.write(
        one.play(task, looped, failing, failing_item),
        {
            **VERDICT,
            "tasks": [
                {
                    "name": "Verdict",
                    "rdmaops.gpu_fabric.drift_verdict": {
                        "report": str(one.path / "out/v.json"),
                        "html": str(one.path / "out/v.html"),
                        "prometheus": str(one.path / "out/v.prom"),
                    },
                }
            ],
        },
    )
    ran = one.run(
        str(one.path / "play.yml"), "--check", "--diff", "-vvvvv", RDMAOPS_DRIFT_HTML=str(one.path / "page.html")
    )
    assert ran.rc == 2
    assert SECRET not in ran.output
    outputs = [one.path / "report.json", one.path / "page.html", *sorted((one.path / "out").iterdir())]
    assert len(outputs) == 5
    for output in outputs:
        assert SECRET not in output.read_text(), output
    found = ran.report["hosts"]["gpu-1"]["objects"]
    # Before 2.19 Ansible censors a loop as a whole, and its items are not told.
    loop = ["#1", "#2"] if CORE >= (2, 19) else [None]
    assert [(o["task"], o["item"], o["status"]) for o in found] == [
        ("Copy a", None, "drift"),
        *(("Loop", item, "drift") for item in loop),
        ("Run false", None, "unknown"),
        *(("Items", item, "drift") for item in loop[:-1]),
        ("Items", loop[-1], "unknown"),
    ]
    assert [o["diff"] for o in found] == [None] * len(found)


def test_a_secret_of_an_argument_stays_censored(one: Place) -> None:
    """The module's result holds what the module has censored; a loop's item, which holds it in clear, is named only."""
    library = one.path / "library"
    library.mkdir()
    (library / "keeper.py").write_text(
        "#!/usr/bin/python\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "m = AnsibleModule(argument_spec={'name': {'type': 'str'}, 'password': {'type': 'str', 'no_log': True}}, supports_check_mode=True)\n"
        "m.exit_json(changed=True, diff={'before': '', 'after': m.params['password']}, msg=m.params['password'])\n"
    )
    users = [{"name": "jo", "password": SECRET}]
    task = {"name": "Keep", "keeper": {"name": "{{ item.name }}", "password": "{{ item.password }}"}, "loop": users}
    one.write(one.play(task))
    ran = one.run(str(one.path / "play.yml"), "--check", "--diff")
    assert SECRET not in (one.path / "report.json").read_text()
    (found,) = ran.report["hosts"]["gpu-1"]["objects"]
    assert (found["name"], found["item"], found["status"]) == ("jo", "jo", "drift")
    assert "+VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in found["diff"] or "+********" in found["diff"]


def test_diffs_where_ansible_shows_them(one: Place) -> None:
    one.write(one.play(copy("a", "one\ntwo\n"), copy("b", "x" * 9000, diff=False)))
    ran = one.run(str(one.path / "play.yml"), "--check", "--diff")
    first, second = ran.report["hosts"]["gpu-1"]["objects"]
    assert "+one\n+two" in first["diff"]
    assert second["diff"] is None
    ran = one.run(str(one.path / "play.yml"), "--check")
    assert ran.report["hosts"]["gpu-1"]["objects"][0]["diff"] is None
    ran = one.run(str(one.path / "play.yml"), "--check", "--diff", RDMAOPS_DRIFT_MAX_DIFF="10")
    assert ran.report["hosts"]["gpu-1"]["objects"][0]["diff"].startswith("--- before... (cut, ")


# --- the verdict --------------------------------------------------------------------------------------------------


def test_without_the_callback_the_verdict_is_an_error(one: Place) -> None:
    (one.path / "ansible.cfg").write_text("[defaults]\n")
    (one.path / "a").write_text("x\n")
    ran = one.check(copy("a"))
    assert ran.rc == 2
    assert "the callback rdmaops.gpu_fabric.drift did not record it" in ran.output
    assert "ANSIBLE_CALLBACKS_ENABLED=rdmaops.gpu_fabric.drift" in ran.output
    assert ran.report == {}
    ran = one.run(str(one.path / "play.yml"), "--check", ANSIBLE_CALLBACKS_ENABLED="rdmaops.gpu_fabric.drift")
    assert ran.rc == 0, ran.output
    assert ran.report["verdict"] == "in_sync"


@pytest.mark.long
def test_another_ansible_playbook_inside_does_not_find_the_outer_run(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    one.write(VERDICT, name="inner.yml")
    (one.path / "inner.cfg").write_text("[defaults]\n")
    inner = {
        **run_it(*one.command(str(one.path / "inner.yml")), check_mode=False, changed_when=False, register="inner"),
        "environment": {"ANSIBLE_CONFIG": str(one.path / "inner.cfg")},
        "failed_when": "'did not record it' not in inner.stdout + inner.stderr",
    }
    ran = one.check(copy("a"), inner)
    assert ran.rc == 0, ran.output


def verdict(**arguments: t.Any) -> Json:
    return {**VERDICT, "tasks": [{"name": "Verdict", "rdmaops.gpu_fabric.drift_verdict": arguments}]}


def test_drift_need_not_fail(one: Place) -> None:
    one.write(one.play(copy("a")), verdict(drift_fail=False))
    ran = one.run()
    assert ran.rc == 0
    assert ran.report["verdict"] == "drift"


def test_a_report_that_cannot_be_written(one: Place) -> None:
    (one.path / "file").write_text("")
    one.write(
        one.play(copy("a")),
        verdict(
            report=str(one.path / "file/x.json"),
            html=str(one.path / "v.html"),
            prometheus=str(one.path / "v.prom"),
            fail_on=[],
        ),
    )
    ran = one.run()
    assert ran.rc == 2
    assert f"Writing {one.path}/file/x.json: File exists, the drift report's option 'report'" in ran.output
    assert "The verdict is drift" in ran.output
    assert (one.path / "v.html").stat().st_size > 1000
    assert 'gpu_fabric_drift_verdict{verdict="drift"} 1' in (one.path / "v.prom").read_text()


def test_a_callback_that_cannot_write_says_so_and_fails_the_verdict(one: Place) -> None:
    (one.path / "file").write_text("")
    (one.path / "a").write_text("x\n")
    one.write(one.play(copy("a")), VERDICT)
    page = one.path / "page.html"
    ran = one.run(
        str(one.path / "play.yml"),
        "--check",
        RDMAOPS_DRIFT_REPORT=str(one.path / "file/x.json"),
        RDMAOPS_DRIFT_HTML=str(page),
    )
    assert ran.rc == 2
    assert f"Writing {one.path}/file/x.json: File exists" in ran.output
    assert "The verdict is in_sync" in ran.output
    assert page.exists()


def test_slices_are_merged(one: Place) -> None:
    (one.path / "a").write_text("x\n")
    one.write(one.play(copy("a")))
    for name in ("s1", "s2"):
        (one.path / "hosts").write_text(
            f"{name} ansible_connection=local place={one.path} ansible_python_interpreter={sys.executable}\n"
        )
        # What AWX sets for each job.
        ran = one.run(RDMAOPS_DRIFT_REPORT=str(one.path / "slices/$JOB_ID.json"), JOB_ID=name)
        assert ran.rc == 0, ran.output
    files = [str(one.path / f"slices/{name}.json") for name in ("s1", "s2")]
    one.write(verdict(merge=files, report=str(one.path / "all.json")))
    assert one.run().rc == 0
    merged = json.loads((one.path / "all.json").read_text())
    assert (merged["verdict"], list(merged["hosts"])) == ("in_sync", ["s1", "s2"])

    one.write(verdict(merge=[files[0], files[0]]))
    ran = one.run()
    assert ran.rc == 2
    assert f"host s1 is in {files[0]} and in {files[0]}" in ran.output

    other = json.loads(Path(files[1]).read_text())
    Path(files[1]).write_text(json.dumps({**other, "schema": 2}))
    one.write(verdict(merge=files))
    ran = one.run()
    assert ran.rc == 2
    assert f"Reading the drift report {files[1]}: it has schema 2" in ran.output


def test_a_document_on_the_standard_output_stays_one(one: Place) -> None:
    one.write(one.play(copy("a")))
    done = subprocess.run(
        one.command(str(one.path / "play.yml"), "--check"),
        env={**one.environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert json.loads(done.stdout)["plays"]
    assert "Drift: DRIFT" in done.stderr


# --- ansible-runner, as AWX does it -------------------------------------------------------------------------------


def without_times(report: Json) -> Json:
    return {**report, "started": None, "finished": None}


@pytest.mark.parametrize("fails", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_check_job_of_ansible_runner_gives_the_same_report(
    one: Place, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one.path / "a").write_text("x\n")
    tasks = [copy("a"), copy("b"), run_it("true")]
    one.write(one.play(*tasks), verdict(drift_fail=fails, artifact=True))
    played = one.run(str(one.path / "play.yml"), "--check", "--diff")
    assert played.rc == (2 if fails else 0)

    project = one.path / "job/project"
    project.mkdir(parents=True)
    (project / "play.yml").write_text((one.path / "play.yml").read_text())
    # AWX takes callbacks_enabled over from the project's own file.
    (project / "ansible.cfg").write_text((one.path / "ansible.cfg").read_text())
    inventory = one.path / "job/inventory"
    inventory.mkdir()
    (inventory / "hosts").write_text((one.path / "hosts").read_text())
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")
    job = ansible_runner.run(
        private_data_dir=str(one.path / "job"),
        playbook="play.yml",
        cmdline="--check --diff",
        ident="check",
        quiet=True,
        envvars={"RDMAOPS_DRIFT_REPORT": str(one.path / "job.json"), "COLUMNS": "120"},
    )
    assert (job.rc, job.status) == ((2, "failed") if fails else (0, "successful"))
    report = json.loads((one.path / "job.json").read_text())
    assert without_times(report) == without_times(played.report)
    assert report["verdict"] == "drift"
    # What AWX keeps as the artifacts of a job, of one that failed too.
    artifacts = [event["event_data"]["artifact_data"] for event in job.events if event["event"] == "playbook_on_stats"]
    assert artifacts[-1]["drift_verdict"] == "drift"
    assert artifacts[-1]["drift_counts"] == {"in_sync": 1, "unknown": 1, "drift": 1}
    assert artifacts[-1]["drift_hosts"] == {"drift": ["gpu-1"], "unknown": []}
    kept = validated(artifacts[-1]["drift_report"], "the artifact")
    assert (kept["verdict"], kept["hosts"]) == ("drift", report["hosts"])
    # What a failed task returns is printed: not the report, for which the table stands.
    output = job.stdout.read()
    assert "Drift: DRIFT" in output
    assert '"objects"' not in output
