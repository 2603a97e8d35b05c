# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import stat
import time
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import client as helm_client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import output
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from


def client(timeout: int = 5) -> t.Any:
    configuration = types.SimpleNamespace(
        auth_settings=lambda: {"BearerToken": {"value": "Bearer the-token"}},
        **dict.fromkeys(("verify_ssl", "ssl_ca_cert", "cert_file", "key_file", "proxy", "no_proxy")),
    )
    return types.SimpleNamespace(
        host="https://k:6443", timeout=timeout, _basic=None, _impersonate=(None, []), configuration=configuration
    )


def script(directory: Path, text: str) -> str:
    path = directory / "helm"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def test_helm_gets_the_connection_by_a_file_of_its_own(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_KUBETOKEN", "foreign")
    monkeypatch.setenv("HELM_DEBUG", "true")
    monkeypatch.setenv("HELM_NAMESPACE", "foreign")
    monkeypatch.setenv("HELM_REPOSITORY_CONFIG", "/kept")
    helm = helm_client.Helm(
        script(tmp_path, 'env; stat -c %a "$KUBECONFIG"; cat "$KUBECONFIG"; echo "$@"'), client(), str(elsewhere)
    )
    out = helm.run(["list"], "Listing")
    assert "foreign" not in out
    assert "HELM_DEBUG" not in out
    assert "HELM_REPOSITORY_CONFIG=/kept" in out
    assert "\n600\n" in out
    assert '"token": "the-token"' in out
    assert out.endswith("}list\n")


def test_values_are_in_a_file(tmp_path: Path, elsewhere: Path) -> None:
    argv = tmp_path / "argv"
    helm = helm_client.Helm(
        script(tmp_path, f'case "$1" in version) echo v4.3.1;; *) echo "$@" >> {argv}; cp values {argv}.values;; esac'),
        client(),
        str(elsewhere),
    )
    helm.install("r", "n", "c.tgz", {"a": "secret"}, create_namespace=True, replace=False, validate=False, wait=7)
    assert argv.read_text() == (
        f"install r c.tgz --namespace n --values {elsewhere}/values --timeout 7s --create-namespace --disable-openapi-validation --server-side=false\n"
    )
    assert json.loads(Path(f"{argv}.values").read_text()) == {"a": "secret"}
    assert stat.S_IMODE((elsewhere / "values").stat().st_mode) == 0o600


# helm, was applied on the server, arguments that follow
FORCE = [("v4.1.0", True, ["--force-conflicts"]), ("v4.1.0", False, []), ("v3.20.0", False, [])]


@pytest.mark.parametrize(("version", "server_side", "more"), FORCE)
def test_conflicts_are_forced_where_helm_applies_on_the_server(
    version: str, server_side: bool, more: list[str], tmp_path: Path, elsewhere: Path
) -> None:
    argv = tmp_path / "argv"
    text = f'case "$1" in version) echo {version};; *) echo "$@" > {argv};; esac'
    helm = helm_client.Helm(script(tmp_path, text), client(), str(elsewhere))
    release = output.Release("r", "n", 1, "deployed", 0, "c", "1.0.0", "", "", server_side, {})
    helm.upgrade(release, "c.tgz", {}, validate=True, pruned=False, wait=7)
    words = f"upgrade r c.tgz --namespace n --values {elsewhere}/values --reset-values --timeout 7s".split()
    assert argv.read_text().split() == words + more
    helm.rollback(release, 3, wait=7)
    assert argv.read_text().split() == ["rollback", "r", "3", "--namespace", "n", "--timeout", "7s"] + more


def test_an_error_has_helms_words_and_no_token(tmp_path: Path, elsewhere: Path) -> None:
    helm = helm_client.Helm(script(tmp_path, "echo Error: the-token is unknown >&2; exit 1"), client(), str(elsewhere))
    message = message_of(output.HelmError, helm.run, ["list"], "Listing the releases", hint="Do that")
    assert message == "Listing the releases: helm exited with status 1. Output: Error: ******** is unknown. Do that"


# what helm says, what unblocks
ADVICE = [
    ("Error: another operation (install/upgrade/rollback) is in progress", "see on_pending if it was killed"),
    ("Error: Kubernetes cluster unreachable: dial tcp: connection refused", "run again when it answers"),
    ('secrets is forbidden: User "x" cannot list', "Grant the user that right"),
]


@pytest.mark.parametrize(("text", "advice"), ADVICE, ids=["pending", "unreachable", "forbidden"])
def test_advice(text: str, advice: str, tmp_path: Path, elsewhere: Path) -> None:
    helm = helm_client.Helm(script(tmp_path, f"echo '{text}' >&2; exit 1"), client(), str(elsewhere))
    assert advice in message_of(output.HelmError, helm.run, ["list"], "Listing")
    # A chart repository is no API server.
    message = message_of(output.HelmError, helm.run, ["pull"], "Fetching", cluster=False, hint="Look at chart")
    assert message.endswith(". Look at chart")


def test_a_helm_that_hangs_is_ended(tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm_client, "_GRACE", 0.5)
    words = "working with the-token"
    text = f"trap '' TERM; echo {words} >&2; echo $$ > {tmp_path}/pid; touch {tmp_path}/deaf; while :; do sleep 1; done"
    helm = helm_client.Helm(script(tmp_path, text), client(timeout=1), str(elsewhere))
    limits_count_from(tmp_path / "deaf", monkeypatch)
    began = time.monotonic()
    message = message_of(output.HelmError, helm.run, ["list"], "Listing")
    start = "Listing: helm timed out after 1 s and was killed. Output: working with ********. "
    assert message.startswith(start)
    assert "Raise timeout" in message
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_hook_that_waits_is_said_while_helm_waits_and_in_the_error(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command, "MEANWHILE_S", 0.1)
    api = client()
    job = {"metadata": {"name": "upgrade-crd", "annotations": {"helm.sh/hook": "pre-upgrade"}}}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    pod = {
        "metadata": {"name": "upgrade-crd-x", "labels": {"job-name": "upgrade-crd"}},
        "status": {"conditions": [condition]},
    }
    api.items = lambda path, doing: [job] if path.endswith("/n/jobs") else [pod]
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        (tmp_path / "said").touch()

    wait = f"while ! [ -e {tmp_path}/said ]; do sleep 0.1; done; echo Error: pre-upgrade hooks failed >&2; exit 1"
    helm = helm_client.Helm(script(tmp_path, wait), api, str(elsewhere), say=say)
    message = message_of(output.HelmError, helm.uninstall, "r", "n", wait=7)
    pod_waits = "its pod upgrade-crd-x is not scheduled: 0/2 nodes are available"
    reason = "The pre-upgrade hook's Job n/upgrade-crd waits: " + pod_waits
    assert said == ["Uninstalling the helm release n/r: " + reason]
    assert "Output: Error: pre-upgrade hooks failed. Run again once the cause is fixed" in message
    assert message.endswith(". " + reason)


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(helm_client, "_DIRECTORIES", ())
    message = message_of(output.HelmError, helm_client.find, None)
    assert message.startswith(f"Looking for helm: helm was not found in {tmp_path}. Install helm 3.8 or newer")
    path = script(tmp_path, "")
    assert helm_client.find(None) == helm_client.find("helm") == helm_client.find(path) == path
    assert "is not an executable file" in message_of(output.HelmError, helm_client.find, str(tmp_path))


# a command, whether it may be changing the release r of the namespace s
COMMANDS = [
    ("/usr/bin/helm3 upgrade r", True),
    ("helm upgrade r chart --namespace s", True),
    ("helm -n s rollback r 2", True),
    ("helm uninstall --namespace=s r", True),
    ("helm -ns install r chart", True),
    ("helm upgrade r chart --namespace other", False),
    ("helm upgrade r chart --namespace=other", False),
    ("helm upgrade r chart -nother", False),
    ("helm upgrade other chart --namespace s", False),
    ("helm upgrade other chart --namespace r", False),
    ("helm history r --namespace s", False),
    ("helm", False),
    ("vi upgrade r", False),
]


@pytest.mark.parametrize(("command", "counts"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_running(tmp_path: Path, command: str, counts: bool) -> None:
    write_tree(tmp_path, {"7/cmdline": command.replace(" ", "\0") + "\0"})
    (tmp_path / "10").mkdir()
    (tmp_path / "self").mkdir()
    assert helm_client.running("r", "s", str(tmp_path)) == ([7] if counts else [])


def test_workplace_is_private_and_gone(tmp_path: Path) -> None:
    with helm_client.workplace(str(tmp_path)) as directory:
        assert stat.S_IMODE(Path(directory).stat().st_mode) == 0o700
        (Path(directory) / "kubeconfig").write_text("x")
    assert not list(tmp_path.iterdir())
