# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""kubeadm at work: init, join, tokens, reset, certificates. No secret is among arguments or in what is told."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _files_write
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import Decision
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes_node import CONF_DIR, PARKED, STARTED

Json = t.Dict[str, t.Any]
Run = t.Callable[[t.Sequence[str]], t.Optional[t.Tuple[int, str, str]]]

ADMIN = CONF_DIR + "/admin.conf"
MANIFESTS = CONF_DIR + "/manifests"
# The ports by which it is seen that a static pod has ended and is back (cmd/kubeadm/app/constants/constants.go).
PORTS = {"etcd": 2379, "kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259}
# A bootstrap token, wherever it is printed (BootstrapTokenPattern in k8s.io/cluster-bootstrap).
_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
_LINES = 12
_NOISE = re.compile(r"^\s*$|^\[[a-z-]+\] |^To see the stack trace|^\t?\[WARNING|^W\d{4} |^I\d{4} ")
# After SIGTERM kubeadm has this long to end.
_PATIENCE_S = 10
_DOWN_S, _UP_S = 120, 300


class KubeadmError(FabricError):
    """kubeadm did not do what it was asked; the text has what it said, without secrets."""


def runner(directories: t.Sequence[str], limit: int) -> Run:
    """Return what runs a program, looked for in the system's directories and in these; with a time limit."""
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    path = os.pathsep.join([*directories, system])

    def run(argv: t.Sequence[str]) -> tuple[int, str, str] | None:
        program = shutil.which(argv[0], path=path)
        if program is None:
            return None
        environment = {"PATH": path, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/root")}
        # A proxy is the site's matter, for pulling images.
        environment.update({name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")})
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            out, err = _end(process)
            err += b"\nnot done after %d s, and ended" % limit
            return 124, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    return run


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            return process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            continue
    return b"", b""


def told(out: str, err: str, secrets: t.Iterable[str] = ()) -> str:
    """Return the lines that say what went wrong, without tokens."""
    text = err if err.strip() else out
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line) or "[ERROR" in line]
    shown = " / ".join(lines[-_LINES:]) or " / ".join(text.split("\n")[-3:]).strip()
    for secret in secrets:
        if secret:
            shown = shown.replace(secret, "(hidden)")
    return _TOKEN.sub("(hidden)", shown)


def advice(text: str) -> str:
    """Return what unblocks kubeadm, where it is known."""
    known = [
        ("could not find a JWS signature", "The token has expired or was deleted: run again, which makes a new one"),
        (
            "cluster CA found in cluster-info ConfigMap is invalid",
            "The API server at the endpoint belongs to another cluster: look at kubernetes_control_plane_endpoint",
        ),
        (
            "a Node with name",
            "A node of that name is in the cluster: give this one another kubernetes_node_name, or delete the Node",
        ),
        ("ImagePull", "Load the images, or set kubernetes_image_repository to a registry that the host reaches"),
        ("connection refused", "Look at the API server of the control-plane endpoint, and at the way to it"),
        (
            "i/o timeout",
            "The control-plane endpoint does not answer this host: look at addresses, routes and firewalls",
        ),
        ("context deadline exceeded", "Look at the kubelet of this host: journalctl -u kubelet"),
        ("not done after", "Raise kubernetes_timeout, or look at the kubelet of this host: journalctl -u kubelet"),
    ]
    return next((one for sign, one in known if sign in text), "Look at the kubelet of this host: journalctl -u kubelet")


class Kubeadm:
    """kubeadm on this host; ``root`` moves the files that are ours to look after."""

    def __init__(
        self, run: Run, params: t.Mapping[str, t.Any], root: str = "/", sleep: t.Callable[[float], None] = time.sleep
    ) -> None:
        self.run = run
        self.params = params
        self.root = root
        self.sleep = sleep
        self.decision = Decision()
        self.result: Json = {}
        self.secrets = [params.get("token") or "", params.get("certificate_key") or ""]

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def kubeadm(self, doing: str, argv: t.Sequence[str]) -> str:
        return self._program(doing, ["kubeadm", *argv])

    def _program(self, doing: str, argv: t.Sequence[str]) -> str:
        answer = self.run(argv)
        if answer is None:
            raise KubeadmError("%s: there is no %s on this host; install it" % (doing, argv[0]))
        rc, out, err = answer
        if rc != 0:
            raise KubeadmError(
                "%s: %s ended with %d and said: %s. %s"
                % (doing, " ".join(argv[:2]), rc, told(out, err, self.secrets).rstrip("."), advice(out + err))
            )
        return out

    @contextlib.contextmanager
    def config(self, documents: t.Sequence[Json]) -> t.Iterator[str]:
        """A file that only root can read, as long as it is needed."""
        # The memory of /run rather than a disk; JSON is YAML.
        place = self.path("/run")
        os.makedirs(place, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="kubeadm-", dir=place) as directory:
            path = os.path.join(directory, "config.yaml")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as sink:
                sink.write("---\n".join(json.dumps(one, sort_keys=True) + "\n" for one in documents))
            yield path

    @contextlib.contextmanager
    def begun(self, action: str) -> t.Iterator[None]:
        """Leave a mark on the host as long as something is half done."""
        path = self.path(STARTED)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _files_write.atomic_write(path, json.dumps({"action": action}) + "\n", 0o644)
        yield
        # Not in a `finally`: what has failed is half done.
        _files_write.remove(path)

    def ignore(self) -> list[str]:
        names = self.params["ignore_preflight_errors"]
        return ["--ignore-preflight-errors=" + ",".join(names)] if names else []

    # --- actions ---

    def init(self) -> None:
        if self.params["clean"]:
            self.decision.add("Remove what an interrupted kubeadm init has left", self._reset)
        self.decision.add("Make the first control-plane node of a cluster by kubeadm init", self._init)

    def _init(self) -> None:
        with self.begun("init"), self.config(self.params["documents"]) as path:
            self.kubeadm(
                "Making the first control-plane node",
                # Tokens are made for each run, and are nothing to print.
                ["init", "--config=" + path, "--skip-token-print", *self.ignore()],
            )

    def join(self) -> None:
        if self.params["clean"]:
            self.decision.add("Remove what an interrupted kubeadm join has left", self._reset)
        self.decision.add("Join the cluster by kubeadm join", self._join)

    def _join(self) -> None:
        documents = with_secrets(self.params["documents"], self.params["token"], self.params["certificate_key"])
        with self.begun("join"), self.config(documents) as path:
            self.kubeadm("Joining the cluster", ["join", "--config=" + path, *self.ignore()])

    def token(self) -> None:
        self.decision.add("Make a bootstrap token that ends in %d s" % self.params["token_ttl"], self._token)

    def _token(self) -> None:
        made = self.kubeadm(
            "Making a bootstrap token",
            [
                "token",
                "create",
                "--kubeconfig=" + self.path(ADMIN),
                "--ttl=%ds" % self.params["token_ttl"],
                "--description=rdmaops.gpu_fabric: nodes that join in this run",
            ],
        ).strip()
        if not _TOKEN.fullmatch(made):
            raise KubeadmError("Making a bootstrap token: kubeadm has printed something else than a token")
        self.result.update(token=made, token_id=made.partition(".")[0])
        if self.params["upload_certificates"]:
            key = os.urandom(32).hex()
            self.secrets.append(key)
            documents = with_certificate_key(self.params["documents"], key)
            with self.config(documents) as path:
                self.kubeadm(
                    "Leaving the control plane's certificates in the cluster for nodes that join",
                    ["init", "phase", "upload-certs", "--upload-certs", "--config=" + path],
                )
            self.result.update(certificate_key=key)

    def token_absent(self) -> None:
        self.decision.add("Delete the bootstrap token of this run", self._forget)

    def _forget(self) -> None:
        admin = "--kubeconfig=" + self.path(ADMIN)
        secrets = ["bootstrap-token-" + self.params["token_id"]]
        if self.params["upload_certificates"]:
            # KubeadmCertsSecret in kubeadm's constants.go
            secrets.append("kubeadm-certs")
        self._program(
            "Deleting the bootstrap token",
            ["kubectl", admin, "-n", "kube-system", "delete", "secret", "--ignore-not-found", *secrets],
        )

    def reset(self) -> None:
        self.decision.add("Take this host out of its cluster by kubeadm reset", self._reset)

    def _reset(self) -> None:
        self.kubeadm("Taking this host out of its cluster", ["reset", "--force", *self.ignore()])
        _files_write.remove(self.path(STARTED))
        shutil.rmtree(self.path(PARKED), ignore_errors=True)

    def renew(self) -> None:
        if self.params["renew"]:
            self.decision.add("Renew the certificates that kubeadm looks after", self._renew)
        self.decision.add("Restart the static pods, so that they read them", self._restart)

    def _renew(self) -> None:
        self.kubeadm("Renewing certificates", ["certs", "renew", "all"])

    def _restart(self) -> None:
        parked, manifests = self.path(PARKED), self.path(MANIFESTS)
        os.makedirs(parked, mode=0o700, exist_ok=True)
        for name in PORTS:
            there, aside = os.path.join(manifests, name + ".yaml"), os.path.join(parked, name + ".yaml")
            if os.path.exists(there):
                # The kubelet ends a static pod whose manifest is gone, and starts it when it is back.
                os.rename(there, aside)
                self._wait(name, up=False, limit=_DOWN_S)
            if os.path.exists(aside):
                os.rename(aside, there)
                self._wait(name, up=True, limit=_UP_S)
        os.rmdir(parked)

    def _wait(self, name: str, up: bool, limit: int) -> None:
        port = self.params["bind_port"] if name == "kube-apiserver" else PORTS[name]
        end = time.monotonic() + limit
        while listens(port) != up:
            if time.monotonic() > end:
                raise KubeadmError(
                    "Restarting %s: its port %d is still %s after %d s. Its manifest is in %s or %s. "
                    "Look at journalctl -u kubelet, and run again"
                    % (name, port, "closed" if up else "open", limit, MANIFESTS, PARKED)
                )
            self.sleep(1)


def listens(port: int) -> bool:
    """Whether somebody takes connections on a port of this host: etcd and the API server listen on the loopback too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _of_kind(documents: t.Sequence[Json], kind: str) -> tuple[list[Json], Json]:
    copies = t.cast("list[Json]", json.loads(json.dumps(list(documents))))
    for one in copies:
        if one.get("kind") == kind:
            return copies, one
    raise KubeadmError("Writing a configuration for kubeadm: there is no %s among the documents" % kind)


def with_secrets(documents: t.Sequence[Json], token: str | None, certificate_key: str | None) -> list[Json]:
    """Return a JoinConfiguration with a token and, for a control-plane node, the key to its certificates."""
    copies, join = _of_kind(documents, "JoinConfiguration")
    if not token:
        raise KubeadmError(
            "Joining the cluster: no token was given. The action token makes one on a control-plane node"
        )
    join.setdefault("discovery", {}).setdefault("bootstrapToken", {})["token"] = token
    if certificate_key and "controlPlane" in join:
        join["controlPlane"]["certificateKey"] = certificate_key
    return copies


def with_certificate_key(documents: t.Sequence[Json], key: str) -> list[Json]:
    """Return an InitConfiguration with the key under which certificates are left in the cluster."""
    copies, init = _of_kind(documents, "InitConfiguration")
    init["certificateKey"] = key
    return copies


def manage(one: Kubeadm, action: str, check_mode: bool) -> Json:
    """Return what the module kubeadm returns."""
    {
        "init": one.init,
        "join": one.join,
        "token": one.token,
        "token_absent": one.token_absent,
        "reset": one.reset,
        "renew": one.renew,
    }[action]()
    if not check_mode:
        one.decision.carry_out()
    return {**one.decision.result(), **one.result}


__all__ = (
    "ADMIN",
    "PORTS",
    "Kubeadm",
    "KubeadmError",
    "advice",
    "listens",
    "manage",
    "runner",
    "told",
    "with_certificate_key",
    "with_secrets",
)
