# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes that people make, typed as they type them: what ansible-playbook says, and that it did nothing."""

from __future__ import annotations

import json
import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.message import MESSAGE
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root, need_tool, site, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import closed_port

Json = t.Any
SITE = "inventories/mysite"
CHECK = "Check groups, limit, tags and variables"
SECRET = "Xk7-hunter2-Qz9"


class Case(t.NamedTuple):
    """What was typed after ansible-playbook, the groups of the inventory and the files of group_vars, and the answer."""

    title: str
    typed: list[str]
    groups: Json
    said: list[str]
    group_vars: Json = {}
    rc: int = 2
    # The task that says it.
    task: str = CHECK


# No host can be reached: a mistake that is not found must not become a run on this machine.
NOWHERE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": closed_port()}


def group(*names: str, **variables: Json) -> Json:
    """Return a group of hosts."""
    return {"hosts": {name: dict(NOWHERE) for name in names}, "vars": variables}


def variables(**given: Json) -> list[str]:
    return ["-e", json.dumps(given)]


NODES = group("gpu-01", "gpu-02")
GPU_NODES: Json = {"gpu_nodes": NODES}
API: Json = {"kubernetes_api": group("cp-1")}
TWO: Json = {**GPU_NODES, "kubernetes_control_plane": group("cp-1")}
DONE = "Nothing was done."

# The first of each kind are part of `make test`.
QUICK = [
    Case(
        "a group of another name", ["nodes"], {"gpu_node": NODES},
        [f"No host is in the group gpu_nodes of {SITE} (groups there: gpu_node). Did you mean gpu_node? {DONE}"],
    ),
    Case("a tag of site", ["site", "--tags", "nodes"], GPU_NODES, [
        f"The playbook site has no tag nodes (it has none): --tags nodes would run nothing, or only a part. {DONE}",
    ]),
    Case("a misspelt variable", ["nodes"], {"gpu_nodes": group("gpu-01", "gpu-02", gpu_node_netns_mod="shared")}, [
        "gpu_node_netns_mod (group gpu_nodes) is not a variable of role gpu_node. "
        f"Did you mean gpu_node_netns_mode? {DONE}",
    ]),
    Case("a wrong choice", ["nodes", "-e", "gpu_node_netns_mode=private"], GPU_NODES, [
        f"gpu_node_netns_mode (extra variable) is private, and must be exclusive or shared. {DONE}",
    ]),
    Case("a batch that is no number", ["reboot", "-e", "node_maintenance_batch=abc"], GPU_NODES, [
        "node_maintenance_batch (extra variable) is abc, and must be a number of nodes, at least 1, or a share such as "
        f"25%. {DONE}",
    ]),
    Case("a limit without nodes", ["nodes", "--limit", "cp-1"], TWO, [
        f"--limit cp-1 leaves no host of gpu_nodes (gpu-01 and gpu-02). {DONE}",
    ]),
]  # fmt: skip

GROUPS = [
    Case("a group with dashes", ["verify"], {"gpu-nodes": NODES}, ["Did you mean gpu-nodes?"]),
    Case("capital letters", ["site"], {"GPU_nodes": NODES}, ["(groups there: GPU_nodes). Did you mean GPU_nodes?"]),
    Case("an empty group", ["verify"], {"gpu_nodes": {}, "rack_1": group("cp-1")}, [
        f"No host is in the group gpu_nodes of {SITE} (groups there: rack_1). {DONE}",
    ]),
    Case("an inventory without hosts", ["verify"], {"gpu_nodes": {}}, [f"The inventory {SITE} has no host. {DONE}"]),
    Case("train without the host that has the kubeconfig", ["train", "-e", "training_job_name=x"], GPU_NODES, [
        "No host is in the group kubernetes_api",
    ]),
    Case("a similar group for the API server", ["cluster"], {**GPU_NODES, "kubernetes_apis": group("cp-1")}, [
        "No host is in the group kubernetes_api", "Did you mean kubernetes_apis?",
    ]),
    Case("a group that site may do without", ["site"], {**GPU_NODES, "kubernetes_control_plain": group("cp-1")}, [
        "The group kubernetes_control_plain is none of this collection's. Did you mean kubernetes_control_plane?",
    ]),
    Case("no experiments", ["experiment"], {**GPU_NODES, "experiment": group("resnet")}, ["Did you mean experiment?"]),
    Case("nothing to monitor", ["monitoring"], {"prometheus": group("metrics-1")}, [
        "No host is in the group gpu_nodes, switch_telemetry or monitoring of",
    ]),
    Case("no host for AWX", ["awx"], GPU_NODES, ["No host is in the group awx of"]),
    Case("nowhere to build", ["image", "-e", "training_image_name=x"], API, [
        "No host is in the group gpu_nodes or image_build of",
    ]),
    Case("no control plane", ["kubernetes"], GPU_NODES, ["No host is in the group kubernetes_control_plane of"]),
    Case("nothing to reboot", ["reboot"], API, ["No host is in the group gpu_nodes of"]),
    Case("nothing to compare", ["drift", "--check"], {"gpu_node": NODES}, [
        "No host is in the group gpu_nodes, kubernetes_control_plane or kubernetes_api of", "Did you mean gpu_node?",
    ]),
    Case("no host at all", ["check"], {"gpu_nodes": {}}, [f"The inventory {SITE} has no host. {DONE}"]),
    Case("variables of no group", ["nodes"], GPU_NODES, [
        f"{SITE}/group_vars/gpu_node.json is for no group of the inventory. Did you mean gpu_nodes? {DONE}",
    ], {"gpu_node": {"gpu_node_netns_mode": "shared"}}),
]  # fmt: skip

