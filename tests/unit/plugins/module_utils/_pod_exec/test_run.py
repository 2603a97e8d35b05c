# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which container programs are run in, and what stops them. Real containers: tests/integration/test_pod_exec.py."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import memlock_in
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec import api, crictl, files, run
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.stream import DOCUMENT, TEXT, Tail
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any


# --- crictl (answers as of crictl 1.31)


def sandbox(name: str, namespace: str = "ml", ident: str = "a" * 64) -> Json:
    return {"id": ident, "metadata": {"name": name, "uid": "u", "namespace": namespace, "attempt": 0}}


def test_the_sandbox_is_that_of_the_pod() -> None:
    listed = {"items": [sandbox("train-01"), sandbox("train-0", "mlx"), sandbox("train-0", ident="b" * 64)]}
    assert crictl.sandbox_in(listed, "ml", "train-0") == "b" * 64
    with pytest.raises(ContainerError, match="of this node has no pod ml/train-2 that is ready"):
        crictl.sandbox_in(listed, "ml", "train-2")
    with pytest.raises(ContainerError, match="has more than one pod ml/train-0 that is ready"):
        crictl.sandbox_in({"items": [*listed["items"], sandbox("train-0")]}, "ml", "train-0")
    with pytest.raises(ContainerError, match="has no pod"):
        crictl.sandbox_in({"items": None}, "ml", "train-0")


def test_the_container_by_name_or_the_one_that_was_made_first() -> None:
    rows = [("b", "side", "1750000000000000002"), ("a", "main", "1750000000000000001")]
    listed = {"containers": [{"id": i, "metadata": {"name": name}, "createdAt": made} for i, name, made in rows]}
    assert crictl.container_in(listed, "ml/train-0", None) == ("a", "main")
    assert crictl.container_in(listed, "ml/train-0", "side") == ("b", "side")
    message = message_of(ContainerError, crictl.container_in, listed, "ml/train-0", "other")
    assert message == "The pod ml/train-0 has no running container named other. Running are: main, side"


CRICTL = """#!/bin/sh
case $1 in
pods) echo '{"items": [{"id": "s1", "metadata": {"name": "train-0", "namespace": "ml"}}]}';;
ps) [ "$5" = s1 ] && echo '{"containers": [{"id": "c1", "metadata": {"name": "main"}, "createdAt": "5"}]}';;
inspectp) echo '{"status": {"network": {"ip": "10.244.1.7"}}}';;
exec) shift; [ "$1" = c1 ] && shift && exec "$@";;
esac
"""


def test_by_crictl(tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    (tmp_path / "crictl").write_text("#!/bin/sh\necho 'no such socket' >&2; exit 1\n")
    (tmp_path / "crictl").chmod(0o755)
    assert message_of(ContainerError, crictl.find, "ml/train-0", None) == (
        "Querying the container runtime with 'crictl pods --state ready --namespace ml --output json': it exited with status 1: "
        "no such socket"
    )
    (tmp_path / "crictl").write_text(CRICTL)
    way = crictl.find("ml/train-0", None)
    assert (way.text, way.address) == ("container main of the pod ml/train-0", "10.244.1.7")
    assert run.run(way, ["sh", "-c", "echo a; exit 3"], 20, "mark")[:2] == (3, "a\n")


def test_a_node_without_crictl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ContainerError, match="crictl is not installed"):
        crictl.find("ml/train-0", None)


# --- the API server


def pod(*running: str, **more: Json) -> Json:
    statuses = [{"name": name, "state": {"running": {}} if name in running else {"waiting": {}}} for name in ("a", "b")]
    meta = {"name": "train-0", "namespace": "ml", **more}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Pending", "containerStatuses": statuses},
    }


