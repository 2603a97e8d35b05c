# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scrapes with and without a password, clients that send a byte now and then, and rewrites of the users: all at once."""

from __future__ import annotations

import contextlib
import http.client
import os
import selectors
import socket
import threading
import time
import typing as t
from pathlib import Path

# A client goes on at this pace, and comes back when it was disconnected.
BYTE_EVERY_S = 0.5
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 100_000
# What a scrape has to be answered with, by who asks.
WANTED = {"right": 200, "none": 401, "wrong": 401}
CLIENTS = ("right", "none", "right", "wrong")


class Storm:
    """Clients of an exporter, and what they were answered."""

    def __init__(self, port: int, logins: t.Mapping[str, t.Mapping[str, str]]) -> None:
        self.port, self.logins = port, logins
        # Scrapes by who asked and what came: a status, or the name of an exception.
        self.answers: dict[tuple[str, t.Any], int] = {}
        # Seconds of the slowest scrape with the right password.
        self.slowest = 0.0
        self.scrapes = self.rewrites = 0
        # Connections of slow clients, those that came back included.
        self.slow_connections = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def run(self, scrapes: int, slow: int, rewrites: int, texts: t.Sequence[str], config: Path) -> None:
        """Scrape so often, beside slow clients, while the configuration is replaced by one text after the other."""
        self.scrapes = scrapes
        # Prometheus has been there before.
        self._scrape("right", 1)
        clients = [threading.Thread(target=self._scrape, args=(who, scrapes // len(CLIENTS))) for who in CLIENTS]
        beside = [threading.Thread(target=self._slowly, args=(slow,))]
        beside.append(threading.Thread(target=self._rewrite, args=(rewrites, texts, config, clients)))
        for thread in beside:
            thread.start()
        while self.slow_connections < slow:
            time.sleep(0.01)
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        self._ended.set()
        for thread in beside:
            thread.join()

    def wrong(self) -> dict[tuple[str, t.Any], int]:
        """What was not answered as it has to be."""
        return {key: number for key, number in self.answers.items() if WANTED[key[0]] != key[1]}

    def _scrape(self, who: str, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for turn in range(number):
            if turn % 4 == 0:  # some keep their connection
                connection.close()
            began = time.monotonic()
            answer = self._ask(connection, who)
            with self._lock:
                self.answers[who, answer] = self.answers.get((who, answer), 0) + 1
                if who == "right":
                    self.slowest = max(self.slowest, time.monotonic() - began)
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, who: str) -> t.Any:
        kept = connection.sock is not None
        try:
            connection.request("GET", "/metrics", headers=dict(self.logins[who]))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            # As every HTTP client: a kept connection may be closed by the server at any time.
            return self._ask(connection, who) if kept else type(exc).__name__

    def _slowly(self, number: int) -> None:
        """Keep so many requests going that never end, each from an address of its own."""
        sent: dict[socket.socket, int] = {}
        with selectors.DefaultSelector() as selector:
            while not self._ended.is_set():
                while len(sent) < number:
                    client = self._connect(self.slow_connections % number)
                    selector.register(client, selectors.EVENT_READ)
                    sent[client] = 0
                    self.slow_connections += 1
                until = time.monotonic() + BYTE_EVERY_S
                while (left := until - time.monotonic()) > 0 and not self._ended.is_set():
                    for key, _events in selector.select(min(left, 0.1)):
                        self._drop(t.cast(socket.socket, key.fileobj), selector, sent)
                for client, offset in list(sent.items()):
                    try:
                        sent[client] += client.send(REQUEST[offset : offset + 1])
                    except OSError:
                        self._drop(client, selector, sent)
            for client in sent:
                client.close()

    def _connect(self, number: int) -> socket.socket:
        # All of 127.0.0.0/8 is this machine.
        source = f"127.0.{number // 250 + 1}.{number % 250 + 1}"
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(source, 0))

    @staticmethod
    def _drop(client: socket.socket, selector: selectors.BaseSelector, sent: dict[socket.socket, int]) -> None:
        with contextlib.suppress(OSError):
            if client.recv(1000):
                return
        selector.unregister(client)
        client.close()
        del sent[client]

    def _rewrite(
        self, number: int, texts: t.Sequence[str], config: Path, clients: t.Sequence[threading.Thread]
    ) -> None:
        """Replace the file as Ansible does, as evenly as may be while there are scrapes."""
        aside = config.with_suffix(".new")
        for turn in range(number):
            # So many scrapes are due by now.
            while sum(self.answers.values()) * number < turn * self.scrapes and any(map(alive, clients)):
                time.sleep(0.002)
            aside.write_text(texts[turn % len(texts)])
            os.replace(aside, config)
            self.rewrites += 1


def alive(thread: threading.Thread) -> bool:
    return thread.is_alive() or thread.ident is None


__all__ = ["Storm"]
