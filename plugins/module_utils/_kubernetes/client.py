# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A connection to a Kubernetes API server: the official client finds and logs in, the paths and objects are ours."""

from __future__ import annotations

import json
import re
import time
import traceback
import typing as t
from urllib.parse import quote, urlencode

from .._errors import FabricError, fail
from .._formats import from_json, json_dictionary
from . import library as kubernetes_library
from .auth import CONNECTION, ApiError, Limit, describe, load, parameters

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.module_utils.basic import AnsibleModule

MANAGER = "rdmaops.gpu_fabric"
# The label of an object that belongs to a set.
OWNER = "rdmaops.gpu-fabric/owner"
_JSON = "application/json"
# One answer for all groups: aggregated discovery, in Kubernetes 1.30 and newer; others answer with the plain list.
_DISCOVERY = _JSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," + _JSON
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_PAGE = 500
# How often a broken connection is retried.
_AGAIN = 3
_ACCOUNT_TO_COME = re.compile(rb"error looking up service account [^ :]+/default: ")
# As long as a field manager may be (ValidateFieldManager in apimachinery's validation.go).
MANAGER_MAX = 128

Object = t.Dict[str, t.Any]


class Kind(t.NamedTuple):
    """A kind that an API server serves, by the resource in its paths."""

    kind: str
    plural: str
    namespaced: bool


