# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift and secrets: a report holds nothing that Ansible hides."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.plugins.callback.drift import CORE
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Json, Place, copy, run_it, verdict

SECRET = "Xk7-hunter2-Qz9"


def test_no_secret_in_anything(host: Place) -> None:
    hidden = {"no_log": True}
    task = copy("a", SECRET + "\n", **hidden)
    items = [{"file": "b", "secret": SECRET}, {"file": SECRET, "secret": "x"}]
    looped = {**copy("{{ item.file }}", "{{ item.secret }}", loop=items, **hidden), "name": "Loop"}
    fails: Json = {"check_mode": False, "ignore_errors": True, **hidden}
    failing = run_it("false", SECRET, **fails)
    statuses = [{"rc": 0, "s": SECRET}, {"rc": 1, "s": SECRET}]
    failing_item = {**run_it("sh", "-c", "exit {{ item.rc }}", loop=statuses, **fails), "name": "Items"}
    kinds = {"report": "json", "html": "html", "prometheus": "prom"}
    written = {option: str(host.path / f"out/v.{ending}") for option, ending in kinds.items()}
    host.write(host.play(task, looped, failing, failing_item), verdict(**written))
    page = str(host.path / "page.html")
    ran = host.run(host.book, "--check", "--diff", "-vvvvv", RDMAOPS_DRIFT_HTML=page)
    assert ran.rc == 2
    assert SECRET not in ran.output
    outputs = [host.path / "report.json", host.path / "page.html", *sorted((host.path / "out").iterdir())]
    assert len(outputs) == 5
    for output in outputs:
        assert SECRET not in output.read_text(), output
    objects = ran.rows("gpu-1")
    # Before 2.19 Ansible censors a loop as a whole, and its items are not reported.
    loop = ["#1", "#2"] if CORE >= (2, 19) else [None]
    assert [(row["task"], row["item"], row["status"]) for row in objects] == [
        ("Copy a", None, "drift"),
        *(("Loop", item, "drift") for item in loop),
        ("Run false", None, "unknown"),
        *(("Items", item, "drift") for item in loop[:-1]),
        ("Items", loop[-1], "unknown"),
    ]
    assert [row["diff"] for row in objects] == [None] * len(objects)


def test_a_secret_of_an_argument_stays_censored(host: Place) -> None:
    """The module's result holds what the module has censored; a loop's item, which holds it in clear, is named only."""
    host.module(
        "keeper",
        "spec = {'name': {'type': 'str'}, 'password': {'type': 'str', 'no_log': True}}",
        "m = AnsibleModule(argument_spec=spec, supports_check_mode=True)",
        "m.exit_json(changed=True, diff={'before': '', 'after': m.params['password']}, msg=m.params['password'])",
    )
    users = [{"name": "jo", "password": SECRET}]
    task = {"name": "Keep", "keeper": {"name": "{{ item.name }}", "password": "{{ item.password }}"}, "loop": users}
    host.write(host.play(task))
    ran = host.run(host.book, "--check", "--diff")
    assert SECRET not in (host.path / "report.json").read_text()
    (row,) = ran.rows("gpu-1")
    assert (row["name"], row["item"], row["status"]) == ("jo", "jo", "drift")
    assert "+VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in row["diff"] or "+********" in row["diff"]
