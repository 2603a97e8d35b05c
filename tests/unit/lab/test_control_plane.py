# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's keys, addresses and arguments, and who may end it."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from ansible_collections.rdmaops.gpu_fabric.tests.lab import certificates, config, control_plane, kubeconfig, ports
from ansible_collections.rdmaops.gpu_fabric.tests.lab.cli import main
from ansible_collections.rdmaops.gpu_fabric.tests.lab.control_plane import PROGRAMS, ControlPlane
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Users


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    made = ControlPlane(config.places({"HOME": str(tmp_path)}))
    monkeypatch.setattr(ControlPlane, "tool", lambda _self, name: Path("/tools") / name)
    monkeypatch.setattr(ControlPlane, "etcd_knows_no_fsync", staticmethod(lambda _path: True))
    return made


def user_of(path: Path) -> tuple[str, str, list[str]]:
    """The server, the user and the groups in a kubeconfig."""
    config = yaml.safe_load(path.read_text())
    user = config["users"][0]["user"]
    subject = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"])).subject
    (name,) = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return config["clusters"][0]["cluster"]["server"], str(name.value), groups


def test_what_is_written(plane: ControlPlane) -> None:
    plane.prepare()
    port = plane.ports()["kube-apiserver"]
    assert user_of(plane.kubeconfig) == (f"https://127.0.0.1:{port}", "lab-admin", ["system:masters"])
    assert user_of(plane.kubeconfig_of_nodes) == (f"https://10.0.2.2:{port}", "lab-admin", ["system:masters"])
    assert user_of(plane.place / "kube-scheduler.kubeconfig")[1:] == ("system:kube-scheduler", [])
    assert len(set(plane.ports().values())) == 5
    assert plane.place.stat().st_mode & 0o777 == 0o700
    for path in plane.place.rglob("*"):
        assert path.is_dir() or path.stat().st_mode & 0o777 == 0o600, path


def test_what_stays(plane: ControlPlane) -> None:
    plane.prepare()
    keep = ("ca.key", "ca.crt", "etcd-ca.crt", "service-accounts.key")
    before = [(plane.keys / name).read_bytes() for name in keep], plane.ports(), plane.token()
    plane.prepare()
    assert ([(plane.keys / name).read_bytes() for name in keep], plane.ports(), plane.token()) == before


def test_a_port_that_somebody_took(plane: ControlPlane) -> None:
    plane.prepare()
    before = plane.ports()
    with socket.create_server(("127.0.0.1", before["etcd"])):
        second = ControlPlane(plane.places)
        second.prepare()
        after = second.ports()
    assert [name for name in before if before[name] != after[name]] == ["etcd"]


def test_openssl_takes_the_certificates(plane: ControlPlane) -> None:
    openssl = need_tool("openssl")
    plane.prepare()
    cases = [
        ("ca", "server", ["-purpose", "sslserver", "-verify_ip", "127.0.0.1"], 0),
        ("ca", "server", ["-purpose", "sslserver", "-verify_ip", "10.0.2.2"], 0),
        ("ca", "server", ["-purpose", "sslserver", "-verify_ip", "10.96.0.1"], 0),
        ("ca", "server", ["-purpose", "sslserver", "-verify_hostname", "kubernetes.default.svc"], 0),
        ("ca", "server", ["-purpose", "sslserver", "-verify_ip", "10.0.2.3"], 2),
        ("ca", "server", ["-purpose", "sslclient"], 2),
        ("ca", "admin", ["-purpose", "sslclient"], 0),
        ("etcd-ca", "etcd", ["-purpose", "sslserver", "-verify_ip", "127.0.0.1"], 0),
        ("etcd-ca", "etcd-client", ["-purpose", "sslclient"], 0),
        # Whoever may talk to the API server may not talk to etcd.
        ("etcd-ca", "admin", ["-purpose", "sslclient"], 2),
    ]
    for authority, name, words, status in cases:
        argv = [openssl, "verify", "-x509_strict", "-CAfile", str(plane.keys / f"{authority}.crt"), *words]
        done = subprocess.run([*argv, str(plane.keys / f"{name}.crt")], capture_output=True, text=True, timeout=60)
        assert done.returncode == status, (name, words, done.stdout, done.stderr)


def test_any_user(plane: ControlPlane) -> None:
    with pytest.raises(LabError, match="no control plane yet: 'lab.py cluster up' makes it"):
        plane.kubeconfig_for("someone")
    plane.prepare()
    path = plane.kubeconfig_for("someone", ["a", "b"])
    assert user_of(path)[1:] == ("someone", ["a", "b"])
    assert plane.kubeconfig_for("someone", ["a", "b"]) == path
    assert plane.kubeconfig_for("someone", ["a"]) != path
    node = plane.kubeconfig_for("system:node:gpu-1", ["system:nodes"], for_nodes=True)
    assert user_of(node) == (plane.server_for_nodes, "system:node:gpu-1", ["system:nodes"])
    token = yaml.safe_load(plane.token_kubeconfig().read_text())["users"][0]["user"]
    assert token == {"token": plane.tokens.read_text().split(",")[0]}


