# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a host as a node of Kubernetes: files below a root, programs that answer, and the real openssl."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import typing as t
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.node_look import Looker, NodeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubeadm.test_node import OLD, TCP

Json = t.Dict[str, t.Any]
NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc).timestamp()


class Authority:
    """One that has made a node's certificate."""

    def __init__(self, name: str = "kubernetes") -> None:
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.made(name, 3650)
        self.pem = self.of(self.certificate)

    @staticmethod
    def of(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def made(self, name: str, days: float) -> x509.Certificate:
        now = datetime.datetime(2026, 11, 22)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=400))
            .not_valid_after(now + datetime.timedelta(days=days))
            .sign(self.key, hashes.SHA256())
        )

    def kubeconfig(self, name: str, days: float = 365, embedded: bool = True) -> str:
        """A kubeconfig as kubeadm and the kubelet write it."""
        ca = base64.b64encode(self.pem.encode()).decode()
        mine = base64.b64encode(self.of(self.made(name, days)).encode()).decode()
        user = f"    client-certificate-data: {mine}\n    client-key-data: c2VjcmV0LWtleQ==\n"
        if not embedded:
            user = "    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n"
        return (
            f"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n"
            f"    server: https://192.0.2.10:6443\n  name: kubernetes\nkind: Config\nusers:\n- name: x\n  user:\n{user}"
        )


