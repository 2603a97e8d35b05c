# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data sets downloaded from a server on this machine: whole, damaged, hostile and hanging."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import time
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import mnist as small
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import module

cifar, mnist, download = module("cifar"), module("mnist"), module("download")
WorkloadError = module("common").WorkloadError

BATCHES = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
RECORD = bytes([7]) + bytes(3072)


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def entry(name: str, content: bytes = RECORD, **fields: t.Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = 0 if "type" in fields else len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, b"" if "type" in fields else content


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


PUBLISHED = [entry(f"cifar-10-batches-bin/{name}.bin") for name in BATCHES]
CIFAR = archive(entry("cifar-10-batches-bin", type=tarfile.DIRTYPE), *PUBLISHED, entry("cifar-10-batches-bin/readme"))
MNIST = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in small.files(8, 2).items()}


class Files(Server):
    """Serves files, and keeps what was asked for."""

    def __init__(self, files: t.Mapping[str, bytes]) -> None:
        super().__init__()
        self.files, self.paths = files, list[str]()
        self.length: int | None = None
        self.over = threading.Event()

    def answer(self, request: Request) -> Answer | None:
        path, _mark, query = request.path.partition("?")
        self.paths.append(request.path)
        if query == "hang":
            self.over.wait(60)
            return None
        if path not in self.files:
            return Answer(404)
        return Answer(200, self.files[path], length=self.length)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> t.Iterator[Files]:
    files = {"/cifar.tar.gz": CIFAR, **{f"/mnist/{name}": content for name, content in MNIST.items()}}
    with Files(files) as running:
        yield running
        running.over.set()


def options(url: str | None, *checksums: tuple[str, str]) -> types.SimpleNamespace:
    return types.SimpleNamespace(data_url=url, data_checksum=list(checksums) or None)


def read_cifar(directory: Path, url: str, checksum: str, *, first: bool = True, patience: float = 30) -> t.Any:
    wanted = download.sources(options(url, ("", checksum)), "CIFAR-10", ())
    return download.read(cifar.read, cifar.unpack, wanted, str(directory), first=first, patience=patience)


