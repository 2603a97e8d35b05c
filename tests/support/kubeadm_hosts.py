# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose kubeadm and kubectl are stand-ins that stop at named points, and runs over them in processes of their own.

A host is a root directory, its processes are real ones of this machine. The stand-ins keep a cluster in files, and write
down what must never be: kubeadm beside kubeadm, a reset of what is a node.

A run does what the role kubernetes does, by the same plan and the same modules: it looks at its hosts, plans, and has
kubeadm make what is due.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.manage import Kubeadm, manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node_look import Looker
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.run import runner
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.work import Work
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import Options, plan
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, wait_for
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubeadm.test_node_look import Authority
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    host,
    settings,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import KNOWN

HOSTS = {"cp-1": 10, "gpu-1": 11, "gpu-2": 12}
PLANE = "cp-1"
MANIFESTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
INIT = [{"kind": "InitConfiguration"}]
JOIN = [{"kind": "JoinConfiguration"}]
DEFAULTS: Json = {
    "documents": [],
    "ignore_preflight_errors": [],
    "token_ttl": 900,
    **dict.fromkeys(("clean", "discard_etcd", "without_backup_ok", "upload_certificates"), False),
    **dict.fromkeys(("token", "certificate_key", "token_id")),
}

BOTH = """#!/bin/sh
place=PLACE host=HOST
root=$place/hosts/$host cluster=$place/cluster made=$place/made/$host
wrong() { echo "$host: $*" >>"$place/wrong"; }
fail() { echo "error: $*" >&2; exit 1; }
point() {
    touch "$place/points/$host.$1.reached"
    while [ -e "$place/points/$host.$1.hold" ]; do sleep 0.02; done
}
"""

KUBEADM = (
    BOTH
    + """
case "$1 $2" in
    "token create")
        [ -e $cluster/up ] || fail "dial tcp 192.0.2.10:6443: connect: connection refused"
        id=$(printf %06x $$)
        touch $cluster/bootstrap-token-$id
        echo $id.0123456789abcdef
        exit ;;
    "init phase") exit ;;
    version*) echo v1.37.1; exit ;;
esac

for other in $place/active/$host.*; do
    if [ -e $other ] && [ -d /proc/${other##*.} ]; then wrong "kubeadm $1 beside kubeadm $(cat $other)"; fi
done
echo $1 >$place/active/$host.$$
echo "$host $1 $$" >>$place/events
trap 'rm -f $place/active/$host.$$' EXIT
cd $root
case $1 in
    init)
        point init.begin
        [ ! -e etc/kubernetes/kubelet.conf ] || fail "[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: it exists"
        mkdir -p etc/kubernetes/pki etc/kubernetes/manifests
        cp $made/kubelet.conf $made/admin.conf etc/kubernetes/
        cp $made/ca.crt etc/kubernetes/pki/
        point init.keys
        cp $made/manifests/* etc/kubernetes/manifests/
        mkdir -p var/lib/etcd/member/snap
        echo pages >var/lib/etcd/member/snap/db
        point init.data
        touch $cluster/up
        point init.up
        cp $made/configurations.json $made/node.json $cluster/ 2>/dev/null
        mv $cluster/node.json $cluster/node-$host.json
        point init.end ;;
    join)
        point join.begin
        for word in "$@"; do
            case $word in --config=*) token=$(grep -o '"token": "[a-z0-9]*' ${word#--config=}) ;; esac
        done
        [ -e "$cluster/bootstrap-token-${token##*\\"}" ] || fail "could not find a JWS signature in the ConfigMap"
        [ ! -e etc/kubernetes/kubelet.conf ] || fail "[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: it exists"
        mkdir -p etc/kubernetes/pki
        cp $made/ca.crt etc/kubernetes/pki/
        touch etc/kubernetes/bootstrap-kubelet.conf
        point join.bootstrap
        cp $made/kubelet.conf etc/kubernetes/
        rm etc/kubernetes/bootstrap-kubelet.conf
        point join.identity
        cp $made/node.json $cluster/node-$host.json
        point join.registered ;;
    reset)
        [ ! -e $cluster/node-$host.json ] || wrong "kubeadm reset of a node of the cluster"
        [ ! -e var/lib/etcd/member ] || [ ! -e $cluster/up ] || wrong "kubeadm reset of a control plane that answers"
        point reset.begin
        rm -rf etc/kubernetes var/lib/etcd/member ;;
esac
"""
)

