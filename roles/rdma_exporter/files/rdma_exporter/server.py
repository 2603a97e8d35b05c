# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP: /metrics for Prometheus, /-/healthy for whoever starts and watches the exporter."""

from __future__ import annotations

import base64
import binascii
import gzip
import http.server
import socket
import ssl
import sys
import threading
import typing as t

from . import exposition
from .web_config import WebConfigError, WebConfigFile

# Connections at a time; what comes above is closed.
MAX_CONNECTIONS = 40
# Seconds that a client may take for a request, and for a TLS handshake.
PATIENCE = 30

PAGE = b'<!DOCTYPE html><title>rdma_exporter</title><h1>rdma_exporter</h1><p><a href="/metrics">Metrics</a></p>\n'


def log(text: str) -> None:
    """One line for the journal."""
    line = " ".join(text.split()).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    print(line, file=sys.stderr, flush=True)


class ListenError(Exception):
    """The address cannot be listened on; the text says which, why, and what unblocks it."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [HOST]:PORT or :PORT."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ListenError("Listening on %r: it has to be HOST:PORT, [HOST]:PORT or :PORT" % text)
    return host, int(port)


class Server(http.server.ThreadingHTTPServer):
    """Answers each connection in a thread of its own; scrapes come one after the other."""

    daemon_threads = True
    # socketserver asks for 5: a scrape of two Prometheus servers, a probe and a person are more.
    request_queue_size = 64

    def __init__(
        self, address: str, scrape: t.Callable[[], bytes], config: WebConfigFile, revision: str, patience: float
    ) -> None:
        host, port = parse_address(address)
        self.scrape = scrape
        self.config = config
        self.revision = revision
        # How long a scrape waits for the one before it.
        self.patience = patience
        self.turn = threading.Lock()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.address_family = socket.AF_INET if not host and not socket.has_dualstack_ipv6() else _family(host or "::")
        try:
            super().__init__((host, port), Handler)
        except OSError as exc:
            raise ListenError(
                "Listening on %s: %s. Another address is given by --web.listen-address" % (address, exc.strerror)
            ) from exc

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer looks its own name up in the DNS.
        socketserver_bind(self)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: t.Any, client_address: t.Any) -> None:
        try:
            request.settimeout(PATIENCE)
            config = self.config.current()
            if config is not None and config.context is not None:
                # The handshake waits for the client: here, and not where all are waited for.
                request = config.context.wrap_socket(request, server_side=True)
            self.finish_request(request, client_address)
        except WebConfigError as exc:
            log(str(exc))
        except (OSError, ssl.SSLError):
            pass  # the client went away, or does not speak TLS
        except Exception as exc:
            log("answering %s: %s: %s" % (client_address[0], type(exc).__name__, exc))
        finally:
            self.shutdown_request(request)
            self._free.release()


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

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/-/healthy":
            # Without a password: a kubelet's probe has none, and there is nothing in it but the version.
            self._answer(200, b"rdma_exporter %s is healthy\n" % self.server.revision.encode(), "text/plain")
        elif not self._allowed():
            self._answer(401, b"Unauthorized\n", "text/plain", {"WWW-Authenticate": 'Basic realm="rdma_exporter"'})
        elif path == "/metrics":
            self._metrics()
        elif path == "/":
            self._answer(200, PAGE, "text/html; charset=utf-8")
        else:
            self._answer(404, b"Not found: /metrics and /-/healthy are here\n", "text/plain")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _allowed(self) -> bool:
        config = self.server.config.current()
        if config is None or not config.users:
            return True
        scheme, _space, told = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(told, validate=True).decode("utf-8").partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return bool(colon) and config.allows(name, password)

    def _metrics(self) -> None:
        if not self.server.turn.acquire(timeout=self.server.patience):
            self._answer(503, b"The scrape before this one is not done\n", "text/plain")
            return
        try:
            body = self.server.scrape()
        finally:
            self.server.turn.release()
        headers = {}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            # Level 1 makes it a twentieth of its size already.
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        self._answer(200, body, exposition.CONTENT_TYPE, headers)

    def _answer(self, status: int, body: bytes, kind: str, headers: t.Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: t.Any) -> None:  # noqa: A002 - the parameter's name in the library
        """A request is no news."""


__all__ = ("MAX_CONNECTIONS", "ListenError", "Server", "log", "parse_address")
