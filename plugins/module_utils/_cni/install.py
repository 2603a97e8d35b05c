# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""CNI plugins, their configurations and kubeconfigs on one host: what is ours is remembered, the rest not touched."""

from __future__ import annotations

import base64
import functools
import json
import os
import stat
import typing as t

from .. import _fetch, _files_write
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._fetch import SHA256, clean, digest
from .._files import FileError, read_text, refuse_nul
from .._formats import from_json

RECORD = "/var/lib/rdmaops/cni.json"
CONFIG = "file"

Record = t.Dict[str, t.Any]
Params = t.Mapping[str, t.Any]


class InstallError(FileError):
    """Something could not be installed as requested."""


def executable(path: str) -> bool:
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o111 == 0o111
    except OSError:
        return False


def read_record(path: str) -> Record:
    text = read_text(path)
    try:
        record = from_json(text) if text else {}
    except ValueError as exc:
        raise InstallError(
            "Reading %s, the record of the CNI files that this collection installed: %s. Remove it; the installed "
            "files then count as foreign" % (path, exc)
        ) from exc
    record = record if isinstance(record, dict) else {}
    return {"sources": dict(record.get("sources") or {}), "files": dict(record.get("files") or {})}


def check(params: Params) -> None:
    """Refuse invalid options first."""
    refuse_nul(bin_dir=params["bin_dir"], record=params["record"])
    taken: dict[str, str] = {}
    for source in params["sources"]:
        name = source["name"]
        if not SHA256.match(source["checksum"]):
            raise InstallError(
                "Installing %s: checksum is %r. Set it to sha256: and 64 lowercase hexadecimal digits; a checksum file "
                "from the program's own source would change along with the program. `%s` prints the digits; run it on "
                "a machine and network that you trust" % (name, source["checksum"], prints(source["url"]))
            )
        for entry in source["files"]:
            if not entry or "/" in entry or "\0" in entry or entry.startswith("."):
                raise InstallError("Installing %s: files has %r; an entry is the name of a plugin" % (name, entry))
            if entry in taken:
                raise InstallError("Installing %s: the plugin %s is also in %s" % (name, entry, taken[entry]))
            taken[entry] = name
        if not source["files"]:
            raise InstallError("Installing %s: files is empty; list the plugins to install from it" % name)
    for entry in (*params["configs"], *params["kubeconfigs"]):
        refuse_nul(path=entry["path"])
        if not entry["path"].startswith("/"):
            raise InstallError("Writing %s: the path must be absolute" % entry["path"])


def prints(url: str) -> str:
    """Return the command that prints the digest of what is at a URL or path."""
    return "curl -fsSL %s | sha256sum" % url if "://" in url else "sha256sum %s" % url


def same_source(source: Params, known: t.Mapping[str, t.Any]) -> bool:
    """Return whether the recorded version is the desired one, by checksum, whatever the source of the file."""
    return known.get("checksum") == source["checksum"] and sorted(known.get("files") or {}) == sorted(source["files"])


def claims(token: str) -> dict[str, t.Any]:
    """Return the claims of a token (RFC 7519), nothing if it is none."""
    parts = token.split(".")
    try:
        payload = from_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError):
        return {}
    return payload if isinstance(payload, dict) else {}


def expiry(token: str) -> float | None:
    """Return when a token ends (RFC 7519, 4.1.4), None if it has no expiry."""
    try:
        return float(claims(token)["exp"])
    except (ValueError, KeyError, TypeError):
        return None


def node_of(token: str) -> str | None:
    """Return the UID of the Node that a service account's token is bound to (pkg/serviceaccount/claims.go)."""
    try:
        return str(claims(token)["kubernetes.io"]["node"]["uid"])
    except (KeyError, TypeError):
        return None


