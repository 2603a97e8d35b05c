# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redirects from the server that was meant to another one, both real: no secret of ours may arrive there."""

from __future__ import annotations

import base64
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _fetch
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._awx import client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes_client
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import publish as drift_publish
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import run_tasks

Json = dict[str, t.Any]

SECRET = "a-secret-of-ours"
PAIR = base64.b64encode(f"joe:{SECRET}".encode()).decode()
CODES = (301, 302, 303, 307, 308)
EMPTY_REPORT = {"schema": 1, "verdict": "in_sync", "hosts": {}}


class Redirecting(Server):
    """Answers all with one file, or sends all elsewhere, and notes what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[str] = []
        self.elsewhere: tuple[int, str] | None = None

    def answer(self, request: Request) -> Answer:
        text = request.body.decode(errors="replace")
        self.received.append(f"{request.method} {request.path}\n{request.headers}{text}")
        code, place = self.elsewhere or (200, "")
        headers = {"Location": place + request.path} if place else {}
        data = json.dumps({"count": 0, "next": None, "results": []}).encode()
        return Answer(code, data, {"Content-Type": "application/json", **headers})


class Pair(t.NamedTuple):
    """The server that is meant, and the one to which it sends."""

    meant: Redirecting
    other: Redirecting

    def sends(self, code: int) -> None:
        self.meant.elsewhere = (code, self.other.url)

    def arrived(self) -> list[str]:
        return [text for text in self.other.received if SECRET in text or PAIR in text]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Redirecting() as meant, Redirecting() as other:
        yield Pair(meant, other)


def awx(pair: Pair, **login: str) -> None:
    given = {**dict.fromkeys(client.CONNECTION), "controller_host": pair.meant.url, "validate_certs": True, **login}
    client.Client({**given, "request_timeout": 10}).every("projects/", "Looking at the projects")


def publish(pair: Pair, url: str, **headers: str) -> None:
    given = {"url": url, "method": "PUT", "headers": headers, "timeout": 10, "ca_path": None}
    drift_publish.send(EMPTY_REPORT, given)


def kubernetes(pair: Pair, **login: str) -> None:
    given = {**dict.fromkeys(kubernetes_client.CONNECTION), "host": pair.meant.url, "timeout": 10, **login}
    kubernetes_client.Client(given).request("GET", "/api/v1/nodes", "Looking at the nodes")


def with_password(server: Redirecting) -> str:
    return server.url.replace("http://", f"http://joe:{SECRET}@")


ASKS: dict[str, t.Callable[[Pair], None]] = {
    "AWX's token": lambda pair: awx(pair, controller_oauthtoken=SECRET),
    "AWX's password": lambda pair: awx(pair, controller_username="joe", controller_password=SECRET),
    "drift report, token": lambda pair: publish(pair, pair.meant.url + "/x", Authorization=f"Bearer {SECRET}"),
    "drift report, password": lambda pair: publish(pair, with_password(pair.meant) + "/x"),
    "drift report, query": lambda pair: publish(pair, pair.meant.url + f"/x?token={SECRET}"),
    "Kubernetes' token": lambda pair: kubernetes(pair, api_key=SECRET),
    "Kubernetes' password": lambda pair: kubernetes(pair, username="joe", password=SECRET),
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", ASKS)
def test_what_has_a_secret_goes_nowhere_else(pair: Pair, name: str, code: int) -> None:
    pair.sends(code)
    message = message_of(FabricError, ASKS[name], pair)
    assert pair.meant.received
    assert pair.other.received == []
    assert SECRET not in message


@pytest.mark.parametrize("code", CODES)
def test_awx_says_where_it_was_sent(pair: Pair, code: int) -> None:
    pair.sends(code)
    assert message_of(client.AwxError, awx, pair, controller_oauthtoken=SECRET) == (
        f"Looking at the projects: AWX at {pair.meant.url} answered with a redirect to "
        f"{pair.other.url}/api/v2/projects/. Credentials are sent only to controller_host: if AWX is at that "
        "address, set controller_host to it"
    )


def test_what_awx_is_sent_itself_still_arrives(pair: Pair) -> None:
    awx(pair, controller_oauthtoken=SECRET)
    assert SECRET in pair.meant.received[0]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("where", ["url", "netrc"])
def test_a_download_goes_on_without_the_secret(
    pair: Pair, code: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Projects keep their releases on other hosts than those that name them, so a redirect is followed."""
    monkeypatch.setenv("NETRC", str(netrc(tmp_path)) if where == "netrc" else "/dev/null")
    url = pair.meant.url if where == "netrc" else with_password(pair.meant)
    pair.sends(code)
    with _fetch.fetch(f"{url}/plugin.tgz", 10) as stream:
        assert b"results" in stream.read()
    assert len(pair.other.received) == 1
    assert pair.arrived() == []


def netrc(place: Path) -> Path:
    """For every host: 127.0.0.1 is the name of both servers, and would be looked up again."""
    path = place / "netrc"
    path.write_text(f"default login joe password {SECRET}\n")
    path.chmod(0o600)
    return path


def task(path: str, name: str) -> Json:
    tasks = yaml.safe_load((COLLECTION / path).read_text())
    return next(entry for entry in (*tasks, *tasks[0].get("block", ())) if entry["name"] == name)


MONITORING = {
    "monitoring_prometheus_username": "joe",
    "monitoring_prometheus_password": SECRET,
    "monitoring_prometheus_ca_path": "",
    "monitoring_wait": 1,
    "__monitoring_query_path": "/-/ready",
    "__monitoring_enough": True,
}
TASKS = [
    pytest.param("roles/monitoring/tasks/ask.yml", "Query Prometheus", "/-/ready", id="Query Prometheus"),
    pytest.param("roles/monitoring/tasks/reload_http.yml", "Reload Prometheus by its API", "/-/reload", id="Reload"),
]


@pytest.mark.parametrize(("path", "name", "asked"), TASKS)
def test_the_password_of_prometheus_stays_with_it(pair: Pair, path: str, name: str, asked: str, tmp_path: Path) -> None:
    pair.sends(307)
    variables = {**MONITORING, "monitoring_prometheus_url": pair.meant.url}
    printed = run_tasks(tmp_path, [task(path, name)], variables=variables, cwd=tmp_path, limit=120).output
    assert any(asked in text and PAIR in text for text in pair.meant.received), printed
    assert pair.other.received == [], printed
    assert "307" in printed


@pytest.mark.long
def test_the_manifest_of_the_pod_network(pair: Pair, tmp_path: Path) -> None:
    pair.sends(302)
    desired = task("roles/kubernetes/tasks/network_manifest.yml", "Download the manifest")
    variables = {
        "kubernetes_pod_network_manifest": pair.meant.url + "/calico.yaml",
        "kubernetes_pod_network_checksum": "",
        "__kubernetes_manifest_file": str(tmp_path / "calico.yaml"),
        "__kubernetes_manifest_remote": True,
    }
    keywords = {"variables": variables, "cwd": tmp_path, "limit": 120, "NETRC": str(netrc(tmp_path))}
    printed = run_tasks(tmp_path, [desired], **keywords).output
    assert (tmp_path / "calico.yaml").exists(), printed
    assert any(PAIR in text for text in pair.meant.received)
    assert pair.other.received
    assert pair.arrived() == []
