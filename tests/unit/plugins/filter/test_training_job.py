# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters training_job and training_job_references; what they do is tested with the util below them."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import training_job as plugin
from ansible_collections.rdmaops.gpu_fabric.plugins.filter import training_job_references as references

OPTIONS: dict[str, t.Any] = {"kind": "vcjob", "name": "train", "image": "x", "command": ["x"], "require_digest": False}


def test_errors_are_those_of_a_filter() -> None:
    assert plugin.training_job(OPTIONS)[0]["kind"] == "Job"
    with pytest.raises(
        AnsibleFilterError,
        match="Creating the job: workers is 0.*In the role training_job, options have the prefix training_job_",
    ):
        plugin.training_job({**OPTIONS, "workers": 0})
    with pytest.raises(AnsibleFilterError, match="the input is not what training_job_info returns"):
        references.training_job_references({}, "pods", "train", "lab")
    with pytest.raises(AnsibleFilterError, match="Removing the job lab/train: unknown kind 'job'"):
        references.training_job_references({"pods": []}, "job", "train", "lab")