LIMITS = [
    Case("a job under a limit", ["train", "-e", "training_job_name=x", "--limit", "gpu-01"], {**GPU_NODES, **API}, [
        f"--limit gpu-01 leaves no host of kubernetes_api[0] (cp-1). {DONE}",
    ]),
    Case("not the first host", ["train", "-e", "training_job_name=x", "--limit", "cp-2"], {"kubernetes_api": group("cp-1", "cp-2")}, [
        f"--limit cp-2 leaves no host of kubernetes_api[0] (cp-1). {DONE}",
    ]),
    Case("tags of drift", ["drift", "--check", "--tags", "node"], GPU_NODES, [
        "The playbook drift has no tag node (it has cluster and nodes): --tags node would run nothing, or only a part.",
    ]),
    Case("one tag of two", ["drift", "--check", "--tags", "nodes,clutser"], GPU_NODES, ["has no tag clutser"]),
    Case("a tag that selects the check alone", ["verify", "--tags", "always"], GPU_NODES, ["has no tag always"]),
    Case("tags that are to be left out", ["site", "--skip-tags", "reboot"], GPU_NODES, [
        f"The playbook site has no tag reboot (it has none): --skip-tags reboot would not skip what you mean. {DONE}",
    ]),
]  # fmt: skip

NAMES = [
    Case("a misspelt prefix", ["reboot", "-e", "node_maintenence_reboot_ok=true"], GPU_NODES, [
        "node_maintenence_reboot_ok (extra variable) is not a variable of role node_maintenance. "
        f"Did you mean node_maintenance_reboot_ok? {DONE}",
    ]),
    Case("the group's name as a prefix", ["nodes", "-e", "gpu_nodes_netns_mode=shared"], GPU_NODES, [
        "Did you mean gpu_node_netns_mode?",
    ]),
    Case("a swap on one host", ["nodes"], {"gpu_nodes": {"hosts": {
        "gpu-01": NOWHERE, "gpu-02": {**NOWHERE, "gpu_node_rials": []},
    }}}, ["gpu_node_rials (host gpu-02) is not a variable of role gpu_node. Did you mean gpu_node_rails?"]),
    Case("on all hosts", ["site"], {**TWO, "all": {"vars": {"secondary_network_rails_netwrok": "10.0.0.0/16"}}}, [
        "secondary_network_rails_netwrok (all hosts) is not a variable of role secondary_network.",
    ]),
    Case("in group_vars", ["site"], GPU_NODES, ["fabric_check_test (group gpu_nodes) is not a variable of role fabric_check"], {
        "gpu_nodes": {"fabric_check_test": ["rping"]},
    }),
    Case("a job's command", ["train", *variables(training_job_name="x", training_job_comand=["true"])], API, [
        "training_job_comand (extra variable) is not a variable of role training_job. Did you mean training_job_command?",
    ]),
    Case("a misspelt name that is required", ["image", "-e", "training_image_nmae=x"], GPU_NODES, [
        f"Did you mean training_image_name? {DONE}",
    ]),
    Case("the batch", ["reboot", "-e", "node_maintenance_bach=4"], GPU_NODES, [
        "node_maintenance_bach (extra variable) is not a variable of this collection. Did you mean node_maintenance_batch?",
    ]),
    Case("three at once", ["nodes", "-e", "gpu_node_runtme=never", "-e", "gpu_node_initramfs=yes"], {"gpu_node": NODES}, [
        "No host is in the group gpu_nodes", "Did you mean gpu_node_runtime?",
        "gpu_node_initramfs (extra variable) is yes, and must be rebuild or report.",
    ]),
    Case("thirty at once", ["nodes", *variables(**{f"fabric_check_timeout{n}": 1 for n in range(30)})], GPU_NODES, [
        "Did you mean fabric_check_timeout?", "more mistakes.",
    ]),
]  # fmt: skip