class Host:
    """A root directory, and programs that answer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, tuple[int, str, str]] = {"ip": (0, "[]", "")}
        self.asked: list[list[str]] = []
        self.now = NOW

    def write(self, files: t.Mapping[str, str]) -> None:
        write_tree(self.root, files)

    def run(self, argv: t.Sequence[str]) -> tuple[int, str, str] | None:
        self.asked.append(list(argv))
        return next((self.answers[key] for key in (" ".join(argv), argv[-1], argv[0]) if key in self.answers), None)

    @property
    def looker(self) -> Looker:
        return Looker(self.run, str(self.root), lambda: self.now)


@pytest.fixture
def here(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_virgin_host(here: Host) -> None:
    asked = {"ports": [6443], "modules": ["overlay"], "sysctls": ["net.ipv4.ip_forward"], "cluster": True, "wait": 0}
    look = here.looker.look(asked)
    nothing = {"bootstrapping": False, "etcd": False, "manifests": [], "parked": []}
    assert look["membership"] == {**nothing, **dict.fromkeys(("kubelet", "admin", "authority", "started"))}
    assert look["runtime"] == {"config_owner": "absent", "config": None}
    assert set(look["programs"].values()) == {None}
    assert (look["modules"], look["sysctls"]) == ({"overlay": False}, {"net.ipv4.ip_forward": None})
    assert (look["cluster"], look["certificates"], look["ports"]) == (None, [], [])


def test_the_host_itself(here: Host) -> None:
    loopback = {"local": "127.0.0.1", "prefixlen": 8, "scope": "host"}
    address = {"local": "192.0.2.11", "prefixlen": 24, "scope": "global"}
    interfaces = [
        {"ifname": "lo", "addr_info": [loopback]},
        {"ifname": "eth0", "addr_info": [address, {"scope": "link"}]},
    ]
    here.answers["ip"] = (0, json.dumps(interfaces), "")
    here.write(
        {
            "proc/sys/kernel/hostname": "gpu-1\n",
            "etc/machine-id": "8f3c\n",
            "proc/meminfo": "MemTotal:        2010648 kB\nMemFree: 1 kB\n",
            "proc/cpuinfo": "processor\t: 0\nflags: x\n\nprocessor\t: 1\n",
            "proc/swaps": "Filename Type Size Used Priority\n",
            "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        }
    )
    assert here.looker.host() == {
        "hostname": "gpu-1",
        "machine_id": "8f3c",
        "memory_mib": 1963,
        "cpus": 2,
        "swap": [],
        "cgroup": "v2",
        "interfaces": [{"device": "eth0", "address": "192.0.2.11/24"}],
    }


def test_a_host_without_ip(here: Host) -> None:
    del here.answers["ip"]
    with pytest.raises(NodeError, match="Running ip: it is not installed on this host; install it"):
        here.looker.host()
    here.answers["ip"] = (1, "", "no\n")
    with pytest.raises(NodeError, match="Running ip -j address: exit status 1: no"):
        here.looker.host()


def test_ports_and_who_has_them(here: Host) -> None:
    here.write({"proc/net/tcp": TCP, "proc/811/comm": "kubelet\n", "proc/812/fd/.keep": ""})
    (here.root / "proc/811/fd").mkdir()
    (here.root / "proc/811/fd/3").symlink_to("socket:[18001]")
    assert here.looker.ports([10250, 2379, 6443]) == [
        {"port": 2379, "pid": None, "command": None},
        {"port": 10250, "pid": 811, "command": "kubelet"},
    ]
    assert here.looker.ports([6443]) == []


def test_modules_and_settings(here: Host) -> None:
    (here.root / "sys/module/br_netfilter").mkdir(parents=True)
    here.write(
        {
            "proc/sys/kernel/osrelease": "7.2.0\n",
            "lib/modules/7.2.0/modules.builtin": "kernel/fs/overlayfs/overlay.ko\nkernel/net/nf-conntrack.ko\n",
            "proc/sys/net/ipv4/ip_forward": "1\n",
        }
    )
    loaded = here.looker.modules(["br_netfilter", "overlay", "nf_conntrack", "vxlan"])
    assert loaded == {"br_netfilter": True, "overlay": True, "nf_conntrack": True, "vxlan": False}
    assert here.looker.sysctls(["net.ipv4.ip_forward"]) == {"net.ipv4.ip_forward": "1"}


def test_whose_the_configuration_of_containerd_is(here: Host) -> None:
    text = "version = 2\n"
    here.write({"etc/containerd/config.toml": text})
    assert here.looker.runtime()["config_owner"] == "foreign"
    digest = hashlib.md5(text.encode()).hexdigest()
    here.answers["dpkg-query"] = (1, f" /etc/containerd/config.toml {digest}\n", "no package containerd.io")
    assert here.looker.runtime()["config_owner"] == "package"
    here.write({"etc/containerd/config.toml": text + "# changed\n"})
    assert here.looker.runtime()["config_owner"] == "foreign"
    here.write({"etc/containerd/config.toml": f"{HEADER}\n{text}"})
    here.answers["containerd"] = (0, OLD, "")
    assert here.looker.runtime()["config_owner"] == "ours"
    assert here.looker.runtime()["config"]["cni_bin_dirs"] == ["/usr/lib/cni"]


def test_a_worker(here: Host) -> None:
    authority = Authority()
    here.write(
        {
            "etc/kubernetes/kubelet.conf": authority.kubeconfig("system:node:gpu-1", embedded=False),
            "etc/kubernetes/pki/ca.crt": authority.pem,
            "var/lib/kubelet/pki/kubelet-client-current.pem": authority.of(authority.made("system:node:gpu-1", 12.5)),
        }
    )
    membership = here.looker.membership()
    fingerprint = authority.certificate.fingerprint(hashes.SHA256()).hex()
    public = authority.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    user = {"server": "https://192.0.2.10:6443", "authority": fingerprint, "user": "system:node:gpu-1"}
    assert membership["kubelet"] == user
    pin = "sha256:" + hashlib.sha256(public).hexdigest()
    assert membership["authority"] == {"fingerprint": fingerprint, "pin": pin}
    rows = {row["name"]: row for row in here.looker.certificates()}
    assert (rows["kubelet-client"]["days"], rows["kubelet-client"]["renewable"]) == (12, False)
    assert (rows["ca"]["days"], rows["ca"]["renewable"]) == (3650, False)


def test_a_control_plane_node(here: Host) -> None:
    authority = Authority()
    here.write(
        {
            "etc/kubernetes/kubelet.conf": authority.kubeconfig("system:node:cp-1"),
            "etc/kubernetes/admin.conf": authority.kubeconfig("kubernetes-admin", days=-2.5),
            "etc/kubernetes/pki/apiserver.crt": authority.of(authority.made("kube-apiserver", 364.5)),
            "etc/kubernetes/pki/etcd/server.crt": "nothing",
            "etc/kubernetes/manifests/etcd.yaml": "",
            "etc/kubernetes/manifests/.kubelet-keep": "",
            "etc/kubernetes/rdmaops-parked/kube-scheduler.yaml": "",
            "var/lib/etcd/member/wal/0.wal": "",
            "var/lib/rdmaops/kubeadm-started.json": '{"action": "init"}',
            "etc/kubernetes/manifests/kube-apiserver.yaml": "- --advertise-address=192.0.2.10\n- --secure-port=6443\n",
        }
    )
    membership = here.looker.membership()
    assert membership["kubelet"]["user"] == "system:node:cp-1"
    assert membership["admin"]["user"] == "kubernetes-admin"
    assert membership["manifests"] == ["etcd.yaml", "kube-apiserver.yaml"]
    assert membership["parked"] == ["kube-scheduler.yaml"]
    assert membership["etcd"] is True
    # A mark of an earlier release names no process.
    assert membership["started"] == {"action": "init", "since": None, "pid": None, "at_work": None, "answers": None}
    rows = {row["name"]: row for row in here.looker.certificates()}
    assert (rows["apiserver"]["days"], rows["apiserver"]["renewable"]) == (364, True)
    assert rows["admin.conf"]["days"] == -3
    assert rows["etcd/server"]["days"] is None
    assert "c2VjcmV0" not in json.dumps([membership, list(rows.values())])


def test_a_join_that_was_broken_off(here: Host) -> None:
    here.write({"etc/kubernetes/bootstrap-kubelet.conf": "", "etc/kubernetes/kubelet.conf": "{"})
    membership = here.looker.membership()
    assert membership["bootstrapping"] is True
    assert membership["kubelet"] == {"server": None, "authority": None, "user": None}


MARK = {"action": "init", "since": "2026-04-01T12:00:00Z", "pid": 4711, "start": "300", "boot": "b1"}
READY = "--server=https://192.0.2.10:6443 --tls-server-name=kubernetes --request-timeout=15s get --raw=/readyz"


def begun(here: Host, stat: str | None, boot: str = "b1") -> Json:
    """What is seen of a mark, with a process of that stat and boot on the host."""
    here.write(
        {
            "var/lib/rdmaops/kubeadm-started.json": json.dumps(MARK),
            "etc/kubernetes/manifests/kube-apiserver.yaml": "- --advertise-address=192.0.2.10\n- --secure-port=6443\n",
            "proc/sys/kernel/random/boot_id": boot + "\n",
            **({"proc/4711/stat": stat} if stat else {}),
        }
    )
    return t.cast("Json", here.looker.membership()["started"])


def stat(state: str = "S", start: int = 300) -> str:
    return f"4711 (kube) adm) {state} " + " ".join(["0"] * 18) + f" {start} 0 0\n"


def test_a_kubeadm_that_is_at_work(here: Host) -> None:
    assert begun(here, stat()) == {
        **{name: MARK[name] for name in ("action", "since", "pid")},
        "at_work": True,
        "answers": None,
    }
    assert here.asked == []


@pytest.mark.parametrize(
    ("text", "boot"), [(None, "b1"), (stat("Z"), "b1"), (stat(start=301), "b1"), (stat(), "b2")],
    ids=["it has ended", "it is a zombie", "another has its PID", "another boot"],
)  # fmt: skip
def test_a_kubeadm_that_was_broken_off(here: Host, text: str | None, boot: str) -> None:
    here.answers["kubectl"] = (1, "", "The connection to the server 192.0.2.10:6443 was refused - did you specify")
    result = begun(here, text, boot)
    assert (result["at_work"], result["answers"]) == (False, False)


def test_whether_the_api_server_of_the_host_answers(here: Host) -> None:
    # No kubectl, and nothing that it can be asked by.
    assert begun(here, None)["answers"] is None
    for answer, due in (
        ((0, "ok", ""), True),
        ((1, "", "Error from server (InternalError): an error on the server"), None),
        ((1, "", "Unable to connect to the server: net/http: TLS handshake timeout"), None),
    ):
        here.answers["kubectl"] = answer
        assert begun(here, None)["answers"] is due
    assert " ".join(here.asked[-1]) == f"kubectl --kubeconfig={here.root}/etc/kubernetes/admin.conf {READY}"
    here.write({"etc/kubernetes/manifests/kube-apiserver.yaml": "{}"})
    assert here.looker.answers() is None
    (here.root / "etc/kubernetes/manifests/kube-apiserver.yaml").unlink()
    assert here.looker.answers() is False


# --- the cluster ---


def test_the_cluster(here: Host) -> None:
    here.write({"etc/kubernetes/admin.conf": "x"})
    here.answers["nodes"] = (0, json.dumps({"items": [{"metadata": {"name": "cp-1"}}]}), "")
    maps = {"items": [{"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": "a: 1\n"}}]}
    here.answers["--ignore-not-found"] = (0, json.dumps(maps), "")
    cluster = here.looker.cluster(0)
    assert cluster is not None
    assert (cluster["reachable"], [node["name"] for node in cluster["nodes"]]) == (True, ["cp-1"])
    assert (cluster["cluster_configuration"], cluster["kubelet_configuration"]) == ("a: 1\n", None)
    for empty in ("", json.dumps({**maps["items"][0], "kind": "ConfigMap"})):
        here.answers["--ignore-not-found"] = (0, empty, "")
        again = here.looker.cluster(0)
        assert again is not None
        assert again["cluster_configuration"] == ("a: 1\n" if empty else None)


def test_an_api_server_that_does_not_answer_yet(here: Host) -> None:
    here.write({"etc/kubernetes/admin.conf": "x"})
    here.answers["kubectl"] = (1, "", "connection refused\n")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        here.now += seconds
        if len(waits) == 3:
            here.answers.update(kubectl=(0, "", ""), nodes=(0, '{"items": []}', ""))

    assert here.looker.cluster(0, sleep) == {"reachable": False, "error": "connection refused"}
    cluster = here.looker.cluster(60, sleep)
    assert cluster is not None
    assert (cluster["reachable"], waits) == (True, [2, 2, 2])


def test_no_kubectl(here: Host) -> None:
    here.write({"etc/kubernetes/admin.conf": "x"})
    assert here.looker.cluster(60) == {"reachable": False, "error": "kubectl is not installed on this host"}
