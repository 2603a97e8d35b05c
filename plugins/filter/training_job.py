# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter training_job: options to manifests."""

from __future__ import annotations

DOCUMENTATION = r"""
name: training_job
short_description: Create the Kubernetes objects of a training job
version_added: 0.1.0
description:
  - Creates single pods, an MPIJob, PyTorchJob, TrainJob or JobSet, or a Volcano job from one set of options, ready
    to be applied.
  - Impossible options are refused before anything is applied, such as a name that is not a valid pod name, a resource
    of zero, or an image without a digest.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description:
      - Options of the role P(rdmaops.gpu_fabric.training_job#role) without the prefix C(training_job_), as far as they
        are about the job itself. At least C(kind), C(name), C(image) and C(command).
    type: dict
    required: true
seealso:
  - plugin: rdmaops.gpu_fabric.training_job
    plugin_type: role
  - module: rdmaops.gpu_fabric.training_job_check_info
  - module: rdmaops.gpu_fabric.cluster_objects
"""

EXAMPLES = r"""
---
- name: Show what would be applied
  ansible.builtin.debug:
    msg: "{{ options | rdmaops.gpu_fabric.training_job }}"
  vars:
    options:
      kind: pytorchjob
      name: resnet
      image: registry.example/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      command: [torchrun, train.py]
      workers: 3
      gpus: 4
      networks: [kube-system/roce]
      resources:
        rdma/rdma: 1
"""

RETURN = r"""
_value:
  description: Manifests, in the order in which they are created.
  type: list
  elements: dict
"""

import typing as t

from ..module_utils._training_job.manage import objects
from ..module_utils._training_job.options import JobError
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def training_job(options: t.Any) -> list[dict[str, t.Any]]:
    """Return manifests."""
    try:
        return objects(options)
    except JobError as exc:
        text = "%s. In the role training_job, options have the prefix training_job_" % str(exc).rstrip(".")
        raise JobError(text) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"training_job": training_job}
