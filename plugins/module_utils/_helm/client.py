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
from urllib.parse import unquote_plus, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed lacks it

from .. import _command
from .._errors import FabricError
from .._formats import from_json

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client

# Charts from registries (oci://) came with 3.8.
OLDEST = (3, 8, 0)
# What a service's PATH leaves out and administrators install to.
_DIRECTORIES = ("/usr/local/bin", "/usr/local/sbin", "/opt/bin", "/snap/bin")
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})\S*")
# What `helm list` calls a chart: its name and its version, joined by a hyphen that names may contain too.
_CHART = re.compile(r"^(?P<name>.+?)-(?P<version>v?\d+\.\d+\.\d+(?:[-+].*)?)$")
# They would override the kubeconfig (HELM_KUBE*), the namespace, or print values and manifests (HELM_DEBUG).
_FOREIGN = re.compile(r"^(HELM_(KUBE.*|NAMESPACE|DEBUG|BURST_LIMIT|QPS)|KUBECONFIG)$")
_NOISE = re.compile(r"Kubernetes configuration file is (group|world)-readable|^level=(DEBUG|INFO|WARN)|level=DEBUG|^$")
_LINES = 8
# https://helm.sh/docs/helm/helm_uninstall/ has the aliases.
_CHANGING = frozenset(("install", "upgrade", "rollback", "uninstall", "del", "delete", "un"))
# How long helm may take to note a cancelled release as failed, once it was asked to end.
_GRACE = 10

# `helm get all --template`: text/template has no JSON, and urlquery takes any text through on one line.
_RELEASE = "\n".join(
    (
        "{{urlquery .Release.Name}}",
        "{{urlquery .Release.Namespace}}",
        "{{.Release.Version}}",
        "{{urlquery .Release.Info.Status}}",
        "{{.Release.Info.LastDeployed.Unix}}",
        "{{urlquery .Release.Chart.Metadata.Name}}",
        "{{urlquery .Release.Chart.Metadata.Version}}",
        "{{urlquery .Release.Chart.Metadata.AppVersion}}",
        "{{urlquery .Release.Manifest}}",
    )
)
# Helm 4 remembers whether it applied on the server ("ssa") or, as helm 3 does, on the client.
_METHOD = "\n{{urlquery .Release.ApplyMethod}}"


class HelmError(FabricError):
    """helm did not do what it was asked; the text has its own last lines."""


class Listed(t.NamedTuple):
    """One line of `helm list`."""

    name: str
    namespace: str
    status: str
    chart: str
    version: str


class Release(t.NamedTuple):
    """The newest revision of a release."""

    name: str
    namespace: str
    revision: int
    status: str
    deployed: int
    chart: str
    version: str
    app_version: str
    manifest: str
    server_side: bool
    values: dict[str, t.Any]

    @property
    def pending(self) -> bool:
        return self.status.startswith("pending-") or self.status == "uninstalling"


class Revision(t.NamedTuple):
    number: int
    status: str


def find(binary: str | None) -> str:
    """Return the path of helm."""
    if binary and os.sep in binary:
        if os.path.isfile(binary) and os.access(binary, os.X_OK):
            return binary
        raise HelmError(
            "Looking for helm: %s (helm_binary) is not an executable file. Set it to the path of helm 3.8 or newer"
            % binary
        )
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_DIRECTORIES])
    found = shutil.which(binary or "helm", path=path)
    if found is None:
        raise HelmError(
            "Looking for helm: %s was not found in %s. Install helm 3.8 or newer on the host that runs this task, or "
            "set helm_binary" % (binary or "helm", path)
        )
    return found


def parse_version(text: str, binary: str) -> tuple[int, int, int]:
    """Return helm's version; refuse one that is too old."""
    match = _VERSION.search(text)
    if match is None:
        raise HelmError(
            "Getting the version of %s: it answered %r, which is not a helm version. Set helm_binary to "
            "the path of helm" % (binary, text.strip()[:200])
        )
    version = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
    if version < OLDEST:
        raise HelmError(
            "%s is helm %s, and 3.8.0 or newer is needed. Install a newer one, or set helm_binary to its path"
            % (binary, match.group(0))
        )
    return version


