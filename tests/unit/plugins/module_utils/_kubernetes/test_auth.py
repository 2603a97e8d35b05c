# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, the environment, kubeconfigs and credential plugins."""

from __future__ import annotations

import json
import os
import stat
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import client as kubernetes
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, limits_count_from, wait_for
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes.server import (
    TOKEN,
    FakeModule,
    Server,
    sent,
)


def kubeconfig(server: str, user: dict[str, t.Any], context: str = "main") -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c-" + context, "cluster": {"server": server}}],
        "users": [{"name": "u-" + context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": "c-" + context, "user": "u-" + context}}],
    }


def written(path: Path, config: t.Any) -> str:
    path.write_text(json.dumps(config))
    return str(path)


def connect(**options: t.Any) -> Client:
    return kubernetes.connect(t.cast("t.Any", FakeModule(**options)))


def test_a_dictionary_and_a_file_and_text(serve: t.Callable[..., Server], tmp_path: Path) -> None:
    server = serve((200, {"kind": "Namespace"}))
    config = kubeconfig(server.url, {"token": TOKEN})
    for given in (config, json.dumps(config), written(tmp_path / "config", config)):
        assert connect(kubeconfig=given).get("/api/v1/namespaces/x", "Looking") == {"kind": "Namespace"}
        assert sent(server, "authorization") == ["Bearer " + TOKEN]


def test_several_files_and_a_context(serve: t.Callable[..., Server], tmp_path: Path) -> None:
    first, second = serve((200, {"one": 1})), serve((200, {"two": 2}))
    paths = [
        written(tmp_path / "one", kubeconfig(first.url, {"token": TOKEN}, "one")),
        str(tmp_path / "missing"),
        written(tmp_path / "two", kubeconfig(second.url, {"token": "another-token"}, "two")),
    ]
    both = os.pathsep.join(paths)
    assert connect(kubeconfig=both).get("/x", "") == {"one": 1}
    assert connect(kubeconfig=both, context="two").get("/x", "") == {"two": 2}
    assert sent(second, "authorization") == ["Bearer another-token"]
    with pytest.raises(ApiError, match=r"one.*it has no context three. It has: one, two. Set the option context"):
        connect(kubeconfig=both, context="three")


def test_a_context_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    config = kubeconfig("https://x", {"token": TOKEN}, "prod")
    path = written(tmp_path / "config", config)
    says = "Reading %s: it has no context %s. It has: prod. Set the option context to one of them"
    assert message_of(ApiError, connect, kubeconfig=path, context="prd") == says % (f"the kubeconfig {path}", "prd")
    assert message_of(ApiError, connect, kubeconfig=config, context="prd") == says % ("the given kubeconfig", "prd")
    path = written(tmp_path / "config", {**config, "current-context": "prd"})
    gone = "prd, which it names as the current one"
    assert message_of(ApiError, connect, kubeconfig=path) == says % (f"the kubeconfig {path}", gone)
    path = written(tmp_path / "config", {**config, "contexts": None})
    assert "it has no context prd. It has: none." in message_of(ApiError, connect, kubeconfig=path, context="prd")


def test_the_environment(serve: t.Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve((200, {}))
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", written(tmp_path / "k", kubeconfig(server.url, {"token": TOKEN})))
    connect().get("/x", "")
    assert sent(server, "authorization") == ["Bearer " + TOKEN]
    monkeypatch.setenv("K8S_AUTH_HOST", server.url + "/")
    monkeypatch.setenv("K8S_AUTH_API_KEY", "from-the-environment")
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "no")
    monkeypatch.setenv("K8S_AUTH_IMPERSONATE_USER", "joe")
    monkeypatch.setenv("K8S_AUTH_IMPERSONATE_GROUPS", "one,two")
    module = FakeModule()
    values = kubernetes.parameters(t.cast("t.Any", module))
    assert (values["validate_certs"], values["impersonate_groups"]) == (False, ["one", "two"])
    assert "from-the-environment" in module.no_log_values
    connect().get("/x", "")
    assert sent(server, "authorization") == ["Bearer from-the-environment"]
    assert (sent(server, "impersonate-user"), sent(server, "impersonate-group")) == (["joe"], ["one", "two"])
    # An option wins.
    connect(api_key="from-the-option").get("/x", "")
    assert sent(server, "authorization") == ["Bearer from-the-option"]


def test_user_and_password(serve: t.Callable[..., Server]) -> None:
    server = serve((200, {}))
    connect(host=server.url, username="joe", password="secret").get("/x", "")
    assert sent(server, "authorization") == ["Basic am9lOnNlY3JldA=="]


def test_what_is_secret_in_a_dictionary_and_what_is_not() -> None:
    user = {
        "token": TOKEN,
        "username": "admin",
        "password": "hunter22",
        "exec": {"args": ["--secret=x"], "command": "aws"},
    }
    module = FakeModule(kubeconfig=kubeconfig("https://cluster:6443", user), api_key="another-secret")
    kubernetes.parameters(t.cast("t.Any", module))
    assert module.no_log_values == {TOKEN, "hunter22", "--secret=x", "another-secret"}


def test_the_token_of_a_file_is_kept_out_of_the_output(tmp_path: Path) -> None:
    path = written(tmp_path / "config", kubeconfig("https://127.0.0.1:1", {"token": TOKEN}))
    module = FakeModule(kubeconfig=path)
    kubernetes.connect(t.cast("t.Any", module))
    assert TOKEN in module.no_log_values
    assert path not in module.no_log_values


# content of the file, what the message says
JUNK: list[tuple[str, str]] = [
    ("{", "Correct the file, or give another one by the option kubeconfig"),
    ("token: %s\n\t- x" % TOKEN, "Correct the file"),
    ("just text", "Correct the file"),
    ("[]", "Correct the file"),
    ("", "Correct the file"),
    (json.dumps({"kind": "Config", "clusters": []}), "current-context"),
    (json.dumps({**kubeconfig("https://x", {}), "current-context": "gone"}), "gone"),
    (
        json.dumps(kubeconfig("https://x", {"client-certificate-data": "%%%", "client-key-data": "x"})),
        "Correct the file",
    ),
]


@pytest.mark.parametrize(("content", "says"), JUNK, ids=range(len(JUNK)))
def test_junk(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    message = message_of(ApiError, connect, kubeconfig=str(path))
    assert message.startswith("Reading the kubeconfig %s: " % path)
    assert says in message
    assert TOKEN not in message


def test_missing_and_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert message_of(ApiError, connect, kubeconfig="%s:%s" % (tmp_path / "a", tmp_path / "b")) == (
        "Reading the kubeconfig %s or %s: no such file. Set its path in the option kubeconfig or in K8S_AUTH_KUBECONFIG"
        % (tmp_path / "a", tmp_path / "b")
    )
    with pytest.raises(ApiError, match=r"/home/.kube/config: no such file, and this is not a pod"):
        connect()
    # A directory: root may read every file.
    with pytest.raises(ApiError, match="Reading the kubeconfig .*: .*Is a directory"):
        connect(kubeconfig=str(tmp_path))
    with pytest.raises(ApiError, match="it looks like a dictionary and is not valid JSON"):
        connect(kubeconfig="{x")
    with pytest.raises(ApiError, match="timeout is 0; it must be at least 1 second"):
        connect(kubeconfig=kubeconfig("https://x", {}), timeout=0)


def plugin(directory: Path, script: str) -> dict[str, t.Any]:
    path = directory / "credentials"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


def test_a_credential_plugin_that_works(serve: t.Callable[..., Server], tmp_path: Path) -> None:
    server = serve((200, {}))
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": TOKEN}}
    user = plugin(tmp_path, "cat <<'E'\n%s\nE\n" % json.dumps(credential))
    module = FakeModule(kubeconfig=kubeconfig(server.url, user))
    kubernetes.connect(t.cast("t.Any", module)).get("/x", "")
    assert sent(server, "authorization") == ["Bearer " + TOKEN]
    assert TOKEN in module.no_log_values


def test_a_credential_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = plugin(tmp_path, "echo $$ > %s/pid\ntouch %s/mark\nexec sleep 300\n" % (tmp_path, tmp_path))
    limits_count_from(tmp_path / "mark", monkeypatch)
    before = time.monotonic()
    message = message_of(ApiError, connect, kubeconfig=kubeconfig("https://127.0.0.1:1", user), timeout=1)
    assert time.monotonic() - before < 10
    assert message == (
        "Reading the given kubeconfig: not done after 1 s. A credential plugin (users[].user.exec) that waits for an "
        "answer does this: log in first, or raise timeout"
    )
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: has_ended(pid))


def test_a_credential_plugin_that_fails(tmp_path: Path) -> None:
    user = plugin(tmp_path, "echo 'you are not logged in' >&2; exit 3\n")
    with pytest.raises(ApiError, match="Reading the given kubeconfig: exec: process returned 3. you are not logged in"):
        connect(kubeconfig=kubeconfig("https://127.0.0.1:1", user))
