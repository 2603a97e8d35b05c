# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of a deployment, in a Secret of a real API server; ssh-keygen is the oracle."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.ssh_secret import FILES, manage
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import apply_set, client, manifest

Json = t.Any


@pytest.fixture
def plane() -> Cluster:
    need_tool("ssh-keygen")
    return cluster()


@pytest.fixture
def namespace(plane: Cluster) -> t.Iterator[str]:
    with plane.namespace() as name:
        yield name


def desired(namespace: str, **more: Json) -> Json:
    return {"name": "train-ssh", "namespace": namespace, "owner": "training-job-train", "labels": {}, **more}


def stored(plane: Cluster, namespace: str, name: str = "train-ssh") -> dict[str, bytes]:
    data = plane.json("get", "secret", name, "-n", namespace)["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def public(path: Path, private: bytes) -> list[str]:
    """Return the public part of a private key as ssh-keygen tells it."""
    path.write_bytes(private)
    path.chmod(0o600)
    argv = ["ssh-keygen", "-y", "-P", "", "-f", str(path)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split()[:2]


def test_the_drill(plane: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The client keeps certificates in files of its own.
    api = client(plane.kubeconfig)
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    checked = manage(desired(namespace), True, api)
    assert (checked["changed"], checked["actions"]) == (True, [f"Make Secret {namespace}/train-ssh"])
    assert plane.kubectl("get", "secrets", "-n", namespace, "-o", "name") == ""
    done = manage(desired(namespace), False, api)
    assert done == checked
    assert not list(room.iterdir())
    secret = stored(plane, namespace)
    assert sorted(secret) == sorted(FILES)
    login, host = (public(tmp_path / name, secret[name]) for name in ("id_ed25519", "ssh_host_ed25519_key"))
    assert secret["authorized_keys"].decode().split()[:2] == login != host
    for check in (False, True):
        again = manage(desired(namespace), check, api)
        assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
        assert [row["status"] for row in again["resources"]] == ["in_sync"]
    assert stored(plane, namespace) == secret
    # Of the keys, nothing is in any result, neither as it is stored nor as it is meant.
    message = json.dumps([done, again])
    for content in secret.values():
        lines = [*content.decode().split(), base64.b64encode(content).decode()]
        assert not [line for line in lines if len(line) > 20 and line in message]
    # Another deployment has other keys.
    manage(desired(namespace, name="other-ssh", owner="training-job-other"), False, api)
    other = stored(plane, namespace, "other-ssh")
    assert not [name for name in FILES if other[name] == secret[name]]


def test_keys_that_are_damaged_are_made_anew(plane: Cluster, namespace: str) -> None:
    api = client(plane.kubeconfig)
    manage(desired(namespace), False, api)
    whole = stored(plane, namespace)
    for patch, expected in (
        ({"id_ed25519": None}, "id_ed25519 missing"),
        ({"authorized_keys": base64.b64encode(whole["authorized_keys"]).decode()}, "authorized_keys does not let "),
    ):
        plane.kubectl("patch", "secret", "train-ssh", "-n", namespace, "-p", json.dumps({"data": patch}))
        damaged = stored(plane, namespace)
        checked = manage(desired(namespace), True, api)
        assert stored(plane, namespace) == damaged
        assert checked["actions"] == [f"Replace the keys in Secret {namespace}/train-ssh"]
        assert checked["resources"][0]["live"].startswith(expected)
        assert manage(desired(namespace), False, api) == checked
        assert not [name for name in FILES if stored(plane, namespace)[name] in damaged.values()]
        assert not manage(desired(namespace), False, api)["changed"]


def test_a_diff_of_their_removal_has_no_key(plane: Cluster, namespace: str) -> None:
    api = client(plane.kubeconfig)
    manage(desired(namespace), False, api)
    data = plane.json("get", "secret", "train-ssh", "-n", namespace)["data"]
    secret = manifest("v1", "Secret", "train-ssh", namespace)
    done = apply_set(plane, "training-job-train", secret, state="absent", namespace=namespace)
    assert done["actions"] == [f"Remove Secret {namespace}/train-ssh"]
    message = json.dumps(done)
    assert "(hidden)" in message
    assert not [value for value in data.values() if value in message]
    assert plane.kubectl("get", "secrets", "-n", namespace, "-o", "name") == ""


def test_what_stands_in_the_way_is_said(
    plane: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = client(plane.kubeconfig)
    for check in (True, False):
        message = message_of(FabricError, manage, desired("nowhere"), check, api)
        assert message.startswith("Trying to make Secret nowhere/train-ssh: ")
        assert 'namespaces "nowhere" not found' in message
    plane.kubectl("create", "secret", "generic", "train-ssh", "-n", namespace, "--from-literal=a=b")
    for check in (True, False):
        assert message_of(FabricError, manage, desired(namespace), check, api) == (
            f"Keeping keys in Secret {namespace}/train-ssh: it is there already and was not made for this deployment. "
            "Nothing was changed: remove it, or choose another name"
        )
    assert stored(plane, namespace) == {"a": b"b"}
    joe = client(plane.user("joe"))
    with pytest.raises(FabricError, match='User "joe" cannot get resource "secrets"'):
        manage(desired(namespace), True, joe)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FabricError, match="ssh-keygen is not installed here. Install openssh-client"):
        manage(desired(namespace, name="more-ssh"), True, api)
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(FabricError, match=f"Making keys: {program} exited with status 3. Output: no space left"):
        manage(desired(namespace, name="more-ssh"), False, api)
    assert plane.kubectl("get", "secrets", "-n", namespace, "-o", "name").split() == ["secret/train-ssh"]