KUBECTL = (
    BOTH
    + """
[ -e $cluster/up ] || fail "The connection to the server 192.0.2.10:6443 was refused - did you specify the right host"
case "$*" in
    *raw=/readyz*) echo ok ;;
    *configmaps*) cat $cluster/configurations.json 2>/dev/null || echo '{"items": []}' ;;
    *"delete secret"*) for word in "$@"; do case $word in bootstrap-token-*) rm -f $cluster/$word ;; esac; done ;;
    *nodes*)
        echo '{"items": ['
        between=
        for one in $cluster/node-*.json; do
            if [ -e $one ]; then echo "$between"; cat $one; between=,; fi
        done
        echo ']}' ;;
esac
"""
)


class Run:
    """A run in a process of its own."""

    def __init__(self, pid: int, result: Path) -> None:
        self.pid = pid
        self.result = result

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def ended(self) -> str:
        """Wait for it, and return what stood against it; nothing after a run that did what was due."""
        wait_for(lambda: os.waitpid(self.pid, os.WNOHANG) != (0, 0))
        return self.result.read_text()


class Hosts:
    """A control-plane host and two others, below a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.number = 0
        for name in ("hosts", "cluster", "points", "active", "made"):
            (place / name).mkdir()
        authority = Authority()
        maps = {
            "kubeadm-config": {"ClusterConfiguration": KNOWN["cluster_configuration"]},
            "kubelet-config": {"kubelet": KNOWN["kubelet_configuration"]},
        }
        configurations = {"items": [{"metadata": {"name": name}, "data": data} for name, data in maps.items()]}
        for name, number in HOSTS.items():
            files = place / "made" / name
            (files / "manifests").mkdir(parents=True)
            for program in MANIFESTS:
                (files / f"manifests/{program}.yaml").write_text("--advertise-address=192.0.2.10 --secure-port=6443")
            (files / "kubelet.conf").write_text(authority.kubeconfig(f"system:node:{name}"))
            (files / "admin.conf").write_text(authority.kubeconfig("kubernetes-admin"))
            (files / "ca.crt").write_text(authority.pem)
            (files / "configurations.json").write_text(json.dumps(configurations))
            ready = [{"type": "Ready", "status": "True"}]
            status = {"conditions": ready, "nodeInfo": {"machineID": f"{number:032x}"}}
            node = {"metadata": {"name": name}, "spec": {"podCIDR": f"10.244.{number}.0/24"}, "status": status}
            (files / "node.json").write_text(json.dumps(node))
            (self.root(name) / "bin").mkdir(parents=True)
            (self.root(name) / "proc").symlink_to("/proc")
            for program, text in (("kubeadm", KUBEADM), ("kubectl", KUBECTL)):
                path = self.root(name) / "bin" / program
                path.write_text(text.replace("PLACE", str(place)).replace("HOST", name))
                path.chmod(0o755)

    def root(self, name: str) -> Path:
        return self.place / "hosts" / name

    def mark(self, name: str) -> Path:
        return self.root(name) / "var/lib/rdmaops/kubeadm-started.json"

    # --- what they are, and what is done to them ---

    def look(self, name: str) -> Json:
        looker = Looker(runner([str(self.root(name) / "bin")], 60), str(self.root(name)))
        plane = name == PLANE
        return host(
            name, HOSTS[name], control_plane=plane, membership=looker.membership(),
            cluster=looker.cluster(0) if plane else None,
        )  # fmt: skip

    def plan(self, *names: str, **options: t.Any) -> Json:
        observed = {name: self.look(name) for name in names or HOSTS}
        return plan(observed, settings(), Options(group=[PLANE], **options))

    def do(self, name: str, action: str, **params: t.Any) -> Json:
        """One action of the module kubeadm on a host."""
        options = {**DEFAULTS, "action": action, **params}
        root = str(self.root(name))
        work = Work(root)
        run = runner([str(self.root(name) / "bin")], 60, work)
        return manage(Kubeadm(run, options, root, work=work), action, False)

    def site(self, *names: str, waits: bool = True, **options: t.Any) -> None:
        """What the role does to these hosts, or to all of them."""
        point = self.point if waits else lambda name: None
        plan = self.plan(*names, **options)
        if plan["problems"]:
            raise FabricError("; ".join(plan["problems"]))
        steps, leader = plan["hosts"], plan["leader"]
        point("planned")
        if steps[leader]["action"] == "init":
            self.do(leader, "init", documents=INIT, **_cleaned(steps[leader]))
        for name, step in steps.items():
            if step["unmark"]:
                self.do(name, "unmark")
        if not plan["joining"]:
            return
        token = self.do(leader, "token")
        try:
            point("token")
            for name in plan["joining"]:
                self.do(name, "join", documents=JOIN, token=token["token"], **_cleaned(steps[name]))
        finally:
            self.do(leader, "token_absent", token_id=token["token_id"])

    # --- processes ---

    def begin(self, action: t.Callable[[], object]) -> Run:
        """Do something in a process of its own."""
        self.number += 1
        result = self.place / f"result-{self.number}"
        child = os.fork()
        if child:
            return Run(child, result)
        try:
            text = ""
            try:
                action()
            except (FabricError, AssertionError) as exc:
                text = str(exc)
            result.write_text(text)
        finally:
            os._exit(0)

    def run(self, *names: str, waits: bool = True, **options: t.Any) -> Run:
        """A run; one that does not wait passes the points of runs, where another waits."""
        return self.begin(lambda: self.site(*names, waits=waits, **options))

    def kubeadm(self, name: str) -> int:
        """The process of kubeadm that is at work on a host."""
        pids = [int(path.suffix[1:]) for path in (self.place / "active").glob(f"{name}.*")]
        (pid,) = [pid for pid in pids if not has_ended(pid)]
        return pid

    # --- points ---

    def point(self, name: str) -> None:
        """A point of a run itself."""
        self.place.joinpath(f"points/run.{name}.reached").touch()
        wait_for(lambda: not self.place.joinpath(f"points/run.{name}.hold").exists())

    def hold(self, point: str, host: str = "run") -> None:
        """Have whatever comes to a point wait there."""
        self.place.joinpath(f"points/{host}.{point}.reached").unlink(missing_ok=True)
        self.place.joinpath(f"points/{host}.{point}.hold").touch()

    def reached(self, point: str, host: str = "run") -> None:
        wait_for(self.place.joinpath(f"points/{host}.{point}.reached").exists)

    def release(self, point: str, host: str = "run") -> None:
        self.place.joinpath(f"points/{host}.{point}.hold").unlink()

    # --- what became of it ---

    def events(self, action: str) -> list[str]:
        """The hosts on which kubeadm was started with an action, in order."""
        path = self.place / "events"
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [row[0] for row in rows if row[1] == action]

    def wrong(self) -> list[str]:
        path = self.place / "wrong"
        return path.read_text().splitlines() if path.exists() else []

    def whole(self) -> None:
        """All of them are nodes of the one cluster, and nothing was done that must never be."""
        assert self.wrong() == []
        plan = self.plan()
        assert plan["problems"] == []
        assert {name: step["action"] for name, step in plan["hosts"].items()} == dict.fromkeys(HOSTS, "none")
        assert not [name for name in HOSTS if self.mark(name).exists()]

    def end(self) -> None:
        """Leave no process behind."""
        for path in (self.place / "points").glob("*.hold"):
            path.unlink()
        for path in (self.place / "active").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(path.suffix[1:]), signal.SIGKILL)


def _cleaned(step: Json) -> Json:
    return {name: step[name] for name in ("clean", "discard_etcd")}


__all__ = ["DEFAULTS", "HOSTS", "INIT", "JOIN", "MANIFESTS", "PLANE", "Hosts", "Run"]
