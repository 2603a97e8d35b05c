# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeadm's actions: what is run, what is left behind when it is broken off, and that no secret is told."""

from __future__ import annotations

import json
import os
import socket
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import etcd_backup
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import manage as kubeadm
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.manage import Kubeadm, KubeadmError, manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

Json = t.Dict[str, t.Any]
TOKEN = "abcdef.0123456789abcdef"
KEY = "0f" * 32
JOIN = [{"kind": "JoinConfiguration", "discovery": {"bootstrapToken": {"caCertHashes": ["x"]}}}]
INIT = [{"kind": "InitConfiguration"}, {"kind": "ClusterConfiguration"}]
MARK = "var/lib/rdmaops/kubeadm-started.json"
START = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
# As the process that an action of this test's own is; its root has no /proc, so that the process is one that has ended.
ENDED = {"action": "init", "since": "2026-04-01T12:00:00Z", "pid": 4711, "start": "300", "boot": BOOT}


class Host:
    """A root directory and a kubeadm that answers as it is told; it notes what it was given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.calls: list[list[str]] = []
        self.configs: list[list[Json]] = []
        self.modes: list[int] = []
        self.begun: list[str | None] = []
        # What a program does to the host.
        self.change: t.Callable[[t.Sequence[str]], object] = lambda _argv: None

    def write(self, files: t.Mapping[str, str]) -> None:
        write_tree(self.root, files)

    @property
    def mark(self) -> Path:
        return self.root / "var/lib/rdmaops/kubeadm-started.json"

    def run(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(list(argv))
        self.begun.append(json.loads(self.mark.read_text())["action"] if self.mark.exists() else None)
        self.change(argv)
        for word in argv:
            if word.startswith("--config="):
                path = Path(word.partition("=")[2])
                self.modes.append(path.stat().st_mode & 0o777)
                self.configs.append([json.loads(text) for text in path.read_text().split("---\n")])
        return next((self.answers[word] for word in argv[1:3] if word in self.answers), (0, "", ""))

    def do(self, action: str, check: bool = False, **params: t.Any) -> Json:
        options = options_of("kubeadm", action=action, token_ttl=900, **params)
        return manage(Kubeadm(self.run, options, str(self.root), lambda _: None), action, check)

    def words(self) -> list[str]:
        """What was run, without configurations' paths."""
        return [
            " ".join(word for word in call if not word.startswith(("--config=", "--kubeconfig=")))
            for call in self.calls
        ]


@pytest.fixture
def here(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_init(here: Host) -> None:
    result = here.do("init", documents=INIT, ignore_preflight_errors=["NumCPU", "Mem"])
    assert result["changed"] is True
    assert here.words() == ["kubeadm init --skip-token-print --ignore-preflight-errors=NumCPU,Mem"]
    assert (here.configs, here.modes) == ([INIT], [0o600])
    # It was known to be at work, and is known to be done; the configuration is gone.
    assert here.begun == ["init"]
    assert not here.mark.exists()
    assert [path.name for path in (here.root / "run").iterdir()] == ["rdmaops"]


@pytest.mark.parametrize("action", ["init", "join", "token", "reset", "renew"])
def test_check_mode_runs_nothing(here: Host, action: str) -> None:
    result = here.do(action, check=True, documents=JOIN)
    assert result["changed"] is True
    assert result["actions"]
    assert here.calls == []
    assert list(here.root.iterdir()) == []


def test_join(here: Host) -> None:
    here.do("join", documents=JOIN, token=TOKEN, certificate_key=KEY)
    assert here.words() == ["kubeadm join"]
    assert here.configs[0][0]["discovery"]["bootstrapToken"] == {"caCertHashes": ["x"], "token": TOKEN}
    # A worker has no use for the key, and what was given is as it was.
    assert "controlPlane" not in here.configs[0][0]
    assert "token" not in JOIN[0]["discovery"]["bootstrapToken"]  # type: ignore[index]
    assert TOKEN not in " ".join(here.words())


def test_join_of_a_control_plane_node(here: Host) -> None:
    here.do("join", documents=[{**JOIN[0], "controlPlane": {}}], token=TOKEN, certificate_key=KEY)
    assert here.configs[0][0]["controlPlane"] == {"certificateKey": KEY}


def test_a_join_that_was_broken_off_is_cleaned_up_first(here: Host) -> None:
    here.answers["join"] = (1, "", "error execution phase kubelet-wait-bootstrap: context deadline exceeded")
    with pytest.raises(KubeadmError, match="Look at the kubelet of this host"):
        here.do("join", documents=JOIN, token=TOKEN)
    mark = json.loads(here.mark.read_text())
    assert (mark["action"], mark["pid"]) == ("join", os.getpid())
    assert (mark["start"], mark["boot"]) == (START, BOOT)

    here.answers.clear()
    here.write({"proc/sys/kernel/random/boot_id": BOOT})
    result = here.do("join", documents=JOIN, token=TOKEN, clean=True)
    assert result["actions"] == ["Remove what an interrupted kubeadm join has left", "Join the cluster by kubeadm join"]
    assert here.words()[-2:] == ["kubeadm reset --force", "kubeadm join"]
    assert not here.mark.exists()


# kubeadm 1.37.1, with an API server that was busy for longer than its client waits.
BUSY = (
    1,
    "",
    'error: error execution phase kubelet-start: cannot get Node "gpu-1": Get "https://10.90.1.3:6443/api/v1/nodes/gpu-1?timeout=10s": '
    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)\n",
)


