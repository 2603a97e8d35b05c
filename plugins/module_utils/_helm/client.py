# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""helm 3 and helm 4 as a command: each call with a time limit, and without a secret among its arguments."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import typing as t

from .. import _command
from . import hooks
from .kubeconfig import kubeconfig
from .output import (
    METHOD_TEMPLATE,
    RELEASE_TEMPLATE,
    HelmError,
    Listed,
    Release,
    Revision,
    last_lines,
    parse_history,
    parse_list,
    parse_release,
    parse_version,
)

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client

# Where administrators and snap install helm.
_DIRECTORIES = (*_command.DIRECTORIES, "/opt/bin", "/snap/bin")
# They would override the kubeconfig (HELM_KUBE*), the namespace, or print values and manifests (HELM_DEBUG).
_FOREIGN = re.compile(r"^(HELM_(KUBE.*|NAMESPACE|DEBUG|BURST_LIMIT|QPS)|KUBECONFIG)$")
# https://helm.sh/docs/helm/helm_uninstall/ has the aliases.
_CHANGING = frozenset(("install", "upgrade", "rollback", "uninstall", "del", "delete", "un"))
# How long helm may take to record a cancelled release as failed, once it was signalled to end.
_GRACE = 10


def find(binary: str | None) -> str:
    """Return the path of helm."""
    try:
        return _command.find("helm", binary, "helm_binary", _DIRECTORIES)
    except _command.NotFound as exc:
        raise HelmError(
            "Looking for helm: %s. Install helm 3.8 or newer on the host that runs this task, or set helm_binary" % exc
        ) from None


