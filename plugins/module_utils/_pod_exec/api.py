# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Programs in a pod's container by the API server's exec: it needs create and get on pods/exec, and get on pods."""

from __future__ import annotations

import json
import typing as t
from urllib.parse import urlencode

from .._kubernetes.auth import Limit
from .._kubernetes.client import Client, Object, path
from .run import ContainerError
from .stream import DOCUMENT, Stream

# Channel 3 has a Status at the end (staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go).
_PROTOCOL = "v4.channel.k8s.io"
_ERROR = 3
_SIGN_OF_LIFE_S = 20.0
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class ApiExec:
    """A container as the API server reaches it."""

    def __init__(self, client: Client, pod: str, container: str, address: str | None) -> None:
        self.text = "container %s of the pod %s" % (container, pod)
        self.address = address
        namespace, _slash, name = pod.partition("/")
        self._path = path("v1", "pods", namespace, name, "exec")
        self._client, self._container = client, container

    def open(self, argv: t.Sequence[str]) -> Stream:
        query = [("container", self._container), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in argv]
        return _Stream(
            _connected(self._client, self._path + "?" + urlencode(query), "Opening an exec in the %s" % self.text)
        )


def _connected(client: Client, where: str, doing: str) -> t.Any:
    # Of the library, what makes certificates and proxies of a configuration.
    import websocket
    from kubernetes.stream import ws_client

    with Limit(client.timeout, doing):
        headers = {name.lower(): value for name, value in client.headers().items()}
    if "impersonate-user" in headers:
        raise ContainerError(
            "%s: the Python library kubernetes does not support impersonation here. Leave out impersonate_user and "
            "impersonate_groups, and give an account that may exec" % doing
        )
    websocket.setdefaulttimeout(client.timeout)
    try:
        headers["sec-websocket-protocol"] = _PROTOCOL
        return ws_client.create_websocket(client.configuration, "ws" + client.host[len("http") :] + where, headers)
    except websocket.WebSocketBadStatusException as exc:
        body = getattr(exc, "resp_body", None) or b""  # websocket-client 1.6 and newer
        raise ContainerError(str(client.refused(exc.status_code, None, body, doing))) from None
    except (websocket.WebSocketException, OSError) as exc:
        raise ContainerError(str(client.unreachable(exc, doing))) from None


class _Stream:
    def __init__(self, socket: t.Any) -> None:
        self._socket = socket
        self._word = ""

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        import websocket

        self._socket.settimeout(max(0.001, min(seconds, _SIGN_OF_LIFE_S)))
        try:
            try:
                code, frame = self._socket.recv_data_frame(True)
            except websocket.WebSocketTimeoutException:
                # Proxies end a stream on which nothing goes.
                self._socket.ping()
                return None
        except (websocket.WebSocketException, OSError) as exc:
            self._word = self._word or str(exc)
            return DOCUMENT, b""
        if code == websocket.ABNF.OPCODE_CLOSE:
            return DOCUMENT, b""
        if code not in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) or len(frame.data) < 2:
            return None
        channel, data = frame.data[0], bytes(frame.data[1:])
        if channel == _ERROR:
            self._word = status_in(data)
            return None
        return channel, data

    def word(self) -> str:
        return self._word

    def close(self) -> None:
        # Nothing is waited for: what runs on is ended by its limit, or by its mark.
        self._socket.shutdown()


def status_in(data: bytes) -> str:
    """What stood in the way of a program, of the Status that ends a stream."""
    try:
        status = json.loads(data.decode("utf-8", "replace"))
        return "" if status.get("status") == "Success" else str(status.get("message") or "")
    except (ValueError, AttributeError):
        return data.decode("utf-8", "replace")


def container_in(pod: Object, shown: str, container: str | None) -> str:
    """The name of a running container of a pod; without ``container`` the one that kubectl takes."""
    meta, status = pod["metadata"], pod.get("status") or {}
    running = [
        container_status["name"]
        for container_status in status.get("containerStatuses") or []
        if "running" in (container_status.get("state") or {})
    ]
    if meta.get("deletionTimestamp") or not running:
        phase = "being deleted" if meta.get("deletionTimestamp") else status.get("phase") or "Pending"
        raise ContainerError(
            "The pod %s is %s and has no container to measure in. Wait until it is Running, see 'kubectl --namespace "
            "%s describe pod %s'" % (shown, phase, meta["namespace"], meta["name"])
        )
    name = container or (meta.get("annotations") or {}).get(_DEFAULT_CONTAINER) or pod["spec"]["containers"][0]["name"]
    if name not in running:
        raise ContainerError(
            "The pod %s has no running container named %s. Running are: %s" % (shown, name, ", ".join(sorted(running)))
        )
    return str(name)


def find(client: Client, pod: str, container: str | None) -> ApiExec:
    """The running container of a pod."""
    namespace, _slash, name = pod.partition("/")
    manifest = client.get(path("v1", "pods", namespace, name), "Reading the pod %s" % pod)
    if manifest is None:
        raise ContainerError("The pod %s does not exist. Create it, and wait until it is Running" % pod)
    return ApiExec(client, pod, container_in(manifest, pod, container), (manifest.get("status") or {}).get("podIP"))


__all__ = ("ApiExec", "container_in", "find", "status_in")
