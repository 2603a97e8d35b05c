# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP: /metrics for Prometheus, /-/healthy for what starts and monitors the exporter.

A request has one deadline for all of it: TLS, headers, password, look and answer. Then its connection is shut down.
Reads and writes have no timeouts of their own, which a client could stretch by sending or reading little at a time.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import http.server
import io
import socket
import ssl
import typing as t

from . import exposition
from .command_line import log
from .connections import Connections
from .handover import HandoverError
from .passwords import Passwords, TooManyWaiting
from .web_config import WebConfigError, WebConfigFile

# Seconds that a connection is kept for a further request.
IDLE = 30.0
# Seconds of a request that the look leaves for writing the answer.
WRITING = 1.0

PAGE = b'<!DOCTYPE html><title>rdma_exporter</title><h1>rdma_exporter</h1><p><a href="/metrics">Metrics</a></p>\n'


class ListenError(Exception):
    """The address cannot be listened on; the text has the address, the reason and the remedy."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [HOST]:PORT or :PORT."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ListenError("Listening on %r: it must be HOST:PORT, [HOST]:PORT or :PORT" % text)
    return host, int(port)


class Server(http.server.ThreadingHTTPServer):
    """Answers each connection in its own thread."""

    daemon_threads = True
    # By default 5: scrapes of two Prometheus servers, a probe and a person may be more connections.
    request_queue_size = 128

    def __init__(
        self, address: str, look: t.Callable[[float], bytes], config: WebConfigFile, revision: str, limit: float
    ) -> None:
        host, port = parse_address(address)
        self.look = look
        self.config = config
        self.revision = revision
        # Seconds for a request.
        self.limit = limit
        self.passwords = Passwords()
        self.connections = Connections()
        self.address_family = socket.AF_INET if not host and not socket.has_dualstack_ipv6() else _family(host or "::")
        try:
            super().__init__((host, port), Handler)
        except OSError as exc:
            raise ListenError(
                "Listening on %s: %s. Set another address with --web.listen-address" % (address, exc.strerror)
            ) from exc

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # That of HTTPServer looks up its own name in the DNS.
        socketserver_bind(self)

    def get_request(self) -> tuple[t.Any, t.Any]:
        request, address = super().get_request()
        try:
            config = self.config.current()
            if config is not None and config.context is not None:
                # The handshake waits for the client: in the connection's thread, not in the one that accepts.
                request = config.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            return request, address
        except (OSError, WebConfigError) as exc:
            if isinstance(exc, WebConfigError):
                log(str(exc))
            request.close()
            # socketserver continues after this exception only.
            raise OSError(str(exc)) from exc

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        if not self.connections.add(request, client_address[0], self.limit):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError as exc:  # no thread can be started
            log("answering %s: %s" % (client_address[0], exc))
            self._close(request)

    def process_request_thread(self, request: t.Any, client_address: t.Any) -> None:
        try:
            if isinstance(request, ssl.SSLSocket):
                request.do_handshake()
            self.finish_request(request, client_address)
        except WebConfigError as exc:
            log(str(exc))
        except OSError:
            pass  # the client is gone, does not use TLS, or is past its deadline
        except Exception as exc:
            log("answering %s: %s: %s" % (client_address[0], type(exc).__name__, exc))
        finally:
            self._close(request)

    def _close(self, request: t.Any) -> None:
        self.connections.remove(request)
        self.shutdown_request(request)

    def service_actions(self) -> None:
        """At least every half second, and after every connection."""
        self.connections.end_late()


def socketserver_bind(server: http.server.HTTPServer) -> None:
    super(http.server.HTTPServer, server).server_bind()
    server.server_name, server.server_port = server.server_address[0], server.server_address[1]  # type: ignore[assignment]


def _family(host: str) -> socket.AddressFamily:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    except OSError as exc:
        raise ListenError("Listening on %s: %s" % (host, exc.strerror)) from exc


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "rdma_exporter"
    sys_version = ""
    # Without it the headers and the body are two packets, and the second waits for the client's acknowledgement.
    wbufsize = -1

    def handle(self) -> None:
        self.place = self.server.connections.of(self.request)
        self.close_connection = True
        # The time for the first request began with the connection.
        self.handle_one_request()
        while not self.close_connection:
            self.place.begin(IDLE)
            t.cast(io.BufferedReader, self.rfile).peek(1)
            self.place.begin(self.server.limit)
            self.handle_one_request()

    def do_GET(self) -> None:
        self.place.work()
        config = self.server.config.current()
        if getattr(self.request, "context", None) is not (config.context if config else None):
            # It connected under certificates that are no longer in use.
            self.close_connection = True
            return
        path = self.path.partition("?")[0]
        if path == "/-/healthy":
            # Without a password: a kubelet's probe has none, and the answer has only the version.
            self._answer(200, b"rdma_exporter %s is healthy\n" % self.server.revision.encode(), "text/plain")
            return
        try:
            allowed = self._allowed(config.users if config else {})
        except TooManyWaiting:
            self._answer(429, b"Too many passwords wait to be compared\n", "text/plain", {"Retry-After": "1"})
            return
        if not allowed:
            self._answer(401, b"Unauthorized\n", "text/plain", {"WWW-Authenticate": 'Basic realm="rdma_exporter"'})
        elif path == "/metrics":
            self._metrics()
        elif path == "/":
            self._answer(200, PAGE, "text/html; charset=utf-8")
        else:
            self._answer(404, b"Not found: /metrics and /-/healthy are here\n", "text/plain")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _allowed(self, users: t.Mapping[str, str]) -> bool:
        if not users:
            return True
        scheme, _space, credentials = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode("utf-8").partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return bool(colon) and self.server.passwords.right(name, users.get(name), password, self.place.address)

    def _metrics(self) -> None:
        try:
            body = self.server.look(max(0.0, self.place.left() - WRITING))
        except HandoverError as exc:
            text = "The process that looks at the devices has not handed over anything: %s" % exc
            log(text)
            self._answer(503, text.encode("utf-8", "surrogateescape") + b"\n", "text/plain")
            return
        self.server.connections.remember(self.place.address)
        headers = {}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            # Level 1 already reduces it to a twentieth.
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        self._answer(200, body, exposition.CONTENT_TYPE, headers)

    def _answer(self, status: int, body: bytes, kind: str, headers: t.Mapping[str, str] | None = None) -> None:
        self.place.wait()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: t.Any) -> None:  # noqa: A002 - the parameter's name in the library
        """Log no requests."""


__all__ = ("ListenError", "Server", "parse_address")