class Helm:
    """The edge: runs helm with a kubeconfig and values in files that only this user may read."""

    def __init__(
        self, binary: str | None, client: Client, directory: str, say: t.Callable[[str], None] = lambda _text: None
    ) -> None:
        """``say`` gets what helm waits for, while it waits."""
        self.binary = find(binary)
        self.client = client
        self.say = say
        self.timeout = client.timeout
        self.directory = directory
        self._version: tuple[int, int, int] | None = None

    @property
    def version(self) -> tuple[int, int, int]:
        if self._version is None:
            doing = "Getting the version of %s" % self.binary
            text = self.run(["version", "--template", "{{.Version}}"], doing, cluster=False)
            self._version = parse_version(text, self.binary)
        return self._version

    def _write(self, name: str, value: t.Any) -> str:
        path = os.path.join(self.directory, name)
        # JSON is YAML: what helm and client-go read.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as sink:
            json.dump(value, sink)
        return path

    def run(
        self,
        arguments: t.Sequence[str],
        doing: str,
        *,
        limit: int = 0,
        cluster: bool = True,
        hint: str = "",
        meanwhile: t.Callable[[], None] | None = None,
    ) -> str:
        """Run helm and return its standard output."""
        environment = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
        environment["NO_COLOR"] = "1"
        secrets: set[str] = set()
        if cluster:
            config, secrets = kubeconfig(self.client)
            environment["KUBECONFIG"] = self._write("kubeconfig", config)
        limit = limit or self.timeout
        try:
            result = _command.run(
                [self.binary, *arguments],
                limit,
                env=environment,
                cwd=self.directory,
                grace=_GRACE,
                meanwhile=meanwhile,
            )
        except OSError as exc:
            raise HelmError("%s: %s cannot be run: %s" % (doing, self.binary, exc)) from exc
        except _command.TimedOut as exc:
            raise HelmError(
                "%s: helm timed out after %d s and was killed. Output: %s. %s"
                % (doing, limit, last_lines(exc.err, secrets), hint or "Raise timeout")
            ) from None
        if result.status != 0:
            text = result.err or result.out
            raise HelmError(
                "%s: helm exited with status %d. Output: %s. %s"
                % (
                    doing,
                    result.status,
                    last_lines(text, secrets).rstrip("."),
                    (_advice(text) if cluster else "") or hint,
                )
            )
        return result.out

    def releases(self) -> list[Listed]:
        """Return every release of the cluster, in whatever state."""
        # Helm 4 has no --all; all states together mean the same to both.
        states = ["--deployed", "--failed", "--pending", "--uninstalled", "--uninstalling"]
        arguments = ["list", "--all-namespaces", *states, "--max", "100000", "--output", "json"]
        hint = (
            "Releases are kept in Secrets: the user needs to list Secrets in all namespaces, so that a release under "
            "another name is not overlooked"
        )
        return parse_list(self.run(arguments, "Listing the helm releases of the cluster", hint=hint))

    def release(self, name: str, namespace: str, revision: int = 0) -> Release:
        doing = "Reading the helm release %s/%s" % (namespace, name)
        which = [name, "--namespace", namespace] + (["--revision", str(revision)] if revision else [])
        template = RELEASE_TEMPLATE + (METHOD_TEMPLATE if self.version[0] >= 4 else "")
        text = self.run(["get", "all", *which, "--template", template], doing)
        return parse_release(text, self.run(["get", "values", *which, "--output", "json"], doing))

    def history(self, name: str, namespace: str) -> list[Revision]:
        doing = "Reading the history of the helm release %s/%s" % (namespace, name)
        return parse_history(self.run(["history", name, "--namespace", namespace, "--output", "json"], doing))

    def pull(self, chart: str, repo_url: str | None, version: str | None) -> str:
        """Fetch a chart and return the path of its archive."""
        target = os.path.join(self.directory, "chart")
        os.makedirs(target, mode=0o700, exist_ok=True)
        arguments = ["pull", chart, "--destination", target]
        if repo_url:
            arguments += ["--repo", repo_url]
        if version:
            arguments += ["--version", version]
        doing = "Fetching the chart %s%s%s" % (
            chart,
            " " + version if version else "",
            " from " + repo_url if repo_url else "",
        )
        hint = (
            "Check chart, chart_repo_url and chart_version. A repository's index is cached: helm repo update renews "
            "it; helm repo add and helm registry login log in. A chart can also be a file"
        )
        self.run(arguments, doing, cluster=False, hint=hint)
        archives = sorted(name for name in os.listdir(target) if name.endswith(".tgz"))
        if not archives:
            raise HelmError("%s: helm reported success, but there is no archive. %s" % (doing, hint))
        return os.path.join(target, archives[0])

    def template(
        self,
        name: str,
        namespace: str,
        chart: str,
        values: t.Mapping[str, t.Any],
        *,
        upgrade: bool,
        kubernetes: str,
        api_versions: t.Iterable[str],
    ) -> str:
        """Render a chart as an install or upgrade on this cluster would, hooks included."""
        arguments = ["template", name, chart, "--namespace", namespace, "--values", self._write("values", values)]
        # Not --dry-run=server, which answers a chart's look-ups: helm 4 then needs the CRDs to be there already.
        arguments += ["--kube-version", kubernetes, "--skip-tests"]
        for version in api_versions:
            arguments += ["--api-versions", version]
        if upgrade:
            arguments.append("--is-upgrade")
        hint = "Correct values, or chart_version"
        return self.run(arguments, "Rendering the chart %s" % os.path.basename(chart), hint=hint)

    def install(
        self,
        name: str,
        namespace: str,
        chart: str,
        values: t.Mapping[str, t.Any],
        *,
        create_namespace: bool,
        replace: bool,
        validate: bool,
        wait: int,
    ) -> None:
        arguments = ["install", name, chart, "--namespace", namespace, "--values", self._write("values", values)]
        arguments += ["--timeout", "%ds" % wait]
        arguments += ["--create-namespace"] if create_namespace else []
        arguments += ["--replace"] if replace else []
        arguments += [] if validate else ["--disable-openapi-validation", *self._client_side()]
        self._change(arguments, namespace, "Installing the helm release %s/%s" % (namespace, name), wait)

    def upgrade(
        self,
        release: Release,
        chart: str,
        values: t.Mapping[str, t.Any],
        *,
        validate: bool,
        pruned: bool,
        wait: int,
    ) -> None:
        name, namespace = release.name, release.namespace
        arguments = ["upgrade", name, chart, "--namespace", namespace, "--values", self._write("values", values)]
        # Without --reset-values and with no values of its own, helm reuses those of the last revision.
        arguments += ["--reset-values", "--timeout", "%ds" % wait]
        arguments += [] if validate else ["--disable-openapi-validation"]
        arguments += self._client_side() if pruned else self._force(release)
        self._change(arguments, namespace, "Upgrading the helm release %s/%s" % (namespace, name), wait)

    def _client_side(self) -> list[str]:
        """Fields that a CRD does not have are dropped when a client applies, and an error when the server does."""
        return ["--server-side=false"] if self.version[0] >= 4 else []

    def _force(self, release: Release) -> list[str]:
        """Applied on the server, a field that another tool has edited is a conflict; on the client it is replaced."""
        return ["--force-conflicts"] if self.version[0] >= 4 and release.server_side else []

    def rollback(self, release: Release, revision: int, *, wait: int) -> None:
        arguments = ["rollback", release.name, str(revision), "--namespace", release.namespace]
        arguments += ["--timeout", "%ds" % wait, *self._force(release)]
        doing = "Rolling the helm release %s/%s back to revision %d" % (release.namespace, release.name, revision)
        self._change(arguments, release.namespace, doing, wait)

    def uninstall(self, name: str, namespace: str, *, wait: int) -> None:
        arguments = ["uninstall", name, "--namespace", namespace, "--timeout", "%ds" % wait]
        self._change(arguments, namespace, "Uninstalling the helm release %s/%s" % (namespace, name), wait)

    def _change(self, arguments: t.Sequence[str], namespace: str, doing: str, wait: int) -> None:
        hint = (
            "Run again once the cause is fixed: a failed release is resumed from there. A hook's Job that never "
            "finishes (its image cannot be pulled, no node accepts it) also causes this; wait_timeout limits it"
        )
        # helm's own limit comes first, so that it can record the release as failed.
        watch = hooks.Watch(self.client, namespace, lambda text: self.say("%s: %s" % (doing, text)))
        try:
            self.run(arguments, doing, limit=wait + self.timeout + _GRACE, hint=hint, meanwhile=watch.look)
        except HelmError as exc:
            watch.look()  # helm leaves the Job of a hook that failed
            raise HelmError("%s. %s" % (exc, watch.text)) if watch.text else exc from None


