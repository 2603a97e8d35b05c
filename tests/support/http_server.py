# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server on this machine; a subclass says what it answers.

class Refusing(Server):
def answer(self, request: Request) -> Answer:
return Answer(403)

with Refusing() as server:
... server.url ...
"""

from __future__ import annotations

import abc
import email.message
import http.server
import socketserver
import ssl
import threading
import typing as t


class Request(t.NamedTuple):
    """What was asked; the path is with its query."""

    method: str
    path: str
    headers: email.message.Message
    body: bytes


class Answer(t.NamedTuple):
    """What is answered; after a body of another length than is announced, the connection is cut."""

    status: int = 200
    body: bytes = b""
    headers: t.Mapping[str, str] = {}
    length: int | None = None


S = t.TypeVar("S", bound="Server")


class Server(http.server.ThreadingHTTPServer, abc.ABC):
    """Answers each connection in a thread, until the end of the block."""

    daemon_threads = True

    def __init__(self, address: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None) -> None:
        super().__init__((address, port), _Handler)
        self.url = f"{'https' if context else 'http'}://{address}:{self.server_port}"
        if context:
            # The handshake is for the connection's thread.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service for this host's name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @abc.abstractmethod
    def answer(self, request: Request) -> Answer | None:
        """Return the answer, or None where the connection is cut instead."""

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Say nothing: clients that give up are part of the tests."""

    def __enter__(self: S) -> S:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.answer(Request(self.command, self.path, self.headers, body))
        if answer is None or answer.length is not None:
            self.close_connection = True
        if answer is None:
            return
        length = len(answer.body) if answer.length is None else answer.length
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    # The names that http.server looks for.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_words: t.Any) -> None:
        """Say nothing."""


__all__ = ["Answer", "Request", "Server"]
