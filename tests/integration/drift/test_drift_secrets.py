# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback drift and secrets: a report holds nothing that Ansible hides."""

from __future__ import annotations

from ansible_collections.rdmaops.gpu_fabric.plugins.callback.drift import CORE
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import (
    VERDICT,
    Place,
    copy,
    run_it,
)

SECRET = "Xk7-hunter2-Qz9"


def test_no_secret_in_anything(host: Place) -> None:
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
    host.write(
        host.play(task, looped, failing, failing_item),
        {
            **VERDICT,
            "tasks": [
                {
                    "name": "Verdict",
                    "rdmaops.gpu_fabric.drift_verdict": {
                        "report": str(host.path / "out/v.json"),
                        "html": str(host.path / "out/v.html"),
                        "prometheus": str(host.path / "out/v.prom"),
                    },
                }
            ],
        },
    )
    ran = host.run(
        str(host.path / "play.yml"), "--check", "--diff", "-vvvvv", RDMAOPS_DRIFT_HTML=str(host.path / "page.html")
    )
    assert ran.rc == 2
    assert SECRET not in ran.output
    outputs = [host.path / "report.json", host.path / "page.html", *sorted((host.path / "out").iterdir())]
    assert len(outputs) == 5
    for output in outputs:
        assert SECRET not in output.read_text(), output
    objects = ran.report["hosts"]["gpu-1"]["objects"]
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
    library = host.path / "library"
    library.mkdir()
    (library / "keeper.py").write_text(
        "#!/usr/bin/python\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "m = AnsibleModule(argument_spec={'name': {'type': 'str'}, 'password': {'type': 'str', 'no_log': True}}, supports_check_mode=True)\n"
        "m.exit_json(changed=True, diff={'before': '', 'after': m.params['password']}, msg=m.params['password'])\n"
    )
    users = [{"name": "jo", "password": SECRET}]
    task = {"name": "Keep", "keeper": {"name": "{{ item.name }}", "password": "{{ item.password }}"}, "loop": users}
    host.write(host.play(task))
    ran = host.run(str(host.path / "play.yml"), "--check", "--diff")
    assert SECRET not in (host.path / "report.json").read_text()
    (row,) = ran.report["hosts"]["gpu-1"]["objects"]
    assert (row["name"], row["item"], row["status"]) == ("jo", "jo", "drift")
    assert "+VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in row["diff"] or "+********" in row["diff"]
