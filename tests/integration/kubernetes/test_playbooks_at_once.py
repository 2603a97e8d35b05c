# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role kubernetes itself, by two ansible-playbook at once: as test_interleavings.py, with Ansible in between.

Each host is a mount and a network namespace of this machine, which its Python interpreter enters. Of the role, packages and
units are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, faults, need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubeadm_hosts import HOSTS, PLANE, Hosts
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, wait_for

pytestmark = pytest.mark.long

AT_WORK = "kubeadm %s is still at work since"
LIMIT = 300
# What is left of the state present: what decides, and what changes nodes.
TASKS = (
    "Look at the host",
    "Record what the host is",
    "Plan how the hosts become nodes of one cluster",
    "Refuse hosts that cannot become one cluster",
    "Create the cluster, and join the other nodes",
)
PYTHON = """#!/bin/sh
exec unshare --mount --net sh -ec '
for one in etc run var/lib; do mount --bind ROOT/$one /$one; done
ip link set lo up; ip address add ADDRESS/24 dev lo
exec "$@"' sh INTERPRETER "$@"
"""


class Playbooks(Hosts):
    """The hosts, and runs of the role over them."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.running: list[subprocess.Popen[str]] = []
        role = place / "roles/kubernetes"
        shutil.copytree(COLLECTION / "roles/kubernetes", role)
        present = role / "tasks/present.yml"
        tasks = [task for task in yaml.safe_load(present.read_text()) if task["name"] in TASKS]
        assert len(tasks) == len(TASKS)
        present.write_text(json.dumps(tasks))
        hosts = {}
        for name, number in HOSTS.items():
            root = self.root(name)
            shutil.copytree("/etc", root / "etc", symlinks=True)
            (root / "etc/machine-id").write_text(f"{number:032x}\n")
            for directory in ("run", "var/lib"):
                (root / directory).mkdir(parents=True, exist_ok=True)
            python = place / f"python-{name}"
            text = PYTHON.replace("ROOT", str(root)).replace("INTERPRETER", sys.executable)
            python.write_text(text.replace("ADDRESS", f"192.0.2.{number}"))
            python.chmod(0o755)
            hosts[name] = {
                "kubernetes_address": f"192.0.2.{number}",
                "ansible_python_interpreter": str(python),
                "kubernetes_directory": str(root / "bin"),
            }
        given = {
            "ansible_connection": "local",
            "kubernetes_cluster_name": "fabric",
            "kubernetes_certificate_names": ["api.example.org"],
            "kubernetes_kubelet": {"failSwapOn": False, "failCgroupV1": False},
            "kubernetes_ignore_preflight_errors": ["NumCPU", "Mem"],
            "kubernetes_on_difference": "report",
            "kubernetes_pod_network": "bridge",
            "kubernetes_wait": 0,
        }
        groups = {
            "kubernetes_control_plane": {"hosts": {PLANE: hosts.pop(PLANE)}},
            "gpu_nodes": {"hosts": hosts},
        }
        (place / "hosts.json").write_text(json.dumps({"all": {"vars": given, "children": groups}}))
        play = {"hosts": "all", "gather_facts": False, "roles": ["kubernetes"]}
        (place / "play.json").write_text(json.dumps([play]))

    def start(self, *argv: str) -> subprocess.Popen[str]:
        self.number += 1
        known = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        own = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_ROLES_PATH": str(self.place / "roles")}
        with (self.place / f"output-{self.number}").open("w") as output:
            made = subprocess.Popen(
                [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.json", *argv],
                cwd=self.place, env={**known, **own}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
        made.args = output.name
        self.running.append(made)
        return made

    def said(self, made: subprocess.Popen[str], due: int) -> str:
        code = made.wait(LIMIT)
        text = Path(str(made.args)).read_text()
        assert code == due, text
        return " ".join(text.split())

    def comes_to(self, point: str, name: str) -> None:
        wait_for(self.place.joinpath(f"points/{name}.{point}.reached").exists, LIMIT)

    def end(self) -> None:
        super().end()
        for made in self.running:
            if made.poll() is None:
                for pid in family(made.pid, 0):
                    os.kill(pid, signal.SIGKILL)
                made.wait()


def during(point: str, action: str, name: str, *argv: str) -> t.Callable[[Playbooks], None]:
    def check(hosts: Playbooks) -> None:
        hosts.hold(point, name)
        first = hosts.start()
        hosts.comes_to(point, name)
        output = hosts.said(hosts.start(*argv), 2)
        assert f"{name}: {AT_WORK % action}" in output, output
        hosts.release(point, name)
        hosts.said(first, 0)
        # The second run started nothing: kubeadm ran once on each host.
        assert hosts.events("init") == [PLANE]
        assert sorted(hosts.events("join")) == sorted(HOSTS.keys() - {PLANE})

    return check


def family(pid: int, but: int) -> list[int]:
    """A process and all that it has started, but one of them: Ansible's workers have sessions of their own."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    processes = [pid]
    for process in processes:
        processes += [child for child in children.get(process, []) if child != but]
    return processes


def killed(hosts: Playbooks) -> None:
    """kill -9 of ansible-playbook with its module, as by a cut connection: kubeadm goes on."""
    hosts.hold("init.data", PLANE)
    first = hosts.start()
    hosts.comes_to("init.data", PLANE)
    kubeadm = hosts.kubeadm(PLANE)
    for pid in family(first.pid, kubeadm):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    assert not has_ended(kubeadm)
    assert f"{AT_WORK % 'init'}" in hosts.said(hosts.start(), 2)
    hosts.release("init.data", PLANE)
    wait_for(lambda: has_ended(kubeadm))
    assert hosts.mark(PLANE).exists()


RESET = ("--limit", PLANE, "-e", "kubernetes_state=reset", "-e", "kubernetes_reset_consent=fabric")


def reset(hosts: Playbooks) -> None:
    """The first run's init has its files; another one's consent is for a cluster, and not for that."""
    hosts.hold("init.keys", PLANE)
    first = hosts.start()
    hosts.comes_to("init.keys", PLANE)
    assert AT_WORK % "init" in hosts.said(hosts.start(*RESET), 2)
    hosts.release("init.keys", PLANE)
    hosts.said(first, 0)


CHECKS: dict[str, t.Callable[[Playbooks], None]] = {
    "site and site, during init": during("init.data", "init", PLANE),
    "site and --limit, during a join": during("join.identity", "join", "gpu-1", "--limit", f"{PLANE},gpu-1"),
    "kill -9 during init": killed,
    "site and reset, during init": reset,
}


@pytest.mark.parametrize("name", CHECKS)
def test_playbooks(name: str, tmp_path: Path) -> None:
    need_root()
    need_tool("unshare")
    with faults.tried("kubernetes", "playbooks at once") as tally, tally.one(name):
        hosts = Playbooks(tmp_path)
        try:
            CHECKS[name](hosts)
            hosts.said(hosts.start(), 0)
            hosts.whole()
            assert hosts.events("reset") == []
        finally:
            hosts.end()
