# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that a real API server does not give on request."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes.server import (
    TOKEN,
    Answer,
    Server,
    client,
)


def refused(code: int, reason: str, message: str) -> Answer:
    return code, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}


# answer, message after "Looking: URL answered "
ANSWERS: list[tuple[Answer, str]] = [
    (
        refused(401, "Unauthorized", "Unauthorized"),
        "401 (Unauthorized): Unauthorized. The credentials are unknown there or have expired: log in again, or give others "
        "by the options kubeconfig, context or api_key",
    ),
    (
        refused(403, "Forbidden", 'nodes is forbidden: User "joe" cannot list resource "nodes" in API group ""'),
        '403 (Forbidden): nodes is forbidden: User "joe" cannot list resource "nodes" in API group "". Give this user '
        "that right by a Role or a ClusterRole",
    ),
    (
        refused(403, "Forbidden", 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes"'),
        '403 (Forbidden): nodes is forbidden: User "system:anonymous" cannot list resource "nodes". No credentials were '
        "sent: look at the user of the kubeconfig's context",
    ),
    ((502, b"<html>Bad\n Gateway</html>"), "502 (Bad Gateway): <html>Bad Gateway</html>"),
    ((500, b"[]"), "500 (Internal Server Error): []"),
    ((301, b""), "301 (Moved Permanently): Moved Permanently"),
]


@pytest.mark.parametrize(("answer", "says"), ANSWERS, ids=range(len(ANSWERS)))
def test_answers(answer: Answer, says: str, serve: t.Callable[..., Server]) -> None:
    server = serve(answer)
    with pytest.raises(ApiError) as caught:
        client(server.url).get("/x", "Looking")
    assert str(caught.value) == f"Looking: {server.url} answered {says}"
    assert caught.value.status == answer[0]
    assert len(server.asked) == 1
    assert TOKEN not in str(caught.value)


def test_what_is_no_json(serve: t.Callable[..., Server]) -> None:
    server = serve((200, b"<html>log in</html>"))
    with pytest.raises(ApiError, match="Looking: http://.* answered with something that is not JSON"):
        client(server.url).get("/x", "Looking")


def page(rows: list[int], more: str = "") -> Answer:
    return 200, {"items": rows, "metadata": {"continue": more} if more else {}}


def test_pages(serve: t.Callable[..., Server]) -> None:
    server = serve(page([1, 2], "a=b&c"), page([3]))
    assert client(server.url).items("/list", "", {"labelSelector": "x=y"}) == [1, 2, 3]
    assert [row[1] for row in server.asked] == [
        "/list?labelSelector=x%3Dy&limit=500",
        "/list?labelSelector=x%3Dy&limit=500&continue=a%3Db%26c",
    ]


def test_pages_that_have_expired_are_read_again_whole(serve: t.Callable[..., Server]) -> None:
    gone = refused(410, "Expired", "The provided continue parameter is too old")
    server = serve(page([1, 2], "a"), gone, page([2, 3]))
    assert client(server.url).items("/list", "Listing") == [2, 3]
    assert server.asked[-1][1] == "/list"
    server = serve(page([1], "a"), gone)
    with pytest.raises(ApiError, match="answered 410"):
        client(server.url).items("/list", "Listing")
    assert len(server.asked) == 3


def test_what_is_not_there(serve: t.Callable[..., Server]) -> None:
    server = serve((404, b"404 page not found\n"))
    api = client(server.url)
    assert (api.items("/list", ""), api.get("/x", ""), api.resources("x.y/v1")) == (None, None, None)
    assert server.asked[-1][1] == "/apis/x.y/v1"


def test_writing(serve: t.Callable[..., Server]) -> None:
    server = serve((200, {}))
    api = client(server.url)
    api.apply("/o", {"a": 1}, "", force=True, dry_run=True)
    method, path, headers, body = server.asked[-1]
    assert (method, path) == ("PATCH", "/o?fieldManager=rdmaops.gpu_fabric&force=true&dryRun=All")
    assert dict(headers)["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(body) == {"a": 1}
    api.create("/o", {}, "", dry_run=True)
    assert server.asked[-1][:2] == ("POST", "/o?fieldManager=rdmaops.gpu_fabric&dryRun=All")
    api.replace("/o", {}, "")
    assert server.asked[-1][:2] == ("PUT", "/o?fieldManager=rdmaops.gpu_fabric")
    api.merge("/o", {"a": None}, "")
    assert dict(server.asked[-1][2])["Content-Type"] == "application/merge-patch+json"
    api.delete("/o", "", uid="u-1")
    assert json.loads(server.asked[-1][3])["preconditions"] == {"uid": "u-1"}


def test_nothing_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % free.getsockname()[1]
        with pytest.raises(ApiError) as caught:
            client(url).get("/x", "Looking")
    assert str(caught.value).startswith(f"Looking: {url} could not be reached: ")
    assert "Is it running, and is this its address? What was done until here stays" in str(caught.value)
    assert caught.value.status == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_never_answers(scheme: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = "%s://127.0.0.1:%d" % (scheme, silent.getsockname()[1])
        with pytest.raises(ApiError) as caught:
            client(url, timeout=1).get("/x", "Looking")
        # It has asked once.
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert "It did not answer in time (1 s): look at the API server's load, or raise timeout" in str(caught.value)


BUSY = "Too many requests, please try again later."


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
def test_a_server_that_has_too_much_to_do_is_asked_again(
    code: int, method: str, serve: t.Callable[..., Server]
) -> None:
    server = serve(
        (code, BUSY.encode(), {"Retry-After": "0"}), (code, BUSY.encode(), {"Retry-After": "1"}), (200, {"a": 1})
    )
    assert client(server.url).request(method, "/x", "Doing it", body={"b": 2}) == {"a": 1}
    assert [row[0] for row in server.asked] == [method] * 3
    assert {row[3] for row in server.asked} == {b'{"b": 2}'}


@pytest.mark.parametrize("after", ["3600", "6", "", "soon", "Fri, 31 Dec 2027 23:59:59 GMT"])
def test_it_is_not_waited_for_longer_than_the_timeout(after: str, serve: t.Callable[..., Server]) -> None:
    server = serve((429, BUSY.encode(), {"Retry-After": after}))
    with pytest.raises(ApiError) as caught:
        client(server.url).items("/x", "Listing")
    assert str(caught.value).startswith(f"Listing: {server.url} answered 429 (Too Many Requests): {BUSY.rstrip('.')}")
    assert (caught.value.status, len(server.asked)) == (429, 1)


def no_account(name: str) -> Answer:
    text = f'pods "x" is forbidden: error looking up service account ml/{name}: serviceaccount "{name}" not found'
    return refused(403, "Forbidden", text)


def test_the_account_of_a_new_namespace_is_waited_for(serve: t.Callable[..., Server]) -> None:
    server = serve(no_account("default"), no_account("default"), (201, {"a": 1}))
    assert client(server.url).create("/x", {}, "Making it") == {"a": 1}
    server = serve(no_account("mine"))
    with pytest.raises(ApiError, match='serviceaccount "mine" not found'):
        client(server.url).create("/x", {}, "Making it")
    assert len(server.asked) == 1


def test_a_budget_is_not_waited_for(serve: t.Callable[..., Server]) -> None:
    server = serve((429, {"message": "Cannot evict pod"}, {"Retry-After": "1"}))
    with pytest.raises(ApiError, match=r"answered 429 \(Too Many Requests\): Cannot evict pod"):
        client(server.url).create("/x", {}, "Evicting", patient=False)
    assert len(server.asked) == 1


CUT: Answer = (0, None)


@pytest.mark.parametrize(
    ("method", "kind", "asked"),
    [("GET", kubernetes._JSON, 4), ("PUT", kubernetes._JSON, 4), ("DELETE", kubernetes._JSON, 4)]
    + [("PATCH", kubernetes._APPLY, 4), ("PATCH", kubernetes._MERGE, 1), ("POST", kubernetes._JSON, 1)],
)
def test_a_cut_connection(method: str, kind: str, asked: int, serve: t.Callable[..., Server]) -> None:
    server = serve(CUT)
    with pytest.raises(ApiError, match="could not be reached: .*What was done until here stays; run again"):
        client(server.url).request(method, "/x", "Doing it", body={}, content_type=kind)
    assert len(server.asked) == asked
    if asked > 1:
        server = serve(CUT, CUT, (200, {"a": 1}))
        assert client(server.url).request(method, "/x", "Doing it", body={}, content_type=kind) == {"a": 1}


def stored(version: str, spec: dict[str, t.Any]) -> dict[str, t.Any]:
    return {
        "kind": "Lease",
        "metadata": {"name": "x", "resourceVersion": version, "generation": int(version)},
        "spec": spec,
    }


def test_what_was_put_although_the_answer_was_lost(serve: t.Callable[..., Server]) -> None:
    """Sent again it conflicts with itself. A conflict with somebody else stays one."""
    conflict = refused(409, "Conflict", "the object has been modified")
    server = serve(CUT, conflict, (200, stored("8", {"a": 1})))
    assert client(server.url).replace("/x", stored("7", {"a": 1}), "Writing")["metadata"]["resourceVersion"] == "8"
    assert [request[0] for request in server.asked] == ["PUT", "PUT", "GET"]
    emptied = stored("7", {"a": 1})
    emptied["metadata"]["annotations"] = {}  # which the API server does not keep
    assert client(serve(CUT, conflict, (200, stored("8", {"a": 1}))).url).replace("/x", emptied, "Writing")
    for answer in ((200, stored("8", {"a": 2})), (404, {"message": "not found"})):
        with pytest.raises(ApiError, match=r"Writing: .* answered 409 \(Conflict\): the object has been modified"):
            client(serve(conflict, answer).url).replace("/x", stored("7", {"a": 1}), "Writing")


def test_what_is_gone_needs_no_deleting(serve: t.Callable[..., Server]) -> None:
    server = serve(CUT, (404, {"message": "not found"}))
    assert client(server.url).delete("/x", "Deleting") == {}


# path(...), what it is
PATHS = [
    (("v1", "nodes"), "/api/v1/nodes"),
    (("v1", "namespaces", None, "x"), "/api/v1/namespaces/x"),
    (("apps/v1", "deployments", "ns"), "/apis/apps/v1/namespaces/ns/deployments"),
    (("v1", "pods", "ns", "a/../b", "status"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb/status"),
]


@pytest.mark.parametrize(("given", "path"), PATHS)
def test_paths(given: tuple[t.Any, ...], path: str) -> None:
    assert kubernetes.path(*given) == path


def test_without_the_library() -> None:
    code = (
        "import sys; sys.modules['kubernetes'] = None\n"
        "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client\n"
        "class Ended(Exception): pass\n"
        "class Module:\n"
        "    def fail_json(self, msg, exception): raise Ended(msg)\n"
        "try: client.connect(Module())\n"
        "except Ended as exc: print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"The Python library kubernetes is missing for {sys.executable} on " in done.stdout, done.stderr
    assert f"Install it: {sys.executable} -m pip install kubernetes. If another" in done.stdout


def discovered(name: str, freshness: str, *resources: dict[str, t.Any]) -> dict[str, t.Any]:
    versions = [{"version": "v1", "freshness": freshness, "resources": list(resources)}]
    return {
        "kind": "APIGroupDiscoveryList",
        "items": [{"metadata": {"name": name} if name else {}, "versions": versions}],
    }


def found_at(resource: str, kind: str, scope: str) -> dict[str, t.Any]:
    return {"resource": resource, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope}


def test_one_answer_tells_all_that_is_served(serve: t.Callable[..., Server]) -> None:
    headless = {"resource": "things", "responseKind": None, "scope": "Cluster"}
    core = discovered("", "Current", found_at("pods", "Pod", "Namespaced"), found_at("nodes", "Node", "Cluster"))
    groups = discovered("x.y", "Current", headless)
    groups["items"] += discovered("down.y", "Stale", found_at("ghosts", "Ghost", "Cluster"))["items"]
    server = serve((200, core), (200, groups))
    assert client(server.url).served() == {"v1": [("Pod", "pods", True), ("Node", "nodes", False)], "x.y/v1": []}
    assert [path for _method, path, _headers, _body in server.asked] == ["/api", "/apis"]
    assert "as=APIGroupDiscoveryList" in dict(server.asked[0][2])["Accept"]


def test_an_older_api_server_is_asked_group_by_group(serve: t.Callable[..., Server]) -> None:
    pods = [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/log", "kind": "Pod", "namespaced": True},
    ]
    groups = [{"versions": [{"groupVersion": "down.y/v1"}]}, {"versions": [{"groupVersion": "x.y/v1"}]}]
    server = serve(
        (200, {"kind": "APIVersions", "versions": ["v1"]}),
        (200, {"kind": "APIResourceList", "resources": pods}),
        (200, {"kind": "APIGroupList", "groups": groups}),
        (503, {"message": "the server is currently unable to handle the request"}),
        (200, {"resources": [{"name": "things", "kind": "Thing", "namespaced": False}]}),
    )
    assert client(server.url).served() == {"v1": [("Pod", "pods", True)], "x.y/v1": [("Thing", "things", False)]}
    asked = [path for _method, path, _headers, _body in server.asked]
    assert asked == ["/api", "/api/v1", "/apis", "/apis/down.y/v1", "/apis/x.y/v1"]