def test_a_join_that_could_not_read_its_node_is_tried_again(here: Host) -> None:
    def answer(argv: t.Sequence[str]) -> None:
        here.answers["join"] = BUSY if here.words().count("kubeadm join") < 3 else (0, "", "")

    here.change = answer
    result = here.do("join", documents=JOIN, token=TOKEN)
    assert result["actions"] == ["Join the cluster by kubeadm join"]
    assert here.words() == [*["kubeadm join", "kubeadm reset --force"] * 2, "kubeadm join"]
    assert not here.mark.exists()


@pytest.mark.parametrize(("document", "joins"), [(JOIN[0], 6), ({**JOIN[0], "controlPlane": {}}, 1)])
def test_a_join_that_cannot_read_its_node_ends(here: Host, document: Json, joins: int) -> None:
    here.answers["join"] = BUSY
    with pytest.raises(KubeadmError, match=r"did not answer within the 10 s .* look at its load, and run again$"):
        here.do("join", documents=[document], token=TOKEN, certificate_key=KEY)
    assert here.words() == ["kubeadm join", *["kubeadm reset --force", "kubeadm join"] * (joins - 1)]
    assert json.loads(here.mark.read_text())["action"] == "join"


def test_a_join_that_may_not_read_its_node_is_not_tried_again(here: Host) -> None:
    here.answers["join"] = (1, "", 'cannot get Node "gpu-1": nodes "gpu-1" is forbidden')
    with pytest.raises(KubeadmError, match="is forbidden"):
        here.do("join", documents=JOIN, token=TOKEN)
    assert here.words() == ["kubeadm join"]


def test_join_without_a_token(here: Host) -> None:
    with pytest.raises(KubeadmError, match="no token was given"):
        here.do("join", documents=JOIN)
    with pytest.raises(KubeadmError, match="there is no JoinConfiguration among the documents"):
        here.do("join", documents=INIT, token=TOKEN)
    assert here.calls == []


def test_a_token(here: Host) -> None:
    here.answers["token"] = (0, TOKEN + "\n", "W1122 a warning\n")
    result = here.do("token")
    assert (result["token"], result["token_id"]) == (TOKEN, "abcdef")
    assert here.calls[0][:3] == ["kubeadm", "token", "create"]
    assert "--ttl=900s" in here.calls[0]

    here.do("token_absent", token_id="abcdef")
    assert here.words()[-1] == "kubectl -n kube-system delete secret --ignore-not-found bootstrap-token-abcdef"


