#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: experiment_report
short_description: Put what an experiment measured beside a document's numbers and other runs
version_added: 0.1.0
description:
  - Reads the numbers of a run from the logs of a training job, or from a report of the fabric check, and writes them to a file, with a page that shows them
    beside the numbers of a document, of the run before, and of other experiments.
  - Rates are compared by Welch's test if both runs have single measurements and were measured alike. Otherwise, the page shows what differs.
  - A run without a number is an error. Nothing is written for it.
  - It runs on the controller, without a connection to a host. It does not measure anything itself.
  - The table is shown on the terminal, unless the task has C(no_log).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - The table is shown. The files are not written.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The same run again changes nothing. Another one becomes the current run, and the current one the earlier run.
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the experiment, and of its files.
    type: str
    required: true
  title:
    description: Headline of the page. The default is O(name).
    type: str
    default: ""
  directory:
    description:
      - A directory on the controller for C(NAME.json) and C(NAME.html). A relative path is relative to the playbook's directory.
      - The files are written atomically, and the directory is created.
      - The mode of a new file depends on the umask of C(ansible-playbook). An existing file keeps its mode.
    type: path
    required: true
  job:
    description:
      - What the role P(rdmaops.gpu_fabric.training_job#role) returns as C(training_job_result), for a job of C(train.py), C(benchmark.py) or a program of
        nccl-tests.
      - Exactly one of O(job) and O(fabric) is required.
    type: dict
  fabric:
    description: The report of M(rdmaops.gpu_fabric.fabric_verdict).
    type: dict
  document:
    description: What a document says about the same experiment.
    type: dict
    suboptions:
      title:
        description: What to call it.
        type: str
        required: true
      numbers:
        description:
          - Its numbers. Known are C(bandwidth) of C(ib_write_bw), C(bandwidth_cm) of C(ib_write_bw -R) and C(bandwidth_cuda) of C(ib_write_bw --use_cuda) in
            Gb/s, C(busbw) of nccl-tests in GB/s, C(images_per_second_per_device) and
            C(images_per_second), C(seconds), C(first_accuracy) and C(accuracy), both from 0 to 1.
        type: dict
        default: {}
      samples:
        description: Its single measurements of images per second and device.
        type: list
        elements: float
        default: []
      details:
        description:
          - How it was measured. Known are C(kind) (V(train) or V(benchmark)), C(model), C(world_size), C(batch_size), C(image_size), C(precision),
            C(device_type), which need to be equal for a comparison of rates, and C(data), C(epochs), C(device), C(hosts), C(backend), C(transport),
            C(gradients), C(rdma_sent), C(ethernet_sent), C(tcp_sent), C(measurements), C(torch) and C(started).
        type: dict
        default: {}
  beside:
    description: Names of other experiments whose results in O(directory) are shown beside this one. One that has not run yet is left out.
    type: list
    elements: str
    default: []
seealso:
  - module: rdmaops.gpu_fabric.fabric_verdict
  - module: rdmaops.gpu_fabric.training_job_info
"""

EXAMPLES = r"""
---
- name: Show how the accuracy and the duration compare with the document's
  rdmaops.gpu_fabric.experiment_report:
    name: cifar10
    title: ResNet-18 on CIFAR-10, two nodes
    directory: reports
    job: "{{ training_job_result }}"
    document:
      title: the document
      numbers: {accuracy: 0.856, seconds: 897}

- name: Show how a topology-aware scheduler compares with the default one
  rdmaops.gpu_fabric.experiment_report:
    name: vgg16-topology
    directory: reports
    job: "{{ training_job_result }}"
    beside: [vgg16]
"""

RETURN = r"""
msg:
  description: Where the page is, and which experiments have no result yet.
  returned: always
  type: str
  sample: "Experiment cifar10: /home/ops/reports/cifar10.html"
files:
  description: Files that were written, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/home/ops/reports/cifar10.json, /home/ops/reports/cifar10.html]
result:
  description: Contents of C(NAME.json).
  returned: success
  type: dict
  contains:
    schema:
      description: V(1). It changes when keys are renamed or removed.
      type: int
    name:
      description: O(name).
      type: str
    title:
      description: O(title).
      type: str
    document:
      description: O(document). Null without one.
      type: dict
    run:
      description: The run, with C(numbers), C(samples) and C(details) as in O(document).
      type: dict
      sample: {numbers: {accuracy: 0.8571, seconds: 912.4}, samples: [411.2, 410.9], details: {kind: train, model: resnet18, world_size: 2}}
    earlier:
      description: The run before this one. Null without one.
      type: dict
"""

import re

from ansible.module_utils.basic import AnsibleModule

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "title": {"type": "str", "default": ""},
    "directory": {"type": "path", "required": True},
    "job": {"type": "dict"},
    "fabric": {"type": "dict"},
    "document": {
        "type": "dict",
        "options": {
            "title": {"type": "str", "required": True},
            "numbers": {"type": "dict", "default": {}},
            "samples": {"type": "list", "elements": "float", "default": []},
            "details": {"type": "dict", "default": {}},
        },
    },
    "beside": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="experiment_report runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.experiment_report, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
