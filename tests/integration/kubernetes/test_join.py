# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that join: who gets which secret, that it is not shown, and that the token is deleted even if a join fails.

kubeadm and kubectl are stand-ins that note what they are given; what kubeadm makes of it is tested in test_kubeadm. All
hosts are this machine, with directories of the test's own in place of /run and /var/lib.
"""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root, need_tool, site

TOKEN = "abcdef.0123456789abcdef"
# Each call is a file; a configuration that is handed over is kept beside it.
KUBEADM = """#!/bin/sh
n=$(mktemp PLACE/calls/XXXXXX)
echo "kubeadm $*" >$n
for word in "$@"; do case $word in --config=*) cp "${word#--config=}" $n.config ;; esac; done
case $1 in
    token) echo TOKEN ;;
    init) if [ -e PLACE/without-certificates ]; then echo "error: no such file: TOKEN" >&2; exit 1; fi ;;
    join) if grep -q gpu-2 $n.config; then echo "error execution phase: token TOKEN: i/o timeout" >&2; exit 1; fi ;;
esac
"""
KUBECTL = """#!/bin/sh
echo "kubectl $*" >$(mktemp PLACE/calls/XXXXXX)
"""
HOSTS = {"cp-1": "192.0.2.10", "cp-2": "192.0.2.20", "gpu-1": "192.0.2.11", "gpu-2": "192.0.2.12"}


def step(action: str) -> dict[str, t.Any]:
    return {"action": action, "clean": False, "discard_etcd": False, "renew": False, "unpark": False, "unmark": False}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    need_root()
    need_tool("unshare")
    (tmp_path / "calls").mkdir()
    (tmp_path / "bin").mkdir()
    for name, text in {"kubeadm": KUBEADM, "kubectl": KUBECTL}.items():
        path = tmp_path / "bin" / name
        path.write_text(text.replace("PLACE", str(tmp_path)).replace("TOKEN", TOKEN))
        path.chmod(0o755)
    return tmp_path


def run(place: Path) -> subprocess.CompletedProcess[str]:
    hosts = {name: {"kubernetes_address": address, **site.HERE} for name, address in HOSTS.items()}
    inventory = {
        "kubernetes_control_plane": {"hosts": {name: hosts[name] for name in ("cp-1", "cp-2")}},
        "gpu_nodes": {"hosts": {name: hosts[name] for name in ("gpu-1", "gpu-2")}},
    }
    plan = {
        "leader": "cp-1",
        "joining": ["cp-2", "gpu-1", "gpu-2"],
        "joining_control_plane": ["cp-2"],
        "hosts": {"cp-1": step("none"), **{name: step("join") for name in ("cp-2", "gpu-1", "gpu-2")}},
    }
    observed = {"name": "{{ inventory_hostname }}", "address": "{{ kubernetes_address }}", "control_plane": True}
    facts = {"__kubernetes_node_before": observed, "__kubernetes_plan_result": {"plan": plan}}
    tasks = [{"name": "Decided", "ansible.builtin.set_fact": facts}, site.role("kubernetes", "join")]
    given = {"kubernetes_directory": str(place / "bin")}
    argv = [site.PROGRAM, *site.book(place, {"tasks": tasks}, inventory=inventory, variables=given)]
    # All hosts are one machine: two of them would write its one mark of a join at the same time.
    argv += ["--forks=1", "-vvvvv", "--diff"]
    own = 'mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", own, "sh", *argv],
        cwd=COLLECTION, env=site.environment(**site.AS_A_USER), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_join(place: Path) -> None:
    done = run(place)
    calls = {path: path.read_text().strip() for path in (place / "calls").iterdir() if not path.suffix}
    configs = {
        path: [json.loads(document) for document in path.with_suffix(".config").read_text().split("---\n")]
        for path, call in calls.items()
        if "--config=" in call
    }
    assert done.returncode == 2, done.stdout

    first = [config[0] for config in configs.values()]
    joined = [document for document in first if document["kind"] == "JoinConfiguration"]
    joins = {document["nodeRegistration"]["name"]: document for document in joined}
    assert set(joins) == {"cp-2", "gpu-1", "gpu-2"}
    assert {join["discovery"]["bootstrapToken"]["token"] for join in joins.values()} == {TOKEN}
    (uploaded,) = [document for document in first if document["kind"] == "InitConfiguration"]
    key = uploaded["certificateKey"]
    # The key to the authorities' keys is for control-plane nodes alone.
    assert joins["cp-2"]["controlPlane"]["certificateKey"] == key
    assert not [name for name, document in joins.items() if name != "cp-2" and "controlPlane" in document]

    # One token for all, and it is gone although one of them has failed.
    assert len([call for call in calls.values() if call.startswith("kubeadm token create")]) == 1
    (deleted,) = [call for call in calls.values() if call.startswith("kubectl") and " delete " in call]
    assert deleted.endswith("delete secret --ignore-not-found bootstrap-token-abcdef kubeadm-certs")

    # Neither is said anywhere, nor among the arguments of a program, which every user of a host sees.
    for text in (done.stdout, *calls.values()):
        assert TOKEN not in text
        assert key not in text
    output = "error execution phase: token (hidden): i/o timeout"
    assert f"Joining the cluster: kubeadm join exited with status 1. Output: {output}" in done.stdout
    assert "look at addresses, routes and firewalls" in done.stdout


@pytest.mark.long
def test_certificates_that_cannot_be_left_in_the_cluster(place: Path) -> None:
    """No host will use the token, and what was said is seen although the task's result is not."""
    (place / "without-certificates").touch()
    done = run(place)
    assert done.returncode == 2, done.stdout
    calls = [path.read_text().strip() for path in (place / "calls").iterdir() if not path.suffix]
    assert not [call for call in calls if call.startswith("kubeadm join")]
    (deleted,) = [call for call in calls if " delete " in call]
    assert deleted.endswith("delete secret --ignore-not-found bootstrap-token-abcdef")
    output = " ".join(done.stdout.split())
    assert "kubeadm init exited with status 1. Output: error: no such file: (hidden)" in output, done.stdout
    assert "The bootstrap token that was made for it has been deleted" in output
    assert TOKEN not in done.stdout
