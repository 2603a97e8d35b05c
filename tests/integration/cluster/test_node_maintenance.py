# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role node_maintenance and the playbook reboot, with a real API server.

The hosts are this machine, which is not rebooted: in a copy of the collection the reboot, the look at the mode and the look
at the devices are stand-ins that read and write what a machine of the test is like. Everything else is the collection's own.
What really happens to a machine is tested on the lab's.
"""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._node_drain.node import NOTE
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._maintenance_lock import identity
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.drains import NEW_BOOT as AFTER
from ansible_collections.rdmaops.gpu_fabric.tests.support.drains import cordoned, end_lease, holder, note
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import BOOT_ID as BEFORE
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.maintenance import (
    RAILS,
    RENAMED,
    SOFT,
    VARIABLES,
    copied,
    write_interpreter,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import (
    HERE,
    PROGRAM,
    Run,
    ansible_playbook,
    environment,
    hosts,
)

Json = t.Any


class Site:
    """Hosts of an inventory, each a machine of the test and a Node of the cluster."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab, self.place = lab, place
        machine_id = Path("/etc/machine-id")
        self.machine_id = machine_id.read_text().strip() if machine_id.exists() else ""
        if not self.machine_id:
            skip_or_fail("this machine has no /etc/machine-id")
        self.collections = copied(place / "collections")
        self.hosts: dict[str, Json] = {}

    def host(self, **machine: Json) -> str:
        """Make a machine that has to be rebooted into exclusive mode, and its Node.

        All machines are this one, and the machine ID of a kubelet has to tell them apart: one host at a time has it.
        """
        name = self.lab.node()
        folder = self.place / name
        folder.mkdir()
        argv = [str(self.lab.plane.tool("kubectl")), f"--kubeconfig={self.lab.plane.kubeconfig}", "patch", "node"]
        argv += [name, "--subresource=status", "-p", json.dumps({"status": {"nodeInfo": {"bootID": AFTER}}})]
        new = {"boot_id": AFTER, "mode": "exclusive", "devices": [*RENAMED, SOFT]}
        before = {"boot_id": BEFORE, "mode": "shared", "devices": [*RAILS, SOFT], "next": new, "then": [argv]}
        (folder / "machine.json").write_text(json.dumps({**before, **machine}))
        write_interpreter(folder / "python", TEST_MACHINE=folder / "machine.json")
        python = str(folder / "python")
        self.hosts[name] = {**HERE, "ansible_python_interpreter": python, "test_memory": str(folder)}
        self.is_the_host(name)
        return name

    def is_the_host(self, name: str) -> None:
        for host in self.hosts:
            info = self.lab.read(host)["status"]["nodeInfo"]
            self.lab.status(host, nodeInfo={**info, "machineID": self.machine_id if host == name else "0" * 32})

    def machine(self, name: str) -> Json:
        return json.loads((self.place / name / "machine.json").read_text())

    def change(self, name: str, **machine: Json) -> None:
        (self.place / name / "machine.json").write_text(json.dumps({**self.machine(name), **machine}))

    def note(self, name: str) -> Json:
        return note(self.lab, name)

    def cordoned(self, name: str) -> bool:
        return cordoned(self.lab, name)

    def holder(self) -> str:
        return holder(self.lab)

    def arguments(self, *more: str, cluster: bool = True, plane: str = "", **variables: Json) -> list[str]:
        """Return how the playbook reboot is run on all hosts, with consent; with a plane kubeadm makes them nodes."""
        groups: Json = {"gpu_nodes": {"hosts": self.hosts}}
        if cluster:
            groups["kubernetes_api"] = {"hosts": {"localhost": HERE}}
        if plane:
            groups["kubernetes_control_plane"] = {"hosts": {plane: {}}}
        extra = {
            **VARIABLES,
            "node_maintenance_reboot_ok": True,
            "node_maintenance_kubeconfig": str(self.lab.plane.kubeconfig),
            "node_maintenance_ready_timeout": 5,
            "node_maintenance_lock_path": str(self.place / "lock"),
            **variables,
        }
        return [*hosts(self.place, {"all": {"children": groups}}, extra), "rdmaops.gpu_fabric.reboot", *more]

    def run(self, *more: str, **options: Json) -> Run:
        path = str(self.collections)
        return ansible_playbook(*self.arguments(*more, **options), limit=400, ANSIBLE_COLLECTIONS_PATH=path)

    def begin(self, *more: str) -> subprocess.Popen[bytes]:
        known = environment(ANSIBLE_COLLECTIONS_PATH=str(self.collections))
        return subprocess.Popen([PROGRAM, *self.arguments(*more)], env=known, stdout=subprocess.DEVNULL)


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Site:
    return Site(lab, tmp_path)