@pytest.mark.parametrize("checksum", [sha256(CIFAR), "md5:" + hashlib.md5(CIFAR).hexdigest()], ids=["sha256", "md5"])
def test_cifar(server: Files, tmp_path: Path, checksum: str, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "new" / "data"
    for _time in range(2):
        training, test = read_cifar(directory, f"{server.url}/cifar.tar.gz?token=secret", checksum)
        assert (training.labels, test.labels) == (bytes([7] * 5), bytes([7]))
    # The second time it is there. Of the archive only the images are kept, and nothing beside them.
    assert server.paths == ["/cifar.tar.gz?token=secret"]
    assert [path.name for path in directory.iterdir()] == ["cifar-10-batches-bin"]
    assert sorted(path.name for path in directory.glob("*/*")) == sorted(f"{name}.bin" for name in BATCHES)
    assert capsys.readouterr().out == f"downloading {server.url}/cifar.tar.gz\n"


def test_mnist(server: Files, tmp_path: Path) -> None:
    checksums = [(name, sha256(content)) for name, content in MNIST.items()]
    wanted = download.sources(options(f"{server.url}/mnist/", *checksums), "MNIST", mnist.FILES)
    training, test = download.read(mnist.read, mnist.unpack, wanted, str(tmp_path), first=True, patience=30)
    assert (len(training.labels), len(test.labels)) == (8, 2)
    assert server.paths == [f"/mnist/{name}" for name in MNIST]
    assert {path.name: path.read_bytes() for path in (tmp_path / "MNIST/raw").iterdir()} == MNIST


# path, checksum, what is announced, the message after the URL
BAD = [
    ("cifar.tar.gz", "sha256:" + 64 * "0", None, f": {len(CIFAR)} bytes with {sha256(CIFAR)}, expected sha256:000"),
    ("cifar.tar.gz", "md5:" + 32 * "0", None, f": {len(CIFAR)} bytes with md5:{hashlib.md5(CIFAR).hexdigest()}, expe"),
    ("nothing", sha256(CIFAR), None, ": HTTP Error 404: Not Found (0 bytes were received). Look at --data-url, or put"),
    ("cifar.tar.gz?hang", sha256(CIFAR), None, ": not complete in time (--rendezvous-timeout) (0 bytes were received)"),
]


@pytest.mark.parametrize(("path", "checksum", "length", "message"), BAD, ids=["sha256", "md5", "404", "hangs"])
def test_bad_downloads(
    server: Files, tmp_path: Path, path: str, checksum: str, length: int | None, message: str
) -> None:
    began = time.monotonic()
    output = message_of(WorkloadError, read_cifar, tmp_path, f"{server.url}/{path}", checksum, patience=2)
    assert time.monotonic() - began < 30
    assert f"{server.url}/{path.partition('?')[0]}{message}" in output
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_download(server: Files, tmp_path: Path) -> None:
    server.length = len(CIFAR) + 100
    output = message_of(WorkloadError, read_cifar, tmp_path, f"{server.url}/cifar.tar.gz", sha256(CIFAR + bytes(100)))
    # Which of the two it is depends on the version of Python.
    assert "IncompleteRead" in output or f": {len(CIFAR)} bytes with sha256:" in output
    assert list(tmp_path.iterdir()) == []


def test_no_server(tmp_path: Path) -> None:
    output = message_of(WorkloadError, read_cifar, tmp_path, "http://127.0.0.1:9/cifar.tar.gz", sha256(CIFAR))
    assert output.startswith("Downloading http://127.0.0.1:9/cifar.tar.gz: [Errno 111] Connection refused (0 bytes")


def test_too_large(server: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 100)
    output = message_of(WorkloadError, read_cifar, tmp_path, f"{server.url}/cifar.tar.gz", sha256(CIFAR))
    assert output == f"Downloading {server.url}/cifar.tar.gz: it has more than 100 bytes"
    assert list(tmp_path.iterdir()) == []


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
FIRST = "cifar-10-batches-bin/data_batch_1.bin"
# content of an archive, the message
HOSTILE = [
    (archive(entry(FIRST, **LINK), *PUBLISHED[1:]), f"the archive has no regular file {FIRST}"),
    (
        archive(*PUBLISHED[1:], entry(FIRST, type=tarfile.LNKTYPE, linkname="cifar-10-batches-bin/data_batch_2.bin")),
        f"the archive has no regular file {FIRST}",
    ),
    (archive(entry(f"../{FIRST}"), *PUBLISHED[1:]), f"the archive has no regular file {FIRST}"),
    (archive(entry(f"/{FIRST}"), *PUBLISHED[1:]), f"the archive has no regular file {FIRST}"),
    (archive(entry(f"cifar-10-batches-bin/../{FIRST}"), *PUBLISHED[1:]), f"the archive has no regular file {FIRST}"),
    (archive(), "the archive has no regular file cifar-10-batches-py/data_batch_1, cifar-10-batches-py/data_batch_2"),
    (b"no archive", "not a gzip file"),
    (CIFAR[:-20], "Compressed file ended before the end-of-stream marker was reached"),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_archives(server: Files, tmp_path: Path, content: bytes, message: str) -> None:
    server.files = {"/cifar.tar.gz": content}
    directory = tmp_path / "inside" / "data"
    output = message_of(WorkloadError, read_cifar, directory, f"{server.url}/cifar.tar.gz", sha256(content))
    assert output.startswith(f"Unpacking CIFAR-10: {message}")
    assert list(tmp_path.rglob("*")) == []


def test_what_is_beside_the_images_is_not_unpacked(server: Files, tmp_path: Path) -> None:
    content = archive(entry("../outside"), entry("cifar-10-batches-bin/more", **LINK), *PUBLISHED)
    server.files = {"/cifar.tar.gz": content}
    read_cifar(tmp_path / "data", f"{server.url}/cifar.tar.gz", sha256(content))
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {f"{name}.bin" for name in BATCHES}


def test_the_others_of_a_host_wait(server: Files, tmp_path: Path) -> None:
    url = f"{server.url}/cifar.tar.gz"
    later = threading.Timer(
        1.5, lambda: download.place(cifar.unpack({"": CIFAR})[1], f"{tmp_path}/cifar-10-batches-bin")
    )
    later.start()
    training, _test = read_cifar(tmp_path, url, sha256(CIFAR), first=False)
    assert len(training.labels) == 5
    assert server.paths == []


def test_the_others_of_a_host_do_not_wait_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MARGIN", 0)
    output = message_of(
        WorkloadError, read_cifar, tmp_path, "http://127.0.0.1:9/", sha256(CIFAR), first=False, patience=1
    )
    message = "The first rank of this host has downloaded nothing within 1 s (--rendezvous-timeout): its log says why."
    assert output.startswith(f"{message} No CIFAR-10 in {tmp_path} ")


def test_another_host_was_faster(tmp_path: Path) -> None:
    small.write(tmp_path / "shared", {"file": b"theirs"})
    download.place({"file": b"ours"}, str(tmp_path / "shared"))
    assert (tmp_path / "shared/file").read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = message_of(WorkloadError, download.place, {"a": b""}, f"{tmp_path}/file/cifar-10-batches-bin")
    assert output == f"Writing {tmp_path}/file/cifar-10-batches-bin: File exists"


GIVEN = ("", sha256(b""))
URL = "https://user.example/c.tar.gz?signature=secret"
# title, files, URL, checksums, the message
REFUSED: list[tuple[str, t.Sequence[str], str | None, list[tuple[str, str]], str]] = [
    ("CIFAR-10", (), URL, [], "--data-url: nothing is downloaded without a checksum. Set --data-checksum to sha256: or"),
    ("CIFAR-10", (), None, [GIVEN], "--data-checksum: set --data-url too, or leave it out"),
    *(
        ("CIFAR-10", (), url, [GIVEN], "--data-url: it must be a URL of http or https, without a login and without spaces")
        for url in ("ftp://h/c?secret", "/c.tar.gz", "http://", "http://user:secret@h/c", "http://h/c?a=secret b", "http://[h")
    ),
    ("CIFAR-10", (), URL, [GIVEN, GIVEN], "--data-checksum: with CIFAR-10, set sha256:HEX once, for the archive (or md5"),
    ("CIFAR-10", (), URL, [("c", GIVEN[1])], "--data-checksum: with CIFAR-10, set sha256:HEX once, for the archive"),
    ("MNIST", ("a.gz", "b.gz"), URL, [GIVEN], "--data-checksum: with MNIST, set FILE=sha256:HEX once for each of a.gz, b.gz"),
    ("MNIST", ("a.gz", "b.gz"), URL, [("a.gz", GIVEN[1])] * 2, "--data-checksum: with MNIST, set FILE=sha256:HEX once for"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "files", "url", "checksums", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused(
    title: str, files: t.Sequence[str], url: str | None, checksums: list[tuple[str, str]], message: str
) -> None:
    output = message_of(WorkloadError, download.sources, options(url, *checksums), title, files)
    assert output.startswith(message)
    assert "secret" not in output


def test_the_query_goes_with_every_file() -> None:
    given = options("https://mirror.example/mnist?signature=1", ("a.gz", "md5:1"), ("b.gz", "md5:2"))
    wanted = download.sources(given, "MNIST", ["a.gz", "b.gz"])
    assert {file: (source.url, source.shown) for file, source in wanted.items()} == {
        name: (f"https://mirror.example/mnist/{name}?signature=1", f"https://mirror.example/mnist/{name}")
        for name in ("a.gz", "b.gz")
    }