def delegating(path: str, text: str, delegate: str) -> str:
    """Return a configuration with what is in another file as its only delegate.

    Multus 4.3.0 forgets most of a list that it is given by name when the pod ends, so that the pod network does not get
    its address back (multus-cni pull request 1521). What stands in its own configuration it keeps.
    """
    doing = "Writing %s with the pod network of %s" % (path, delegate)
    conflist = read_text(delegate)
    if conflist is None:
        raise InstallError("%s: no such file. Install the pod network first, or set another file" % doing)
    try:
        whole, inner = from_json(text), from_json(conflist)
        if not isinstance(inner, dict) or not ("type" in inner or inner.get("plugins")):
            raise ValueError("it has neither type nor plugins")
    except ValueError as exc:
        raise InstallError("%s: that is not a CNI configuration: %s" % (doing, exc)) from exc
    return json.dumps({**whole, "delegates": [inner]}, indent=4, sort_keys=True) + "\n"


def kubeconfig(options: Params, token: str) -> str:
    """Return a kubeconfig. JSON is YAML as well, and hosts need no library to read it back."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "cluster",
                "cluster": {"server": options["server"], "certificate-authority-data": options["ca_data"]},
            }
        ],
        "users": [{"name": options["user"], "user": {"token": token}}],
        "contexts": [
            {
                "name": "cni",
                "context": {"cluster": "cluster", "user": options["user"], "namespace": options["namespace"]},
            }
        ],
        "current-context": "cni",
    }
    return json.dumps(config, indent=2) + "\n"


def token_in(text: str | None) -> str:
    try:
        return str(from_json(text or "")["users"][0]["user"]["token"])
    except (ValueError, KeyError, IndexError, TypeError):
        return ""


class Install:
    """The live state, the desired state, and the plan."""

    def __init__(self, params: Params, now: float, fetch: t.Callable[..., t.Any] | None = None) -> None:
        self.params, self.now = params, now
        self.record_path: str = params["record"]
        self.record = read_record(self.record_path)
        self.before = json.dumps(self.record, sort_keys=True)
        self.decision = Decision()
        self.resources: list[dict[str, t.Any]] = []
        self.kept: list[str] = []
        self.token_needed: list[str] = []
        self._fetch = fetch

    def _row(self, kind: str, name: str, desired: str, live: str | None) -> None:
        status = IN_SYNC if live == desired else DRIFT
        self.resources.append(resource(kind, name, desired=desired, configured=live, live=live, status=status))

    def _save(self) -> None:
        if self.record["sources"] or self.record["files"]:
            _files_write.atomic_write(self.record_path, json.dumps(self.record, indent=1, sort_keys=True) + "\n")
        else:
            _files_write.remove(self.record_path)

    # --- plugins ---

    def source(self, source: Params) -> None:
        name, bin_dir = source["name"], self.params["bin_dir"]
        known = self.record["sources"].get(name) or {}
        ours = known.get("files") or {}
        plugins, kept = [], []
        for plugin in source["files"]:
            live = digest(os.path.join(bin_dir, plugin))
            if live is not None and plugin not in ours:
                if self.params["on_foreign"] == "keep":
                    kept.append(plugin)
                    continue
                if self.params["on_foreign"] == "fail":
                    raise InstallError(
                        "Installing %s: %s exists and was not installed by this collection. Set on_foreign to keep "
                        "(use it as it is) or to take_over" % (name, os.path.join(bin_dir, plugin))
                    )
            plugins.append(plugin)
        self.kept += ["%s: not installed by this collection" % os.path.join(bin_dir, plugin) for plugin in kept]
        asked = {**source, "files": plugins}
        fresh = not plugins or same_source(asked, known)
        bad = [
            plugin
            for plugin in plugins
            if not fresh
            or digest(os.path.join(bin_dir, plugin)) != ours.get(plugin)
            or not executable(os.path.join(bin_dir, plugin))
        ]
        gone = [plugin for plugin in ours if plugin not in source["files"]]
        live = "present" if not bad else "absent" if not ours else "different"
        self._row("cni_plugins", name, "present", live)
        if bad:
            doing = "Install %s in %s from %s" % (", ".join(plugins), bin_dir, source["url"])
            self.decision.add(doing, functools.partial(self._install, asked))
            self.decision.show(name, _lines(known), "%s\n%s\n" % (source["checksum"], "\n".join(sorted(plugins))))
        self._drop(name, gone, ours)

    def _install(self, source: Params) -> None:
        fetch = self._fetch or _fetch.fetch
        known = self.record["sources"].setdefault(source["name"], {})

        def about_to() -> None:
            # The names first: should the power go in between, the plugins are known to be ours.
            known["files"] = {**dict.fromkeys(source["files"], ""), **(known.get("files") or {})}
            self._save()

        files = _fetch.install(source, self.params["bin_dir"], self.params["timeout"], fetch, about_to)
        self.record["sources"][source["name"]] = {"url": source["url"], "checksum": source["checksum"], "files": files}
        self._save()

    def _drop(self, name: str, gone: t.Sequence[str], ours: t.Mapping[str, str]) -> None:
        """Remove our plugins that are no longer desired; a replaced one is no longer ours."""
        for plugin in gone:
            path = os.path.join(self.params["bin_dir"], plugin)
            live = digest(path)
            if live == ours[plugin]:
                self.decision.add("Remove %s" % path, functools.partial(self._remove_plugin, name, plugin, path))
                self.decision.show(path, live + "\n", "")
            else:
                if live is not None:
                    self.kept.append("%s: replaced by another tool or user" % path)
                self.decision.add("Forget %s" % path, functools.partial(self._remove_plugin, name, plugin, None))

    def _remove_plugin(self, name: str, plugin: str, path: str | None) -> None:
        if path is not None:
            _files_write.remove(path)
        known = self.record["sources"].get(name) or {}
        (known.get("files") or {}).pop(plugin, None)
        if not known.get("files"):
            self.record["sources"].pop(name, None)
        self._save()

    # --- files ---

    def _foreign(self, path: str, live: str | None) -> bool:
        return live is not None and path not in self.record["files"]

    def _refuse(self, path: str) -> t.NoReturn:
        raise InstallError(
            "Writing %s: the file exists and was not written by this collection. Move it away, or have the tool that "
            "wrote it (an operator, a DaemonSet) leave this to the role, and run again" % path
        )

    def config(self, options: Params) -> None:
        path, text = options["path"], options["content"].rstrip("\n") + "\n"
        if options["delegate"]:
            text = delegating(path, text, options["delegate"])
        live = read_text(path)
        if self._foreign(path, live) and live != text:
            self._refuse(path)
        self._row(CONFIG, path, "present", "absent" if live is None else "present" if live == text else "different")
        if live != text or path not in self.record["files"]:
            self._write(path, text, 0o644 if options["public"] else 0o600)
            self.decision.show(path, live or "", text)

    def _write(self, path: str, text: str, mode: int) -> None:
        self.decision.add("Write %s" % path, functools.partial(self._written, path, text, mode))

    def _written(self, path: str, text: str, mode: int) -> None:
        # The name first: should the power go in between, the file is known to be ours.
        self.record["files"][path] = True
        self._save()
        _files_write.atomic_write(path, text, mode)

    def kubeconfig(self, options: Params) -> None:
        path = options["path"]
        live = read_text(path)
        if self._foreign(path, live):
            self._refuse(path)
        old = token_in(live)
        ends = expiry(old)
        bound = options["node_uid"] is None or node_of(old) == options["node_uid"]
        fine = bool(old) and bound and (ends is None or ends - self.now > options["renew_before"])
        same = live is not None and live == kubeconfig(options, old)
        wrong = "about to expire" if bound else "bound to no node, or to another"
        state = "absent" if live is None else "different" if not same else "valid" if fine else wrong
        self._row("kubeconfig", path, "valid", state)
        if same and fine:
            return
        token = old if fine else str(self.params["tokens"].get(options["user"]) or "")
        if not token:
            self.token_needed.append(path)
        self.decision.add(
            "Write %s%s" % (path, "" if fine else " with a new token"),
            functools.partial(self._kubeconfig, options, token),
        )
        shown = kubeconfig(options, "(hidden)") if fine else kubeconfig(options, "(hidden, new)")
        self.decision.show(path, "" if live is None else kubeconfig_hidden(live), shown)

    def _kubeconfig(self, options: Params, token: str) -> None:
        if not token:
            raise InstallError(
                "Writing %s: it needs a token of the service account %s, and none was passed. Pass one in tokens, for "
                "example from the module service_account_token" % (options["path"], options["user"])
            )
        self._written(options["path"], kubeconfig(options, token), 0o600)

    def file_absent(self, path: str) -> None:
        live = read_text(path)
        if path not in self.record["files"]:
            if live is not None:
                self.kept.append("%s: not installed by this collection" % path)
            self._row(CONFIG, path, "absent", "absent")
            return
        self._row(CONFIG, path, "absent", "present")

        def remove() -> None:
            _files_write.remove(path)
            self.record["files"].pop(path, None)
            self._save()

        self.decision.add("Remove %s" % path, remove)
        self.decision.show(path, kubeconfig_hidden(live) if live else "", "")

    # --- all of it ---

    def decide(self) -> None:
        params = self.params
        paths = [options["path"] for options in (*params["configs"], *params["kubeconfigs"])]
        if params["state"] == "absent":
            # The other way round: what makes the runtime use the plugins goes first.
            for path in sorted({*paths, *self.record["files"]}, key=lambda path: (path not in paths, path)):
                self.file_absent(path)
            names = [source["name"] for source in params["sources"]]
            for name in sorted({*names, *self.record["sources"]}):
                ours = (self.record["sources"].get(name) or {}).get("files") or {}
                self._row("cni_plugins", name, "absent", "present" if ours else "absent")
                self._drop(name, sorted(ours), ours)
            return
        for source in params["sources"]:
            self.source(source)
        for options in params["kubeconfigs"]:
            self.kubeconfig(options)
        for options in params["configs"]:
            self.config(options)
        for path in sorted(set(self.record["files"]) - set(paths)):
            self.file_absent(path)
        for name in sorted(set(self.record["sources"]) - {source["name"] for source in params["sources"]}):
            ours = self.record["sources"][name].get("files") or {}
            self._row("cni_plugins", name, "absent", "present")
            self._drop(name, sorted(ours), ours)


def kubeconfig_hidden(text: str) -> str:
    """Return a file for a diff, without a token in it."""
    token = token_in(text)
    return text.replace(token, "(hidden)") if token else text


def _lines(known: t.Mapping[str, t.Any]) -> str:
    return "%s\n%s\n" % (known["checksum"], "\n".join(sorted(known["files"]))) if known.get("checksum") else ""


def mirrored(source: Params, mirror: str) -> Params:
    """Return a source with its files at a mirror, by the names that they have upstream."""
    return {**source, "url": mirror.rstrip("/") + "/" + os.path.basename(source["url"])} if mirror else source


def manage(
    params: Params, check_mode: bool, now: float, fetch: t.Callable[..., t.Any] | None = None
) -> dict[str, t.Any]:
    """Return what the module cni_install returns."""
    check(params)
    params = {**params, "sources": [mirrored(source, params["mirror"]) for source in params["sources"]]}
    install = Install(params, now, fetch)
    install.decide()
    if not check_mode:
        clean(params["bin_dir"])
        install.decision.carry_out()
    return {
        **install.decision.result(),
        "kept": install.kept,
        "token_needed": install.token_needed,
        "resources": install.resources,
    }


__all__ = (
    "RECORD",
    "InstallError",
    "check",
    "expiry",
    "kubeconfig",
    "manage",
    "mirrored",
    "node_of",
    "prints",
    "same_source",
)
