# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeadm init that ran into its time limit, and whose control plane works all the same: a real API server and etcd.

kubeadm itself is a stand-in that writes its files and hangs.
"""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.etcd_backup import BackupError, Etcd
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.manage import Kubeadm, KubeadmError, manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node_look import Looker
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.run import runner
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.work import Work
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import Options, plan
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubeadm_hosts import DEFAULTS, INIT, MANIFESTS
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubeadm.test_node_look import Authority
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import (
    Json,
    host,
    settings,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.plans import KNOWN

pytestmark = pytest.mark.long

KUBEADM = """#!/bin/sh
echo "$1" >>PLACE/calls
[ "$1" = init ] || exit 0
cd PLACE/host
mkdir -p etc var/lib/etcd
cp -r PLACE/made etc/kubernetes
cp -r PLACE/data var/lib/etcd/member
touch PLACE/hangs
exec sleep 600
"""


class Host:
    """The control-plane host cp-1, below a directory."""

    def __init__(self, plane: Cluster, place: Path) -> None:
        self.plane, self.place, self.root = plane, place, place / "host"
        record = place / "made"
        for directory in ("made/manifests", "made/pki", "data/snap", "host", "bin"):
            (place / directory).mkdir(parents=True)
        (self.root / "proc").symlink_to("/proc")
        port = plane.plane.ports()["kube-apiserver"]
        for name in MANIFESTS:
            (record / f"manifests/{name}.yaml").write_text(f"- --advertise-address=127.0.0.1\n- --secure-port={port}\n")
        shutil.copy(plane.kubeconfig, record / "admin.conf")
        authority = Authority()
        (record / "kubelet.conf").write_text(authority.kubeconfig("system:node:cp-1"))
        (record / "pki/ca.crt").write_text(authority.pem)
        (place / "data/snap/db").write_text("pages")
        (place / "bin/kubeadm").write_text(KUBEADM.replace("PLACE", str(place)))
        (place / "bin/kubeadm").chmod(0o755)

    @property
    def directories(self) -> list[str]:
        return [str(self.place / "bin"), str(self.plane.tool("kubectl").parent)]

    def do(self, action: str, limit: int = 60, **params: t.Any) -> Json:
        work = Work(str(self.root))
        options = {**DEFAULTS, "documents": INIT, "action": action, **params}
        return manage(Kubeadm(runner(self.directories, limit, work), options, str(self.root), work=work), action, False)

    def calls(self) -> list[str]:
        return (self.place / "calls").read_text().split()

    def decided(self, **options: t.Any) -> Json:
        looker = Looker(runner(self.directories, 60), str(self.root))
        observed = host("cp-1", 10, control_plane=True, membership=looker.membership(), cluster=looker.cluster(0))
        return plan({"cp-1": observed}, settings(), Options(**options))


@pytest.fixture
def here(own_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose init has run into its time limit."""
    host = Host(own_cluster, tmp_path)
    with monkeypatch.context() as patch:
        limits_count_from(tmp_path / "hangs", patch)
        with pytest.raises(KubeadmError, match="not done after 1 s"):
            host.do("init", limit=1)
    return host


def test_an_administrator_finished_it(here: Host) -> None:
    # It answers, and kubeadm had more to do: that is for whoever looks at it.
    plan = here.decided(reset_consent="fabric")
    assert plan["hosts"]["cp-1"]["action"] == "refuse"
    assert "its cluster has no ConfigMap kubeadm-config" in plan["problems"][0]
    with pytest.raises(FabricError, match="it has a control plane, although kubeadm init did not come to its end"):
        here.do("init", clean=True, discard_etcd=True)

    for name, key, text in (
        ("kubeadm-config", "ClusterConfiguration", KNOWN["cluster_configuration"]),
        ("kubelet-config", "kubelet", KNOWN["kubelet_configuration"]),
    ):
        here.plane.apply(manifest("v1", "ConfigMap", name, "kube-system", data={key: text}))
    here.plane.apply(manifest("v1", "Node", "cp-1"))
    plan = here.decided()
    assert plan["problems"] == []
    step = plan["hosts"]["cp-1"]
    assert (step["action"], step["clean"], step["unmark"]) == ("none", False, True)
    here.do("unmark")
    assert here.decided()["hosts"]["cp-1"]["unmark"] is False
    assert here.calls() == ["init"]


def test_an_api_server_that_is_away(here: Host) -> None:
    """Its etcd has data, and its manifests are complete."""
    here.plane.stop()
    try:
        for consent in ("", "fabric"):
            plan = here.decided(reset_consent=consent)
            assert plan["hosts"]["cp-1"]["action"] == "refuse"
            assert "Its kubeadm init did not finish" in plan["problems"][0]
        with pytest.raises(FabricError, match="it has a control plane"):
            here.do("init", clean=True, discard_etcd=True)
    finally:
        here.plane.start()
    assert here.calls() == ["init"]


def test_an_api_server_that_hangs(here: Host) -> None:
    """etcd is elsewhere: whether it is well cannot be judged."""
    shutil.rmtree(here.root / "var/lib/etcd")
    here.plane.freeze()
    try:
        plan = here.decided()
    finally:
        here.plane.thaw()
    assert plan["hosts"]["cp-1"]["action"] == "refuse"
    assert "get --raw=/readyz shows it. Nothing is cleaned before that is known" in plan["problems"][0]


def test_a_copy_of_etcd_is_good_for_a_new_start(own_cluster: Cluster, tmp_path: Path) -> None:
    plane = own_cluster.plane
    member = plane.place / "etcd/member"
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/etcd").symlink_to(plane.place / "etcd")
    etcd = Etcd(lambda _argv: None, "/var/lib/etcd", str(tmp_path))
    own_cluster.kubectl("create", "configmap", "kept", "-n", "default")
    with pytest.raises(BackupError, match="its database is in use"):
        etcd.keep()
    plane.stop("kube-apiserver")
    plane.stop("etcd")
    try:
        kept = tmp_path / etcd.keep()[1:]
        shutil.rmtree(member)
        shutil.copytree(kept / "member", member)
    finally:
        plane.start("etcd")
        plane.start("kube-apiserver")
    assert own_cluster.json("get", "configmap", "kept", "-n", "default")["metadata"]["name"] == "kept"
