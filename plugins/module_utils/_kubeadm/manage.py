# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""kubeadm at work: init, join, tokens, reset, certificates. No secret is in arguments or messages."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
import typing as t

from .. import _files_write
from .._decision import Decision
from .._errors import FabricError
from .etcd_backup import KEPT, BackupError, Etcd
from .node import CONF_DIR, PARKED, STARTED
from .node_look import Looker
from .run import NODE_UNREAD, TOKEN, Run, advice, error_lines
from .standing import BROKEN, begun, leftovers, standing
from .work import Work

Json = t.Dict[str, t.Any]

ADMIN = CONF_DIR + "/admin.conf"
MANIFESTS = CONF_DIR + "/manifests"
# The ports that show whether a static pod runs (cmd/kubeadm/app/constants/constants.go).
PORTS = {"etcd": 2379, "kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259}
_DOWN_S, _UP_S = 120, 300
_JOINS, _BETWEEN_JOINS_S = 6, 20
# Descriptions of the actions that change this host. A token belongs to the cluster.
_DOING = {
    "init": "Making the first control-plane node",
    "join": "Joining the cluster",
    "reset": "Taking this host out of its cluster",
    "renew": "Renewing certificates",
    "unmark": "Removing the mark of a kubeadm that did not come to its end",
}


class KubeadmError(FabricError):
    """kubeadm failed; the text has its output, without secrets."""


class Kubeadm:
    """kubeadm on this host; ``root`` moves the files that we manage."""

    def __init__(
        self,
        run: Run,
        params: t.Mapping[str, t.Any],
        root: str = "/",
        sleep: t.Callable[[float], None] = time.sleep,
        work: Work | None = None,
    ) -> None:
        self.run = run
        self.params = params
        self.root = root
        self.sleep = sleep
        self.work = work or Work(root)
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
            raise KubeadmError("%s: %s is not installed on this host; install it" % (doing, argv[0]))
        rc, out, err = answer
        if rc != 0:
            raise KubeadmError(
                "%s: %s exited with status %d. Output: %s. %s"
                % (doing, " ".join(argv[:2]), rc, error_lines(out, err, self.secrets).rstrip("."), advice(out + err))
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
                sink.write("---\n".join(json.dumps(document, sort_keys=True) + "\n" for document in documents))
            yield path

    def ignore(self) -> list[str]:
        names = self.params["ignore_preflight_errors"]
        return ["--ignore-preflight-errors=" + ",".join(names)] if names else []

    # --- actions ---

    def init(self) -> None:
        self._clean()
        self.decision.add("Make the first control-plane node of a cluster by kubeadm init", self._init)

    def _init(self) -> None:
        with self.config(self.params["documents"]) as path, self.work.begun():
            # Each run creates its own tokens; kubeadm must not print this one.
            self.kubeadm(_DOING["init"], ["init", "--config=" + path, "--skip-token-print", *self.ignore()])

    def join(self) -> None:
        self._clean()
        self.decision.add("Join the cluster by kubeadm join", self._join)

    def _join(self) -> None:
        documents = with_secrets(self.params["documents"], self.params["token"], self.params["certificate_key"])
        # A control-plane node has its certificates and manifests by then.
        joins = 1 if any("controlPlane" in document for document in documents) else _JOINS
        for left in reversed(range(joins)):
            try:
                with self.config(documents) as path, self.work.begun():
                    self.kubeadm(_DOING["join"], ["join", "--config=" + path, *self.ignore()])
                return
            except KubeadmError as exc:
                if not left or not NODE_UNREAD.search(str(exc)):
                    raise
            self._reset()
            self.sleep(_BETWEEN_JOINS_S)

    def _clean(self) -> None:
        if self.params["clean"]:
            self._remove("Remove what an interrupted kubeadm %s has left" % self.params["action"])

    def as_planned(self) -> None:
        """Refuse a host that another run or an administrator has changed since it was examined."""
        doing, member = _DOING[self.params["action"]], Looker(self.run, self.root).membership(alone=True)
        verdict, refused = standing(member)
        if refused:
            raise KubeadmError("%s: nothing was changed, because %s" % (doing, refused))
        wrong = ""
        if self.params["clean"]:
            wrong = self._not_to_clean(member, verdict)
        elif member["kubelet"] or member["manifests"] or member["etcd"]:
            wrong = "it has %s by now" % ", ".join(leftovers(member))
        if wrong:
            raise KubeadmError(
                "%s: nothing was changed, because this host is not what it was when it was looked at: %s. Another run "
                "or an administrator was here. Run again" % (doing, wrong)
            )

    def _not_to_clean(self, member: t.Mapping[str, t.Any], verdict: str) -> str:
        if begun(member) != self.params["action"]:
            return "no kubeadm %s is broken off here" % self.params["action"]
        if verdict != BROKEN:
            return "it has a control plane, although kubeadm %s did not come to its end" % begun(member)
        if member["etcd"] and not self.params["discard_etcd"]:
            return "etcd has data, and discard_etcd is false"
        return ""

    def token(self) -> None:
        self.decision.add("Make a bootstrap token that ends in %d s" % self.params["token_ttl"], self._token)

    def _token(self) -> None:
        token = self.kubeadm(
            "Making a bootstrap token",
            [
                "token",
                "create",
                "--kubeconfig=" + self.path(ADMIN),
                "--ttl=%ds" % self.params["token_ttl"],
                "--description=rdmaops.gpu_fabric: nodes that join in this run",
            ],
        ).strip()
        if not TOKEN.fullmatch(token):
            raise KubeadmError("Making a bootstrap token: kubeadm has printed something else than a token")
        self.result.update(token=token, token_id=token.partition(".")[0])
        if self.params["upload_certificates"]:
            try:
                self._upload()
            except (FabricError, OSError) as exc:
                raise KubeadmError(str(exc) + self._unused(self.result["token_id"])) from exc

    def _upload(self) -> None:
        key = os.urandom(32).hex()
        self.secrets.append(key)
        documents = with_certificate_key(self.params["documents"], key)
        with self.config(documents) as path:
            self.kubeadm(
                "Leaving the control plane's certificates in the cluster for nodes that join",
                ["init", "phase", "upload-certs", "--upload-certs", "--config=" + path],
            )
        self.result.update(certificate_key=key)

    def _unused(self, token_id: str) -> str:
        """Delete a token that no host will use, and return a sentence with the result."""
        try:
            self._delete("bootstrap-token-" + token_id)
        except FabricError as exc:
            return (
                ". The bootstrap token that was made for it could not be deleted: %s. Delete it by kubectl "
                "--kubeconfig=%s -n kube-system delete secret bootstrap-token-%s; it ends by itself after %d s"
                % (str(exc).rstrip("."), ADMIN, token_id, self.params["token_ttl"])
            )
        return ". The bootstrap token that was made for it has been deleted"

    def token_absent(self) -> None:
        self.decision.add("Delete the bootstrap token of this run", self._forget)

    def _forget(self) -> None:
        # KubeadmCertsSecret in kubeadm's constants.go
        certificates = ["kubeadm-certs"] if self.params["upload_certificates"] else []
        self._delete("bootstrap-token-" + self.params["token_id"], *certificates)

    def _delete(self, *secrets: str) -> None:
        admin = "--kubeconfig=" + self.path(ADMIN)
        self._program(
            "Deleting the bootstrap token",
            ["kubectl", admin, "-n", "kube-system", "delete", "secret", "--ignore-not-found", *secrets],
        )

    def reset(self) -> None:
        self._remove("Take this host out of its cluster by kubeadm reset")

    def _remove(self, action: str) -> None:
        if Looker(self.run, self.root).etcd():
            action += ", after the data of etcd was copied to a directory below %s" % KEPT
        self.decision.add(action, self._reset)

    def _reset(self) -> None:
        looker = Looker(self.run, self.root)
        if looker.etcd():
            self._backup(looker.etcd_dir())
        self.kubeadm(_DOING["reset"], ["reset", "--force", *self.ignore()])
        _files_write.remove(self.path(STARTED))
        shutil.rmtree(self.path(PARKED), ignore_errors=True)

    def _backup(self, directory: str) -> None:
        try:
            self.result["etcd_backup"] = Etcd(self.run, directory, self.root, self.sleep).keep()
        except BackupError as exc:
            if not self.params["without_backup_ok"]:
                raise
            self.result["warnings"] = ["%s. It went on without, as without_backup_ok allows" % exc]

    def unmark(self) -> None:
        if os.path.exists(self.path(STARTED)):
            self.decision.add(
                "Remove the mark of a kubeadm that did not come to its end",
                lambda: _files_write.remove(self.path(STARTED)),
            )

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
                # The kubelet stops a static pod whose manifest is gone, and starts it when it is back.
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
    """Return whether a port of this host accepts connections: etcd and the API server listen on the loopback too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _of_kind(documents: t.Sequence[Json], kind: str) -> tuple[list[Json], Json]:
    copies = t.cast("list[Json]", json.loads(json.dumps(list(documents))))
    for document in copies:
        if document.get("kind") == kind:
            return copies, document
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


def manage(kubeadm: Kubeadm, action: str, check_mode: bool) -> Json:
    """Return what the module kubeadm returns."""
    {
        "init": kubeadm.init,
        "join": kubeadm.join,
        "token": kubeadm.token,
        "token_absent": kubeadm.token_absent,
        "reset": kubeadm.reset,
        "renew": kubeadm.renew,
        "unmark": kubeadm.unmark,
    }[action]()
    if not check_mode:
        with kubeadm.work.alone(_DOING[action], action) if action in _DOING else contextlib.nullcontext():
            _carry_out(kubeadm, action)
    return {**kubeadm.decision.result(), **kubeadm.result}


def _carry_out(kubeadm: Kubeadm, action: str) -> None:
    try:
        if action in ("init", "join"):
            kubeadm.as_planned()
        kubeadm.decision.carry_out()
    except FabricError as exc:
        if "etcd_backup" in kubeadm.result:
            raise KubeadmError("%s. The data of etcd is kept in %s" % (exc, kubeadm.result["etcd_backup"])) from exc
        raise


__all__ = (
    "ADMIN",
    "PORTS",
    "Kubeadm",
    "KubeadmError",
    "listens",
    "manage",
    "with_certificate_key",
    "with_secrets",
)