@contextlib.contextmanager
def _printed(what: str) -> t.Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise HelmError(
            "Reading helm's output about %s: it is not the output of helm 3 or 4 (%s: %s). Check that "
            "helm_binary is helm itself" % (what, type(exc).__name__, str(exc)[:200])
        ) from exc


def parse_list(text: str) -> list[Listed]:
    """Read `helm list -o json`."""
    found = []
    with _printed("its releases"):
        for one in from_json(text or "[]") or []:
            match = _CHART.match(one["chart"])
            name, version = (match.group("name"), match.group("version")) if match else (one["chart"], "")
            found.append(Listed(one["name"], one["namespace"], one["status"], name, version))
    return found


def parse_release(text: str, values: str) -> Release:
    """Read `helm get all --template` and `helm get values -o json`."""
    lines = [unquote_plus(line) for line in text.split("\n")] + [""]
    with _printed("a release"):
        return Release(
            name=lines[0],
            namespace=lines[1],
            revision=int(lines[2]),
            status=lines[3],
            deployed=int(lines[4]),
            chart=lines[5],
            version=lines[6],
            app_version=lines[7],
            manifest=lines[8],
            server_side=lines[9] == "ssa",
            values=from_json(values or "null") or {},
        )


def parse_history(text: str) -> list[Revision]:
    """Read `helm history -o json`."""
    with _printed("a release's history"):
        return [Revision(int(one["revision"]), str(one["status"])) for one in from_json(text or "[]") or []]


def last_lines(text: str, secrets: t.Iterable[str] = ()) -> str:
    """Return what helm said last, less what it always says, on one line and without secrets."""
    for secret in secrets:
        text = text.replace(secret, "********")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.search(line.strip())]
    return " | ".join(lines[-_LINES:])[-2000:] or "nothing"


def kubeconfig(client: Client) -> tuple[dict[str, t.Any], set[str]]:
    """Return a kubeconfig with what a client has found out, and the secrets in it."""
    made = client.configuration
    cluster: dict[str, t.Any] = {"server": client.host}
    if not made.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    elif made.ssl_ca_cert:
        cluster["certificate-authority"] = os.path.abspath(made.ssl_ca_cert)
    if getattr(made, "tls_server_name", None):
        cluster["tls-server-name"] = made.tls_server_name
    if made.proxy and not _bypassed(client.host, made.no_proxy):
        cluster["proxy-url"] = made.proxy
    user: dict[str, t.Any] = {}
    secrets: set[str] = set()
    for auth in made.auth_settings().values():
        value = auth["value"] or ""
        if value.startswith("Bearer "):
            user["token"] = value[len("Bearer ") :]
            secrets.add(user["token"])
    if client._basic:
        user["username"], _colon, user["password"] = client._basic.partition(":")
        secrets.add(user["password"])
    if made.cert_file and made.key_file:
        user["client-certificate"] = os.path.abspath(made.cert_file)
        user["client-key"] = os.path.abspath(made.key_file)
    name, groups = client._impersonate
    if name:
        user["as"] = name
    if groups:
        user["as-groups"] = list(groups)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "this", "cluster": cluster}],
        "users": [{"name": "this", "user": user}],
        "contexts": [{"name": "this", "context": {"cluster": "this", "user": "this"}}],
        "current-context": "this",
    }, {secret for secret in secrets if secret}


def _bypassed(host: str, no_proxy: str | None) -> bool:
    if not no_proxy:
        return False
    return bool(proxy_bypass_environment(urlsplit(host).netloc, {"no": no_proxy}))


