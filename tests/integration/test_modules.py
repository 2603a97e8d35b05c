# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules, filters, an action and the callback, run by Ansible on this machine with each Python that nodes may have."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible.release import __version__ as version

from ansible_collections.rdmaops.gpu_fabric.tests.suite import tree
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, site, skip_or_fail

Json = dict[str, t.Any]
# The oldest Python on nodes: 3.8 up to ansible-core 2.19, and 3.9 after it.
OLDEST = 8 if version.startswith(("2.18.", "2.19.")) else 9
PYTHONS = [f"3.{minor}" for minor in range(OLDEST, 14)]
GID = "0000:0000:0000:0000:0000:ffff:c633:640b"


def fqcn(name: str) -> str:
    return f"rdmaops.gpu_fabric.{name}"


def step(name: str, module: str, /, register: str = "", check: bool | None = None, **options: t.Any) -> Json:
    further: Json = {"register": register} if register else {}
    further.update({} if check is None else {"check_mode": check})
    return {"name": name, fqcn(module): options, **further}


def drill(root: Path) -> list[Json]:
    """Check, do, do again, check again: on files of an image, so that this machine stays as it is."""
    tasks = []
    for number, check in enumerate((True, False, False, True)):
        options = {"name": "mlx5-core", "options": {"probe_vf": "N", "debug_mask": "{{ 1 - 1 }}"}, "root": str(root)}
        tasks.append(step(f"options {number}", "modprobe_options", check=check, **options))
        file = {"path": f"{root}/etc/a.conf", "content": "[x]\nname = {{ 'é' }}\n"}
        tasks.append(step(f"files {number}", "owned_files", check=check, files=[file]))
    return tasks


def device(number: int) -> Json:
    gids = [{"index": 3, "gid": GID, "type": "RoCE v2", "netdev": f"ens{number}", "ipv4": "198.51.100.11"}]
    port = {"port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": f"ens{number}", "gids": gids}
    names = {"name": f"mlx5_{number}", "protocol": "roce", "pci_address": f"0000:0{number}:00.0", "node_guid": None}
    return {**names, "ports": [port]}


# What a module has read stands in for what filters are given on a node.
READ = {"changed": False, "unreadable": [], "devices": [device(0), device(1)]}
SAID = "gpu-1:12:30 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
EXPRESSIONS = {
    "nccl_env": "{{ read | rdmaops.gpu_fabric.nccl_env(socket_ifname='eth0') }}",
    "rails": "{{ read | rdmaops.gpu_fabric.rails }}",
    "nccl_log": "{{ said | rdmaops.gpu_fabric.nccl_log }}",
    "rping": "{{ 'ping data: rdma-ping-0: ABC' | rdmaops.gpu_fabric.rping }}",
}


def tasks(root: Path) -> list[Json]:
    node = {"reachable": True, "problems": [], "busy": [], "rails": "{{ read | rdmaops.gpu_fabric.rails }}"}
    measured: Json = {
        "nodes": {"gpu-1": node},
        "results": [],
        "pairs": [],
        "rails": [0],
        "tests": ["rping"],
        "fail_on": [],
    }
    return [
        *drill(root),
        step("mode", "rdma_system", check=True, netns_mode="exclusive", on_absent="ignore"),
        step("info", "rdma_info", register="info"),
        step("audit", "rdma_audit_info"),
        step("host", "host_info", packages={"debian": ["coreutils"]}, units=["no-such.service"]),
        step("network", "network_info", register="network"),
        {"name": "own rails", "ansible.builtin.debug": {"msg": "{{ info | rdmaops.gpu_fabric.rails }}"}},
        {"name": "filters", "ansible.builtin.debug": {"msg": EXPRESSIONS}, "vars": {"read": READ, "said": SAID}},
        {**step("wrong", "rdma_system", netns_mode="private"), "ignore_errors": True},
        {**step("verdict", "fabric_verdict", **measured), "vars": {"read": READ}},
        step("drift", "drift_verdict", fail_on=[]),
    ]


@pytest.mark.parametrize(
    "python", [PYTHONS[0], *(pytest.param(python, marks=pytest.mark.long) for python in PYTHONS[1:])]
)
def test_the_drill_with_the_python_of_a_node(python: str, tmp_path: Path) -> None:
    need_root()
    result = tree.interpreters()
    if python not in result:
        skip_or_fail(f"needs Python {python}; this machine has {', '.join(result)}")
    root = tmp_path / "root"
    (root / "etc/modprobe.d").mkdir(parents=True)
    variables = {"ansible_python_interpreter": result[python]}
    environment = {"ANSIBLE_CALLBACKS_ENABLED": fqcn("drift"), "RDMAOPS_DRIFT_REPORT": str(tmp_path / "drift.json")}
    known: Json = {"variables": variables, "cwd": tmp_path, "limit": 600, **environment}
    done = site.run_tasks(tmp_path, tasks(root), "--diff", **known)
    assert done.rc == 0, done.output
    # ansible.posix, whose callback has printed the run, imports what ansible-core 2.21 deprecates.
    theirs = r"\[WARNING\]: Deprecation warnings can be disabled.*\n|\[DEPRECATION WARNING\]: Importing 'to_text' from 'ansible\.module_utils\._text'.*"
    output = re.sub(theirs, "", done.output)
    for word in ("[DEPRECATION", "[WARNING]: Deprecat", "Traceback"):
        assert word not in output, output
    for kind in ("options", "files"):
        assert [done.result(f"{kind} {number}")["changed"] for number in range(4)] == [True, True, False, False]
    text = (root / "etc/modprobe.d/zz-rdmaops-mlx5_core.conf").read_text()
    # Templated numbers, strings and null arrive as the modules document them.
    assert "options mlx5_core debug_mask=0\noptions mlx5_core probe_vf=N\n" in text
    assert "name = é" in (root / "etc/a.conf").read_text(encoding="utf-8")
    assert done.result("options 0")["diff"][0]["before"] == ""
    assert done.result("options 0")["diff"][0]["after"] == text
    assert done.result("mode")["mode"]["desired"] == "exclusive"
    assert isinstance(done.result("info")["devices"], list)
    assert done.result("host")["packages"]["missing"] == []
    assert done.result("host")["units"].get("no-such.service", {}).get("load_state") in (None, "not-found")
    assert "lo" not in [device["name"] for device in done.result("info")["devices"]]
    given = done.result("filters")["msg"]
    assert given["nccl_env"]["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert given["nccl_env"]["NCCL_IB_GID_INDEX"] == "3"
    assert [rail["device"] for rail in given["rails"]] == ["mlx5_0", "mlx5_1"]
    assert given["nccl_log"]["transport"] == "rdma"
    assert given["rping"]["pings"] == 1
    assert "value of netns_mode must be one of: exclusive, shared, got: private" in done.result("wrong")["msg"]
    assert done.result("verdict")["verdict"] == "unknown"
    report = json.loads((tmp_path / "drift.json").read_text())
    assert report["complete"] is True
    observed = {row["task"]: row["status"] for row in report["hosts"]["localhost"]["objects"]}
    # No boot entry is in this root: what its next boot gives the module cannot be told.
    assert (observed["options 0"], observed["options 3"]) == ("drift", "unknown"), observed
    assert (observed["files 0"], observed["files 3"]) == ("drift", "in_sync"), observed