VALUES = [
    Case("no boolean", ["nodes"], {"gpu_nodes": group("gpu-01", "gpu-02", gpu_node_runtime_restart_ok="yess")}, [
        "gpu_node_runtime_restart_ok (group gpu_nodes) is yess, and must be a boolean (true or false).",
    ]),
    Case("no number", ["reboot", *variables(node_maintenance_reboot_timeout="30 minutes")], GPU_NODES, [
        "node_maintenance_reboot_timeout (extra variable) is 30 minutes, and must be an integer.",
    ]),
    Case("no dictionary", ["nodes", *variables(gpu_node_module_options=["mlx5_core"])], GPU_NODES, [
        "gpu_node_module_options (extra variable) is ['mlx5_core'], and must be a dictionary.",
    ]),
    Case("a test that does not exist", ["verify", *variables(fabric_check_tests=["rping", "ib_send_bw"])], GPU_NODES, [
        "fabric_check_tests (extra variable) has ib_send_bw, and may have rping, ib_send_lat, ib_write_bw, ",
    ]),
    Case("on 64 hosts", ["nodes"], {"gpu_nodes": group(*(f"gpu-{n:02}" for n in range(64)), gpu_node_on_conflict="perhaps")}, [
        f"gpu_node_on_conflict (group gpu_nodes) is perhaps, and must be fail, warn or take_over. {DONE}",
    ]),
    Case("by way of another variable", ["nodes"], {"gpu_nodes": group(
        "gpu-01", "gpu-02", mode="private", gpu_node_netns_mode="{{ mode }}"
    )}, [f"gpu_node_netns_mode (group gpu_nodes) is private, and must be exclusive or shared. {DONE}"]),
    Case("a secret", ["drift_merge", *variables(drift_url_headers=[SECRET])], {"gpu_nodes": {}}, [
        f"drift_url_headers (extra variable) is not a dictionary. {DONE}",
    ]),
    Case("inside of a value", ["monitoring", *variables(switch_telemetry_targets=[{"port": 57400}])], {
        "switch_telemetry": group("metrics-1"),
    }, ["switch_telemetry_targets (extra variable) does not fit: missing required arguments:"]),
    Case("all nodes at once", ["reboot", "-e", "node_maintenance_batch=0"], GPU_NODES, [
        "node_maintenance_batch (extra variable) is 0, and must be a number of nodes, at least 1, or a share",
    ]),
    Case("more than all", ["reboot", *variables(node_maintenance_batch=[1, "150%"])], GPU_NODES, ["and must be a number"]),
    Case("a batch in the inventory", ["reboot"], {"gpu_nodes": group("gpu-01", "gpu-02", node_maintenance_batch=4)}, [
        "node_maintenance_batch (group gpu_nodes) has no effect in an inventory, because Ansible forms batches before",
    ]),
    Case("a job without a name", ["train"], API, [
        f"training_job_name is not set, and role training_job needs it. {DONE}",
    ]),
    Case("an image without a name", ["image"], GPU_NODES, ["training_image_name is not set, and role training_image"]),
    Case("AWX without a project", ["awx", "-e", "awx_inventory_path=x"], {"awx": group("cp-1")}, [
        f"awx_project_url and awx_credentials are not set, and role awx needs them. {DONE}",
    ]),
]  # fmt: skip

ROLES = [
    Case("a job without an image and a command", ["train", "-e", "training_job_name=x"], API, [
        "Creating the job default/x: training_job_image and training_job_command are not set. Nothing was applied.",
    ], task="Refuse a job without an image or a command"),
    Case("drift that would change something", ["drift"], GPU_NODES, [
        "Looking for drift: this run is not in check mode, and would change what it finds. Nothing was done.",
    ], task="Refuse to run without --check"),
    Case("a teardown without consent", ["teardown"], GPU_NODES, [
        "This playbook removes what the collection has set up on these hosts and in their cluster. Nothing was done.",
        "give consent with teardown_ok=true.",
    ], task="Refuse to remove anything without consent"),
    Case("a teardown of one node", ["teardown", "-e", "teardown_ok=true", "--limit", "gpu-01"], GPU_NODES, [
        "This playbook removes attachments from the whole cluster, and --limit leaves out gpu-02. Nothing was done.",
        "take back single nodes with the playbook nodes and gpu_node_state=absent.",
    ], task="Refuse to leave nodes out"),
]  # fmt: skip

