# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scripted API server, and clients of it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import auth
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import Client

# Status, body, and headers; a status of 0 cuts the connection instead.
Answer = t.Union[t.Tuple[int, t.Any], t.Tuple[int, t.Any, t.Dict[str, str]]]
TOKEN = "a-token-nobody-may-see"


class FakeModule:
    """What parameters() uses of AnsibleModule."""

    def __init__(self, **params: t.Any) -> None:
        self.params = {**dict.fromkeys(kubernetes.CONNECTION), "timeout": 5, **params}
        # As AnsibleModule does it with every option that has no_log.
        self.no_log_values: set[str] = set()
        for name in ("kubeconfig", "api_key", "password"):
            self.no_log_values |= auth._texts(self.params[name])


class Server(http.server.ThreadingHTTPServer):
    """Gives scripted answers, the last one for ever, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, list[tuple[str, str]], bytes]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return "http://127.0.0.1:%d" % self.server_address[1]

    def answer_to(self, path: str) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @contextlib.contextmanager
    def running(self) -> t.Iterator[Server]:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        server = t.cast("Server", self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.asked.append((self.command, self.path, self.headers.items(), body))
        code, value, *more = server.answer_to(self.path)
        if not code:
            self.close_connection = True
            return
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for name, header in (more[0] if more else {}).items():
            self.send_header(name, header)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, *_unused: t.Any) -> None:
        pass


def client(url: str, **options: t.Any) -> Client:
    return Client(kubernetes.parameters(t.cast("t.Any", FakeModule(host=url, api_key=TOKEN, **options))))


def sent(server: Server, header: str) -> list[str]:
    return [value for name, value in server.asked[-1][2] if name.lower() == header]
