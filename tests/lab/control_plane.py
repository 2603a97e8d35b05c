# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Kubernetes control plane: etcd, API server, controller manager and scheduler on this machine.

All of it listens on the loopback only. A guest with QEMU's user network reaches the API server there too, under
another address, which is also the one that the cluster's own `kubernetes` service names.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
import typing as t

from . import certificates, config, dns, kubeconfig, operators, ports, processes, tools
from .progress import LabError, say, step, tail

LOOPBACK = "127.0.0.1"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PORTS = (*PROGRAMS, "etcd-peer")
HEALTH = {
    "etcd": "/health",
    "kube-apiserver": "/readyz",
    "kube-controller-manager": "/healthz",
    "kube-scheduler": "/healthz",
}
# Made by the controller manager in every namespace; pods are refused before it is there.
FIRST_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
FRONT_PROXY = "front-proxy-client"
ADMIN, ADMIN_GROUP = "lab-admin", "system:masters"
# Users of the control plane itself, known to the cluster's own RBAC rules by these names.
INSIDERS = ("kube-controller-manager", "kube-scheduler")


class Status(t.NamedTuple):
    program: str
    pid: int | None
    port: int | None
    healthy: bool
    memory_mib: int
    log: str


class ControlPlane:
    """A control plane whose data, keys and logs are in one directory."""

    def __init__(self, places: config.Places | None = None, settings: dict[str, t.Any] | None = None) -> None:
        self.places = places or config.places()
        self.settings = settings or config.versions()
        self.place = self.places.state / "cluster"
        self.keys = self.place / "keys"
        self.kubeconfig = self.place / "kubeconfig"
        self.kubeconfig_of_nodes = self.place / "kubeconfig-nodes"
        self.tokens = self.place / "tokens.csv"
        # Where this file is, tests have started the control plane, and the last of them ends it.
        self.for_tests = self.places.state / "cluster.started-by-tests"
        # Kept for programs that are stopped and started again.
        self._reserved: dict[str, socket.socket] = {}

    # What is remembered

    def lock(self) -> contextlib.AbstractContextManager[None]:
        return config.lock(self.places.state / "cluster.lock", "another command works on this control plane", wait=True)

    def ports(self) -> dict[str, int]:
        """The ports of the last start; empty before the first."""
        path = self.place / "state.json"
        try:
            return t.cast("dict[str, int]", json.loads(path.read_text())["ports"])
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError) as error:
            raise LabError(f"{path} is not readable ({error}): run 'lab.py cluster down --all', then 'up'") from error

    def choose_ports(self) -> dict[str, int]:
        """Reserve ports, those of the last start if they are still free."""
        chosen = self.ports()
        for name in PORTS:
            mine = processes.find(name.removesuffix("-peer"), self.place)
            if name in chosen and (mine or name in self._reserved):
                continue
            self._reserved[name] = ports.reserve(chosen.get(name, 0))
            chosen[name] = ports.number(self._reserved[name])
        certificates.write(self.place / "state.json", json.dumps({"ports": chosen}, indent=2).encode() + b"\n")
        return chosen

    def log(self, program: str) -> pathlib.Path:
        return self.place / "logs" / f"{program}.log"

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports()['kube-apiserver']}"

    @property
    def server_for_nodes(self) -> str:
        return f"https://{self.settings['cluster']['seen_from_guest']}:{self.ports()['kube-apiserver']}"

    # Keys and configuration

    def hosts(self) -> list[str]:
        """Every name and address under which a client may find the API server."""
        first = self.settings["cluster"]["service_range"].rpartition(".")[0] + ".1"
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        return [LOOPBACK, "localhost", self.settings["cluster"]["seen_from_guest"], first, *names]

    @property
    def authority(self) -> certificates.Authority:
        return certificates.Authority(self.keys, "ca")

    def prepare(self) -> None:
        """Write what the programs read. Authorities, tokens and the service accounts' key stay what they are."""
        self.place.mkdir(parents=True, exist_ok=True)
        self.place.chmod(0o700)
        self.choose_ports()
        authority = self.authority
        etcd = certificates.Authority(self.keys, "etcd-ca")
        certificates.key_pair(self.keys, "service-accounts")
        front = certificates.Authority(self.keys, "front-proxy-ca")
        front.keep("front-proxy-client", front.client(FRONT_PROXY))
        # Its gateway from HTTP is a client of its own server, and shows the server's certificate.
        etcd.keep("etcd", etcd.server("etcd", [LOOPBACK, "localhost"], client_too=True))
        etcd.keep("etcd-client", etcd.client("kube-apiserver"))
        authority.keep("server", authority.server("kube-apiserver", self.hosts()))
        authority.keep("admin", authority.client(ADMIN, [ADMIN_GROUP]))
        authority.keep("kubelet-client", authority.client("kube-apiserver-kubelet-client", [ADMIN_GROUP]))
        if not self.tokens.exists():
            line = f'{secrets.token_hex(16)},{ADMIN},{ADMIN},"{ADMIN_GROUP}"\n'
            certificates.write(self.tokens, line.encode())
        for program in INSIDERS:
            self.write_kubeconfig(self.place / f"{program}.kubeconfig", f"system:{program}")
        self.write_kubeconfig(self.kubeconfig, ADMIN, [ADMIN_GROUP])
        self.write_kubeconfig(self.kubeconfig_of_nodes, ADMIN, [ADMIN_GROUP], for_nodes=True)

    def write_kubeconfig(
        self, path: pathlib.Path, user: str, groups: t.Sequence[str] = (), for_nodes: bool = False
    ) -> None:
        authority = self.authority
        server = self.server_for_nodes if for_nodes else self.server
        credentials = kubeconfig.certificate_user(*authority.client(user, groups))
        certificates.write(path, kubeconfig.render(server, authority.file.read_bytes(), user, credentials))

    def kubeconfig_for(self, user: str, groups: t.Sequence[str] = (), for_nodes: bool = False) -> pathlib.Path:
        """A kubeconfig of any user: what that user may do is for RBAC to say."""
        self.need_ports()
        name = hashlib.sha256(json.dumps([user, *groups, for_nodes, self.server]).encode()).hexdigest()[:16]
        path = self.place / "users" / f"{name}.kubeconfig"
        if not path.exists():
            self.write_kubeconfig(path, user, groups, for_nodes)
        return path

    def token(self) -> str:
        """The administrator's bearer token."""
        self.need_ports()
        return self.tokens.read_text().partition(",")[0]

    def token_kubeconfig(self) -> pathlib.Path:
        """A kubeconfig of the administrator by a bearer token instead of a certificate."""
        path = self.place / "users" / "token.kubeconfig"
        user = kubeconfig.token_user(self.token())
        certificates.write(path, kubeconfig.render(self.server, self.authority.file.read_bytes(), ADMIN, user))
        return path

    def need_ports(self) -> None:
        if not self.ports():
            raise LabError("the lab has no control plane yet: 'lab.py cluster up' makes it")

    # The programs

    def tool(self, name: str) -> pathlib.Path:
        return tools.get(name, self.places, self.settings)

    def argv(self, program: str) -> list[str]:
        """The command of a program."""
        ports, keys, cluster = self.ports(), self.keys, self.settings["cluster"]
        here, port = self.place, ports[program]
        path = str(self.tool(program))
        etcd_address = f"https://{LOOPBACK}:{ports['etcd']}"
        if program == "etcd":
            peer = f"http://{LOOPBACK}:{ports['etcd-peer']}"
            return [
                *(path, "--name=lab", f"--data-dir={here}/etcd", "--logger=zap", "--log-level=warn"),
                *(f"--listen-client-urls={etcd_address}", f"--advertise-client-urls={etcd_address}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                *(f"--initial-cluster=lab={peer}", "--client-cert-auth", f"--trusted-ca-file={keys}/etcd-ca.crt"),
                *(f"--cert-file={keys}/etcd.crt", f"--key-file={keys}/etcd.key"),
                *(["--unsafe-no-fsync"] if self.etcd_knows_no_fsync(path) else []),
            ]
        serving = [
            *(f"--secure-port={port}", f"--bind-address={LOOPBACK}", "--profiling=false"),
            *(f"--tls-cert-file={keys}/server.crt", f"--tls-private-key-file={keys}/server.key"),
        ]
        if program == "kube-apiserver":
            return [
                *(path, *serving, f"--client-ca-file={keys}/ca.crt", f"--token-auth-file={self.tokens}"),
                *(f"--etcd-servers={etcd_address}", f"--etcd-cafile={keys}/etcd-ca.crt"),
                *(f"--etcd-certfile={keys}/etcd-client.crt", f"--etcd-keyfile={keys}/etcd-client.key"),
                *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
                *("--enable-bootstrap-token-auth", "--allow-privileged"),
                # An endpoint may not be a loopback address, and pods would not reach one.
                f"--advertise-address={cluster['seen_from_guest']}",
                f"--service-cluster-ip-range={cluster['service_range']}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={keys}/service-accounts.pub",
                f"--service-account-signing-key-file={keys}/service-accounts.key",
                f"--kubelet-client-certificate={keys}/kubelet-client.crt",
                f"--kubelet-client-key={keys}/kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP",
                # How it introduces users to API servers behind it; controller manager and scheduler read this too.
                f"--requestheader-client-ca-file={keys}/front-proxy-ca.crt",
                *(f"--requestheader-allowed-names={FRONT_PROXY}", "--requestheader-group-headers=X-Remote-Group"),
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                f"--proxy-client-cert-file={keys}/front-proxy-client.crt",
                f"--proxy-client-key-file={keys}/front-proxy-client.key",
            ]
        own = here / f"{program}.kubeconfig"
        client = [
            *(path, *serving, "--leader-elect=false", f"--kubeconfig={own}"),
            *(f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}"),
        ]
        if program == "kube-scheduler":
            return client
        return [
            *(*client, "--controllers=*,bootstrapsigner,tokencleaner", "--use-service-account-credentials"),
            *(f"--root-ca-file={keys}/ca.crt", f"--service-account-private-key-file={keys}/service-accounts.key"),
            *(f"--cluster-signing-cert-file={keys}/ca.crt", f"--cluster-signing-key-file={keys}/ca.key"),
            *("--allocate-node-cidrs", f"--cluster-cidr={cluster['pod_range']}"),
            f"--service-cluster-ip-range={cluster['service_range']}",
        ]

    @staticmethod
    def etcd_knows_no_fsync(path: str) -> bool:
        """Since 3.5. What a crash of this machine loses, the lab can do without; a killed etcd loses nothing."""
        done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=False)
        return "--unsafe-no-fsync" in done.stdout + done.stderr

    def answer(self, program: str, path: str, limit: float = 5) -> tuple[int, str]:
        """Return the status and the body of a program's answer; 0 if it does not answer."""
        directory = self.keys
        authority = "etcd-ca.crt" if program == "etcd" else "ca.crt"
        client = "etcd-client" if program == "etcd" else "admin"
        try:
            context = ssl.create_default_context(cafile=str(directory / authority))
            context.load_cert_chain(directory / f"{client}.crt", directory / f"{client}.key")
            connection = http.client.HTTPSConnection(LOOPBACK, self.ports()[program], timeout=limit, context=context)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException, KeyError) as error:
            return 0, str(error)

    def healthy(self, program: str, limit: float = 5) -> bool:
        return self.answer(program, HEALTH[program], limit)[0] == 200

    def running(self, program: str) -> processes.Process | None:
        matches = processes.find(program, self.place)
        return matches[0] if matches else None

    def start(self, program: str) -> None:
        """Start one program and wait until it is healthy."""
        self.launch(program)
        self.wait(program)

    def launch(self, program: str) -> None:
        log = self.log(program)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        processes.start(self.argv(program), log)

    def wait(self, program: str) -> None:
        limit = self.settings["cluster"]["limits"]["health"]
        begun = time.monotonic()
        shown = begun
        while not self.healthy(program):
            passed = time.monotonic() - begun
            # The shell that starts it needs a moment to become the program.
            gone = passed > 1 and self.running(program) is None
            if gone or passed > limit:
                text = self.answer(program, HEALTH[program])[1]
                reason = "its process ended" if gone else f"not healthy after {limit} s ({text.strip()[-300:]})"
                raise LabError(
                    f"{program} did not start: {reason}; the end of {self.log(program)}:\n{tail(self.log(program), 20)}"
                )
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                say(f"waiting for {program} ({passed:.0f} s): {tail(self.log(program), 1)[:110]}")
            time.sleep(0.1)

    def stop(self, program: str) -> bool:
        """End one program; whether it ran."""
        limits = self.settings["cluster"]["limits"]
        # An API server that is to exit waits for its watches, up to --request-timeout (one minute). It
        # holds no data; etcd does.
        patience = limits["stop_api_server" if program == "kube-apiserver" else "stop"]
        return processes.stop(program, self.place, patience)

    def freeze(self, program: str) -> None:
        """Leave a program's connections open and unanswered, as a machine that hangs does."""
        if not processes.signal_all(program, self.place, signal.SIGSTOP):
            raise LabError(f"{program} is not running")

    def thaw(self, program: str) -> None:
        if not processes.signal_all(program, self.place, signal.SIGCONT):
            raise LabError(f"{program} is not running")

    # Commands

    def up(self) -> None:
        """Run all of it: what is healthy is left alone, the rest is restarted, data stays."""
        for program in PROGRAMS:
            self.tool(program)
        with self.lock():
            if self.ports() and all(self.as_wanted(program) for program in PROGRAMS):
                return
            with step("starting the control plane"):
                self.start_all()

    def as_wanted(self, program: str) -> bool:
        """Whether a program runs with today's arguments, and is healthy."""
        process = self.running(program)
        if process is None or list(process.argv) != self.argv(program):
            return False
        if processes.state(process.pid) == "T":
            self.thaw(program)
        # A server of a busy machine is slow, not dead, and others may be using it.
        return self.healthy(program, self.settings["cluster"]["limits"]["answer"])

    def start_all(self) -> None:
        kept = [program for program in PROGRAMS if self.ports() and self.as_wanted(program)]
        for program in reversed(PROGRAMS):
            if program not in kept:
                self.stop(program)
        # What runs has read its certificates: new ones of the same authority change nothing for it.
        self.prepare()
        for program in ("etcd", "kube-apiserver"):
            if program not in kept:
                self.start(program)
        for program in INSIDERS:
            if program not in kept:
                self.launch(program)
        for program in INSIDERS:
            self.wait(program)
        self.wait_for_first_account()

    def wait_for_first_account(self) -> None:
        limit = self.settings["cluster"]["limits"]["health"]
        end = time.monotonic() + limit
        while self.answer("kube-apiserver", FIRST_ACCOUNT)[0] != 200:
            if time.monotonic() > end:
                log = self.log("kube-controller-manager")
                raise LabError(
                    f"the controller manager made no service account in {limit} s; the end of {log}:\n{tail(log, 20)}"
                )
            time.sleep(0.1)

    def down(self, wipe: bool = False) -> None:
        """End all of it; data, keys and addresses stay unless they are to be wiped."""
        self.for_tests.unlink(missing_ok=True)
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        if not self.place.exists() and not any(self.running(program) for program in PROGRAMS):
            return
        with self.lock():
            others = (*operators.OPERATORS, dns.PROGRAM)
            stopped = [program for program in (*others, *reversed(PROGRAMS)) if self.stop(program)]
            if stopped:
                say(f"the control plane is off ({', '.join(stopped)})")
            if wipe:
                shutil.rmtree(self.place, ignore_errors=True)

    def wipe(self) -> None:
        self.down(wipe=True)

    def status(self) -> list[Status]:
        ports = self.ports()
        rows = []
        for program in PROGRAMS:
            process = self.running(program)
            pid = process.pid if process else None
            rows.append(
                Status(
                    program,
                    pid,
                    ports.get(program),
                    pid is not None and self.healthy(program),
                    processes.memory_kib(pid) // 1024 if pid else 0,
                    os.fspath(self.log(program)),
                )
            )
        return rows


__all__ = ["ControlPlane", "PROGRAMS", "Status"]