def test_the_container_that_kubectl_takes() -> None:
    assert api.container_in(pod("a", "b"), "ml/train-0", None) == "a"
    assert api.container_in(pod("a", "b"), "ml/train-0", "b") == "b"
    noted = {"kubectl.kubernetes.io/default-container": "b"}
    assert api.container_in(pod("a", "b", annotations=noted), "ml/train-0", None) == "b"
    with pytest.raises(ContainerError, match=r"no running container named a\. Running are: b"):
        api.container_in(pod("b"), "ml/train-0", None)
    assert message_of(ContainerError, api.container_in, pod(), "ml/train-0", None) == (
        "The pod ml/train-0 is Pending and has no container to measure in. Wait until it is Running, see 'kubectl "
        "--namespace ml describe pod train-0'"
    )
    with pytest.raises(ContainerError, match="is being deleted"):
        api.container_in(pod("a", deletionTimestamp="now"), "ml/train-0", None)


def test_the_last_word() -> None:
    assert api.status_in(json.dumps({"status": "Success"}).encode()) == ""
    failed = {"status": "Failure", "message": 'exec: "sh": executable file not found in $PATH'}
    assert api.status_in(json.dumps(failed).encode()) == 'exec: "sh": executable file not found in $PATH'
    assert api.status_in(b"words") == "words"


# --- streams


class FakeStream:
    def __init__(self, *parts: tuple[int, bytes] | None, word: str = "") -> None:
        self.parts, self.said, self.closed = list(parts), word, False

    def read(self, seconds: float) -> tuple[int, bytes] | None:
        return self.parts.pop(0) if self.parts else (DOCUMENT, b"")

    def word(self) -> str:
        return self.said

    def close(self) -> None:
        self.closed = True


class FakeWay:
    text, address = "container main of the pod ml/train-0", None

    def __init__(self, *parts: tuple[int, bytes] | None, word: str = "") -> None:
        self.stream = FakeStream(*parts, word=word)

    def open(self, argv: t.Sequence[str]) -> FakeStream:
        assert argv[:2] == ["sh", "-c"]
        self.stream.parts = [
            part and (part[0], part[1].replace(b"SIGN", argv[3].encode())) for part in self.stream.parts
        ]
        return self.stream


def test_a_status_that_comes_in_parts() -> None:
    way = FakeWay(
        (TEXT, b"a"), (DOCUMENT, b"{}\n\nSI"), None, (DOCUMENT, b"x"), (DOCUMENT, b"\nSIGN 7"), (DOCUMENT, b"\n")
    )
    done = run.within(way, ["x"], 20)
    assert (done.status, done.text, done.document) == (7, "a", "{}\n\nSIx")
    assert way.stream.closed


@pytest.mark.parametrize(
    ("parts", "word", "said"),
    [
        ((), "", "the stream ended without a status"),
        ((), "container not found", "container not found"),
        (((TEXT, b"task not found\n"),), "", "task not found"),
        (((DOCUMENT, b"\nanother 0\n"),), "", "the stream ended without a status"),
    ],
)
def test_an_end_without_a_status(parts: t.Any, word: str, said: str) -> None:
    way = FakeWay(*parts, word=word)
    assert message_of(ContainerError, run.run, way, ["ib_write_bw", "-d", "x"], 20, "mark") == (
        f"Running ib_write_bw in the container main of the pod ml/train-0: {said}. Measure again when the pod is Running"
    )
    assert way.stream.closed


def test_the_end_of_something_long() -> None:
    tail = Tail(3)
    for part in (b"ab", b"cd", b"efgh", b"i"):
        tail.add(part)
    assert (tail.text(), tail.end(2)) == ("ghi", b"hi")


def test_files_that_were_printed() -> None:
    assert files.parse("S /x\na\nb\nS /y\ncat: no\nS-\nS /z\n", "S") == {"/x": "a\nb\n", "/y": "", "/z": ""}
    assert files.parse("", "S") == {}


def test_the_limit_of_locked_memory() -> None:
    limits = "Max locked memory         65536                unlimited            bytes     \n"
    assert memlock_in(limits, "CapEff:\t0000000000004000\n") == ("65536", True)
    assert memlock_in(limits.replace("65536", "unlimited"), "CapEff:\t00000000a80425fb\n") == ("unlimited", False)
    assert memlock_in("", "CapEff:\t0000000000004000\n") is None
    assert memlock_in(limits, "") is None
