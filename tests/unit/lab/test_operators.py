# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators of training jobs are given when they run beside the API server."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, operators
from ansible_collections.rdmaops.gpu_fabric.tests.lab.control_plane import ControlPlane

# Two webhooks of kueue v0.17.0, shortened.
WEBHOOKS = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- name: mpod.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate--v1-pod}}
- name: mrayjob.kb.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-ray-io-v1-rayjob}}
"""


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    made = ControlPlane(config.places({"HOME": str(tmp_path)}))
    made.prepare()
    return made


def test_the_api_server_calls_this_machine_for_the_kinds_that_are_managed(plane: ControlPlane) -> None:
    (manifest,) = operators.webhooks(plane, operators.OPERATORS["kueue"], "kueue", WEBHOOKS, 9443)
    assert manifest["metadata"] == {"name": "kueue-mutating"}
    (webhook,) = manifest["webhooks"]
    authority = base64.b64encode(plane.authority.file.read_bytes()).decode()
    assert webhook == {
        "name": "mpod.kb.io",
        "clientConfig": {"url": "https://127.0.0.1:9443/mutate--v1-pod", "caBundle": authority},
    }
    (manifest,) = operators.webhooks(plane, operators.OPERATORS["jobset"], "jobset", WEBHOOKS, 9443)
    assert [row["name"] for row in manifest["webhooks"]] == ["mpod.kb.io", "mrayjob.kb.io"]


@pytest.mark.parametrize("program", [name for name, operator in operators.OPERATORS.items() if operator.configuration])
def test_a_configuration_has_ports_on_the_loopback_alone(program: str, tmp_path: Path) -> None:
    configuration = operators.OPERATORS[program].configuration
    assert configuration is not None
    document = configuration(tmp_path, operators.Ports(9443, 8081))
    assert (document["webhook"]["host"], document["webhook"]["port"]) == ("127.0.0.1", 9443)
    assert document["health"]["healthProbeBindAddress"] == "127.0.0.1:8081"
    assert document["metrics"]["bindAddress"] == "0"
    assert document["leaderElection"] == {"leaderElect": False}
