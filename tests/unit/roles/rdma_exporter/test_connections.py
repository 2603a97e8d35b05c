# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which connection makes room for a new one."""

from __future__ import annotations

import contextlib
import socket

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import connections


def test_who_has_got_metrics_makes_no_room_for_strangers() -> None:
    table = connections.Connections()
    sockets = [socket.socket() for _turn in range(connections.MAX_CONNECTIONS + 2)]
    with contextlib.ExitStack() as stack:
        for client in sockets:
            stack.enter_context(client)
        table.remember("192.0.2.1")
        known, *strangers, last, second = sockets
        assert table.add(known, "192.0.2.1", 10)
        for number, client in enumerate(strangers):
            assert table.add(client, f"198.51.100.{number % 250}", 10)
        assert table.add(last, "203.0.113.1", 10)
        assert (table.of(known).ended, table.of(strangers[0]).ended) == (False, True)
        for client in [*strangers, last]:
            table.of(client).work()
        assert not table.add(second, "203.0.113.2", 10)
        assert table.add(second, "192.0.2.1", 10)
        assert table.of(known).ended


def test_an_address_has_a_limit_of_its_own() -> None:
    """Its own oldest connection makes room, and no one else's; there is room for many others."""
    table = connections.Connections()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _turn in range(connections.MAX_OF_ADDRESS + 4)]
        first, *crowd, last, stranger = sockets
        assert table.add(first, "198.51.100.1", 10)
        for client in crowd:
            assert table.add(client, "203.0.113.1", 10)
        assert [client for client in (first, *crowd) if table.of(client).ended] == crowd[:1]
        for client in crowd:
            table.of(client).work()
        assert not table.add(last, "203.0.113.1", 10)
        assert table.add(stranger, "198.51.100.2", 10)
