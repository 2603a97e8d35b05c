# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server: clients that go, hang or know no password, ports in use, and the web configuration's mistakes."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import server as web
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import web_config
from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter.web_config import WebConfigFile


@contextlib.contextmanager
def serving(
    scrape: t.Callable[[], bytes] = lambda: b"up 1\n", config: Path | None = None, patience: float = 5.0
) -> t.Iterator[web.Server]:
    one = web.Server("127.0.0.1:0", scrape, WebConfigFile(str(config) if config else None), "r1", patience)
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield one
    finally:
        one.shutdown()
        one.server_close()
        thread.join()


def ask(one: web.Server, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, bytes, t.Any]:
    connection = http.client.HTTPConnection("127.0.0.1", one.server_port, timeout=20)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_pages() -> None:
    with serving() as one:
        status, body, headers = ask(one)
        assert (status, body, headers["Content-Type"]) == (200, b"up 1\n", "text/plain; version=0.0.4; charset=utf-8")
        status, body, headers = ask(one, Accept_Encoding="gzip")
        assert (headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", b"up 1\n")
        assert ask(one, "/-/healthy")[:2] == (200, b"rdma_exporter r1 is healthy\n")
        assert ask(one, "/")[0] == 200
        assert ask(one, "/nowhere")[0] == 404
        assert ask(one, method="HEAD")[:2] == (200, b"")
        assert ask(one, method="POST")[0] == 501


def test_a_connection_serves_many_scrapes() -> None:
    with serving() as one:
        connection = http.client.HTTPConnection("127.0.0.1", one.server_port, timeout=20)
        for _turn in range(3):
            connection.request("GET", "/metrics")
            assert connection.getresponse().read() == b"up 1\n"
        connection.close()


def test_a_scrape_that_is_cut_off(capfd: pytest.CaptureFixture[str]) -> None:
    """The client goes while the answer, larger than any buffer, is on its way."""
    with serving(lambda: b"x" * 20_000_000) as one:
        for _turn in range(3):
            client = socket.create_connection(("127.0.0.1", one.server_port), timeout=20)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100)
            client.close()
        assert ask(one, "/-/healthy")[0] == 200
        assert len(ask(one)[1]) == 20_000_000
    assert "Traceback" not in capfd.readouterr().err


def test_who_says_nothing_keeps_nobody_waiting() -> None:
    with serving() as one, contextlib.ExitStack() as stack:
        for _turn in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", one.server_port), timeout=20))
        assert ask(one)[0] == 200


def test_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_CONNECTIONS", 3)
    with serving() as one, contextlib.ExitStack() as stack:
        for _turn in range(3):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", one.server_port), timeout=20))
            client.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(one)
        stack.close()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with contextlib.suppress(http.client.RemoteDisconnected, ConnectionResetError):
                assert ask(one)[0] == 200
                break
        else:
            pytest.fail("no connection was free again")


def test_scrapes_take_turns() -> None:
    come_back = threading.Event()
    with serving(lambda: b"late\n" if come_back.wait(20) else b"", patience=0.2) as one:
        answers: list[bytes] = []
        first = threading.Thread(target=lambda: answers.append(ask(one)[1]))
        first.start()
        until = time.monotonic() + 20
        while not one.turn.locked() and time.monotonic() < until:
            time.sleep(0.01)
        assert ask(one)[:2] == (503, b"The scrape before this one is not done\n")
        assert ask(one, "/-/healthy")[0] == 200
        come_back.set()
        first.join()
        assert answers == [b"late\n"]


def test_a_scrape_that_breaks(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> bytes:
        raise RuntimeError("what a pity")

    with serving(broken) as one:
        for _turn in range(2):
            with pytest.raises(http.client.RemoteDisconnected):
                ask(one)
        assert ask(one, "/-/healthy")[0] == 200
    assert "RuntimeError: what a pity" in capfd.readouterr().err


def test_the_port_is_taken() -> None:
    with serving() as one, pytest.raises(web.ListenError) as caught:
        web.Server(f"127.0.0.1:{one.server_port}", lambda: b"", WebConfigFile(None), "r1", 1)
    assert str(caught.value) == (
        f"Listening on 127.0.0.1:{one.server_port}: Address already in use. "
        "Another address is given by --web.listen-address"
    )


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
    with pytest.raises(web.ListenError, match=r"it has to be HOST:PORT, \[HOST\]:PORT or :PORT"):
        web.parse_address(text)


# --- web configuration ---------------------------------------------------------------------------------

# text of the file, what is said about it
WRONG = [
    ("[]", "the document: it has to be a mapping"),
    ("a: {", "it is no YAML: "),
    ("rate_limit: {}", "rate_limit: this exporter has no such setting. Leave it out"),
    ("tls_server_config: {cert_file: a}", "tls_server_config.key_file: it is missing"),
    ("tls_server_config: {cipher_suites: []}", "tls_server_config.cipher_suites: this exporter has no such setting"),
    (
        "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
        "'RequireAnyClientCert' is none of NoClientCert, RequireAndVerifyClientCert, VerifyClientCertIfGiven",
    ),
    (
        "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
        "tls_server_config.client_ca_file: RequireAndVerifyClientCert needs it",
    ),
    ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "'TLS10' is none of TLS12, TLS13"),
    ("tls_server_config: {cert_file: a, key_file: b}", "the certificates cannot be used: "),
    ("basic_auth_users: [a]", "basic_auth_users: it has to be a mapping of names to bcrypt hashes"),
    ("basic_auth_users: {ann: secret}", "basic_auth_users.ann: it is no bcrypt hash (htpasswd -nB ann)"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text)
    with pytest.raises(web_config.WebConfigError) as caught:
        web_config.load(str(file))
    assert str(caught.value).startswith(f"Reading {file}: ")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value).replace("is no", "")


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(web_config.WebConfigError, match=r"web.yml: No such file or directory"):
        web_config.load(str(tmp_path / "web.yml"))


def test_a_file_that_becomes_wrong_lets_nobody_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yml"
    file.write_text("http_server_config: {http2: false}")
    with serving(config=file) as one:
        assert ask(one)[0] == 200
        file.write_text("basic_auth_users: {ann: nonsense}")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(one)
        assert "basic_auth_users.ann: it is no bcrypt hash" in capfd.readouterr().err
        file.write_text("{}  # right again")
        assert ask(one)[0] == 200
