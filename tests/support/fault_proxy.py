# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before a real API server that makes one fault on purpose: at the request whose number is given.

    with FaultProxy(plane, tmp_path) as proxy:
        proxy.arm("500", at=2)
        module(kubeconfig=proxy.kubeconfig)

What it lets through is asked as the administrator.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import certificates, kubeconfig
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client

# Seconds that a slow answer takes longer than whoever asks has patience.
LATE = 1.0


def _status(code: int, reason: str, message: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**body, "message": message}).encode()


CONFLICT = "Operation cannot be fulfilled: the object has been modified; please apply your changes"
# Answers instead of the API server's own.
ANSWERS: dict[str, Answer] = {
    "409": Answer(409, _status(409, "Conflict", CONFLICT)),
    # API Priority and Fairness, and the filter before it, answer so (tooManyRequests in apiserver's maxinflight.go).
    "429": Answer(429, b"Too many requests, please try again later.\n", {"Retry-After": "1"}),
    "500": Answer(500, _status(500, "InternalError", "Internal error occurred: etcdserver: leader changed")),
    "503": Answer(503, b"<html><body>no healthy upstream</body></html>"),
    "half a JSON": Answer(200, b'{"kind": "List", "items": [{"metadata": {"name": "x'),
}
# "cut": before the request has reached the API server; "lost": it was done, and no answer arrives; "slow": too late.
FAULTS = (*ANSWERS, "cut", "lost", "half an answer", "slow")


class FaultProxy(Server):
    """Passes requests on, and makes its fault at one of them."""

    def __init__(self, plane: Cluster, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = certificates.Authority(directory, "proxy")
        key, certificate = authority.server("proxy", ["127.0.0.1"])
        pem = directory / "proxy.pem"
        certificates.write(pem, key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        super().__init__(context=context)
        self.kubeconfig = directory / "proxy.kubeconfig"
        user = kubeconfig.token_user("nobody-looks-at-it")
        certificates.write(self.kubeconfig, kubeconfig.render(self.url, authority.file.read_bytes(), "proxy", user))
        self.behind = client(plane.kubeconfig, 60)
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

    def due(self, request: str) -> bool:
        """Record a request, and return whether it is the one."""
        with self.lock:
            self.asked.append(request)
            # Once: what is asked for again gets through.
            self.made = self.made or len(self.asked) - 1 == self.at
            return len(self.asked) - 1 == self.at

    def answer(self, request: Request) -> Answer | None:
        fault = self.fault if self.due(f"{request.method} {request.path}") else ""
        if fault in ANSWERS:
            return ANSWERS[fault]
        # Whoever asks is cut off, before or after it was done.
        if fault == "cut":
            return None
        answer = self._pass_on(request)
        if fault == "slow":
            time.sleep(self.patience + LATE)
        if fault == "half an answer":
            return answer._replace(body=answer.body[: len(answer.body) // 2], length=len(answer.body))
        return None if fault else answer

    def _pass_on(self, request: Request) -> Answer:
        headers = _only(request.headers, "accept", "content-type", "user-agent")
        ours = {**headers, **dict(self.behind.headers()), "User-Agent": headers.get("User-Agent", "proxy")}
        url, body = self.behind.host + request.path, request.body or None
        answer = self.behind._pool.request(request.method, url, body=body, headers=ours, redirect=False, retries=False)
        return Answer(answer.status, answer.data, _only(answer.headers, "content-type", "retry-after"))


def _only(headers: t.Any, *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in names}


__all__ = ["ANSWERS", "FAULTS", "FaultProxy"]
