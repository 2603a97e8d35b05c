# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift as a user meets it, by ansible-playbook: verdicts, and the objects that tasks are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Json, Place, copy, run_it


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


def test_drift_fails_the_job_and_names_it(host: Place) -> None:
    ran = host.check(copy("a"))
    assert ran.rc == 2
    assert ran.report["verdict"] == "drift"
    assert ran.objects("gpu-1") == {f"{host.path}/a": "drift"}
    assert ran.rows("gpu-1")[0]["repaired"] is False
    assert "The verdict is drift: 1 drift, 0 unknown, 0 in sync, on 1 hosts; gpu-1: copy " in ran.output
    assert not (host.path / "a").exists()


def test_outside_of_check_mode_drift_is_repaired_and_the_next_run_is_in_sync(host: Place) -> None:
    host.write(host.play(copy("a")))
    first = host.run(host.book)
    assert first.rc == 0, first.output
    assert (first.report["verdict"], first.report["check_mode"]) == ("drift", False)
    assert first.report["hosts"]["gpu-1"]["objects"][0]["repaired"] is True
    # The table is for runs that only look.
    assert "Drift:" not in first.output
    again = host.run(host.book)
    assert again.report["verdict"] == "in_sync"
    shown = host.run(host.book, RDMAOPS_DRIFT_TABLE="always")
    assert "Drift: IN_SYNC" in shown.output


def test_nothing_looked_at_is_unknown(host: Place) -> None:
    ran = host.check({"name": "Say", "ansible.builtin.debug": {"msg": "hello"}}, copy("a", when=False))
    assert ran.rc == 2
    assert ran.report["verdict"] == "unknown"
    assert "The verdict is unknown: nothing was checked" in ran.output


