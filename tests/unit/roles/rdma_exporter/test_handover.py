# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The socket between the process that looks and the one that answers HTTP."""

from __future__ import annotations

import contextlib
import queue
import socket
import stat
import struct
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import handover, look
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.handover import HandoverError

LIMIT_S = 20.0


class Site:
    """A process that looks: what a look returns, or raises, is given by the test."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.listener = handover.listen(self.path)
        self.looks, self.over = 0, False
        self.looking = threading.Event()
        self.results: queue.Queue[t.Any] = queue.Queue()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self.over:
            handover.hand_over(self.listener, self._look)

    def _look(self) -> bytes:
        self.looks += 1
        self.looking.set()
        result = self.results.get()
        if isinstance(result, Exception):
            raise result
        return b"" if self.over else result

    def ask(self, seconds: float = LIMIT_S) -> bytes:
        return handover.ask(self.path, seconds)

    def end(self) -> None:
        self.over = True
        self.results.put(b"")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.path)
        self._thread.join()
        self.listener.close()


@pytest.fixture
def site(tmp_path: Path) -> t.Iterator[Site]:
    made = Site(tmp_path / "look.sock")
    yield made
    made.end()


def test_it_is_for_owner_and_group_alone(site: Site) -> None:
    assert stat.S_IMODE(Path(site.path).stat().st_mode) == 0o660


def test_a_look_for_each_who_asks(site: Site) -> None:
    for text in (b"one\n", b"x" * 3_000_000, b""):
        site.results.put(text)
        assert site.ask() == text
    assert site.looks == 3


def test_who_comes_during_a_look_shares_it(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        clients = []
        for _turn in range(5):
            clients.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
            clients[-1].settimeout(LIMIT_S)
            clients[-1].connect(site.path)
            assert site.looking.wait(LIMIT_S)
        site.results.put(b"text")
        assert [client.recv(100) for client in clients] == [struct.pack(">Q", 4) + b"text"] * 5
        assert site.looks == 1
    # Who comes back has another.
    site.results.put(b"another")
    assert (site.ask(), site.looks) == (b"another", 2)


def test_what_is_sent_is_not_read(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(site.path)
        client.sendall(b"\xff" * 10_000)
        site.results.put(b"text")
        assert client.recv(100) == struct.pack(">Q", 4) + b"text"


def test_who_reads_nothing_costs_the_others_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SEND_S", 0.1)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(site.path)
        site.results.put(b"x" * 3_000_000)
        client.settimeout(LIMIT_S)
        # All have arrived before the first one is answered.
        assert client.recv(8)
        site.results.put(b"next")
        assert site.ask() == b"next"


def test_a_look_that_fails(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    site.results.put(RuntimeError("what a pity"))
    with pytest.raises(HandoverError, match="it exited without an answer; its log has the reason"):
        site.ask()
    site.results.put(b"again")
    assert site.ask() == b"again"
    assert capfd.readouterr().err == "The look failed: RuntimeError: what a pity\n"


def test_a_text_that_is_too_long(
    site: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "MOST_BYTES", 10)
    site.results.put(b"x" * 11)
    with pytest.raises(HandoverError, match="it exited without an answer"):
        site.ask()
    assert capfd.readouterr().err == "The look's text has 11 bytes, and 10 may be handed over\n"


def test_a_look_that_takes_too_long(site: Site) -> None:
    with pytest.raises(HandoverError, match=r"no answer within 0\.1 s"):
        site.ask(0.1)
    site.results.put(b"")


def test_no_process_looks(tmp_path: Path) -> None:
    path = tmp_path / "look.sock"
    with pytest.raises(HandoverError, match=f"{path}: No such file or directory"):
        handover.ask(str(path), 1)
    handover.listen(str(path)).close()
    with pytest.raises(HandoverError, match=f"{path}: Connection refused"):
        handover.ask(str(path), 1)
    # What the one before has left does not stop the next one.
    handover.listen(str(path)).close()


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_notified(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(address)
        look.ready()
        assert notified.recv(100) == b"READY=1"


def test_an_offer_that_is_too_large(tmp_path: Path) -> None:
    path = str(tmp_path / "look.sock")
    with handover.listen(path) as listener:
        offer = threading.Thread(target=lambda: listener.accept()[0].send(struct.pack(">Q", 1 << 40)))
        offer.start()
        with pytest.raises(HandoverError, match="it offers 1099511627776 bytes, and 33554432 may be handed over"):
            handover.ask(path, LIMIT_S)
        offer.join()
