# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter training_job_references: what a training job may have left in a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: training_job_references
short_description: List the Kubernetes objects of a training job, for their removal
version_added: 0.1.0
description:
  - Creates the value of O(rdmaops.gpu_fabric.cluster_objects#module:objects) for
    O(rdmaops.gpu_fabric.cluster_objects#module:state=absent). The options of the job are not needed.
author:
  - rdmaops contributors (@rdmaops)
positional: name, namespace, gang
options:
  _input:
    description: What M(rdmaops.gpu_fabric.training_job_info) returned.
    type: dict
    required: true
  kind:
    description: Kind of the job.
    type: str
    choices: [pods, mpijob, mpijob-v1alpha1, pytorchjob, vcjob, jobset, trainjob]
    required: true
  name:
    description: Name of the job.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  gang:
    description: The gang scheduler of the job.
    type: str
    choices: [none, volcano, scheduler-plugins, ack, kueue]
    default: none
"""

EXAMPLES = r"""
---
- name: Remove a job
  rdmaops.gpu_fabric.cluster_objects:
    owner: training-job-resnet
    objects: "{{ job | rdmaops.gpu_fabric.training_job_references('pytorchjob', 'resnet', 'training') }}"
    state: absent
"""

RETURN = r"""
_value:
  description: Objects with their kind and name only.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._training_job.manage import references
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def training_job_references(
    info: t.Mapping[str, t.Any], kind: str, name: str, namespace: str, gang: str = "none"
) -> list[dict[str, t.Any]]:
    """Return objects without content."""
    try:
        return references(kind, name, namespace, gang, [pod["name"] for pod in info["pods"]])
    except (KeyError, TypeError) as exc:
        raise AnsibleFilterError(
            "Naming the objects of the job %s/%s: the input is not what training_job_info returns" % (namespace, name)
        ) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"training_job_references": training_job_references}