class Client:
    """Requests with a time limit each, whose errors name the action, the object and a remedy."""

    def __init__(self, values: t.Mapping[str, t.Any]) -> None:
        doing = "Reading %s" % describe(values["kubeconfig"])
        self.timeout: int = values["timeout"]
        if self.timeout < 1:
            raise ApiError("timeout is %d; it must be at least 1 second" % self.timeout)
        # Beside the limit: on a busy machine it takes seconds, and no credential plugin is to blame.
        library = kubernetes_library.parts()

        try:
            with Limit(self.timeout, doing):
                configuration = load(values)
        except ApiError:
            raise
        except OSError as exc:
            raise ApiError("%s: %s" % (doing, exc)) from exc
        except Exception as exc:  # the library's own, YAML's, base64's, and what a credential plugin makes of it
            raise ApiError(
                "%s: %s. Correct the file, or give another one by the option kubeconfig"
                % (doing, " ".join(str(exc).split()) or type(exc).__name__)
            ) from exc
        self.host: str = configuration.host
        self.configuration = configuration
        # What the library makes of certificates and proxies; its own requests differ from release to release.
        self._pool = library.rest_client(configuration).pool_manager
        self._impersonate = (values["impersonate_user"], values["impersonate_groups"] or [])
        self._basic = (
            "%s:%s" % (values["username"], values["password"]) if values["username"] and values["password"] else None
        )

    def secrets(self) -> set[str]:
        """Return the tokens that come out of files and credential plugins, and how a password is sent."""
        values = [*self.configuration.api_key.values()]
        if self._basic:
            import urllib3

            values += urllib3.util.make_headers(basic_auth=self._basic).values()
        return {word for value in values for word in str(value or "").split() if len(word) > 8}

    def headers(self) -> t.Any:
        import urllib3

        headers = urllib3.HTTPHeaderDict({"User-Agent": MANAGER})
        if self._basic:
            headers.extend(urllib3.util.make_headers(basic_auth=self._basic))
        # Asked for at every request: a token of a pod or of a credential plugin is renewed meanwhile.
        for auth in self.configuration.auth_settings().values():
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
        accept: str = _JSON,
        patient: bool = True,
    ) -> Object:
        """Send one request and return the object that came back.

        ``patient``: an API server that has too much to do is tried again, as long as the timeout is.
        """
        data = self._send(method, path, doing, query, body, content_type, accept, patient)
        try:
            value = from_json(data) if data else {}
        except ValueError:
            raise ApiError("%s: %s answered with something that is not JSON" % (doing, self.host)) from None
        return t.cast(Object, value)

    def raw(self, path: str, doing: str, query: t.Mapping[str, t.Any] | None = None) -> bytes:
        """Return an answer that is not JSON, such as a pod's log."""
        return self._send("GET", path, doing, query, accept="*/*")

    def _send(
        self,
        method: str,
        path: str,
        doing: str,
        query: t.Mapping[str, t.Any] | None,
        body: t.Any = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        patient: bool = True,
    ) -> bytes:
        import urllib3

        url = self.host + path + ("?" + urlencode(query) if query else "")
        try:
            with Limit(self.timeout, doing):
                headers = self.headers()
            headers["Accept"] = accept
            if body is not None:
                headers["Content-Type"] = content_type
            data = None if body is None else json.dumps(body).encode()
            answer = self._answer(method, url, headers, data, patient=patient)
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise self.unreachable(exc, doing) from None
        if not 200 <= answer.status <= 299:
            raise self.refused(answer.status, answer.reason, answer.data, doing)
        return t.cast(bytes, answer.data)

    def _answer(self, method: str, url: str, headers: t.Any, body: bytes | None, *, patient: bool) -> t.Any:
        """Send a request until there is an answer that counts."""
        import urllib3

        # What may have been done cannot be asked for twice, unless the second time makes no difference.
        twice = method in ("GET", "PUT", "DELETE") or headers.get("Content-Type") == _APPLY
        limit = urllib3.Timeout(connect=min(10, self.timeout), read=self.timeout)
        ends = time.monotonic() + self.timeout
        broken = 0
        while True:
            try:
                answer = self._pool.request(
                    method, url, body=body, headers=headers, timeout=limit, redirect=False, retries=False
                )
            except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ProtocolError) as exc:
                broken += 1
                never_sent = isinstance(exc, urllib3.exceptions.NewConnectionError)
                if broken > _AGAIN or not (never_sent or twice) or time.monotonic() > ends:
                    raise
                continue
            pause = _pause(answer) if patient else None
            if pause is None or time.monotonic() + pause > ends:
                return answer
            time.sleep(pause)

    def refused(self, code: int, phrase: str | None, data: bytes, doing: str) -> ApiError:
        body = data.decode("utf-8", "replace")
        status = json_dictionary(body)
        reason = str(status.get("reason") or phrase or "")
        message = " ".join(str(status.get("message") or body or phrase or "nothing").split())[:2000]
        hint = ""
        if code == 401:
            hint = (
                ". The credentials are unknown there or have expired: log in again, or give others by the options "
                "kubeconfig, context or api_key"
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

    def unreachable(self, exc: BaseException, doing: str) -> ApiError:
        text = " ".join(str(exc).split())
        if "certificate" in text.lower():
            hint = "Give the cluster's CA by ca_cert, or a kubeconfig whose certificates are valid"
        elif "timed out" in text.lower():
            hint = "It did not answer in time (%d s): look at the API server's load, or raise timeout" % self.timeout
        else:
            hint = "Is it running, and is this its address? What was done until here stays; run again when it answers"
        return ApiError("%s: %s could not be reached: %s. %s" % (doing, self.host, text.rstrip("."), hint))

    def get(self, path: str, doing: str) -> Object | None:
        """Return an object, or None if there is none."""
        try:
            return self.request("GET", path, doing)
        except ApiError as exc:
            if exc.missing:
                return None
            raise

    def items(self, path: str, doing: str, query: t.Mapping[str, t.Any] | None = None) -> list[Object] | None:
        """Return every object of a list, in pages; None: the API server has no such resource (its CRD is missing)."""
        rows: list[Object] = []
        more: str | None = None
        page_size: dict[str, int] = {"limit": _PAGE}
        while True:
            asked = dict(query or {}, **page_size)
            if more:
                asked["continue"] = more
            try:
                page = self.request("GET", path, doing, query=asked)
            except ApiError as exc:
                if exc.missing:
                    return None
                # The list that the pages belong to has been compacted: once more, and whole (as client-go's pager).
                if exc.status == 410 and more:
                    rows, more, page_size = [], None, {}
                    continue
                raise
            rows.extend(page.get("items") or [])
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return rows

    def apply(
        self,
        path: str,
        body: Object,
        doing: str,
        *,
        manager: str = MANAGER,
        force: bool = False,
        strict: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Apply an object on the server: fields of another manager that differ are a conflict (409) without force.

        The API server drops a field that it does not know, and reports it only in strict mode.
        """
        query: dict[str, t.Any] = {"fieldManager": manager[:MANAGER_MAX], "force": str(force).lower()}
        if strict:
            query["fieldValidation"] = "Strict"
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", path, doing, query=query, body=body, content_type=_APPLY)

    def create(self, path: str, body: Object, doing: str, *, dry_run: bool = False, patient: bool = True) -> Object:
        query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.request("POST", path, doing, query=query, body=body, patient=patient)

    def replace(self, path: str, body: Object, doing: str) -> Object:
        """Put an object; with metadata.resourceVersion it fails (409) if another client was faster.

        Sent again because its answer was lost, it conflicts with itself: what stands there then is what was put.
        """
        try:
            return self.request("PUT", path, doing, query={"fieldManager": MANAGER}, body=body)
        except ApiError as exc:
            if exc.status != 409:
                raise
            now = self.get(path, doing)
            if now is None or _content(now) != _content(body):
                raise
            return now

    def merge(self, path: str, body: Object, doing: str) -> Object:
        """Merge-patch an object (RFC 7386): null removes a key."""
        return self.request("PATCH", path, doing, query={"fieldManager": MANAGER}, body=body, content_type=_MERGE)

    def delete(self, path: str, doing: str, *, uid: str = "") -> Object:
        """Delete an object; with a UID only the one that was read. One that is gone already is fine."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            return self.request("DELETE", path, doing, body=body)
        except ApiError as exc:
            if exc.missing:
                return {}
            raise

    def served(self) -> dict[str, list[Kind]]:
        """Return every group and version that is served now, with its kinds.

        An aggregated API whose own server is down is left out: nothing of it can be used now.
        """
        kinds: dict[str, list[Kind]] = {}
        for where in ("/api", "/apis"):
            answer = self.request("GET", where, "Asking the API server what it serves", accept=_DISCOVERY)
            if answer.get("kind") != "APIGroupDiscoveryList":
                kinds.update(self._served_one_by_one(answer))
                continue
            for group in answer.get("items") or []:
                name = (group.get("metadata") or {}).get("name")
                for version in group.get("versions") or []:
                    if version.get("freshness") != "Stale":
                        key = "%s/%s" % (name, version["version"]) if name else str(version["version"])
                        kinds[key] = [
                            Kind(
                                str(entry["responseKind"]["kind"]),
                                str(entry["resource"]),
                                entry["scope"] == "Namespaced",
                            )
                            for entry in version.get("resources") or []
                            if entry.get("responseKind")  # without: subresources of something that cannot be asked for
                        ]
        return kinds

    def _served_one_by_one(self, answer: Object) -> dict[str, list[Kind]]:
        """Ask for each version of each group in the plain list."""
        versions = [str(name) for name in answer.get("versions") or []]
        for group in answer.get("groups") or []:
            versions += [str(entry["groupVersion"]) for entry in group.get("versions") or []]
        kinds: dict[str, list[Kind]] = {}
        for version in versions:
            try:
                entries = self.resources(version)
            except ApiError as exc:
                if exc.status == 0:
                    raise
                continue
            kinds[version] = [
                Kind(str(entry["kind"]), str(entry["name"]), bool(entry.get("namespaced")))
                for entry in entries or []
                if "/" not in entry["name"]
            ]
        return kinds

    def resources(self, api_version: str) -> list[Object] | None:
        """Return what a group and version serves (APIResource); None if the API server does not have it."""
        answer = self.get(base(api_version), "Asking what the API server knows of %s" % api_version)
        return None if answer is None else answer.get("resources") or []


def _content(raw: Object) -> Object:
    """Return what a writer says of an object, without what the API server notes on each write.

    Nor does it keep fields of the metadata that are empty, such as the annotations that the last one was taken from
    (omitempty in ObjectMeta, apimachinery/pkg/apis/meta/v1/types.go).
    """
    noted = ("resourceVersion", "managedFields", "generation")
    meta = {name: value for name, value in (raw.get("metadata") or {}).items() if value and name not in noted}
    return {**raw, "metadata": meta}


def _pause(answer: t.Any) -> float | None:
    """Return the seconds after which the API server wants to be asked again: it has done nothing then (client-go).

    Each namespace gets an account default in the moment after it was made (kube-controller-manager); before, pods are
    refused (kubernetes/plugin/pkg/admission/serviceaccount/admission.go).
    """
    if answer.status == 403 and _ACCOUNT_TO_COME.search(answer.data):
        return 1.0
    after = answer.headers.get("Retry-After")
    if answer.status not in (429, 503) or not after or not after.isascii() or not after.isdigit():
        return None
    return float(after[:9])


def base(api_version: str) -> str:
    return "/%s/%s" % ("apis" if "/" in api_version else "api", api_version)


def path(api_version: str, plural: str, namespace: str | None = None, name: str | None = None, part: str = "") -> str:
    """Return the path of an object or, without a name, of a list; ``part`` is a subresource such as status."""
    steps = [base(api_version)]
    if namespace is not None:
        steps.append("namespaces/" + quote(namespace, safe=""))
    steps.append(plural)
    if name is not None:
        steps.append(quote(name, safe=""))
    return "/".join(steps + ([part] if part else []))


def connect(module: AnsibleModule) -> Client:
    """Return a client for a module's options; ends the module if the Python library is missing."""
    try:
        kubernetes_library.parts()
    except ImportError as exc:
        module.fail_json(msg=kubernetes_library.missing(exc), exception=traceback.format_exc())
    client = Client(parameters(module))
    module.no_log_values.update(client.secrets())
    return client


def run(module: AnsibleModule, manage: t.Callable[[t.Mapping[str, t.Any], bool, Client], dict[str, t.Any]]) -> None:
    """End a module with what ``manage`` makes of its options and a client, or with what stood in the way."""
    try:
        result = manage(module.params, module.check_mode, connect(module))
    except FabricError as exc:
        fail(module, exc, **getattr(exc, "result", {}))
    module.exit_json(**result)


__all__ = (
    "CONNECTION",
    "MANAGER",
    "OWNER",
    "ApiError",
    "Client",
    "Kind",
    "Object",
    "base",
    "connect",
    "describe",
    "parameters",
    "path",
    "run",
)
