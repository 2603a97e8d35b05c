# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Options and kubeconfigs: which API server, and as whom."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import typing as t

from .._errors import FabricError
from .._formats import from_json
from . import library as kubernetes_library

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule

# As in kubernetes.core, environment variables included. A kubeconfig may be a dictionary with secrets in it.
CONNECTION: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "raw", "no_log": True},
    "context": {"type": "str"},
    "host": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
    "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
    "proxy": {"type": "str"},
    "no_proxy": {"type": "str"},
    "impersonate_user": {"type": "str"},
    "impersonate_groups": {"type": "list", "elements": "str"},
    "timeout": {"type": "int", "default": 30},
}
# Name of the option to further names of its environment variable behind K8S_AUTH_ (kubernetes.core has both).
_ALIASES = {
    "ca_cert": "SSL_CA_CERT",
    "client_cert": "CERT_FILE",
    "client_key": "KEY_FILE",
    "validate_certs": "VERIFY_SSL",
}
_FALSE = ("0", "false", "no", "off")


class ApiError(FabricError):
    """The API server refused a request, or could not be reached (``status`` is then 0)."""

    def __init__(self, text: str, status: int = 0, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason

    @property
    def missing(self) -> bool:
        return self.status == 404


def parameters(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the connection options of a module, with the environment's values for options that are not set.

    The path of a kubeconfig is not secret, and messages must name it; the content of one given as a dictionary is.
    """
    values: dict[str, t.Any] = {}
    for name, spec in CONNECTION.items():
        value = module.params.get(name)
        for variable in (name.upper(), _ALIASES.get(name, "")):
            text = os.environ.get("K8S_AUTH_" + variable) if variable and value is None else None
            if text:
                value = _typed(text, spec["type"])
        values[name] = value
    config = values["kubeconfig"]
    # Ansible has taken every text in it for a secret, and would blot out each v1 and default in what is returned.
    module.no_log_values.difference_update(_texts(config))
    if isinstance(config, str):
        # A dictionary may come as text, from a template.
        if config.lstrip().startswith("{"):
            try:
                values["kubeconfig"] = config = from_json(config)
            except ValueError:
                raise ApiError(
                    "Reading the option kubeconfig: it looks like a dictionary and is not valid JSON. Give the path of "
                    "a kubeconfig, or a dictionary"
                ) from None
        else:
            values["kubeconfig"] = config = os.pathsep.join(
                os.path.expanduser(os.path.expandvars(part)) for part in config.split(os.pathsep)
            )
    module.no_log_values.update(_secrets(config))
    module.no_log_values.update(values[name] for name in ("api_key", "password") if values[name])
    return values


def _typed(text: str, kind: str) -> t.Any:
    if kind == "bool":
        return text.lower() not in _FALSE
    if kind == "list":
        return [part for part in text.split(",") if part]
    return int(text) if kind == "int" else text


# Of a kubeconfig's user (AuthInfo and ExecConfig in client-go's clientcmd/api/v1): what is no secret.
_PUBLIC = (
    "name",
    "username",
    "as",
    "as-uid",
    "as-groups",
    "client-certificate",
    "client-key",
    "tokenFile",
    "apiVersion",
    "command",
    "installHint",
    "interactiveMode",
)


def _texts(value: t.Any, without: t.Container[str] = ()) -> set[str]:
    """Return every text in a value, less those under some keys."""
    texts: set[str] = set()
    waiting: list[t.Any] = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(item for key, item in value.items() if key not in without)
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str):
            texts.add(value)
    return texts


def _secrets(value: t.Any) -> set[str]:
    """Return the texts in a kubeconfig's users: tokens, passwords, keys."""
    return {text for text in _texts(value.get("users"), _PUBLIC) if len(text) > 3} if isinstance(value, dict) else set()


class Limit:
    """A limit for what has none of its own: an exec credential plugin may wait for a person, or a server, for ever."""

    def __init__(self, seconds: int, doing: str) -> None:
        self.seconds, self.doing = seconds, doing
        self.over: ApiError | None = None

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGALRM, self._over)
        signal.alarm(self.seconds)

    def _over(self, *_unused: t.Any) -> None:
        _end_children()
        self.over = ApiError(
            "%s: not done after %d s. A credential plugin (users[].user.exec) that waits for an answer does this: "
            "log in first, or raise timeout" % (self.doing, self.seconds)
        )
        raise self.over

    def __exit__(self, *_unused: t.Any) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)
        # The library logs whatever a credential plugin's end raises, and goes on without credentials.
        if self.over is not None:
            raise self.over