def test_a_token_for_control_plane_nodes(here: Host) -> None:
    here.answers["token"] = (0, TOKEN + "\n", "")
    result = here.do("token", documents=INIT, upload_certificates=True)
    assert len(result["certificate_key"]) == 64
    assert here.words()[-1] == "kubeadm init phase upload-certs --upload-certs"
    assert here.configs[0][0]["certificateKey"] == result["certificate_key"]
    assert result["certificate_key"] not in json.dumps(here.calls)
    assert here.do("token", documents=INIT, upload_certificates=True)["certificate_key"] != result["certificate_key"]

    here.do("token_absent", token_id="abcdef", upload_certificates=True)
    assert here.words()[-1].endswith("bootstrap-token-abcdef kubeadm-certs")


def test_something_else_than_a_token(here: Host) -> None:
    here.answers["token"] = (0, "Usage: kubeadm\n", "")
    with pytest.raises(KubeadmError, match="something else than a token"):
        here.do("token")


def test_reset(here: Host) -> None:
    here.write({MARK: '{"action": "join"}'})
    assert here.do("reset")["changed"] is True
    assert here.words() == ["kubeadm reset --force"]
    assert not here.mark.exists()


def broken_off(here: Host, action: str = "init", **more: str) -> None:
    here.write({MARK: json.dumps({**ENDED, "action": action}), "proc/sys/kernel/random/boot_id": BOOT, **more})


# What has become of a host since it was planned to be cleaned: files on it, and what is said.
SINCE: list[tuple[dict[str, str], str]] = [
    ({MARK: "{}"}, "no kubeadm init is broken off here"),
    ({MARK: json.dumps({**ENDED, "action": "join"})}, "no kubeadm init is broken off here"),
    ({"var/lib/etcd/member/wal/0.wal": ""}, "etcd has data, and discard_etcd is false"),
    (
        {
            "var/lib/etcd/member/wal/0.wal": "",
            **{f"etc/kubernetes/manifests/{name}.yaml": "" for name in kubeadm.PORTS if name != "kube-apiserver"},
            "etc/kubernetes/manifests/kube-apiserver.yaml": "--advertise-address=192.0.2.10 --secure-port=6443",
        },
        "it has a control plane, although kubeadm init did not come to its end",
    ),
    ({"etc/kubernetes/manifests/kube-apiserver.yaml": "x"}, "whether the API server of this host is ready cannot be"),
    ({"proc/4711/stat": f"4711 (kubeadm) S {'0 ' * 18}300 0"}, "kubeadm init is still at work since 2026-04-01T12"),
]


@pytest.mark.parametrize(("files", "text"), SINCE, ids=[row[1] for row in SINCE])
def test_what_has_changed_since_the_plan_is_not_cleaned(here: Host, files: dict[str, str], text: str) -> None:
    broken_off(here, **files)
    with pytest.raises(FabricError, match="Making the first control-plane node: nothing was changed") as caught:
        here.do("init", documents=INIT, clean=True)
    assert text in str(caught.value)
    assert [call for call in here.calls if call[0] == "kubeadm"] == []


def test_a_control_plane_that_answers_is_not_cleaned(here: Host) -> None:
    """Its etcd is elsewhere, and an administrator has finished what timed out."""
    manifest = "--advertise-address=192.0.2.10 --secure-port=6443"
    broken_off(here, **{"etc/kubernetes/manifests/kube-apiserver.yaml": manifest})
    with pytest.raises(KubeadmError, match="Another run or an administrator was here. Run again"):
        here.do("init", documents=INIT, clean=True, discard_etcd=True)
    assert [call[0] for call in here.calls] == ["kubectl"]


@pytest.mark.parametrize("action", ["init", "join"])
def test_a_host_that_has_become_a_node_since_the_plan(here: Host, action: str) -> None:
    """kubeadm would refuse it, and the mark would stay."""
    here.write({"etc/kubernetes/kubelet.conf": "x"})
    with pytest.raises(KubeadmError, match="it has kubelet.conf by now"):
        here.do(action, documents=INIT + JOIN, token=TOKEN)
    assert here.calls == []
    assert not here.mark.exists()