LONG = [*GROUPS, *LIMITS, *NAMES, *VALUES, *ROLES]


def inventory(place: Path, groups: Json, group_vars: Json) -> None:
    """Write the inventory of the site, a directory."""
    directory = place / SITE
    (directory / "group_vars").mkdir(parents=True)
    (directory / "hosts.json").write_text(json.dumps(groups))
    for name, values in group_vars.items():
        (directory / "group_vars" / f"{name}.json").write_text(json.dumps(values))


def typed(place: Path, *words: str) -> site.Run:
    """Run a playbook of the collection as a user does; the callback for drift is enabled as in ansible.cfg."""
    book, *arguments = words
    if "-i" not in words:
        arguments = ["-i", SITE, *arguments]
    callback = {"ANSIBLE_CALLBACKS_ENABLED": "rdmaops.gpu_fabric.drift", "RDMAOPS_DRIFT_TABLE": "never"}
    return site.ansible_playbook(*arguments, f"rdmaops.gpu_fabric.{book}", cwd=place, limit=300, **callback)


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(case, marks=pytest.mark.long) for case in LONG)], ids=lambda case: case.title
)
def test_a_mistake_has_a_sentence(case: Case, tmp_path: Path) -> None:
    inventory(tmp_path, case.groups, case.group_vars)
    run = typed(tmp_path, *case.typed)
    assert run.rc == case.rc, run.output
    failed = [(name, result["msg"]) for name, _host, result in run.tasks if result.get("failed")]
    assert [name.rpartition(" : ")[2] for name, _message in failed] == [case.task], run.output
    message = failed[0][1]
    for sentence in case.said:
        assert sentence in message
    assert len(message) <= MESSAGE
    assert run.changed() == 0
    assert SECRET not in run.output


def test_the_table_is_long_enough() -> None:
    cases = [*QUICK, *LONG]
    assert len(cases) >= 40
    assert len({case.title for case in cases}) == len(cases)


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed_words", "said"),
    [
        (["verify", "-i", "inventories/mysit"], f"The inventory inventories/mysit does not exist. {DONE}"),
        (["nodes", "-i", "gpu-01,"], f"No host is in the group gpu_nodes of gpu-01, (groups there: none). {DONE}"),
        (["nodes", "-i", SITE, "--limit", "gpu-99"], "--limit leaves us with no hosts to target."),
    ],
)
def test_inventories_that_are_not_there(tmp_path: Path, typed_words: list[str], said: str) -> None:
    inventory(tmp_path, GPU_NODES, {})
    run = typed(tmp_path, *typed_words)
    assert run.rc != 0
    assert said in run.output


@pytest.mark.long
def test_no_inventory(tmp_path: Path) -> None:
    if os.path.exists("/etc/ansible/hosts"):
        skip_or_fail("needs a machine without /etc/ansible/hosts")
    run = site.ansible_playbook("rdmaops.gpu_fabric.verify", cwd=tmp_path, limit=300)
    assert (run.rc, run.messages()) == (2, f"There is no inventory: name yours with -i. {DONE}")


def test_what_a_user_sees_is_short(tmp_path: Path) -> None:
    """Without the specification of the role, of 12,000 characters for each host."""
    inventory(tmp_path, GPU_NODES, {})
    words = ["-i", SITE, "rdmaops.gpu_fabric.nodes", "-e", "gpu_node_netns_mode=private"]
    run = site.ansible_playbook(*words, cwd=tmp_path, limit=300, **site.AS_A_USER)
    assert run.rc == 2
    assert "is private, and must be exclusive or shared. Nothing was done." in run.output
    assert "argument_spec" not in run.output
    assert len(run.output) < 2000, run.output


INVENTORIES = sorted(path.parent.name for path in (COLLECTION / "inventories").glob("*/hosts.yml"))