def test_what_could_not_be_looked_at_is_unknown(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    tasks: dict[str, Json] = {
        "the task failed": {"ansible.builtin.stat": {"path": "/"}, "failed_when": True, "ignore_errors": True},
        "would have run if not in check mode": {"ansible.builtin.command": {"argv": ["true"]}},
        "the task was skipped": {"ansible.builtin.raw": "true"},
        "does not support check mode": {"ansible.builtin.uri": {"url": "http://127.0.0.1:9/"}},
        "the task failed: gone": {"ansible.builtin.fail": {"msg": "gone"}, "ignore_errors": True},
    }
    ran = host.check(copy("a"), *({"name": why, **task} for why, task in tasks.items()))
    assert ran.rc == 2
    assert ran.report["verdict"] == "unknown", ran.output
    objects = ran.rows("gpu-1")
    assert [objects[0]["status"], objects[0]["name"]] == ["in_sync", f"{host.path}/a"]
    assert [entry["task"] for entry in objects[1:]] == list(tasks)
    for entry in objects[1:]:
        assert entry["status"] == "unknown"
        assert entry["task"] in entry["why"], entry


def test_a_module_without_check_mode(host: Place) -> None:
    host.module("old_one", "AnsibleModule(argument_spec={'name': {'type': 'str'}}).exit_json(changed=False)")
    ran = host.check({"name": "Old", "old_one": {"name": "thing"}})
    assert ran.objects("gpu-1") == {"thing": "unknown"}
    assert ran.whys("gpu-1") == ["the task was skipped: remote module (old_one) does not support check mode"]


def test_no_log_hides_why_a_task_was_skipped(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    host.module("old_one", "AnsibleModule(argument_spec={}).exit_json(changed=False)")
    # copy's documentation promises a check mode, so that only its condition can have skipped it.
    ran = host.check(copy("a"), copy("b", no_log=True, when=False))
    assert ran.objects("gpu-1") == {f"{host.path}/a": "in_sync"}
    ran = host.check(copy("a"), {"name": "Old", "old_one": {}, "no_log": True, "when": True})
    assert ran.objects("gpu-1") == {f"{host.path}/a": "in_sync", "Old": "unknown"}
    assert ran.whys("gpu-1") == ["the task was skipped, and no_log hides why"]


def test_a_failure_that_is_rescued_is_unknown(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    rescue = [{"name": "Say", "ansible.builtin.debug": {"msg": "rescued"}}]
    ran = host.check({"block": [run_it("false", check_mode=False)], "rescue": rescue}, copy("a"))
    assert ran.report["verdict"] == "unknown"
    assert ran.objects("gpu-1") == {"Run false": "unknown", f"{host.path}/a": "in_sync"}
    assert ran.report["complete"] is True


def test_items_of_a_loop_are_objects(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    loop = copy("{{ item }}", loop=["a", "b", "c"], ignore_errors=True, failed_when="item == 'c'")
    ran = host.check({**loop, "name": "Copy"})
    statuses = [(row["item"], row["status"]) for row in ran.rows("gpu-1")]
    assert statuses == [("a", "in_sync"), ("b", "drift"), ("c", "unknown")]


def test_items_that_were_skipped(host: Place) -> None:
    ran = host.check(run_it("true", "{{ item }}", loop=["a", "b"], when="item == 'a'"))
    assert [row["item"] for row in ran.rows("gpu-1")] == ["a"]
    assert ran.report["verdict"] == "unknown"


@pytest.mark.long
def test_an_empty_loop_is_no_object(host: Place) -> None:
    (host.path / "a").write_text("x\n")
    ran = host.check(copy("a"), {**copy("{{ item }}"), "loop": []})
    assert ran.report["verdict"] == "in_sync"


def test_changed_when_is_respected(host: Place) -> None:
    (host.path / "b").write_text("x\n")
    ran = host.check(
        copy("a", changed_when=False),
        copy("b", changed_when=True),
        run_it("true", changed_when=False, check_mode=False),
    )
    assert ran.objects("gpu-1") == {f"{host.path}/b": "drift"}


def test_handlers_are_no_drift_but_unknown_when_they_fail(host: Place) -> None:
    play = host.play(
        copy("a", notify=["Well", "Badly", "Skipped"]),
        handlers=[
            {"name": "Well", "ansible.builtin.copy": {"dest": "{{ place }}/h", "content": "x"}},
            {"name": "Skipped", "ansible.builtin.command": {"argv": ["true"]}},
            {"name": "Badly", "ansible.builtin.command": {"argv": ["false"]}, "check_mode": False},
        ],
    )
    host.write(play)
    ran = host.run()
    assert ran.objects("gpu-1") == {f"{host.path}/a": "drift", "Badly": "unknown"}


def test_delegated_and_run_once(place: Place) -> None:
    tasks = [
        copy("a-{{ inventory_hostname }}", delegate_to="localhost"),
        copy("b", run_once=True),
        copy("c", delegate_to="{{ inventory_hostname }}"),
    ]
    place.write(place.play(*tasks))
    ran = place.run()
    where = {
        host: [(Path(row["name"]).name, row["delegated_to"]) for row in entry["objects"]]
        for host, entry in ran.report["hosts"].items()
    }
    assert where == {
        "gpu-1": [("a-gpu-1", "localhost"), ("b", None), ("c", None)],
        "gpu-2": [("a-gpu-2", "localhost"), ("c", None)],
    }


@pytest.mark.long
def test_the_worst_look_counts(host: Place) -> None:
    play = host.play(copy("a"))
    host.write(play, play)
    ran = host.run(host.book)
    assert ran.objects("gpu-1") == {f"{host.path}/a": "drift"}
    assert len(ran.rows("gpu-1")) == 1
    assert ran.rows("gpu-1")[0]["repaired"] is True


@pytest.mark.long
def test_a_task_in_the_background(host: Place) -> None:
    start = run_it("true", register="job", **{"async": 30, "poll": 0})
    wait = {"name": "Wait", "ansible.builtin.async_status": {"jid": "{{ job.ansible_job_id }}"}, "register": "state"}
    wait.update(until="state is finished", retries=60, delay=0.5)
    host.write(host.play(start))
    ran = host.run(host.book)
    assert ran.objects("gpu-1") == {"Run true": "unknown"}
    assert ran.whys("gpu-1") == ["the task runs in the background, and its result was not seen"]
    host.write(host.play(start, wait))
    ran = host.run(host.book)
    assert ran.objects("gpu-1") == {"Run true": "drift"}, ran.output
    host.write(host.play(run_it("false", register="job", **{"async": 30, "poll": 0}), {**wait, "ignore_errors": True}))
    ran = host.run(host.book)
    assert ran.objects("gpu-1") == {"Run false": "unknown"}
    assert ran.whys("gpu-1")[0].startswith("the task failed")
    host.write(host.play(run_it("true", **{"async": 30, "poll": 1})))
    ran = host.run(host.book)
    assert ran.objects("gpu-1") == {"Run true": "drift"}


def test_our_own_modules_tell_about_their_objects(host: Place) -> None:
    """changed_when does not make what was seen disappear."""
    options = {"name": "rdmaops_drift", "options": {"answer": 42}, "root": "{{ place }}/image"}
    (host.path / "image/etc/modprobe.d").mkdir(parents=True)
    ran = host.check({"name": "Options", "rdmaops.gpu_fabric.modprobe_options": options, "changed_when": False})
    (row,) = ran.rows("gpu-1")
    assert (row["kind"], row["status"], row["desired"]) == ("modprobe_option", "drift", "42"), row
    assert row["action"] == "rdmaops.gpu_fabric.modprobe_options"


def test_diffs_where_ansible_shows_them(host: Place) -> None:
    host.write(host.play(copy("a", "one\ntwo\n"), copy("b", "x" * 9000, diff=False)))
    ran = host.run(host.book, "--check", "--diff")
    first, second = ran.rows("gpu-1")
    assert "+one\n+two" in first["diff"]
    assert second["diff"] is None
    ran = host.run(host.book, "--check")
    assert ran.rows("gpu-1")[0]["diff"] is None
    ran = host.run(host.book, "--check", "--diff", RDMAOPS_DRIFT_MAX_DIFF="10")
    assert ran.rows("gpu-1")[0]["diff"].startswith("--- before... (cut, ")
