# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check before a job is created reports no change, because it only reads."""

from __future__ import annotations

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
