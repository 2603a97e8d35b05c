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

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import client as helm_client
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import limits_count_from

FIXTURES = Path(__file__).parents[1] / "fixtures" / "helm"
VERSIONS = ["3.22.0", "4.3.1"]


def recorded(version: str, what: str) -> str:
    return (FIXTURES / f"helm-{version}_{what}").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_releases(version: str) -> None:
    assert helm_client.parse_list(recorded(version, "list.json")) == [
        helm_client.Listed("gpu-operator-1715330617", "gpu", "deployed", "gpu-operator", "v25.3.0")
    ]
    assert [one.status for one in helm_client.parse_list(recorded(version, "list_failed.json"))] == ["failed"]
    assert helm_client.parse_list(recorded(version, "list_empty.json")) == []
    assert helm_client.parse_history(recorded(version, "history.json")) == [
        helm_client.Revision(1, "deployed"),
        helm_client.Revision(2, "failed"),
    ]
    found = helm_client.parse_release(recorded(version, "get_all.txt"), recorded(version, "get_values.json"))
    assert found._replace(manifest="", deployed=0) == helm_client.Release(
        "gpu-operator-1715330617",
        "gpu",
        1,
        "deployed",
        0,
        "gpu-operator",
        "v25.3.0",
        "v25.3.0",
        "",
        version.startswith("4"),
        {"toolkit-version": "1.15.0-ubi8"},
    )
    assert "\nkind: ClusterPolicy\n" in found.manifest
    assert found.deployed > 1_700_000_000
    assert not found.pending


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_version(version: str) -> None:
    text = recorded(version, "version.txt")
    assert helm_client.parse_version(text, "helm") == tuple(map(int, version.split(".")))


# what helm says, what the message has
VERSION_ERRORS = [
    ("v3.2.4+g0ad800e", "/bin/helm is helm v3.2.4+g0ad800e, and 3.8.0 or newer is needed"),
    ("v2.17.0", "and 3.8.0 or newer is needed"),
    ("command not found", "it answered 'command not found', which is not a helm version"),
]


@pytest.mark.parametrize(("text", "message"), VERSION_ERRORS, ids=["3.2", "2.17", "none"])
def test_version_errors(text: str, message: str) -> None:
    with pytest.raises(helm_client.HelmError) as failure:
        helm_client.parse_version(text, "/bin/helm")
    assert message in str(failure.value)


# chart as helm lists it, name, version
CHARTS = [
    ("gpu-operator-v24.3.0", "gpu-operator", "v24.3.0"),
    ("gpu-operator-25.3.0-rc.1", "gpu-operator", "25.3.0-rc.1"),
    ("gpu-operator-extras-1.2.3", "gpu-operator-extras", "1.2.3"),
    ("my-chart-1.2", "my-chart-1.2", ""),
]


@pytest.mark.parametrize(("chart", "name", "version"), CHARTS, ids=[row[0] for row in CHARTS])
def test_chart_names(chart: str, name: str, version: str) -> None:
    entry = {"name": "r", "namespace": "n", "status": "deployed", "chart": chart}
    assert helm_client.parse_list(json.dumps([entry])) == [helm_client.Listed("r", "n", "deployed", name, version)]


def test_last_lines_are_short_and_without_secrets() -> None:
    text = (
        "WARNING: Kubernetes configuration file is group-readable.\n" + "x\n" * 20 + "Error: token abc-secret is bad\n"
    )
    assert helm_client.last_lines(text, ["abc-secret"]) == "x | " * 7 + "Error: token ******** is bad"
    assert helm_client.last_lines("") == "nothing"
    said = helm_client.last_lines(recorded("4.3.1", "upgrade_hook.txt"))
    assert said.startswith("Error: UPGRADE FAILED: pre-upgrade hooks failed: resource Job/gpu/gpu-operator-upgrade-crd")


def configuration(**more: t.Any) -> t.Any:
    values = {
        "verify_ssl": True,
        "ssl_ca_cert": "/ca",
        "cert_file": None,
        "key_file": None,
        "proxy": None,
        "no_proxy": None,
        **more,
    }
    token = {"value": "Bearer the-token"}
    return types.SimpleNamespace(auth_settings=lambda: {"BearerToken": token}, **values)


def client(**more: t.Any) -> t.Any:
    made = {"host": "https://k:6443", "timeout": 5, "_basic": None, "_impersonate": (None, []), **more}
    made.setdefault("configuration", configuration())
    return types.SimpleNamespace(**made)


def test_kubeconfig() -> None:
    config, secrets = helm_client.kubeconfig(client(_impersonate=("joe", ["g"]), _basic="u:p:w"))
    assert secrets == {"the-token", "p:w"}
    assert config["clusters"][0]["cluster"] == {"server": "https://k:6443", "certificate-authority": "/ca"}
    user = {"token": "the-token", "username": "u", "password": "p:w", "as": "joe", "as-groups": ["g"]}
    assert config["users"][0]["user"] == user