def test_a_mark_that_is_out_of_date(here: Host) -> None:
    assert here.do("unmark")["changed"] is False
    broken_off(here)
    assert here.do("unmark", check=True)["changed"] is True
    assert here.mark.exists()
    assert here.do("unmark")["actions"] == ["Remove the mark of a kubeadm that did not come to its end"]
    assert not here.mark.exists()
    assert here.calls == []


# --- data of etcd ---

DATA = {"var/lib/etcd/member/snap/db": "pages", "var/lib/etcd/member/wal/0.wal": "log"}


def backups(here: Host) -> list[Path]:
    return sorted((here.root / "var/lib/rdmaops").glob("etcd-*"))


@pytest.mark.parametrize("action", ["reset", "init"])
def test_data_of_etcd_are_kept(here: Host, action: str) -> None:
    """By a copy of the member's files, before kubeadm removes them."""
    broken_off(here, **DATA)
    at_reset: list[list[Path]] = []
    here.change = lambda argv: at_reset.append(backups(here)) if argv[:2] == ["kubeadm", "reset"] else None
    result = here.do(action, documents=INIT, clean=True, discard_etcd=True)
    assert "after the data of etcd was copied to a directory below /var/lib/rdmaops" in result["actions"][0]
    (place,) = at_reset[0]
    assert result["etcd_backup"] == "/" + str(place.relative_to(here.root))
    assert place.stat().st_mode & 0o777 == 0o700
    assert ((place / "member/snap/db").read_text(), (place / "member/wal/0.wal").read_text()) == ("pages", "log")


def test_a_snapshot_where_there_is_etcdctl(here: Host) -> None:
    here.write(DATA)

    def change(argv: t.Sequence[str]) -> None:
        if argv[0] == "etcdctl":
            Path(argv[-1]).write_text("snapshot")

    here.change = change
    place = here.root / here.do("reset")["etcd_backup"][1:]
    assert [path.name for path in place.iterdir()] == ["snapshot.db"]
    (call,) = [call for call in here.calls if call[0] == "etcdctl"]
    assert f"--cacert={here.root}/etc/kubernetes/pki/etcd/ca.crt" in call