def _end_children() -> None:
    """End what this process has started: a module at this point has no other children than a credential plugin."""
    try:
        with open("/proc/self/task/%d/children" % os.getpid(), encoding="ascii") as listed:
            children = [int(pid) for pid in listed.read().split()]
    except (OSError, ValueError):  # no Linux, or without CONFIG_PROC_CHILDREN
        return
    for pid in children:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def load(values: t.Mapping[str, t.Any]) -> t.Any:
    """Return the client's configuration: what the options say, over the kubeconfig or the pod's own account."""
    library = kubernetes_library.parts()
    configuration, config = library.configuration(), library.config
    whole = values["host"] and (
        values["api_key"]
        or (values["username"] and values["password"])
        or (values["client_cert"] and values["client_key"])
    )
    kubeconfig = values["kubeconfig"]
    if whole and not kubeconfig:
        pass
    elif kubeconfig or values["context"]:
        _load_kubeconfig(config, configuration, kubeconfig, values["context"])
    else:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            _load_kubeconfig(config, configuration, None, None)
    if values["host"]:
        configuration.host = values["host"].rstrip("/")
    if values["api_key"]:
        configuration.api_key = {"authorization": "Bearer " + values["api_key"]}
        configuration.api_key_prefix = {}
        # A hook of the kubeconfig's user would put that user's token in again.
        configuration.refresh_api_key_hook = None
    for option, attribute in _ATTRIBUTES.items():
        if values[option] is not None:
            setattr(configuration, attribute, values[option])
    # One answer or one error; the library would try three times more.
    configuration.retries = False
    return configuration


_ATTRIBUTES = {
    "username": "username",
    "password": "password",
    "ca_cert": "ssl_ca_cert",
    "client_cert": "cert_file",
    "client_key": "key_file",
    "validate_certs": "verify_ssl",
    "proxy": "proxy",
    "no_proxy": "no_proxy",
}


def _load_kubeconfig(config: t.Any, configuration: t.Any, kubeconfig: t.Any, context: str | None) -> None:
    if isinstance(kubeconfig, dict):
        try:
            with _PluginErrors(configuration):
                config.load_kube_config_from_dict(kubeconfig, context=context, client_configuration=configuration)
        except config.ConfigException:
            _refuse_context([kubeconfig], context, describe(kubeconfig))
            raise
        return
    text = kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    paths = [path for path in text.split(os.pathsep) if path]
    if not any(os.path.exists(path) for path in paths):
        raise ApiError(
            "Reading the kubeconfig %s: no such file%s. Set its path in the option kubeconfig or in K8S_AUTH_KUBECONFIG"
            % (" or ".join(paths), "" if kubeconfig else ", and this is not a pod")
        )
    paths = [path for path in paths if os.path.exists(path)]
    for path in paths:
        with open(path, "rb"):
            pass  # the library passes over a file that it may not read
    context = context or _current(paths)
    try:
        with _PluginErrors(configuration):
            config.load_kube_config(
                config_file=text, context=context, client_configuration=configuration, persist_config=False
            )
    except config.ConfigException:
        _refuse_context(_contents(paths), context, describe(text))
        raise


def _contents(paths: t.Iterable[str]) -> list[t.Any]:
    """Return what is in several files, which the library could read."""
    import yaml

    contents = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            contents.append(yaml.safe_load(stream))
    return contents


def _refuse_context(contents: list[t.Any], context: str | None, text: str) -> None:
    """Raise ApiError for an unknown context. It lists the known ones, which the library does not."""
    given = [content for content in contents if isinstance(content, dict)]
    current = next((str(content["current-context"]) for content in given if content.get("current-context")), None)
    entries = [entry for content in given for entry in content.get("contexts") or [] if isinstance(entry, dict)]
    names = [str(entry["name"]) for entry in entries if entry.get("name")]
    desired = context or current
    if desired is None or desired in names:
        return
    raise ApiError(
        "Reading %s: it has no context %s%s. It has: %s. Set the option context to one of them"
        % (text, desired, "" if context else ", which it names as the current one", ", ".join(names) or "none")
    )


def _current(paths: list[str]) -> str | None:
    """Return the context of the first of several files that names one, as kubectl does; the library takes the last."""
    for content in _contents(paths) if len(paths) > 1 else []:
        if isinstance(content, dict) and content.get("current-context"):
            return str(content["current-context"])
    return None


class _PluginErrors:
    """Raises what the library only logs: that a credential plugin failed; it continues without credentials."""

    def __init__(self, configuration: t.Any) -> None:
        self.configuration = configuration
        self.messages: list[str] = []

    def __enter__(self) -> None:
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: self.messages.append(record.getMessage())  # type: ignore[method-assign]
        self.handler = handler
        logging.getLogger().addHandler(handler)

    def __exit__(self, kind: t.Any, *_unused: t.Any) -> None:
        logging.getLogger().removeHandler(self.handler)
        if kind is None and self.messages and not self.configuration.api_key and not self.configuration.cert_file:
            raise ValueError("; ".join(self.messages))


def describe(kubeconfig: t.Any) -> str:
    """Return how messages call a kubeconfig."""
    if isinstance(kubeconfig, dict):
        return "the given kubeconfig"
    return "the kubeconfig %s" % (kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")


__all__ = ("CONNECTION", "ApiError", "Limit", "describe", "load", "parameters")