# options of the client's configuration, the cluster's entry
CLUSTERS = [
    ({"verify_ssl": False}, {"insecure-skip-tls-verify": True}),
    ({"proxy": "http://p:1"}, {"certificate-authority": "/ca", "proxy-url": "http://p:1"}),
    ({"proxy": "http://p:1", "no_proxy": "k"}, {"certificate-authority": "/ca"}),
    ({"tls_server_name": "api"}, {"certificate-authority": "/ca", "tls-server-name": "api"}),
]


@pytest.mark.parametrize(("options", "entry"), CLUSTERS, ids=["insecure", "proxy", "no proxy", "server name"])
def test_kubeconfig_of_the_connection(options: dict[str, t.Any], entry: dict[str, t.Any]) -> None:
    config, _secrets = helm_client.kubeconfig(client(configuration=configuration(**options)))
    assert config["clusters"][0]["cluster"] == {"server": "https://k:6443", **entry}


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
    release = helm_client.Release("r", "n", 1, "deployed", 0, "c", "1.0.0", "", "", server_side, {})
    helm.upgrade(release, "c.tgz", {}, validate=True, pruned=False, wait=7)
    words = f"upgrade r c.tgz --namespace n --values {elsewhere}/values --reset-values --timeout 7s".split()
    assert argv.read_text().split() == words + more
    helm.rollback(release, 3, wait=7)
    assert argv.read_text().split() == ["rollback", "r", "3", "--namespace", "n", "--timeout", "7s"] + more


def test_an_error_has_helms_words_and_no_token(tmp_path: Path, elsewhere: Path) -> None:
    helm = helm_client.Helm(script(tmp_path, "echo Error: the-token is unknown >&2; exit 1"), client(), str(elsewhere))
    with pytest.raises(helm_client.HelmError) as failure:
        helm.run(["list"], "Listing the releases", hint="Do that")
    assert (
        str(failure.value)
        == "Listing the releases: helm exited with status 1. Output: Error: ******** is unknown. Do that"
    )


# what helm says, what unblocks
ADVICE = [
    ("Error: another operation (install/upgrade/rollback) is in progress", "see on_pending if it was killed"),
    ("Error: Kubernetes cluster unreachable: dial tcp: connection refused", "run again when it answers"),
    ('secrets is forbidden: User "x" cannot list', "Grant the user that right"),
]


@pytest.mark.parametrize(("text", "advice"), ADVICE, ids=["pending", "unreachable", "forbidden"])
def test_advice(text: str, advice: str, tmp_path: Path, elsewhere: Path) -> None:
    helm = helm_client.Helm(script(tmp_path, f"echo '{text}' >&2; exit 1"), client(), str(elsewhere))
    with pytest.raises(helm_client.HelmError) as failure:
        helm.run(["list"], "Listing")
    assert advice in str(failure.value)
    with pytest.raises(helm_client.HelmError) as failure:  # a chart repository is no API server
        helm.run(["pull"], "Fetching", cluster=False, hint="Look at chart")
    assert str(failure.value).endswith(". Look at chart")


def test_a_helm_that_hangs_is_ended(tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm_client, "_GRACE", 0.5)
    words = "working with the-token"
    text = f"trap '' TERM; echo {words} >&2; echo $$ > {tmp_path}/pid; touch {tmp_path}/deaf; while :; do sleep 1; done"
    helm = helm_client.Helm(script(tmp_path, text), client(timeout=1), str(elsewhere))
    limits_count_from(tmp_path / "deaf", monkeypatch)
    began = time.monotonic()
    with pytest.raises(helm_client.HelmError) as failure:
        helm.run(["list"], "Listing")
    said = "Listing: helm timed out after 1 s and was killed. Output: working with ********. "
    assert str(failure.value).startswith(said)
    assert "Raise timeout" in str(failure.value)
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(helm_client, "_DIRECTORIES", ())
    with pytest.raises(helm_client.HelmError) as failure:
        helm_client.find(None)
    assert str(failure.value).startswith(
        f"Looking for helm: helm was not found in {tmp_path}. Install helm 3.8 or newer"
    )
    path = script(tmp_path, "")
    assert helm_client.find(None) == helm_client.find("helm") == helm_client.find(path) == path
    with pytest.raises(helm_client.HelmError) as failure:
        helm_client.find(str(tmp_path))
    assert "is not an executable file" in str(failure.value)


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
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_text(command.replace(" ", "\0") + "\0")
    (tmp_path / "10").mkdir()
    (tmp_path / "self").mkdir()
    assert helm_client.running("r", "s", str(tmp_path)) == ([7] if counts else [])


def test_workplace_is_private_and_gone(tmp_path: Path) -> None:
    with helm_client.workplace(str(tmp_path)) as directory:
        assert stat.S_IMODE(Path(directory).stat().st_mode) == 0o700
        (Path(directory) / "kubeconfig").write_text("x")
    assert not list(tmp_path.iterdir())
