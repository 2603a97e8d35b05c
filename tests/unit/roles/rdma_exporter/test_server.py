# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server: clients that go, hang or know no password, ports in use, and the web configuration's mistakes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import socket
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import (
    connections,
    passwords,
    web_config,
)
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import server as web
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.handover import HandoverError
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.web_config import WebConfigFile
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for


@contextlib.contextmanager
def serving(
    look: t.Callable[[float], bytes] = lambda seconds: b"up 1\n", config: Path | None = None, limit: float = 10.0
) -> t.Iterator[web.Server]:
    server = web.Server("127.0.0.1:0", look, WebConfigFile(str(config) if config else None), "r1", limit)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(server: web.Server, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, bytes, t.Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_pages() -> None:
    with serving() as server:
        status, body, headers = ask(server)
        assert (status, body, headers["Content-Type"]) == (200, b"up 1\n", "text/plain; version=0.0.4; charset=utf-8")
        status, body, headers = ask(server, Accept_Encoding="gzip")
        assert (headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", b"up 1\n")
        assert ask(server, "/-/healthy")[:2] == (200, b"rdma_exporter r1 is healthy\n")
        assert ask(server, "/")[0] == 200
        assert ask(server, "/nowhere")[0] == 404
        assert ask(server, method="HEAD")[:2] == (200, b"")
        assert ask(server, method="POST")[0] == 501


def test_a_connection_serves_many_scrapes() -> None:
    with serving() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        for _turn in range(3):
            connection.request("GET", "/metrics")
            assert connection.getresponse().read() == b"up 1\n"
        connection.close()


def test_a_scrape_that_is_cut_off(capfd: pytest.CaptureFixture[str]) -> None:
    """The client goes while the answer, larger than any buffer, is on its way."""
    with serving(lambda seconds: b"x" * 20_000_000) as server:
        for _turn in range(3):
            client = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100)
            client.close()
        assert ask(server, "/-/healthy")[0] == 200
        assert len(ask(server)[1]) == 20_000_000
    assert "Traceback" not in capfd.readouterr().err


def connect(server: web.Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20, source_address=(source, 0))


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("same", [True, False], ids=["one address", "an address for each"])
def test_clients_that_say_nothing_lock_no_one_out(same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has let us wait the longest goes."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(connections, "MAX_OF_ADDRESS", 3 if same else 1)
    with serving() as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(server, f"127.0.0.{1 if same else turn + 2}")) for turn in range(3)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHos")
        assert ask(server)[0] == 200
        assert ended(clients[0])
        for client in clients[1:]:
            client.sendall(b"t: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_who_is_being_answered_keeps_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    looks, come_back = threading.Event(), threading.Event()

    def look(seconds: float) -> bytes:
        looks.set()
        assert come_back.wait(20)
        return b"late\n"

    with serving(look) as server:
        answers: list[bytes] = []
        first = threading.Thread(target=lambda: answers.append(ask(server)[1]))
        first.start()
        assert looks.wait(20)
        with connect(server) as refused:
            assert ended(refused)
        come_back.set()
        first.join()
        assert answers == [b"late\n"]


SLOW = {
    "no request": [],
    "headers, byte by byte": [b"G", b"E", b"T"],
    "one request, and no further one": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_a_request_has_one_limit(sent: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "IDLE", 0.5)
    with serving(limit=0.5) as server, connect(server) as client:
        began = time.monotonic()
        for piece in sent:
            client.sendall(piece)
            time.sleep(0.1)
        while not ended(client):
            assert time.monotonic() < began + 20


def test_an_answer_that_is_not_read_has_its_limit(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(lambda seconds: b"x" * 20_000_000, limit=0.5) as server, connect(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: server.connections._open, 20)
        wait_for(lambda: not server.connections._open, 20)
    assert "Traceback" not in capfd.readouterr().err


def test_a_look_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    def look(seconds: float) -> bytes:
        assert 0 < seconds <= 9  # a second is left to write
        raise HandoverError("/run/x: No such file or directory")

    said = "The process that looks at the devices has not handed over anything: /run/x: No such file or directory\n"
    with serving(look) as server:
        assert ask(server)[:2] == (503, said.encode())
        assert ask(server, "/-/healthy")[0] == 200
    assert capfd.readouterr().err == said


def test_a_scrape_that_breaks(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(seconds: float) -> bytes:
        raise RuntimeError("what a pity")

    with serving(broken) as server:
        for _turn in range(2):
            with pytest.raises(http.client.RemoteDisconnected):
                ask(server)
        assert ask(server, "/-/healthy")[0] == 200
    assert "RuntimeError: what a pity" in capfd.readouterr().err


def test_the_port_is_taken() -> None:
    with serving() as server:
        address = f"127.0.0.1:{server.server_port}"
        message = message_of(web.ListenError, web.Server, address, lambda seconds: b"", WebConfigFile(None), "r1", 1)
    assert message == f"Listening on {address}: Address already in use. Set another address with --web.listen-address"


ADDRESSES = [
    (":9879", ("", 9879)),
    ("127.0.0.1:1", ("127.0.0.1", 1)),
    ("[::1]:9879", ("::1", 9879)),
    ("host.example:80", ("host.example", 80)),
]


@pytest.mark.parametrize(("text", "address"), ADDRESSES)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert web.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "9879", "::1:9879", "host:", "host:x", "host:65536", "host:²", "host:" + "9" * 5000]
)
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(web.ListenError, match=r"it must be HOST:PORT, \[HOST\]:PORT or :PORT"):
        web.parse_address(text)


# --- web configuration ---------------------------------------------------------------------------------

# text of the file, what is said about it
WRONG = [
    ("[]", "the document: it must be a mapping"),
    ("a: {", "it is not valid YAML: "),
    ("rate_limit: {}", "rate_limit: this exporter has no such setting. Remove it"),
    ("tls_server_config: {cert_file: a}", "tls_server_config.key_file: it is missing"),
    ("tls_server_config: {cipher_suites: []}", "tls_server_config.cipher_suites: this exporter has no such setting"),
    (
        "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
        "'RequireAnyClientCert' is not one of NoClientCert, RequireAndVerifyClientCert, VerifyClientCertIfGiven",
    ),
    (
        "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
        "tls_server_config.client_ca_file: RequireAndVerifyClientCert needs it",
    ),
    ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "'TLS10' is not one of TLS12, TLS13"),
    ("tls_server_config: {cert_file: a, key_file: b}", "tls_server_config.cert_file: "),
    ("tls_server_config: {cert_file: web.yml, key_file: web.yml}", "the certificates cannot be used: "),
    ("", "the document: it is empty. {} lets everyone in, without TLS"),
    ("# nothing yet", "the document: it is empty. {} lets everyone in, without TLS"),
    ("basic_auth_users: [a]", "basic_auth_users: it must be a mapping of names to bcrypt hashes"),
    ("basic_auth_users: {ann: secret}", "basic_auth_users.ann: it is not a bcrypt hash (htpasswd -nB ann)"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text)
    message = message_of(web_config.WebConfigError, web_config.load, str(file))
    assert message.startswith(f"Reading {file}: ")
    assert said in message
    assert "secret" not in message.replace("is no", "")


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(web_config.WebConfigError, match=r"web.yml: No such file or directory"):
        web_config.load(str(tmp_path / "web.yml"))


def test_a_file_that_becomes_wrong_lets_no_one_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yml"
    file.write_text("http_server_config: {http2: false}")
    with serving(config=file) as server:
        assert ask(server)[0] == 200
        for text, said in (
            ("basic_auth_users: {ann: nonsense}", "basic_auth_users.ann: it is not a bcrypt hash"),
            ("", "the document: it is empty"),
        ):
            file.write_text(text)
            with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                ask(server)
            assert said in capfd.readouterr().err
        file.write_text("{}  # right again")
        assert ask(server)[0] == 200


def test_a_file_that_is_replaced_is_in_force_as_a_whole(tmp_path: Path) -> None:
    """Never none, and never one that was replaced before the question was put."""
    file, aside = tmp_path / "web.yml", tmp_path / "aside"
    texts = ["http_server_config: {http2: false} # %d\n" % number for number in range(50)]
    file.write_text(texts[0])
    config = WebConfigFile(str(file))
    put = [0]
    wrong: list[object] = []
    ended = threading.Event()

    def ask_again() -> None:
        while not ended.is_set():
            since = put[0]
            settings = config.current()
            if settings is None or texts.index(settings.read[str(file)].decode()) < since:
                wrong.append(settings)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=ask_again) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for number, text in enumerate(texts):
            aside.write_text(text)
            aside.replace(file)
            put[0] = number
            time.sleep(0.002)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert wrong == []


# --- passwords -----------------------------------------------------------------------------------------


class Bcrypt:
    """The library, with hashes that can be read, and a turn of its own for each comparison."""

    def __init__(self) -> None:
        self.compared: list[str] = []
        self.at_once = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def checkpw(self, password: bytes, known: bytes) -> bool:
        self.at_once += 1
        assert self.at_once == 1
        self.compared.append(password.decode())
        assert self.go_on.wait(20)
        self.at_once -= 1
        return known.endswith(b"." + password)


@pytest.fixture
def bcrypt(monkeypatch: pytest.MonkeyPatch) -> Bcrypt:
    made = Bcrypt()
    monkeypatch.setitem(sys.modules, "bcrypt", made)
    return made


def hashed(password: str) -> str:
    return "$2b$10$" + ("." + password).rjust(53, ".")


def login(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_right_and_wrong_are_remembered_over_a_rewrite(tmp_path: Path, bcrypt: Bcrypt) -> None:
    file = tmp_path / "web.yml"
    rights = {"ann": hashed("right"), "eve": hashed("other")}
    file.write_text(json.dumps({"basic_auth_users": rights}))
    asked = [("ann", "right", 200), ("ann", "wrong", 401), ("bob", "right", 401), ("eve", "other", 200)]
    with serving(config=file) as server:
        for _turn in range(3):
            for name, password, status in asked:
                assert ask(server, Authorization=login(name, password))[0] == status
            assert bcrypt.compared == ["right", "wrong", "right", "other"]
            rights = dict(reversed(rights.items()))
            file.write_text(json.dumps({"basic_auth_users": rights}))
        # Another hash is another question, and so is a user who is gone.
        file.write_text(json.dumps({"basic_auth_users": {"ann": hashed("new")}}))
        for name, password, status in (("ann", "right", 401), ("eve", "other", 401), ("ann", "new", 200)):
            assert ask(server, Authorization=login(name, password))[0] == status
        assert bcrypt.compared[4:] == ["right", "other", "new"]


def test_wrong_passwords_take_no_place_of_right_ones(bcrypt: Bcrypt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(passwords.REMEMBERED, False, 5)
    checker = passwords.Passwords()
    assert checker.right("ann", hashed("right"), "right", "192.0.2.1")
    for turn in range(20):
        assert not checker.right("ann", hashed("right"), f"wrong{turn}", "192.0.2.1")
    assert len(bcrypt.compared) == 21
    assert checker.right("ann", hashed("right"), "right", "192.0.2.1")
    assert not checker.right("ann", hashed("right"), "wrong19", "192.0.2.1")
    assert len(bcrypt.compared) == 21
    assert not checker.right("ann", hashed("right"), "wrong0", "192.0.2.1")
    assert len(bcrypt.compared) == 22


def test_one_comparison_at_a_time_and_few_that_wait(tmp_path: Path, bcrypt: Bcrypt) -> None:
    """Who is remembered does not wait, and neither does a password that was compared meanwhile."""
    file = tmp_path / "web.yml"
    file.write_text(json.dumps({"basic_auth_users": {"ann": hashed("right"), "eve": hashed("other")}}))
    with serving(config=file) as server:
        assert ask(server, Authorization=login("ann", "right"))[0] == 200
        bcrypt.go_on.clear()
        answers: list[int] = []
        words = ["other"] * 3 + ["wrong1", "wrong2"]
        threads = [
            threading.Thread(target=lambda word=word: answers.append(ask(server, Authorization=login("eve", word))[0]))
            for word in words
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(server.passwords._waiting) == passwords.MAX_WAITING_OF_ADDRESS, 20)
        status, body, headers = ask(server, Authorization=login("eve", "wrong3"))
        assert (status, body, headers["Retry-After"]) == (429, b"Too many passwords wait to be compared\n", "1")
        assert ask(server, Authorization=login("ann", "right"))[0] == 200
        bcrypt.go_on.set()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200, 200, 200, 401, 401]
        assert sorted(bcrypt.compared) == ["other", "right", "wrong1", "wrong2"]
        assert ask(server, Authorization=login("eve", "wrong3"))[0] == 401


def test_waiting_is_limited_for_each_address_and_in_all(bcrypt: Bcrypt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MAX_WAITING", 4)
    monkeypatch.setattr(passwords, "MAX_WAITING_OF_ADDRESS", 3)
    checker = passwords.Passwords()
    bcrypt.go_on.clear()
    threads = [
        threading.Thread(target=checker.right, args=("ann", None, f"{turn}", address))
        for turn, address in enumerate(["192.0.2.1"] * 3 + ["192.0.2.2"])
    ]
    for thread in threads[:3]:
        thread.start()
    wait_for(lambda: len(checker._waiting) == 3, 20)
    with pytest.raises(passwords.TooManyWaiting):
        checker.right("ann", None, "x", "192.0.2.1")
    threads[3].start()
    wait_for(lambda: len(checker._waiting) == 4, 20)
    with pytest.raises(passwords.TooManyWaiting):
        checker.right("ann", None, "x", "192.0.2.2")
    bcrypt.go_on.set()
    for thread in threads:
        thread.join()
    assert checker._waiting == []