def test_without_room_for_a_copy_nothing_is_removed(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write(DATA)
    monkeypatch.setattr(etcd_backup, "free_bytes", lambda _path: 3)
    message = message_of(FabricError, here.do, "reset")
    assert message.startswith("Copying the data of etcd from /var/lib/etcd to /var/lib/rdmaops: 0 MiB are needed")
    assert "Nothing was removed. Set kubernetes_reset_without_backup_ok" in message
    assert here.words() == ["etcdctl --endpoints=https://127.0.0.1:2379 " + here.words()[0].split(" ", 2)[2]]
    assert list((here.root / "var/lib/rdmaops").iterdir()) == []

    result = here.do("reset", without_backup_ok=True)
    assert here.words()[-1] == "kubeadm reset --force"
    assert "etcd_backup" not in result
    assert result["warnings"][0].endswith("It went on without, as without_backup_ok allows")


def test_a_reset_that_fails_names_the_copy(here: Host) -> None:
    here.write(DATA)
    here.answers["reset"] = (1, "", "error: no\n")
    message = message_of(KubeadmError, here.do, "reset")
    assert f"The data of etcd is kept in /var/lib/rdmaops/{backups(here)[0].name}" in message


# --- tokens ---


def test_a_token_whose_certificates_are_not_left_is_deleted(here: Host) -> None:
    here.answers.update(token=(0, TOKEN + "\n", ""), init=(1, "", "error: no such Secret\n"))
    message = message_of(KubeadmError, here.do, "token", documents=INIT, upload_certificates=True)
    assert here.words()[-1] == "kubectl -n kube-system delete secret --ignore-not-found bootstrap-token-abcdef"
    assert "kubeadm init exited with status 1. Output: error: no such Secret" in message
    assert message.endswith("The bootstrap token that was made for it has been deleted")

    here.answers[f"--kubeconfig={here.root}/etc/kubernetes/admin.conf"] = (1, "", "Unauthorized\n")
    message = message_of(KubeadmError, here.do, "token", documents=INIT, upload_certificates=True)
    assert (
        "The bootstrap token that was made for it could not be deleted: Deleting the bootstrap token: kubectl "
        f"--kubeconfig={here.root}/etc/kubernetes/admin.conf exited with status 1. Output: Unauthorized"
    ) in message
    assert (
        "Delete it by kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system delete secret "
        "bootstrap-token-abcdef; it ends by itself after 900 s"
    ) in message
    assert TOKEN not in message


def manifests(here: Host, place: str = "manifests") -> list[str]:
    directory = here.root / "etc/kubernetes" / place
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_renew(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write({f"etc/kubernetes/manifests/{name}.yaml": name for name in kubeadm.PORTS})
    # The kubelet: a pod runs as long as its manifest is there.
    ports = {**kubeadm.PORTS, "kube-apiserver": 7443}
    names = {port: name for name, port in ports.items()}
    seen: list[int] = []

    def listens(port: int) -> bool:
        seen.append(port)
        return (here.root / f"etc/kubernetes/manifests/{names[port]}.yaml").exists()

    monkeypatch.setattr(kubeadm, "listens", listens)
    result = here.do("renew", bind_port=7443)
    assert here.words() == ["kubeadm certs renew all"]
    assert len(result["actions"]) == 2
    assert manifests(here) == sorted(f"{name}.yaml" for name in kubeadm.PORTS)
    assert set(seen) == set(ports.values())
    assert manifests(here, "rdmaops-parked") == []


def test_a_renewal_that_was_broken_off(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write({"etc/kubernetes/rdmaops-parked/kube-scheduler.yaml": "x"})
    (here.root / "etc/kubernetes/manifests").mkdir()
    monkeypatch.setattr(kubeadm, "listens", lambda _port: True)
    result = here.do("renew", renew=False)
    assert result["actions"] == ["Restart the static pods, so that they read them"]
    assert here.calls == []
    assert manifests(here) == ["kube-scheduler.yaml"]
    assert not (here.root / "etc/kubernetes/rdmaops-parked").exists()


def test_a_pod_that_does_not_end(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write({"etc/kubernetes/manifests/etcd.yaml": "x"})
    monkeypatch.setattr(kubeadm, "listens", lambda _port: True)
    monkeypatch.setattr(kubeadm, "_DOWN_S", 0)
    with pytest.raises(KubeadmError, match="Restarting etcd: its port 2379 is still open after 0 s"):
        here.do("renew", renew=False)
    # Neither place has lost it.
    assert (manifests(here), manifests(here, "rdmaops-parked")) == ([], ["etcd.yaml"])


# What kubeadm says, and what is made of it
SAID = [
    (
        'couldn\'t validate: could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"',
        "makes a new one",
    ),
    (
        "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys",
        "kubernetes_control_plane_endpoint",
    ),
    ('a Node with name "gpu-1" and status "Ready" already exists', "kubernetes_node_name"),
    ("[ERROR ImagePull]: failed to pull image", "kubernetes_image_repository"),
    ("dial tcp 192.0.2.10:6443: connect: connection refused", "Look at the API server"),
    ("dial tcp 192.0.2.10:6443: i/o timeout", "firewalls"),
    ("something new", "journalctl -u kubelet"),
]


@pytest.mark.parametrize(("text", "advice"), SAID)
def test_advice(here: Host, text: str, advice: str) -> None:
    errors = f"W1122 noise\nerror: {text}\nTo see the stack trace\n"
    here.answers["join"] = (1, "[preflight] Running pre-flight checks\n", errors)
    message = message_of(KubeadmError, here.do, "join", documents=JOIN, token=TOKEN)
    assert message.startswith("Joining the cluster: kubeadm join exited with status 1. Output: error: ")
    assert advice in message
    assert "noise" not in message


def test_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert kubeadm.listens(port) is False
        server.listen()
        assert kubeadm.listens(port) is True