class Helm:
    """The edge: runs helm with a kubeconfig and values in files that only this user may read."""

    def __init__(self, binary: str | None, client: Client, directory: str) -> None:
        self.binary = find(binary)
        self.client = client
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
        self, arguments: t.Sequence[str], doing: str, *, limit: int = 0, cluster: bool = True, hint: str = ""
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
            done = _command.run([self.binary, *arguments], limit, env=environment, cwd=self.directory, grace=_GRACE)
        except OSError as exc:
            raise HelmError("%s: %s cannot be run: %s" % (doing, self.binary, exc)) from exc
        except _command.TimedOut as exc:
            raise HelmError(
                "%s: helm timed out after %d s and was killed. Output: %s. %s"
                % (doing, limit, last_lines(exc.err, secrets), hint or "Raise timeout")
            ) from None
        if done.status != 0:
            text = done.err or done.out
            raise HelmError(
                "%s: helm exited with status %d. Output: %s. %s"
                % (
                    doing,
                    done.status,
                    last_lines(text, secrets).rstrip("."),
                    (_advice(text) if cluster else "") or hint,
                )
            )
        return done.out

    def releases(self) -> list[Listed]:
        """Return every release of the cluster, in whatever state."""
        # Helm 4 has no --all; the states one by one mean the same to both.
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
        template = _RELEASE + (_METHOD if self.version[0] >= 4 else "")
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
        # Not --dry-run=server, which answers a chart's look-ups: helm 4 then wants the CRDs to be there already.
        arguments += ["--kube-version", kubernetes, "--skip-tests"]
        for one in api_versions:
            arguments += ["--api-versions", one]
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
        self._change(arguments, "Installing the helm release %s/%s" % (namespace, name), wait)

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
        # Without --reset-values and with no values of its own, helm takes those of the last revision.
        arguments += ["--reset-values", "--timeout", "%ds" % wait]
        arguments += [] if validate else ["--disable-openapi-validation"]
        arguments += self._client_side() if pruned else self._force(release)
        self._change(arguments, "Upgrading the helm release %s/%s" % (namespace, name), wait)

    def _client_side(self) -> list[str]:
        """Fields that a CRD does not have are dropped when a client applies, and an error when the server does."""
        return ["--server-side=false"] if self.version[0] >= 4 else []

    def _force(self, release: Release) -> list[str]:
        """Applied on the server, a field that another tool has edited is a conflict; on the client it is put right."""
        return ["--force-conflicts"] if self.version[0] >= 4 and release.server_side else []

    def rollback(self, release: Release, revision: int, *, wait: int) -> None:
        arguments = ["rollback", release.name, str(revision), "--namespace", release.namespace]
        arguments += ["--timeout", "%ds" % wait, *self._force(release)]
        doing = "Rolling the helm release %s/%s back to revision %d" % (release.namespace, release.name, revision)
        self._change(arguments, doing, wait)

    def uninstall(self, name: str, namespace: str, *, wait: int) -> None:
        arguments = ["uninstall", name, "--namespace", namespace, "--timeout", "%ds" % wait]
        self._change(arguments, "Uninstalling the helm release %s/%s" % (namespace, name), wait)

    def _change(self, arguments: t.Sequence[str], doing: str, wait: int) -> None:
        hint = (
            "Run again once the cause is fixed: a failed release is resumed from there. A hook's Job that never "
            "finishes (its image cannot be pulled, no node accepts it) also causes this; wait_timeout limits it"
        )
        # helm's own limit comes first, so that it can note the release as failed.
        self.run(arguments, doing, limit=wait + self.timeout + _GRACE, hint=hint)


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
    found = []
    for entry in os.listdir(root):
        if not entry.isdigit():
            continue
        try:
            with open(os.path.join(root, entry, "cmdline"), "rb") as source:
                words = source.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if os.path.basename(words[0]).startswith("helm") and _changes(words[1:], name, namespace):
            found.append(int(entry))
    return sorted(found)


__all__ = (
    "OLDEST",
    "Helm",
    "HelmError",
    "Listed",
    "Release",
    "Revision",
    "find",
    "kubeconfig",
    "last_lines",
    "parse_history",
    "parse_list",
    "parse_release",
    "parse_version",
    "running",
    "workplace",
)