def test_the_drill(site: Site) -> None:
    host = site.host()
    site.lab.pod(host, "train", limits={"nvidia.com/gpu": "8"})
    before = site.machine(host)
    refused = site.run()
    assert refused.rc == 2, refused.output
    assert f"{site.lab.namespace}/train: holds nvidia.com/gpu: 8 (evict_gpu_pods)" in refused.messages()
    assert (site.machine(host), site.cordoned(host), site.note(host), site.holder()) == (before, False, None, "")

    consent = {"node_maintenance_evict_gpu_pods": True}
    checked = site.run("--check", "--diff", **consent)
    assert checked.rc == 0, checked.output
    cordon = checked.result("to state drained")["actions"][1]
    assert cordon.startswith(f"Cordon node {host}: The running mode is shared")
    assert (site.machine(host), site.cordoned(host), site.lab.pods(host)) == (before, False, ["train"])
    assert sorted(entry.name for entry in (site.place / host).iterdir()) == ["machine.json", "python"]

    done = site.run(**consent)
    assert done.rc == 0, done.output
    assert (site.machine(host)["mode"], site.lab.pods(host)) == ("exclusive", [])
    assert (site.cordoned(host), site.note(host), site.holder()) == (False, None, "")
    kept = done.result("to state uncordoned")["maintenance"]
    assert (kept["step"], kept["before"]["boot_id"]) == ("drained", BEFORE)
    assert not (site.place / host / "reboot.yml").exists()
    for arguments in ([], ["--check"]):
        again = site.run(*arguments)
        assert (again.rc, again.changed()) == (0, 0), again.output


@pytest.mark.long
def test_a_failure_keeps_the_node_out_and_the_others_untouched(site: Site) -> None:
    host, second = site.host(next={"boot_id": AFTER, "mode": "shared"}), site.host()
    site.is_the_host(host)
    other = site.machine(second)
    done = site.run()
    assert done.rc == 2, done.output
    assert f"{host} came back in mode shared instead of exclusive" in done.messages()
    assert f"Node {host} stays cordoned, with this in its annotation {NOTE}" in done.messages()
    assert (site.cordoned(host), site.holder()) == (True, "")
    note = site.note(host)
    assert note["failed"]["message"].startswith(f"Verify the reboot and the mode: {host} came back in mode shared")
    assert (site.machine(second), site.cordoned(second)) == (other, False)

    # Not rebooted again for the same cause, and still out.
    again = site.run("--limit", f"{host},localhost")
    assert again.rc == 2, again.output
    assert "was rebooted for this cause already" in again.messages()
    assert site.note(host) == note

    # Repaired: without a reboot it is verified and given back, a device that is missing not.
    site.change(host, mode="exclusive", devices=[RENAMED[0], SOFT])
    missing = f"{host} came back without the RDMA devices mlx5_2 (0000:02:00.0) after 5 s."
    done = site.run("--limit", f"{host},localhost")
    assert missing in done.messages()
    assert site.cordoned(host)
    assert site.note(host)["failed"]["message"].startswith(f"Report what is missing: {missing}")
    site.change(host, devices=[*RENAMED, SOFT])
    done = site.run("--limit", f"{host},localhost")
    assert done.rc == 0, done.output
    assert (site.cordoned(host), site.note(host), site.holder()) == (False, None, "")


