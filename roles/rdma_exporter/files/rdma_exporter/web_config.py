# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The web configuration file that Prometheus' exporters share: its certificates and passwords.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md

Settings that this exporter does not support are refused by name, not ignored.
"""

from __future__ import annotations

import errno
import os
import ssl
import threading
import typing as t

_TLS_KEYS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version")
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


class WebConfigError(Exception):
    """The file cannot be used; the text has the key, the reason and the remedy."""


class WebConfig:
    """A configuration file, and the certificates it names."""

    def __init__(self, path: str, document: t.Any, text: bytes = b"") -> None:
        self.path = path
        # Contents by path, to detect changes: times of files are too coarse for this.
        self.read = {path: text}
        self.users: dict[str, str] = {}
        self.context: ssl.SSLContext | None = None
        if document is None:
            # An editor leaves an empty file for a moment; it must not let everyone in.
            raise self._wrong("the document", "it is empty. {} lets everyone in, without TLS")
        self._only(document, ("tls_server_config", "basic_auth_users", "http_server_config"), "")
        # A server may offer HTTP/2; this one has HTTP/1.1.
        self._only(document.get("http_server_config") or {}, ("http2",), "http_server_config.")
        tls = document.get("tls_server_config") or {}
        self._only(tls, _TLS_KEYS, "tls_server_config.")
        if tls:
            self.context = self._tls(tls)
        self._users(document.get("basic_auth_users") or {})

    def _wrong(self, key: str, why: str) -> WebConfigError:
        return WebConfigError("Reading %s: %s: %s" % (self.path, key, why))

    def _only(self, table: t.Any, keys: t.Sequence[str], prefix: str) -> None:
        if not isinstance(table, dict):
            raise self._wrong(prefix.rstrip(".") or "the document", "it must be a mapping")
        for key in table:
            if key not in keys:
                raise self._wrong("%s%s" % (prefix, key), "this exporter has no such setting. Remove it")

    def _tls(self, tls: t.Mapping[str, t.Any]) -> ssl.SSLContext:
        files = self._tls_files(tls)
        client_auth = self._choice(tls, "client_auth_type", "NoClientCert", sorted(_CLIENTS))
        if client_auth != "NoClientCert" and "client_ca_file" not in files:
            raise self._wrong("tls_server_config.client_ca_file", "%s needs it" % client_auth)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self._choice(tls, "min_version", "TLS12", _VERSIONS)]
        context.maximum_version = _VERSIONS[self._choice(tls, "max_version", "TLS13", _VERSIONS)]
        for key, path in files.items():
            try:
                self.read[path] = _bytes(path)
            except OSError as exc:
                raise self._wrong("tls_server_config." + key, "%s: %s" % (path, _why(exc))) from exc
        try:
            context.load_cert_chain(files["cert_file"], files["key_file"])
            if "client_ca_file" in files:
                context.load_verify_locations(files["client_ca_file"])
        except OSError as exc:  # ssl.SSLError is one
            raise self._wrong("tls_server_config", "the certificates cannot be used: %s" % exc) from exc
        context.verify_mode = _CLIENTS[client_auth]
        return context

    def _tls_files(self, tls: t.Mapping[str, t.Any]) -> dict[str, str]:
        """Return the paths of the files by their keys, relative to the configuration's directory."""
        for key in ("cert_file", "key_file"):
            if not tls.get(key):
                raise self._wrong("tls_server_config." + key, "it is missing")
        keys = ("cert_file", "key_file", "client_ca_file")
        return {key: os.path.join(os.path.dirname(self.path), str(tls[key])) for key in keys if tls.get(key)}

    def _choice(self, tls: t.Mapping[str, t.Any], key: str, default: str, choices: t.Collection[str]) -> str:
        value = str(tls.get(key) or default)
        if value not in choices:
            raise self._wrong("tls_server_config." + key, "%r is not one of %s" % (value, ", ".join(choices)))
        return value

    def _users(self, users: t.Any) -> None:
        if not isinstance(users, dict):
            raise self._wrong("basic_auth_users", "it must be a mapping of names to bcrypt hashes")
        for name, value in users.items():
            if not str(value).startswith(("$2a$", "$2b$", "$2y$")) or len(str(value)) != 60:
                raise self._wrong("basic_auth_users.%s" % name, "it is not a bcrypt hash (htpasswd -nB %s)" % name)
            self.users[str(name)] = str(value)
        if self.users:
            try:
                import bcrypt  # noqa: F401 - is it there?
            except ImportError as exc:
                raise self._wrong("basic_auth_users", "it needs the Python library bcrypt (python3-bcrypt)") from exc

    def changed(self) -> bool:
        """Return whether one of the files has changed, or cannot be read."""
        try:
            return any(_bytes(path) != text for path, text in self.read.items())
        except OSError:
            return True


class WebConfigFile:
    """The current configuration, read again if it or a certificate has changed."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._config: WebConfig | None = None
        self._lock = threading.Lock()

    def current(self) -> WebConfig | None:
        """Return the configuration, None without a file. Raises WebConfigError while it is invalid: no one gets in.

        exporter-toolkit does the same. The previous one is no longer used: it may have a user who was removed.
        """
        if self._path is None:
            return None
        with self._lock:
            if self._config is None or self._config.changed():
                self._config = load(self._path)
            return self._config


def _bytes(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _why(exc: OSError) -> str:
    who = " (it is read by the user with the ID %d)" % os.geteuid() if exc.errno == errno.EACCES else ""
    return "%s%s" % (exc.strerror, who)


def load(path: str) -> WebConfig:
    """Read a configuration file."""
    try:
        import yaml
    except ImportError as exc:
        raise WebConfigError("Reading %s: it needs the Python library yaml (python3-yaml)" % path) from exc
    try:
        text = _bytes(path)
        document = yaml.safe_load(text.decode("utf-8"))
    except OSError as exc:
        raise WebConfigError("Reading %s: %s" % (path, _why(exc))) from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise WebConfigError("Reading %s: it is not valid YAML: %s" % (path, " ".join(str(exc).split()))) from exc
    return WebConfig(path, document, text)


__all__ = ("WebConfig", "WebConfigError", "WebConfigFile", "load")
