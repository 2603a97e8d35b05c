#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_check_info
short_description: Check whether a training job can start, before it is created
version_added: 0.1.0
description:
  - Checks whether the API server knows the job's kinds, the network attachments exist, and there is room for all its pods together - resources on the nodes,
    free addresses of whereabouts, quotas of the namespace, the queue of Volcano or Kueue, and the runtime of a TrainJob. Claims, Secrets and ConfigMaps that
    the pods use must exist, and the API server must admit the pods (Pod Security, priority class, service account), which it is asked by a request that
    creates nothing. Of a job in a queue of Kueue the nodes are not checked, because Kueue keeps it back until there is room.
  - A TrainJob whose pods would have the pod network alone is warned of.
  - If not, the error lists all that is missing with its numbers, each node that is short, and what it is short of.
  - What the account may not read is not an error. It is returned as RV(unchecked) and shown as a warning.
  - A node is suitable if it is ready and not cordoned, its taints are tolerated, its labels match, and enough of its allocatable resources are left by other
    pods. Existing pods of the job do not count, because their resources are not needed twice.
  - An existing job that was created with other options is an error, because pods cannot be changed after their start.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    details:
      - This module only reads.
      - Kinds that the API server does not know are not an error in check mode, but are returned as RV(unserved). An operator may be installed before the real
        run.
      - Missing attachments are not an error either, but are returned as RV(missing_attachments). The run that creates them may be the one being checked.
  platform:
    support: full
    platforms: posix
options:
  objects:
    description: What P(rdmaops.gpu_fabric.training_job#filter) returned.
    type: list
    elements: dict
    required: true
  capacity:
    description: Whether to check more than kinds, attachments and options. All of it requires the right to list nodes, pods and C(IPPool) of all namespaces.
    type: bool
    default: true
  image_present:
    description:
      - Whether the image must be on a node already, because no registry has it. A node counts as having it if its status lists it.
    type: bool
    default: false
seealso:
  - plugin: rdmaops.gpu_fabric.training_job
    plugin_type: filter
  - module: rdmaops.gpu_fabric.cluster_objects
"""

EXAMPLES = r"""
---
- name: Check that the job can start
  rdmaops.gpu_fabric.training_job_check_info:
    objects: "{{ options | rdmaops.gpu_fabric.training_job }}"
"""

RETURN = r"""
exists:
  description: Whether the job already exists.
  returned: success
  type: bool
placed:
  description: How many of its pods would fit on which node. Null if this was not checked.
  returned: success
  type: dict
  sample: {"gpu-1": 1, "gpu-2": 1}
unchecked:
  description: What was not checked, and why.
  returned: success
  type: list
  elements: str
unserved:
  description: Kinds that the API server does not know, in check mode.
  returned: success
  type: list
  elements: str
  sample: ["MPIJob of kubeflow.org/v2beta1"]
missing_attachments:
  description: Missing network attachments, in check mode.
  returned: success
  type: list
  elements: str
  sample: ["default/rail0"]
resources:
  description: Objects of these kinds and these attachments, as the drift report reads them.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._training_job.check import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "objects": {"type": "list", "elements": "dict", "required": True},
            "capacity": {"type": "bool", "default": True},
            "image_present": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
