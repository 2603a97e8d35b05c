# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in everything that a run leaves behind: shown at -vvv, in diffs, errors, drift reports and temporary files.

Each option that takes one is given a word of its own, which is then looked for as it is and as it may be written:
base64, URL, JSON, HTML. One run connects to a closed port, one a server that sends back what it was sent.
"""

from __future__ import annotations

import base64
import html
import json
import os
import typing as t
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, faults, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server

Json = t.Any
KIND = "secrets"
FQCN = "rdmaops.gpu_fabric."


class Canaries:
    """Words that are nowhere else, with characters that other notations write otherwise."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        self.words[name] = f'Cn4ry-{name}-{len(self.words):02d}+/"q=='
        return self.words[name]

    def named(self, value: Json) -> Json:
        """Return options with a variable in the place of each word, as playbooks have it."""
        if isinstance(value, dict):
            return {key: self.named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.named(item) for item in value]
        for name, word in self.words.items():
            if value == word:
                return f"{{{{ canary['{name}'] }}}}"
            if value == base64.b64encode(word.encode()).decode():
                return f"{{{{ canary['{name}'] | b64encode }}}}"
        return value

    def seen(self, text: str) -> list[str]:
        return [f"{name} as {how}" for name, word in self.words.items() for how, form in forms(word) if form in text]


def forms(word: str) -> Iterator[tuple[str, str]]:
    yield "it is", word
    yield "in JSON", json.dumps(word)[1:-1]
    yield "in a URL", urllib.parse.quote(word, safe="")
    yield "in HTML", html.escape(word)
    yield "in a shell", word.replace('"', '\\"')
    raw = word.encode()
    # It may begin at any of the three bytes that make four letters; what does not hang on its neighbours counts.
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
        yield f"base64, {offset} bytes in", coded[(0, 2, 3)[offset] : len(coded) - 2]


class Mirror(Server):
    """Answers with an error that repeats what was sent, headers and all."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def answer(self, request: Request) -> Answer:
        self.asked += 1
        message = f"bad request: {request.headers} {request.body.decode(errors='replace')}"
        status = {"kind": "Status", "status": "Failure", "reason": "InternalError"}
        return Answer(500, json.dumps({**status, "message": message, "detail": message}).encode())


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        yield server


def tasks(canary: Canaries, url: str, place: Path) -> list[tuple[str, Json, bool]]:
    """Return modules with their options, and whether they are meant to succeed."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": canary("kubeconfig-token")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"x": canary("secret-text")},
        "data": {"y": base64.b64encode(canary("secret-data").encode()).decode()},
    }
    key = {"host": url, "timeout": 5, "api_key": canary("api-key")}
    by_password = {"host": url, "timeout": 5, "username": "joe", "password": canary("password")}
    notified = {"name": "n", "notification_type": "webhook", "organization": "o"}
    awx_objects = {"organizations": [{"name": "o"}], "notification_templates": [notified]}
    awx = {"controller_host": url, "request_timeout": 5, "objects": awx_objects}
    image = {"name": "127.0.0.1:9/x:1", "username": "joe"}
    values = {"driver": {"licensingConfig": {"password": canary("chart-value")}}}
    return [
        ("node_labels", {**key, "nodes": ["n"], "labels": {"a": "b"}}, False),
        ("ssh_secret", {**by_password, "name": "s", "namespace": "default", "owner": "o"}, False),
        ("service_account_token", {**key, "names": ["default"], "nodes": ["n"]}, False),
        ("whereabouts_pools", {"kubeconfig": kubeconfig, "timeout": 5}, False),
        ("cluster_objects", {"kubeconfig": kubeconfig, "timeout": 5, "owner": "o", "objects": [secret]}, False),
        ("gpu_operator", {"kubeconfig": kubeconfig, "timeout": 5, "chart": "/nonexistent", "values": values}, False),
        ("awx_objects", {**awx, "controller_oauthtoken": canary("awx-token")}, False),
        (
            "awx_objects",
            {
                **awx,
                "controller_username": "joe",
                "controller_password": canary("awx-password"),
                "notification_secrets": {"n": {"password": canary("awx-notification")}},
            },
            False,
        ),
        ("container_image", {**image, "password": canary("pull"), "address": str(place / "none.sock")}, False),
        ("image_build", {**image, "password": canary("push"), "containerfile": "FROM x", "output": "registry"}, False),
        ("kubeadm", {"action": "token", "token": canary("join"), "certificate_key": canary("certificates")}, False),
        (
            "cni_install",
            {
                "bin_dir": str(place / "bin"),
                "record": str(place / "cni.json"),
                "kubeconfigs": [{"path": str(place / "cni.conf"), "server": url, "ca_data": "Q0E=", "user": "multus"}],
                "tokens": {"multus": canary("cni-token")},
            },
            True,
        ),
        (
            "drift_verdict",
            {"url": {"url": url + "/r", "headers": {"Authorization": canary("header")}, "timeout": 5}},
            False,
        ),
    ]