@pytest.mark.long
def test_a_host_that_does_not_come_back(site: Site) -> None:
    host = site.host(broken="Timed out waiting for last boot time check")
    done = site.run()
    assert done.rc == 2, done.output
    assert site.note(host)["failed"]["message"] == "Reboot the node: Timed out waiting for last boot time check"
    assert (site.cordoned(host), site.holder()) == (True, "")
    # It came late, and its kubelet later still.
    site.change(host, **site.machine(host)["next"])
    done = site.run()
    assert "its kubelet has not reported since the boot" in done.messages()
    assert (site.cordoned(host), site.holder()) == (True, "")
    done = site.run(node_maintenance_wait_ready=False)
    assert done.rc == 0, done.output
    assert (site.cordoned(host), site.note(host)) == (False, None)


@pytest.mark.long
def test_hosts_that_may_not_go(site: Site) -> None:
    host = site.host(boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    here = f"Rebooting {host} would end this run, because Ansible runs on it. Nothing was changed."
    done = site.run(node_maintenance_control_plane_ok=True)
    assert here in done.messages(), done.output
    site.change(host, boot_id=BEFORE)
    # Without the cluster, by which the host is known for one of the control plane.
    manifest = site.place / host / "kube-apiserver.yaml"
    manifest.touch()
    done = site.run(cluster=False)
    plane = f"Rebooting {host} would take down a part of the control plane: it has {manifest}. Nothing was changed."
    assert plane in done.messages(), done.output
    assert (site.machine(host)["mode"], site.cordoned(host), site.holder()) == ("shared", False, "")
    done = site.run(node_maintenance_control_plane_ok=True)
    assert done.rc == 0, done.output
    assert (site.machine(host)["mode"], site.cordoned(host), site.holder()) == ("exclusive", False, "")


@pytest.mark.long
def test_two_playbooks_at_once(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one is killed while its host reboots."""
    host, second = site.host(), site.host()
    site.is_the_host(host)
    rebooting, go, ended = (site.place / name for name in ("rebooting", "go", "ended"))
    wait = f"touch {rebooting}; n=0; while [ ! -e {go} ] && [ $n -lt 3000 ]; do sleep 0.1; n=$((n + 1)); done; touch {ended}"
    site.change(host, then=[["sh", "-c", wait]])
    only = {name: ["--limit", f"{name},localhost"] for name in (host, second)}
    with faults.tried("two runs at once", "playbook reboot") as tally:
        with site.begin(*only[host]) as first:
            try:
                site.lab.until(rebooting.exists, limit=300)
                with tally.one("a run for the same host beside it"):
                    assert "has held it since" in site.run(*only[host]).messages()
                site.is_the_host(second)
                with tally.one("a run for another host beside it"):
                    assert "has held it since" in site.run(*only[second]).messages()
            finally:
                first.kill()
        go.touch()
        # Of a run that was killed a worker may go on.
        site.lab.until(ended.exists)
        end_lease(site.lab)
        with tally.one("a run for another host after it was killed"):
            assert f"in maintenance already: {host} (run " in site.run(*only[second]).messages()
        assert (site.machine(second)["mode"], site.cordoned(second), site.cordoned(host)) == ("shared", False, True)
        site.is_the_host(host)
        with tally.one("a run for the same host after it was killed"):
            done = site.run(*only[host], node_maintenance_wait_ready=False)
            assert (done.rc, site.cordoned(host), site.note(host)) == (0, False, None), done.output
    with capsys.disabled():
        print(f"\n  node_maintenance: {tally.tried} interleavings of playbooks, 2 by kill -9, lost {len(tally.lost)}")


@pytest.mark.long
def test_no_more_nodes_than_may_be_out(site: Site) -> None:
    host, second = site.host(broken="Timed out waiting for last boot time check"), site.host()
    done = site.run(node_maintenance_batch=2)
    batch = (
        "Rebooting 2 nodes at a time (node_maintenance_batch) is not allowed: node_maintenance_max_unavailable is 1."
    )
    assert batch in done.messages()
    assert not site.cordoned(host)
    site.is_the_host(host)
    assert site.run("--limit", f"{host},localhost").rc == 2
    site.is_the_host(second)
    limited = ["--limit", f"{second},localhost"]
    for arguments in (["--check"], []):
        done = site.run(*limited, *arguments)
        assert f"as many nodes are in maintenance already: {host} (run " in done.messages(), done.output
        assert f"run the same playbook for them (--limit {host})" in done.messages()
    assert (site.machine(second)["mode"], site.cordoned(second), site.holder()) == ("shared", False, "")
    done = site.run(*limited, node_maintenance_max_unavailable="2")
    assert done.rc == 0, done.output
    assert (site.machine(second)["mode"], site.cordoned(second)) == ("exclusive", False)
    # An administrator has looked after the first one, and keeps it for another purpose.
    site.is_the_host(host)
    site.lab.plane.kubectl("uncordon", host)
    site.lab.plane.kubectl("cordon", host)
    site.change(host, mode="exclusive", boot_id=AFTER, devices=[*RENAMED, SOFT])
    done = site.run("--limit", f"{host},localhost")
    assert done.rc == 0, done.output
    assert (site.note(host), site.cordoned(host)) == (None, True)


@pytest.mark.long
def test_without_a_cluster_and_without_a_node(site: Site) -> None:
    host = site.host()
    site.lab.pod(host, "web")
    # A run of which the process is alive: this one.
    lock = site.place / "lock"
    lock.write_text(json.dumps({**identity(os.getpid()), "since": "yesterday"}))
    done = site.run(cluster=False)
    held = f"the run of process {os.getpid()} on this machine has held it since yesterday"
    assert held in done.messages(), done.output
    assert site.machine(host)["mode"] == "shared"
    lock.write_text(json.dumps({**identity(os.getpid()), "started": "0", "since": "yesterday"}))
    done = site.run(cluster=False)
    assert done.rc == 0, done.output
    assert json.loads(lock.read_text())["pid"] not in (None, os.getpid())
    assert (site.machine(host)["mode"], site.lab.pods(host), site.cordoned(host)) == ("exclusive", ["web"], False)
    assert not [name for name, _host, _result in done.tasks if "Kubernetes" in name]

    # The inventory's name is not the cluster's: that is found before a reboot of a node that is at work.
    site.change(host, mode="shared", boot_id=BEFORE)
    done = site.run(gpu_node_name="other")
    assert f"the cluster has no node of this name; the host is Node {host}, set that name" in done.messages()
    assert site.machine(host)["mode"] == "shared"
    # A host that has not joined yet is rebooted as it is.
    site.is_the_host("")
    done = site.run(gpu_node_name="other")
    assert done.rc == 0, done.output
    assert done.result("to state drained")["in_cluster"] is False
    assert site.machine(host)["mode"] == "exclusive"


def test_before_kubeadm_has_made_the_cluster(site: Site) -> None:
    host = site.host()
    nowhere = site.place / "kubeconfig"
    # It is a node, whose cluster cannot be asked: its pods would die with it.
    (site.place / host / "kubelet.conf").touch()
    done = site.run(plane="plane", node_maintenance_kubeconfig=str(nowhere))
    assert f"Reading the kubeconfig {nowhere}: no such file" in done.messages()
    assert site.machine(host)["mode"] == "shared"
    (site.place / host / "kubelet.conf").unlink()
    # Nor is it enough that a kubelet's file is missing if another tool creates the cluster.
    assert site.run(node_maintenance_kubeconfig=str(nowhere)).rc != 0
    assert site.machine(host)["mode"] == "shared"

    done = site.run(plane="plane", node_maintenance_kubeconfig=str(nowhere))
    assert done.rc == 0, done.output
    assert site.machine(host)["mode"] == "exclusive"
    assert not [name for name, _host, _result in done.tasks if "Kubernetes node" in name]
    done = site.run(plane="plane", node_maintenance_kubeconfig=str(nowhere))
    assert (done.rc, done.changed()) == (0, 0), done.output