@pytest.mark.parametrize(
    "name",
    [
        "example",
        *(pytest.param(name, marks=pytest.mark.long) for name in INVENTORIES if name not in ("example", "lab")),
    ],
)
def test_the_inventories_of_the_documentation_have_none(name: str, tmp_path: Path) -> None:
    run = typed(tmp_path, "check", "-i", str(COLLECTION / "inventories" / name))
    assert run.rc == 0, run.output
    assert run.result(CHECK)["unknown"] == []


@pytest.mark.long
def test_what_is_meant_for_something_else(tmp_path: Path) -> None:
    """Kubespray's variables begin as ours; a name that is close to ours can be declared."""
    inventory(tmp_path, GPU_NODES, {"all": {"kubernetes_audit": True, "aws_credentials": "x", "cpu_node_name": "y"}})
    run = typed(tmp_path, "check")
    assert (run.rc, run.result(CHECK)["unknown"]) == (0, ["kubernetes_audit"]), run.output
    given = variables(site_foreign_variables=["kubernetes_audit", "gpu_node_names"], gpu_node_names=["x"])
    run = typed(tmp_path, "check", *given)
    assert (run.rc, run.result(CHECK)["unknown"]) == (0, []), run.output
    run = typed(tmp_path, "check", *variables(gpu_node_names=["x"]))
    assert "Did you mean gpu_node_name?" in run.messages()


@pytest.mark.long
def test_values_that_are_not_known_yet_are_left_to_their_role(tmp_path: Path) -> None:
    given = {
        "gpu_node_netns_mode": "{{ ansible_facts.mode }}",
        "gpu_node_on_conflict": "{{ lookup('ansible.builtin.env', 'NOWHERE', default='perhaps') }}",
        "gpu_node_name": "{{ inventory_hostname }}.example",
        "fabric_check_rails": "{{ rails | default([]) }}",
    }
    inventory(tmp_path, GPU_NODES, {"gpu_nodes": given})
    run = typed(tmp_path, "check")
    assert run.rc == 0, run.output


@pytest.mark.long
def test_playbooks_that_import_others_check_once(tmp_path: Path) -> None:
    """A playbook of a site's own may have its own tags, and variables for an import."""
    book = [
        {"ansible.builtin.import_playbook": f"rdmaops.gpu_fabric.{name}", "tags": ["fabric"], "vars": given}
        for name, given in (("check", {"node_maintenance_batch": 2}), ("check", {}))
    ]
    (tmp_path / "book.json").write_text(json.dumps(book))
    inventory(tmp_path, GPU_NODES, {})
    words = ["-i", SITE, "book.json", "--tags", "fabric"]
    run = site.ansible_playbook(*words, cwd=tmp_path, limit=300)
    assert run.rc == 0, run.output
    assert len(run.results(CHECK)) == 1
    book[0]["vars"] = {"node_maintenance_batch": "many", "gpu_node_netns_mod": "shared"}
    (tmp_path / "book.json").write_text(json.dumps(book))
    run = site.ansible_playbook(*words, cwd=tmp_path, limit=300)
    assert run.rc == 2
    assert "gpu_node_netns_mod (variable of the play) is not a variable of role gpu_node." in run.messages()
    assert "node_maintenance_batch (variable of the play) is many, and must be a number of nodes" in run.messages()


@pytest.mark.long
def test_no_host_is_connected_to(tmp_path: Path) -> None:
    inventory(tmp_path, GPU_NODES, {})
    for more in ([], ["--limit", "gpu-02"]):
        run = typed(tmp_path, "check", *more)
        assert run.rc == 0, run.output


@pytest.mark.long
def test_drift_with_a_limit_ends_with_a_verdict(tmp_path: Path) -> None:
    inventory(tmp_path, GPU_NODES, {})
    run = typed(tmp_path, "drift", "--check", "--limit", "gpu-01")
    assert run.rc == 2, run.output
    assert "The verdict is unknown: 0 drift, 1 unknown, 0 in sync, on 1 hosts; gpu-01: " in run.messages()


@pytest.mark.long
def test_what_a_module_refuses_reaches_the_user(tmp_path: Path) -> None:
    """Not an error of the expression that would have judged its result."""
    need_root()
    need_tool("dpkg-query")
    if os.path.isdir("/sys/module/ib_core"):
        skip_or_fail("needs a machine without RDMA")
    inventory(tmp_path, {"gpu_nodes": {"hosts": {"gpu-01": {**site.HERE, "gpu_node_packages": {"debian": []}}}}}, {})
    run = typed(tmp_path, "nodes", "--check")
    assert run.rc == 2, run.output
    assert re.search(r"Looking for the RDMA subsystem: .*set on_absent to ignore", run.messages()), run.output
