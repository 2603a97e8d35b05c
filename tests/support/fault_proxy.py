# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before a real API server that makes one fault on purpose: at the request whose number is given.

    with FaultProxy(plane, tmp_path) as proxy:
        proxy.arm("500", at=2)
        module(kubeconfig=proxy.kubeconfig)

What it lets through is asked as the administrator.
"""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client
from ansible_collections.rdmaops.gpu_fabric.tests.lab import certificates, kubeconfig
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster

# Seconds that a slow answer takes longer than whoever asks has patience.
LATE = 1.0


def _status(code: int, reason: str, message: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**body, "message": message}).encode()


# Answers instead of the API server's own: code, headers, body.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "409": (
        409,
        {},
        _status(
            409, "Conflict", "Operation cannot be fulfilled: the object has been modified; please apply your changes"
        ),
    ),
    # API Priority and Fairness, and the filter before it, answer so (tooManyRequests in apiserver's maxinflight.go).
    "429": (429, {"Retry-After": "1"}, b"Too many requests, please try again later.\n"),
    "500": (500, {}, _status(500, "InternalError", "Internal error occurred: etcdserver: leader changed")),
    "503": (503, {}, b"<html><body>no healthy upstream</body></html>"),
    "half a JSON": (200, {}, b'{"kind": "List", "items": [{"metadata": {"name": "x'),
}
# "cut": before the request has reached the API server; "lost": it was done, and no answer arrives; "slow": too late.
FAULTS = (*ANSWERS, "cut", "lost", "half an answer", "slow")


class FaultProxy(http.server.ThreadingHTTPServer):
    """Passes requests on, and makes its fault at one of them."""

    daemon_threads = True

    def __init__(self, plane: Cluster, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = certificates.Authority(directory, "proxy")
        key, certificate = authority.server("proxy", ["127.0.0.1"])
        pem = directory / "proxy.pem"
        certificates.write(pem, key + certificate)
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.kubeconfig = directory / "proxy.kubeconfig"
        user = kubeconfig.token_user("nobody-looks-at-it")
        certificates.write(self.kubeconfig, kubeconfig.render(self.url, authority.file.read_bytes(), "proxy", user))
        values = {**dict.fromkeys(client.CONNECTION), "kubeconfig": str(plane.kubeconfig), "timeout": 60}
        self.behind = client.Client(values)
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget what was asked, and make no fault."""
        self.fault, self.at, self.patience = "", -1, 0.0
        self.asked: list[str] = []
        self.made = False

    def arm(self, fault: str, at: int, patience: float = 0.0) -> None:
        """Make a fault at the request with that number, counted from now; slow is what takes longer than ``patience``."""
        assert fault in FAULTS, fault
        self.clear()
        self.fault, self.at, self.patience = fault, at, patience

    def due(self, what: str) -> bool:
        """Record a request, and return whether it is the one."""
        with self.lock:
            self.asked.append(what)
            # Once: what is asked for again gets through.
            self.made = self.made or len(self.asked) - 1 == self.at
            return len(self.asked) - 1 == self.at

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Whoever asked has gone: that is what these tests are about."""

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        passed_on = ("accept", "content-type", "user-agent")
        headers = {name: value for name, value in self.headers.items() if name.lower() in passed_on}
        behind = self.server.behind
        mine = {**headers, **dict(behind.headers()), "User-Agent": headers.get("User-Agent", "proxy")}
        answer = behind._pool.request(
            self.command, behind.host + self.path, body=body or None, headers=mine, redirect=False, retries=False
        )
        kept = {
            name: value for name, value in answer.headers.items() if name.lower() in ("content-type", "retry-after")
        }
        return answer.status, kept, answer.data

    def _answer(self, code: int, headers: t.Mapping[str, str], body: bytes, part: int | None = None) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if part is None else body[:part])
        self.wfile.flush()

    def _asked(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault if self.server.due(f"{self.command} {self.path}") else ""
        if fault in ANSWERS:
            self._answer(*ANSWERS[fault])
            return
        # Whoever asks is cut off, before or after it was done.
        self.close_connection = self.close_connection or bool(fault)
        if fault == "cut":
            return
        code, headers, data = self._pass_on(body)
        if fault == "slow":
            time.sleep(self.server.patience + LATE)
        if fault == "half an answer":
            self._answer(code, headers, data, len(data) // 2)
        elif not fault:
            self._answer(code, headers, data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _asked  # noqa: N815

    def log_message(self, *_unused: t.Any) -> None:
        pass


__all__ = ["ANSWERS", "FAULTS", "FaultProxy"]
