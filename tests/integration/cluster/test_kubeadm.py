# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeadm's tokens and its configuration in a cluster, with kubeadm and an API server."""

from __future__ import annotations

import base64
import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.manage import Kubeadm, KubeadmError, manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node_look import Looker
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.run import runner
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes import kubeadm_config as config
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.plan import compare
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import settings

# kubeadm takes long to build, where its release cannot be had.
pytestmark = pytest.mark.long

PLANE = {"name": "cp-1", "address": "192.0.2.10", "control_plane": True}


class Host:
    """A root directory with the administrator's kubeconfig where kubeadm has it."""

    def __init__(self, plane: Cluster, root: Path) -> None:
        self.plane, self.root = plane, root
        admin = root / "etc/kubernetes/admin.conf"
        admin.parent.mkdir(parents=True)
        admin.write_bytes(plane.kubeconfig.read_bytes())
        self.admin = admin
        self.run = runner([str(plane.tool(name).parent) for name in ("kubeadm", "kubectl")], 120)

    def do(self, action: str, **params: t.Any) -> dict[str, t.Any]:
        defaults: dict[str, t.Any] = {"documents": [], "upload_certificates": False, "token_id": None, "token_ttl": 600}
        return manage(Kubeadm(self.run, {**defaults, **params}, str(self.root)), action, False)

    def secret(self, name: str) -> dict[str, t.Any] | None:
        output = self.plane.kubectl("get", "secret", name, "-n", "kube-system", "-o", "json", "--ignore-not-found")
        return t.cast("dict[str, t.Any]", json.loads(output)) if output else None


@pytest.fixture
def here(tmp_path: Path) -> Host:
    return Host(cluster(), tmp_path)


def test_a_token_is_made_and_deleted(here: Host) -> None:
    token = here.do("token")
    name = "bootstrap-token-" + token["token_id"]
    kept = here.secret(name)
    assert kept is not None
    data = {key: base64.b64decode(value).decode() for key, value in kept["data"].items()}
    assert f"{data['token-id']}.{data['token-secret']}" == token["token"]
    assert data["usage-bootstrap-authentication"] == "true"
    assert data["description"].startswith("rdmaops.gpu_fabric")
    assert data["expiration"]

    here.do("token_absent", token_id=token["token_id"])
    assert here.secret(name) is None
    # It may be gone already: it has expired, or an earlier run has come so far.
    here.do("token_absent", token_id=token["token_id"], upload_certificates=True)


def test_a_token_that_no_host_will_use(here: Host) -> None:
    """This machine has none of the certificates that kubeadm is to leave in the cluster."""

    def tokens() -> str:
        kind = "--field-selector=type=bootstrap.kubernetes.io/token"
        return here.plane.kubectl("get", "secrets", "-n", "kube-system", kind, "-o", "name")

    before = tokens()
    with pytest.raises(KubeadmError, match="The bootstrap token that was made for it has been deleted"):
        here.do("token", upload_certificates=True, documents=config.documents(settings(), PLANE, "init"))
    assert tokens() == before


def test_a_token_of_a_cluster_that_does_not_answer(here: Host) -> None:
    kubeconfig = json.loads(here.admin.read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    here.admin.write_text(json.dumps(kubeconfig))
    with pytest.raises(KubeadmError, match="Making a bootstrap token: kubeadm token exited with status 1"):
        here.do("token")
    result = Looker(here.run, str(here.root)).cluster(0)
    assert result is not None
    assert result["reachable"] is False
    assert "refused" in result["error"]


def test_what_kubeadm_has_written_down_is_compared(here: Host) -> None:
    looker = Looker(here.run, str(here.root))
    desired = settings()
    place = here.root / "config.yaml"
    place.write_text("---\n".join(json.dumps(document) + "\n" for document in config.documents(desired, PLANE, "init")))
    argv = [str(here.plane.tool("kubeadm")), "init", "phase", "upload-config", "kubeadm"]
    done = subprocess.run(
        [*argv, f"--config={place}", f"--kubeconfig={here.admin}"], capture_output=True, text=True, timeout=120
    )
    try:
        assert done.returncode == 0, done.stderr
        result = looker.cluster(0)
        assert result is not None
        # Nothing was said about kubelets here.
        rows, _shown = compare(desired, {**result, "kubelet_configuration": "cgroupDriver: systemd\n"})
        assert rows == []
        other = settings(pod_network="10.32.0.0/16", certificate_names=["api.example.org", "new.example.org"])
        rows, shown = compare(other, {**result, "kubelet_configuration": "cgroupDriver: systemd\n"})
        assert [row["path"] for row in rows] == ["apiServer.certSANs", "networking.podSubnet"]
        assert "podSubnet: 10.244.0.0/16" in shown[0]["before"]
    finally:
        here.plane.kubectl("delete", "configmap", "kubeadm-config", "-n", "kube-system", "--ignore-not-found")