def _advice(text: str) -> str:
    """Return what unblocks some of helm's errors."""
    if "another operation" in text and "in progress" in text:
        return "Another helm is working on this release: wait for it, or see on_pending if it was killed"
    if "connection refused" in text or "Kubernetes cluster unreachable" in text or "EOF" in text:
        return "Check that the API server is running. Changes made so far remain; run again when it answers"
    if "is forbidden" in text:
        return "Grant the user that right by a Role or a ClusterRole"
    return ""


@contextlib.contextmanager
def workplace(parent: str) -> t.Iterator[str]:
    """A directory for kubeconfig, values and chart, which no other user may enter and which is gone afterwards."""
    directory = tempfile.mkdtemp(prefix="helm-", dir=parent)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _changes(words: t.Sequence[str], name: str, namespace: str) -> bool:
    """Whether a helm with these arguments may be changing that release.

    Without the option, its namespace is in its environment or kubeconfig.
    """
    others: list[str] = []
    option = ""
    rest = iter(words)
    for word in rest:
        match = re.match(r"(?:--namespace=|-n=?)(.+)", word)
        if match:
            option = match.group(1)
        elif word in ("-n", "--namespace"):
            option = next(rest, "")
        else:
            others.append(word)
    return name in others and not _CHANGING.isdisjoint(others) and option in ("", namespace)


def running(name: str, namespace: str, root: str = "/proc") -> list[int]:
    """Return the processes on this host that look like a helm which changes a release of this name and namespace.

    Those of another cluster are among them: an API server may be known under several addresses.
    """
    pids = []
    for entry in os.listdir(root):
        if not entry.isdigit():
            continue
        try:
            with open(os.path.join(root, entry, "cmdline"), "rb") as source:
                words = source.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if os.path.basename(words[0]).startswith("helm") and _changes(words[1:], name, namespace):
            pids.append(int(entry))
    return sorted(pids)


__all__ = (
    "Helm",
    "find",
    "running",
    "workplace",
)
