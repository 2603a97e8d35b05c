# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Kubernetes control plane, for tests: a real API server, without nodes unless the lab's have joined.

    plane = cluster()
    with plane.namespace() as namespace:
        plane.apply(manifest("v1", "ConfigMap", "settings", namespace, data={"a": "b"}))

With LAB_CLUSTER=kubeadm it is the one that kubeadm created for a scenario, on a node of the lab.

Tests that stop or freeze the API server start their own, by `private(tmp_path)`: other tests use the common one.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import subprocess
import typing as t
import uuid
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, operator_definitions, tools
from ansible_collections.rdmaops.gpu_fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdmaops.gpu_fabric.tests.support import skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

API_SERVER = "kube-apiserver"


class Cluster:
    """A running control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.plane.kubeconfig

    def tool(self, name: str) -> Path:
        """Return the path of one of the lab's programs (helm3, helm4, ...); skip if it cannot be had."""
        try:
            return self.plane.tool(name)
        except tools.Unavailable as exc:
            skip_or_fail(str(exc))

    def kubectl(
        self, *argv: str, stdin: str = "", check: bool = True, limit: float = 60, kubeconfig: Path | None = None
    ) -> str:
        """Run kubectl, as the administrator unless another kubeconfig is given, and return what it printed."""
        command = [str(self.tool("kubectl")), f"--kubeconfig={kubeconfig or self.kubeconfig}", *argv]
        # Discovery is cached per server address in the home directory: not in the developer's.
        environment = {**os.environ, "KUBECACHEDIR": str(self.plane.place / "kubectl-cache")}
        known: t.Any = {"timeout": limit, "env": environment, "check": False}
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, **known)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(argv)}: rc {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def bind(self, binding: str, user: str, verb: str, resource: str, *argv: str) -> None:
        """Create a rolebinding or clusterrolebinding, named as its user, and wait until it is in force.

        The API server answers by objects that it watches (its authorizer's informers), a moment later.
        """
        self.kubectl("create", binding, user, f"--user={user}", *argv)
        where = [word for word in argv if not word.startswith(("--role=", "--clusterrole="))]
        ask = ("auth", "can-i", verb, resource, f"--as={user}", *where)
        wait_for(lambda: self.kubectl(*ask, check=False).strip() == "yes", 30, pause=0.1)

    def apply(self, *objects: t.Any, options: t.Sequence[str] = ()) -> None:
        """Apply objects, in their order and on the server's side."""
        stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", *options, "-f", "-", stdin=stdin)

    def json(self, *argv: str, **keywords: t.Any) -> t.Any:
        """Run kubectl with `-o json` and return the value."""
        return json.loads(self.kubectl(*argv, "-o", "json", **keywords))

    def established(self, *names: str) -> None:
        """Wait until the API server serves what resource definitions define; without names, all of them.

        For a moment after a definition has the condition, the answer for its objects may still be 404.
        """
        wait = ("wait", "--for=condition=Established", "--timeout=30s", *(names or ("crd", "--all")))
        operator_definitions.until_established(lambda: self.kubectl(*wait), 60)
        definitions = names or self.kubectl("get", "crd", "-o", "name").split()
        wait_for(lambda: self._lists(name.partition("/")[2] for name in definitions))

    def _lists(self, kinds: t.Iterable[str]) -> bool:
        try:
            self.kubectl("get", ",".join(kinds), "-A", "-o", "name")
        except AssertionError:
            return False
        return True

    @contextlib.contextmanager
    def namespace(self) -> t.Iterator[str]:
        """A namespace with a unique name, in which pods can be created; deleted without waiting for its end."""
        name = f"test-{uuid.uuid4().hex[:10]}"
        self.kubectl("create", "namespace", name)
        try:
            self.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", check=False)

    def user(self, name: str, groups: t.Sequence[str] = ()) -> Path:
        """Return a kubeconfig of a user who may do what RBAC says, at first nothing."""
        return self.plane.kubeconfig_for(name, groups)

    def token_kubeconfig(self) -> Path:
        """Return a kubeconfig of the administrator with a bearer token."""
        return self.plane.token_kubeconfig()

    def with_token(self, token: str) -> t.Any:
        """Return the content of a kubeconfig with that token."""
        config = json.loads(self.kubeconfig.read_text())
        return {**config, "users": [{"name": user["name"], "user": {"token": token}} for user in config["users"]]}

    def token_of(self, namespace: str, account: str) -> str:
        """Return a token of a service account."""
        return self.kubectl("-n", namespace, "create", "token", account, "--duration", "1h").strip()

    def stop(self) -> None:
        """End the API server: connections are refused."""
        self.plane.stop(API_SERVER)

    def start(self) -> None:
        """Start the API server again, and wait until it is ready."""
        self.plane.start(API_SERVER)

    def freeze(self) -> None:
        """Let the API server take connections and not answer."""
        self.plane.freeze(API_SERVER)

    def thaw(self) -> None:
        self.plane.thaw(API_SERVER)


class Foreign(Cluster):
    """A control plane on a node: its kubeconfig is where the scenario has fetched it to."""

    @property
    def kubeconfig(self) -> Path:
        return Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "kubeconfig"


class Users:
    """Who uses a control plane: every process of tests holds a shared lock, so that the last one can end it.

    A control plane that was not started by tests is left running.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        plane.places.state.mkdir(parents=True, exist_ok=True)
        self.file = (plane.places.state / "cluster.users").open("a")

    def come(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_SH)
        if not self.plane.running(API_SERVER):
            self.plane.for_tests.touch()
        try:
            self.plane.up()
        except BaseException:
            self.go()
            raise

    def go(self) -> None:
        """End the control plane if tests started it and no other process uses it."""
        with self.file, contextlib.suppress(BlockingIOError):
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.plane.for_tests.exists():
                self.plane.down()


_known: dict[Path, Cluster] = {}


def cluster() -> Cluster:
    """Return the lab's control plane; start it if it does not run, skip if its programs cannot be had."""
    plane = ControlPlane()
    if os.environ.get("LAB_CLUSTER") == "kubeadm":
        return Foreign(plane)
    if plane.place not in _known:
        users = Users(plane)
        try:
            users.come()
        except tools.Unavailable as exc:
            skip_or_fail(str(exc))
        atexit.register(users.go)
        _known[plane.place] = Cluster(plane)
    return _known[plane.place]


@contextlib.contextmanager
def private(directory: Path) -> t.Iterator[Cluster]:
    """A control plane of the test's own, which is removed afterwards."""
    plane = ControlPlane(config.places({**os.environ, "LAB_STATE": str(directory)}))
    try:
        plane.up()
    except tools.Unavailable as exc:
        skip_or_fail(str(exc))
    except BaseException:
        plane.wipe()
        raise
    try:
        yield Cluster(plane)
    finally:
        plane.wipe()


__all__ = ["Cluster", "cluster", "private"]
