# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a report becomes an artifact, and what of a ConfigMap becomes a report again."""

from __future__ import annotations

import base64
import email.message
import gzip
import io
import json
import sys
import typing as t
import urllib.error

import pytest
from ansible.module_utils import urls

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import library
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import configmap
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.publish import ARTIFACT_BYTES, artifact, send
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import (
    OBJECT_KEYS,
    count_statuses,
    verdict_of,
    worst,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = dict[str, t.Any]


def entry(**objects: int) -> Json:
    """Return a host with as many objects of each status, of which those that drifted have a diff."""
    made = [
        {**dict.fromkeys(OBJECT_KEYS), "name": f"{status}-{number}", "status": status, "diff": diff}
        for status, many in objects.items()
        for number in range(many)
        for diff in ["+x\n" * 100 if status == "drift" else None]
    ]
    return {"status": worst(item["status"] for item in made), "counts": count_statuses(made), "objects": made}


def report(**hosts: Json) -> Json:
    made: Json = {"schema": 1, "started": "2026-11-21T12:00:00Z", "complete": True, "incomplete": [], "hosts": hosts}
    return {**made, "check_mode": True, "verdict": verdict_of(made)}


def names(report: Json) -> dict[str, list[str]]:
    return {host: [item["name"] for item in entry["objects"]] for host, entry in report["hosts"].items()}


def size(report: Json) -> int:
    return len(json.dumps(report).encode())


WHOLE = report(a=entry(in_sync=50, drift=2), b=entry(in_sync=50), c=entry(unknown=20, drift=1))


def test_a_report_that_fits_is_whole() -> None:
    assert artifact(WHOLE) is WHOLE
    assert size(WHOLE) < ARTIFACT_BYTES


# the limit in bytes, what is left out, what is left
@pytest.mark.parametrize(
    ("limit", "left", "kept"),
    [
        (10000, {"in_sync": 100, "diffs": 0, "objects": 0, "hosts": 0}, {"a": 2, "b": 0, "c": 21}),
        (7000, {"in_sync": 100, "diffs": 3, "objects": 0, "hosts": 0}, {"a": 2, "b": 0, "c": 21}),
        (2600, {"in_sync": 100, "diffs": 3, "objects": 15, "hosts": 0}, {"a": 2, "b": 0, "c": 6}),
        (480, {"in_sync": 100, "diffs": 3, "objects": 23, "hosts": 1}, {"a": 0, "c": 0}),
        (360, {"in_sync": 100, "diffs": 3, "objects": 23, "hosts": 3}, {}),
    ],
)
def test_what_goes_first(limit: int, left: Json, kept: Json) -> None:
    cut = artifact(WHOLE, limit)
    assert size(cut) <= limit
    assert cut["left_out"] == left, (names(cut), size(cut))
    assert {host: len(objects) for host, objects in names(cut).items()} == kept
    # Drift is the last to go, and what is told of a host stays true.
    assert all(cut["hosts"][host]["counts"] == WHOLE["hosts"][host]["counts"] for host in cut["hosts"])
    assert cut["verdict"] == "drift"
    if any(kept.values()):
        assert names(cut)["a"] == ["drift-0", "drift-1"]
        assert "drift-0" in names(cut)["c"]


# a report, a limit by which something is left out: what is in sync, the diffs, all objects, a host
@pytest.mark.parametrize(
    ("whole", "limit"),
    [(WHOLE, 10000), (WHOLE, 7000), (report(a=entry(in_sync=50), b=entry(in_sync=50)), 500), (WHOLE, 480)],
)
def test_what_just_fits_is_not_cut_further(whole: Json, limit: int) -> None:
    cut = artifact(whole, limit)
    # Two bytes are spare, and two for each list of objects, whose last one has no separator.
    enough = size(cut) + 2 + 2 * sum(bool(objects) for objects in names(cut).values())
    assert artifact(whole, enough) == cut
    assert artifact(whole, enough - 1) != cut


def test_a_report_that_just_fits_is_whole() -> None:
    assert artifact(WHOLE, size(WHOLE) + 2) is WHOLE
    assert artifact(WHOLE, size(WHOLE) + 1) != WHOLE


def test_room_is_used_to_the_last_object() -> None:
    whole = report(a=entry(unknown=9))
    unused: dict[int, int] = {}
    for limit in range(size(whole) - 500, size(whole)):
        cut = artifact(whole, limit)
        unused.setdefault(len(names(cut)["a"]), limit - size(cut))
    # What is left out would not have fitted in: JSON has a separator of two bytes less than there are objects.
    assert list(unused.values())[1:] == [4, 4]


def test_reasons_that_are_too_many() -> None:
    ten = [f"gpu-{number}: not come to" for number in range(10)]
    for others, last in ((0, []), (1, ["and 1 more"]), (990, ["and 990 more"])):
        cut = artifact({**WHOLE, "incomplete": [*ten, *["gpu: not come to"] * others]}, 2000)
        assert size(cut) <= 2000
        assert cut["incomplete"] == [*ten, *last]


def packed(text: bytes) -> str:
    """Return a file as a ConfigMap has it."""
    return base64.b64encode(gzip.compress(text)).decode()


@pytest.mark.parametrize(
    ("binary", "said"),
    [
        ({}, "it has no report.json.gz in binaryData"),
        ({"report.json.gz": "?"}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": "?" + packed(b"{}")}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": base64.b64encode(b"{}").decode()}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": packed(b"{")}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": packed(b"\xff")}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": base64.b64encode(gzip.compress(b"{}")[:-4]).decode()}, "it is not JSON, compressed"),
        ({"report.json.gz": packed(b"{}")}, "it is not a drift report"),
    ],
)
def test_a_configmap_that_is_no_report(binary: Json, said: str) -> None:
    assert message_of(FabricError, configmap.unpack, {"binaryData": binary}, "Reading it").startswith(
        f"Reading it: {said}"
    )


def test_a_configmap_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    most = json.dumps(WHOLE).encode().ljust(40000)
    monkeypatch.setattr(configmap, "MAX_BYTES", len(most))
    assert configmap.unpack({"binaryData": {"report.json.gz": packed(most)}}, "Reading it") == WHOLE
    said = message_of(
        FabricError, configmap.unpack, {"binaryData": {"report.json.gz": packed(most + b" ")}}, "Reading it"
    )
    assert said == "Reading it: it is larger than 40000 bytes, so it is not a drift report"


GIVEN = {
    "url": "https://jo:secret@reports.example.com:8443/drift?token=abcdef",
    "method": "PUT",
    "headers": {"Authorization": "Bearer s3cr3t"},
    "timeout": 7,
    "ca_path": "/ca.pem",
}
DOING = "Publishing the drift report at https://reports.example.com:8443/drift"


class Answer:
    """Stands for open_url: remembers how it was called, and answers or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.sent: Json = {}
        self.body = io.BytesIO()

    def __call__(self, url: str, **more: t.Any) -> io.BytesIO:
        self.sent = {"url": url, **more}
        if self.error:
            raise self.error
        return self.body


def sent(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, **more: t.Any) -> tuple[str, Json]:
    answer = Answer(error)
    monkeypatch.setattr(urls, "open_url", answer)
    address = send(WHOLE, {**GIVEN, **more})
    assert answer.body.closed
    return address, answer.sent


def test_what_is_sent_where(monkeypatch: pytest.MonkeyPatch) -> None:
    address, called = sent(monkeypatch)
    assert address == "https://reports.example.com:8443/drift"
    assert json.loads(called.pop("data")) == WHOLE
    headers = {"Content-Type": "application/json", "Authorization": "Bearer s3cr3t"}
    ours = {"http_agent": "rdmaops.gpu_fabric", "follow_redirects": "none", "use_netrc": False}
    assert called == {**GIVEN, "headers": headers, **ours}
    _, called = sent(monkeypatch, headers={"Content-Type": "text/plain"})
    assert called["headers"] == {"Content-Type": "text/plain"}
    assert sent(monkeypatch, url="http://reports.example.com/drift")[0] == "http://reports.example.com/drift"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ftp://x/y", "ftp://x/y"),
        ("ftp://jo:secret@x:21/y?token=abcdef#z", "ftp://x:21/y"),
        ("ftp://x:99999/y", "ftp://x/y"),
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("reports.example.com/\x1b[31m", "://reports.example.com/\\x1b[31m"),
    ],
)
def test_an_address_to_which_nothing_can_be_sent(monkeypatch: pytest.MonkeyPatch, url: str, address: str) -> None:
    assert message_of(FabricError, sent, monkeypatch, url=url) == (
        f"Publishing the drift report at {address}: it is not a URL that begins with http:// or https://"
    )


class Torn(io.BytesIO):
    """The body of an answer from a server that hangs up."""

    def read(self, _size: int | None = -1, /) -> bytes:
        raise ConnectionResetError


def http(code: int, body: bytes | io.BytesIO = b"", **headers: str) -> urllib.error.HTTPError:
    message = email.message.Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError(
        "https://x", code, "Why", message, io.BytesIO(body) if isinstance(body, bytes) else body
    )


ADDRESS = ". Is this its address, and is it running?"


# what fails, what is said
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (urllib.error.URLError("[Errno 111] Connection refused"), "[Errno 111] Connection refused" + ADDRESS),
        (OSError("no route."), "no route" + ADDRESS),
        (urllib.error.URLError(OSError("a\nb")), "a b" + ADDRESS),
        (
            urllib.error.URLError("CERTIFICATE_VERIFY_FAILED: certificate verify failed"),
            "CERTIFICATE_VERIFY_FAILED: certificate verify failed. Give the CA that signed its certificate in ca_path",
        ),
        (TimeoutError("timed out"), "timed out. It did not answer in 7 s: raise timeout, or check the server"),
        (ValueError("s3cr3t in abcdef of secret"), "******** in ******** of ********" + ADDRESS),
        (http(500), "it answered 500 (Why)"),
        (http(500, Server="x"), "it answered 500 (Why)"),
        (http(500, Torn()), "it answered 500 (Why)"),
        (http(500, b"out of\n  disk"), "it answered 500 (Why): out of disk"),
        (http(500, b"x" * 600), "it answered 500 (Why): " + "x" * 500),
        (http(401), "it answered 401 (Why). Give credentials that may write there, in headers"),
        (
            http(403, b"no, s3cr3t"),
            "it answered 403 (Why): no, ********. Give credentials that may write there, in headers",
        ),
        (http(405), "it answered 405 (Why). It does not take PUT: give another method"),
        (
            http(302, Location="https://elsewhere"),
            "it answered 302 (Why): https://elsewhere. Redirects are not followed: give the address that it names",
        ),
        (http(300), "it answered 300 (Why). Redirects are not followed: give the address that it names"),
        (http(399), "it answered 399 (Why). Redirects are not followed: give the address that it names"),
        (http(400, b"no", Location="https://elsewhere"), "it answered 400 (Why): no"),
    ],
)
def test_a_server_that_does_not_take_it(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    assert message_of(FabricError, sent, monkeypatch, error) == f"{DOING}: {said}"


# what a server repeats of what it was given, what is shown of that
@pytest.mark.parametrize(
    ("repeated", "shown"),
    [
        ("Bearer s3cr3t", "********"),
        ("s3cr3t", "********"),
        ("operator", "********"),
        ("%22p%40ss%22", "********"),
        ('"p@ss"', "********"),
        ('\\"p@ss\\"', "********"),
        ("key=a%20b%20c&to=zz99", "********"),
        ("a b c", "********"),
        ("zz99", "********"),
        ("1234", "********"),
        # So short a text stands in any answer.
        ("123", "123"),
        ("key", "key"),
        ("reports.example.com", "reports.example.com"),
    ],
)
def test_no_secret_is_repeated(monkeypatch: pytest.MonkeyPatch, repeated: str, shown: str) -> None:
    given = {
        "url": "https://operator:%22p%40ss%22@reports.example.com/drift?key=a%20b%20c&to=zz99",
        "headers": {"Authorization": "Bearer s3cr3t", "X-Short": "123", "X-Long": "1234"},
    }
    said = message_of(FabricError, sent, monkeypatch, http(500, f"<{repeated}>".encode()), **given)
    assert said.endswith(f"it answered 500 (Why): <{shown}>")


class Cluster:
    """An API server that has ConfigMaps only."""

    def __init__(self, *kept: Json) -> None:
        self.kept = list(kept)
        self.gone: list[str] = []
        self.error: ApiError | None = None
        self.refusal: ApiError | None = None

    def apply(self, path: str, body: Json, _doing: str, *, force: bool) -> None:
        if self.refusal:
            raise self.refusal
        assert force
        assert path == "/api/v1/namespaces/ops/configmaps/" + body["metadata"]["name"]
        self.kept.append({**body, "metadata": {**body["metadata"], "creationTimestamp": "2026-11-21T09:00:00Z"}})

    def items(self, path: str, _doing: str, query: Json) -> list[Json]:
        assert path == "/api/v1/namespaces/ops/configmaps"
        wanted = dict(pair.split("=") for pair in query["labelSelector"].split(","))
        return [body for body in self.kept if wanted.items() <= body["metadata"]["labels"].items()]

    def delete(self, path: str, _doing: str, *, uid: str) -> None:
        if self.error:
            raise self.error
        self.gone.append(f"{path.rpartition('/')[2]} {uid}")


def kept(run: str, hour: int, **more: str) -> Json:
    labels = {configmap.OWNER: "drift.drift", configmap.RUN: run, configmap.PART: "slice", **more}
    meta = {"name": f"drift.{run}.{hour}", "uid": f"u{hour}", "labels": labels}
    return {"metadata": {**meta, "creationTimestamp": f"2026-11-21T{hour:02}:00:00Z"}}


def maps(cluster: Cluster, keep: int = 2) -> configmap.ConfigMaps:
    given = {"namespace": "ops", "name": "drift", "run": "9", "job": "77", "keep": keep}
    return configmap.ConfigMaps(given, t.cast("t.Any", cluster))


def test_a_report_becomes_a_configmap_and_a_report_again() -> None:
    cluster = Cluster()
    assert maps(cluster).publish(WHOLE, "in words", merged=False) == "ConfigMap ops/drift.9.77"
    assert maps(cluster).publish(WHOLE, "in words", merged=True) == "ConfigMap ops/drift.9"
    first, second = cluster.kept
    assert (first["apiVersion"], first["kind"]) == ("v1", "ConfigMap")
    assert (first["metadata"]["namespace"], first["data"]) == ("ops", {"verdict": "drift", "message": "in words"})
    labels = {configmap.OWNER: "drift.drift", "rdmaops.gpu-fabric/drift-run": "9"}
    assert first["metadata"]["labels"] == {**labels, "rdmaops.gpu-fabric/drift-part": "slice"}
    assert second["metadata"]["labels"] == {**labels, "rdmaops.gpu-fabric/drift-part": "merged"}
    assert maps(cluster).reports() == ([("ConfigMap ops/drift.9.77", WHOLE)], [])
    first["binaryData"] = {}
    assert maps(cluster).reports() == (
        [],
        ["Reading the drift report in ConfigMap ops/drift.9.77: it has no report.json.gz in binaryData"],
    )
    with pytest.raises(FabricError, match="there is none. Publish the report of every slice before they are merged"):
        maps(Cluster(kept("8", 1))).reports()


def test_a_report_that_no_configmap_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    maps(cluster).publish(WHOLE, "s", merged=True)
    size = len(base64.b64decode(cluster.kept[0]["binaryData"]["report.json.gz"])) + len("drifts")
    monkeypatch.setattr(configmap, "CONFIGMAP_BYTES", size)
    maps(cluster).publish(WHOLE, "s", merged=True)
    with pytest.raises(FabricError, match=f"it takes {size + 1} bytes, compressed, and a ConfigMap can hold {size}"):
        maps(cluster).publish(WHOLE, "ß", merged=True)


def test_a_slice_that_cannot_be_read_hides_no_other() -> None:
    cluster = Cluster({**kept("9", 1), "binaryData": {}})
    maps(cluster).publish(WHOLE, "", merged=False)
    assert maps(cluster).reports() == (
        [("ConfigMap ops/drift.9.77", WHOLE)],
        ["Reading the drift report in ConfigMap ops/drift.9.1: it has no report.json.gz in binaryData"],
    )


# the answer of the API server, what is said
@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            ApiError('namespaces "ops" not found.', 404),
            'namespaces "ops" not found. Create the namespace first (kubectl create namespace ops, or '
            "docs/rbac/namespace.yml), or name another one",
        ),
        (
            ApiError("not found", 404),
            "not found. Create the namespace first (kubectl create namespace ops, or docs/rbac/namespace.yml), or "
            "name another one",
        ),
        (ApiError("configmaps is forbidden.", 403), "configmaps is forbidden."),
        (ApiError("no route to host"), "no route to host"),
    ],
)
def test_a_cluster_that_does_not_take_it(refusal: ApiError, said: str) -> None:
    cluster = Cluster(kept("8", 1))
    cluster.refusal = refusal
    assert message_of(FabricError, maps(cluster, 1).publish, WHOLE, "", merged=True) == said
    assert cluster.gone == []


def test_without_the_library_for_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    def parts() -> None:
        raise ImportError("No module named 'kubernetes'")

    monkeypatch.setattr(library, "parts", parts)
    assert message_of(FabricError, configmap.connect, {}) == (
        "Reaching the cluster for the drift report: the Python library kubernetes is not installed on the controller: "
        f"No module named 'kubernetes'. Install it there ({sys.executable} -m pip install kubernetes), or in the "
        "execution environment"
    )


def test_old_runs_are_removed_and_the_own_is_kept() -> None:
    there = [kept("6", 6), kept("7", 1), kept("7", 7), kept("8", 2), kept("9", 0)]
    every = {"6.6", "7.1", "7.7", "8.2"}
    for keep, gone in ((1, every), (2, {"6.6", "8.2"}), (3, {"8.2"}), (4, set()), (0, every)):
        cluster = Cluster(*there)
        maps(cluster, keep).publish(WHOLE, "", merged=True)
        assert set(cluster.gone) == {f"drift.{name} u{name[-1]}" for name in gone}


def test_the_newest_runs_are_kept_in_whatever_order_they_are_listed() -> None:
    cluster = Cluster(*(kept(f"run{hour}", hour) for hour in (5, 1, 8, 3, 7, 2, 6, 4)))
    maps(cluster, 4).publish(WHOLE, "", merged=True)
    assert set(cluster.gone) == {f"drift.run{hour}.{hour} u{hour}" for hour in range(1, 6)}


def test_what_has_lost_the_label_of_its_run_is_an_old_run_too() -> None:
    nameless = kept("8", 1)
    del nameless["metadata"]["labels"][configmap.RUN]
    cluster = Cluster(nameless, kept("7", 2))
    maps(cluster, 2).publish(WHOLE, "", merged=True)
    assert cluster.gone == ["drift.8.1 u1"]


@pytest.mark.parametrize("status", [404, 409, 403])
def test_what_another_slice_has_removed_is_gone(status: int) -> None:
    cluster = Cluster(kept("8", 1))
    cluster.error = ApiError("Forbidden", status)
    if status == 403:
        with pytest.raises(ApiError, match="Forbidden"):
            maps(cluster, 1).publish(WHOLE, "", merged=True)
    else:
        maps(cluster, 1).publish(WHOLE, "", merged=True)
