# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes.server import Answer, Server


@pytest.fixture
def serve() -> t.Iterator[t.Callable[..., Server]]:
    servers: list[Server] = []

    def start(*answers: Answer) -> Server:
        servers.append(Server(list(answers)))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
