# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A connection to a Kubernetes API server: the official client finds and logs in, the paths and objects are ours."""

from __future__ import annotations

import json
import os
import signal
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError

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

MANAGER = "rdmaops.gpu_fabric"
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_PAGE = 500
# As long as a field manager may be (ValidateFieldManager in apimachinery's validation.go).
MANAGER_MAX = 128

Object = t.Dict[str, t.Any]


class ApiError(FabricError):
    """The API server did not do what it was asked, or could not be reached (``status`` is then 0)."""

    def __init__(self, text: str, status: int = 0, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason

    @property
    def missing(self) -> bool:
        return self.status == 404


def parameters(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the connection options of a module, with what the environment says where an option is not given.

    The path of a kubeconfig is no secret, and messages have to name it; what stands in one given as a dictionary is.
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
    if isinstance(config, str):
        module.no_log_values.discard(config)
        # A dictionary may come as text, from a template.
        if config.lstrip().startswith("{"):
            try:
                values["kubeconfig"] = config = json.loads(config)
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
    return values


def _typed(text: str, kind: str) -> t.Any:
    if kind == "bool":
        return text.lower() not in _FALSE
    if kind == "list":
        return [part for part in text.split(",") if part]
    return int(text) if kind == "int" else text


def _secrets(value: t.Any) -> set[str]:
    """Return the texts in a kubeconfig's users: tokens, passwords, keys."""
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    waiting: list[t.Any] = [value.get("users")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(item for key, item in one.items() if key not in ("name", "apiVersion", "command"))
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, str) and len(one) > 3:
            found.add(one)
    return found


class _Limit:
    """A limit for what has none of its own: an exec credential plugin may ask a person, or a server, for ever."""

    def __init__(self, seconds: int, doing: str) -> None:
        self.seconds, self.doing = seconds, doing

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGALRM, self._over)
        signal.alarm(self.seconds)

    def _over(self, *_unused: t.Any) -> None:
        raise ApiError(
            "%s: not done after %d s. A credential plugin (users[].user.exec) that waits for an answer does this: "
            "log in first, or raise timeout" % (self.doing, self.seconds)
        )

    def __exit__(self, *_unused: t.Any) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def _load(values: t.Mapping[str, t.Any]) -> t.Any:
    """Return the client's configuration: what the options say, over the kubeconfig or the pod's own account."""
    from kubernetes import client, config

    made = client.Configuration()
    whole = values["host"] and (
        values["api_key"]
        or (values["username"] and values["password"])
        or (values["client_cert"] and values["client_key"])
    )
    given = values["kubeconfig"]
    if whole and not given:
        pass
    elif given or values["context"]:
        _load_kubeconfig(config, made, given, values["context"])
    else:
        try:
            config.load_incluster_config(client_configuration=made)
        except config.ConfigException:
            _load_kubeconfig(config, made, None, None)
    if values["host"]:
        made.host = values["host"].rstrip("/")
    if values["api_key"]:
        made.api_key = {"authorization": "Bearer " + values["api_key"]}
        made.api_key_prefix = {}
        # A hook of the kubeconfig's user would put that user's token in again.
        made.refresh_api_key_hook = None
    for option, attribute in _ATTRIBUTES.items():
        if values[option] is not None:
            setattr(made, attribute, values[option])
    # One answer or one error; the library would try three times more.
    made.retries = False
    return made


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


def _load_kubeconfig(config: t.Any, made: t.Any, given: t.Any, context: str | None) -> None:
    if isinstance(given, dict):
        config.load_kube_config_from_dict(given, context=context, client_configuration=made)
        return
    text = given or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    paths = [path for path in text.split(os.pathsep) if path]
    if not any(os.path.exists(path) for path in paths):
        raise ApiError(
            "Reading the kubeconfig %s: there is no such file%s. Say where it is by the option kubeconfig or by "
            "K8S_AUTH_KUBECONFIG" % (" or ".join(paths), "" if given else ", and this is no pod")
        )
    for path in paths:
        if os.path.exists(path):
            with open(path, "rb"):
                pass  # the library passes over a file that it may not read
    config.load_kube_config(config_file=text, context=context, client_configuration=made, persist_config=False)


def describe(given: t.Any) -> str:
    """Return how messages call a kubeconfig."""
    if isinstance(given, dict):
        return "the given kubeconfig"
    return "the kubeconfig %s" % (given or os.environ.get("KUBECONFIG") or "~/.kube/config")


class Client:
    """Requests with a time limit each, whose errors say what was being done, to what, and what unblocks it."""

    def __init__(self, values: t.Mapping[str, t.Any]) -> None:
        doing = "Reading %s" % describe(values["kubeconfig"])
        self.timeout: int = values["timeout"]
        if self.timeout < 1:
            raise ApiError("timeout is %d; it has to be at least 1 second" % self.timeout)
        try:
            with _Limit(self.timeout, doing):
                configuration = _load(values)
        except ApiError:
            raise
        except OSError as exc:
            raise ApiError("%s: %s" % (doing, exc)) from exc
        except Exception as exc:  # the library's own, YAML's, base64's, and what a credential plugin makes of it
            raise ApiError(
                "%s: %s. Correct the file, or give another one by the option kubeconfig"
                % (doing, " ".join(str(exc).split()) or type(exc).__name__)
            ) from exc
        from kubernetes.client.rest import RESTClientObject

        self.host: str = configuration.host
        self._configuration = configuration
        # What the library makes of certificates and proxies; its own requests differ from release to release.
        self._pool = RESTClientObject(configuration).pool_manager
        self._impersonate = (values["impersonate_user"], values["impersonate_groups"] or [])
        self._basic = (
            "%s:%s" % (values["username"], values["password"]) if values["username"] and values["password"] else None
        )

    def _headers(self) -> t.Any:
        import urllib3

        headers = urllib3.HTTPHeaderDict({"Accept": _JSON, "User-Agent": MANAGER})
        if self._basic:
            headers.extend(urllib3.util.make_headers(basic_auth=self._basic))
        # Asked for at every request: a token of a pod or of a credential plugin is renewed meanwhile.
        for auth in self._configuration.auth_settings().values():
            if auth["value"]:
                headers[auth["key"]] = auth["value"]
        user, groups = self._impersonate
        if user:
            headers["Impersonate-User"] = user
        for group in groups:
            headers.add("Impersonate-Group", group)
        return headers

    def request(
        self,
        method: str,
        path: str,
        doing: str,
        *,
        query: t.Mapping[str, t.Any] | None = None,
        body: t.Any = None,
        content_type: str = _JSON,
    ) -> Object:
        """Send one request and return the object that came back."""
        from urllib.parse import urlencode

        import urllib3

        url = self.host + path + ("?" + urlencode(query) if query else "")
        try:
            with _Limit(self.timeout, doing):
                headers = self._headers()
            if body is not None:
                headers["Content-Type"] = content_type
            answer = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(10, self.timeout), read=self.timeout),
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise self._unreachable(exc, doing) from None
        data = answer.data
        if not 200 <= answer.status <= 299:
            raise self._refused(answer.status, answer.reason, data, doing)
        try:
            value = json.loads(data) if data else {}
        except ValueError:
            raise ApiError("%s: %s answered with something that is not JSON" % (doing, self.host)) from None
        return t.cast(Object, value)

    def _refused(self, code: int, phrase: str | None, data: bytes, doing: str) -> ApiError:
        body = data.decode("utf-8", "replace")
        try:
            status = json.loads(body)
        except ValueError:
            status = {}
        status = status if isinstance(status, dict) else {}
        reason = str(status.get("reason") or phrase or "")
        message = " ".join(str(status.get("message") or body or phrase or "nothing").split())[:2000]
        hint = ""
        if code == 401:
            hint = (
                ". The credentials are unknown there or have expired: log in again, or give others by kubeconfig, "
                "context or api_key"
            )
        elif code == 403 and "system:anonymous" in message:
            hint = ". No credentials were sent: look at the user of the kubeconfig's context"
        elif code == 403 and "is forbidden: User" in message:
            hint = ". Give this user that right by a Role or a ClusterRole"
        return ApiError(
            "%s: %s answered %d (%s): %s%s" % (doing, self.host, code, reason, message.rstrip("."), hint),
            code,
            reason,
        )

    def _unreachable(self, exc: BaseException, doing: str) -> ApiError:
        text = " ".join(str(exc).split())
        if "certificate" in text.lower():
            hint = "Give the cluster's CA by ca_cert, or a kubeconfig whose certificates are valid"
        elif "timed out" in text.lower():
            hint = "It did not answer within %d s: look at the API server's load, or raise timeout" % self.timeout
        else:
            hint = "Is it running, and is this its address? What was done until here stays; run again when it answers"
        return ApiError("%s: %s could not be reached: %s. %s" % (doing, self.host, text.rstrip("."), hint))

    def get(self, path: str, doing: str) -> Object | None:
        """Return an object, or None where there is none."""
        try:
            return self.request("GET", path, doing)
        except ApiError as exc:
            if exc.missing:
                return None
            raise

    def items(self, path: str, doing: str, query: t.Mapping[str, t.Any] | None = None) -> list[Object] | None:
        """Return every object of a list, in pages; None: the API server has no such resource (its CRD is missing)."""
        found: list[Object] = []
        more: str | None = None
        while True:
            asked = dict(query or {}, limit=_PAGE)
            if more:
                asked["continue"] = more
            try:
                page = self.request("GET", path, doing, query=asked)
            except ApiError as exc:
                if exc.missing:
                    return None
                if exc.status == 410 and more:  # the list that the pages belong to has been compacted: from the start
                    found, more = [], None
                    continue
                raise
            found.extend(page.get("items") or [])
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found

    def apply(
        self, path: str, body: Object, doing: str, *, manager: str = MANAGER, force: bool = False, dry_run: bool = False
    ) -> Object:
        """Apply an object on the server: fields of another manager that differ are a conflict (409) without force."""
        query: dict[str, t.Any] = {"fieldManager": manager[:MANAGER_MAX], "force": str(force).lower()}
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", path, doing, query=query, body=body, content_type=_APPLY)

    def create(self, path: str, body: Object, doing: str, *, dry_run: bool = False) -> Object:
        query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.request("POST", path, doing, query=query, body=body)

    def replace(self, path: str, body: Object, doing: str) -> Object:
        """Put an object; with metadata.resourceVersion it fails (409) where somebody else was faster."""
        return self.request("PUT", path, doing, query={"fieldManager": MANAGER}, body=body)

    def merge(self, path: str, body: Object, doing: str) -> Object:
        """Merge-patch an object (RFC 7386): null removes a key."""
        return self.request("PATCH", path, doing, query={"fieldManager": MANAGER}, body=body, content_type=_MERGE)

    def delete(self, path: str, doing: str, *, uid: str = "") -> Object:
        """Delete an object; with a UID only the one that was looked at."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        return self.request("DELETE", path, doing, body=body)

    def resources(self, api_version: str) -> set[str] | None:
        """Return the plurals that a group and version serves; None where the API server does not know it."""
        found = self.get(base(api_version), "Asking what the API server knows of %s" % api_version)
        return None if found is None else {str(one["name"]) for one in found.get("resources") or []}


def base(api_version: str) -> str:
    return "/%s/%s" % ("apis" if "/" in api_version else "api", api_version)


def path(api_version: str, plural: str, namespace: str | None = None, name: str | None = None, part: str = "") -> str:
    """Return the path of an object or, without a name, of a list; ``part`` is a subresource such as status."""
    from urllib.parse import quote

    steps = [base(api_version)]
    if namespace is not None:
        steps.append("namespaces/" + quote(namespace, safe=""))
    steps.append(plural)
    if name is not None:
        steps.append(quote(name, safe=""))
    return "/".join(steps + ([part] if part else []))


def connect(module: AnsibleModule) -> Client:
    """Return a client for a module's options; ends the module where the Python library is missing."""
    try:
        import kubernetes  # noqa: F401  # pylint: disable=unused-import
    except ImportError:
        import traceback

        from ansible.module_utils.basic import missing_required_lib

        module.fail_json(msg=missing_required_lib("kubernetes"), exception=traceback.format_exc())
    return Client(parameters(module))


__all__ = ("CONNECTION", "MANAGER", "ApiError", "Client", "Object", "base", "connect", "describe", "parameters", "path")