def test_a_kubeconfig_with_odd_names() -> None:
    rendered = kubeconfig.render("https://h:1", b"ca", 'x: "y"\n', {"token": "é"})
    read = yaml.safe_load(rendered)
    assert read["current-context"] == 'x: "y"\n@rdmaops-lab'
    assert read["users"][0]["user"]["token"] == "é"


def test_arguments(plane: ControlPlane) -> None:
    plane.prepare()
    ports = plane.ports()
    argv = {program: plane.argv(program) for program in PROGRAMS}
    assert "--unsafe-no-fsync" in argv["etcd"]
    assert f"--data-dir={plane.place}/etcd" in argv["etcd"]
    server = argv["kube-apiserver"]
    assert {"--authorization-mode=Node,RBAC", "--advertise-address=10.0.2.2", "--bind-address=127.0.0.1"} < set(server)
    assert f"--etcd-servers=https://127.0.0.1:{ports['etcd']}" in server
    for program in PROGRAMS[2:]:
        assert {"--leader-elect=false", f"--secure-port={ports[program]}"} < set(argv[program])
    for program, words in argv.items():
        assert words[0] == f"/tools/{program}"
        assert not [word for word in words[1:] if not word.startswith("--")]
        # By this a running program is known as this control plane's.
        assert any(f"={plane.place}/" in word for word in words)


def test_nothing_runs(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    assert [(row.pid, row.healthy, row.port) for row in plane.status()] == [(None, False, None)] * 4
    assert plane.answer("kube-apiserver", "/readyz")[0] == 0
    plane.down()
    plane.wipe()
    with pytest.raises(LabError, match="kube-scheduler is not running"):
        plane.freeze("kube-scheduler")
    assert not plane.place.exists()


def test_a_state_file_that_is_damaged(plane: ControlPlane) -> None:
    plane.prepare()
    (plane.place / "state.json").write_text("{")
    with pytest.raises(LabError, match=r"state\.json is not readable .*: run 'lab\.py cluster down --all', then 'up'"):
        plane.ports()
    plane.wipe()
    assert plane.ports() == {}


def test_a_program_that_does_not_start(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    plane.prepare()
    monkeypatch.setattr(ControlPlane, "argv", lambda *_: ["/bin/sh", "-c", "echo no such flag"])
    with pytest.raises(LabError, match=r"(?s)kube-scheduler did not start: its process ended; .*\nno such flag"):
        plane.start("kube-scheduler")


def test_ports_stay_reserved(plane: ControlPlane) -> None:
    plane.prepare()
    chosen = plane.ports()
    for port in chosen.values():
        assert_reserved(port)
    # A program is stopped and started again.
    plane.prepare()
    assert plane.ports() == chosen


def assert_reserved(port: int) -> None:
    """Fail unless only a server that names the port, and sets SO_REUSEADDR, can have it."""
    with socket.socket() as stranger, pytest.raises(OSError, match="Address already in use"):
        stranger.bind(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_not_reserved() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ports.reserve(ports.number(server)) as other:
        assert ports.number(other) != ports.number(server)
        assert_reserved(ports.number(other))


def test_the_last_user_ends_what_tests_started(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[str] = []
    monkeypatch.setattr(ControlPlane, "running", lambda *_: running or None)
    monkeypatch.setattr(ControlPlane, "up", lambda _: running.append("x"))
    monkeypatch.setattr(ControlPlane, "down", lambda self: (running.clear(), self.for_tests.unlink()))
    first, second = Users(plane), Users(plane)
    first.come()
    second.come()
    first.go()
    assert running
    second.go()
    assert not running
    # One that runs already belongs to another user.
    running.append("x")
    third = Users(plane)
    third.come()
    third.go()
    assert running


def test_a_start_that_fails_leaves_no_claim(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    def up(_plane: ControlPlane) -> None:
        raise LabError("no")

    monkeypatch.setattr(ControlPlane, "up", up)
    users = Users(plane)
    with pytest.raises(LabError):
        users.come()
    assert users.file.closed
    assert not plane.for_tests.exists()


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.delenv("LAB_STATE", raising=False)
    assert main(["cluster", "kubeconfig"]) == 1
    assert capsys.readouterr().err.endswith("the lab has no control plane yet: 'lab.py cluster up' makes it\n")
    assert main(["cluster", "status", "--json"]) == 0
    assert [row["program"] for row in json.loads(capsys.readouterr().out)] == list(PROGRAMS)
    plane = ControlPlane(config.places())
    plane.prepare()
    assert main(["cluster", "kubeconfig", "--nodes"]) == 0
    assert capsys.readouterr().out == f"{plane.kubeconfig_of_nodes}\n"
    assert main(["cluster", "down", "--all"]) == 0
    assert not plane.place.exists()


def test_keys_are_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "key"
    certificates.write(path, b"1")
    path.chmod(0o644)
    certificates.write(path, b"2")
    assert path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o600
    assert control_plane.PORTS[-1] == "etcd-peer"