def run(place: Path, canary: Canaries, todo: list[tuple[str, Json, bool]], *arguments: str) -> tuple[str, Json]:
    """Run all in one play, which goes on after errors; return what was printed, and the drift report."""
    entries = [
        {
            "name": f"{number} {module}",
            FQCN + module: canary.named(options),
            "ignore_errors": not good,
            # As its documentation has it: the result is the token.
            "no_log": module == "service_account_token",
        }
        for number, (module, options, good) in enumerate(todo)
    ]
    environment = {
        **site.AS_A_USER,
        "ANSIBLE_CALLBACKS_ENABLED": FQCN + "drift",
        "RDMAOPS_DRIFT_REPORT": str(place / "left/report.json"),
        "RDMAOPS_DRIFT_HTML": str(place / "left/report.html"),
        "RDMAOPS_DRIFT_PROMETHEUS": str(place / "left/report.prom"),
        "ANSIBLE_LOG_PATH": str(place / "left/ansible.log"),
        "ANSIBLE_LOCAL_TEMP": str(place / "left/local"),
        "ANSIBLE_REMOTE_TMP": str(place / "left/remote"),
        "TMPDIR": str(place / "left"),
    }
    (place / "left").mkdir()
    keywords = {"variables": {"canary": canary.words}, "cwd": COLLECTION, **environment}
    output = site.run_tasks(place, entries, "-vvv", "--diff", *arguments, **keywords).output
    assert "PLAY RECAP" in output, output
    for number, (module, _options, _good) in enumerate(todo):
        assert f"TASK [{number} {module}]" in output, output
    return output, json.loads((place / "left/report.json").read_text())


def left_behind(place: Path) -> dict[str, str]:
    """Return every file that the run has left, less what is meant to hold a secret and only root reads."""
    texts = {}
    for directory, _names, names in os.walk(place / "left"):
        for name in names:
            path = Path(directory) / name
            texts[str(path.relative_to(place))] = path.read_text(errors="replace")
    return texts


def nothing_seen(place: Path, url: str, subject: str, *arguments: str) -> None:
    canary = Canaries()
    todo = tasks(canary, url, place)
    output, report = run(place, canary, todo, *arguments)
    with faults.tried(KIND, subject) as tally:
        for where, text in {"output": output, **left_behind(place)}.items():
            for name in canary.words:
                with tally.one(f"{name} in {where}"):
                    assert [row for row in canary.seen(text) if row.startswith(f"{name} ")] == []
    # The reports are there, and tell of the tasks.
    assert {"left/report.json", "left/report.html", "left/report.prom", "left/ansible.log"} <= set(left_behind(place))
    assert "node_labels" in json.dumps(report)


def test_where_nobody_listens(tmp_path: Path) -> None:
    nothing_seen(tmp_path, "http://127.0.0.1:9", "refused")
    # It was there to be seen: the token is where it belongs, readable for its owner.
    written = tmp_path / "cni.conf"
    assert "Cn4ry-cni-token" in written.read_text()
    assert written.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("check", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_server_that_repeats_what_it_was_sent(tmp_path: Path, mirror: Mirror, check: bool) -> None:
    nothing_seen(tmp_path, mirror.url, "repeated", *(["--check"] if check else []))
    assert mirror.asked >= 7


def test_every_notation_is_found() -> None:
    word = Canaries()("x")
    for text in (word, json.dumps({"a": word}), urllib.parse.quote(word, safe=""), html.escape(word)):
        assert any(form in text for _how, form in forms(word))
    for before in ("", "a", "ab", "abc", "joe:"):
        for after in ("", "z", "yz"):
            coded = base64.b64encode(f"{before}{word}{after}".encode()).decode()
            assert any(form in coded for _how, form in forms(word)), (before, after)
    assert not any(form in "Cn4ry-other-00" for _how, form in forms(word))
