# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check before a job is created only reads, and needs no right to read."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import Client
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.check import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects

IMAGE = "registry.example/train@sha256:" + "0" * 64


class NoOperator:
    """An API server without the operator of the job."""

    def resources(self, version: str) -> list[dict[str, t.Any]] | None:
        return [{"kind": "Service", "name": "services"}] if version == "v1" else None

    def get(self, _path: str, _doing: str) -> dict[str, t.Any] | None:
        return None


def test_in_check_mode_a_kind_that_is_not_served_yet_is_no_change() -> None:
    job = objects({"kind": "pytorchjob", "name": "train", "image": IMAGE, "command": ["x"], "workers": 2, "gpus": 8})
    params = {"objects": job, "capacity": False, "image_present": False}
    result = manage(params, True, t.cast("Client", NoOperator()))
    assert result["unserved"] == ["PyTorchJob of kubeflow.org/v1"]
    assert result["changed"] is False


class OneNamespace(Client):
    """The API server for an account that may read nothing outside of its namespace, nor its quotas."""

    def __init__(self) -> None:
        self.host = "https://192.0.2.1:6443"

    def resources(self, _version: str) -> list[dict[str, t.Any]] | None:
        return [{"kind": "Service", "name": "services"}, {"kind": "Pod", "name": "pods"}]

    def get(self, _path: str, _doing: str) -> dict[str, t.Any] | None:
        return None

    def request(self, _method: str, path: str, doing: str, **_more: t.Any) -> dict[str, t.Any]:
        status = {"reason": "Forbidden", "message": f'{path} is forbidden: User "joe" cannot create resource "x"'}
        raise self.refused(403, "Forbidden", json.dumps(status).encode(), doing)


def test_an_attachment_that_may_not_be_read_is_unchecked() -> None:
    job = objects({"kind": "pods", "name": "train", "image": IMAGE, "command": ["x"], "networks": ["kube-system/roce"]})
    result = manage({"objects": job, "capacity": False, "image_present": False}, False, OneNamespace())
    (reason,) = result["unchecked"]
    assert reason.startswith(
        "the attachment kube-system/roce (reading the attachment kube-system/roce: https://192.0.2.1:6443 answered 403"
        " (Forbidden): "
    )
    assert reason.endswith(". Give this user that right by a Role or a ClusterRole)")
    assert result["warnings"] == [f"Checking the job default/train: not checked: {reason}"]
    assert result["missing_attachments"] == []
    # It is asked for once, and the addresses behind it are not looked up.
    result = manage({"objects": job, "capacity": True, "image_present": False}, False, OneNamespace())
    subjects = [text.partition(" (")[0] for text in result["unchecked"]]
    assert subjects == [
        "the attachment kube-system/roce",
        "the nodes",
        "the quotas of default",
        "whether the API server admits the pods",
    ]
