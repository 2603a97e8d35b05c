#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_verdict
short_description: Judge the drift that this run has found
version_added: 0.1.0
description:
  - Reads what the callback P(rdmaops.gpu_fabric.drift#callback) has taken down in this run of C(ansible-playbook) so far, and fails when something has
    drifted. It belongs into the last play of a run.
  - The verdict is V(drift) where an object has drifted, else V(unknown) where one could not be looked at, where nothing was looked at or a host was not
    come to, else V(in_sync).
  - It sets C(drift_verdict), C(drift_counts), C(drift_hosts) and C(drift_message) as custom statistics of the run, whether it fails or not, so that
    the next nodes of a workflow and the notifications of AWX see them.
  - It runs on the controller, without a connection to a host. Where the callback is not enabled it fails, and says how to enable it.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - It is made for runs in check mode. It changes nothing but what it is told to write and to publish, which it does in check mode too, because that
        is about the run and not about a host.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - It changes nothing that is managed, and never says so.
  platform:
    support: full
    platforms: posix
options:
  drift_fail:
    description: Whether the task fails, when the verdict is one of O(fail_on). Without it the verdict is only told.
    type: bool
    default: true
  fail_on:
    description: The verdicts with which the task fails. The files are written, and the statistics set, before that.
    type: list
    elements: str
    choices: [drift, unknown]
    default: [drift, unknown]
  merge:
    description:
      - Reports that other runs, such as the slices of one job, have published as JSON. The verdict is on all of them, and on this run if it has looked at
        anything.
      - A host that is in two of them is an error, since it cannot be told which of the two looks counts.
      - One that cannot be read, or was written by a release with another shape, makes the task fail. The verdict on the others is told, written and
        published all the same, and is never V(in_sync).
    type: list
    elements: path
    default: []
  slices:
    description:
      - How many reports there are when all are merged. With any other number the verdict is never V(in_sync), because hosts of a slice that has published
        nothing are in no report.
      - With V(0) as many as there are.
    type: int
    default: 0
  report:
    description:
      - A file on the controller for the report as JSON, with what was merged. A relative path is taken from the playbook's directory.
      - The file is written whole or not at all, and its directory is made. One that cannot be written makes the task fail, with the verdict in RV(msg) and
        the other files written.
      - A new file is for its owner alone (mode 0600), whatever the umask, because it has diffs of files that others may not read. One that exists keeps
        its mode.
    type: path
  html:
    description: The same for the report as an HTML page, which needs nothing but itself.
    type: path
  prometheus:
    description:
      - The same for metrics in the format of Prometheus, as the textfile collector of node_exporter reads them. The name has to end in C(.prom).
      - They have names of hosts and numbers, and a new file may be read by all (mode 0644).
    type: path
  artifact:
    description:
      - Whether the report is set as the custom statistic C(drift_report), which AWX shows as an artifact of the job and hands to the next nodes of a workflow.
      - A report of more than 256 KiB is cut to that. Objects in sync go first, then diffs, then what stands last of the rest, then hosts in sync. C(left_out)
        in the report says how many of each.
    type: bool
    default: false
  configmap:
    description:
      - A ConfigMap for the report, as C(report.json.gz) in C(binaryData), with the verdict and RV(msg) in C(data). The API server is asked from the
        controller, where the Python library C(kubernetes) has to be.
      - It is called V(NAME.RUN.JOB), and V(NAME.RUN) with what was merged.
      - A report that takes more than 1 MiB when compressed, which is all that a ConfigMap holds, makes the task fail.
      - It takes the rights to list, patch, create and delete ConfigMaps in that namespace.
    type: dict
    suboptions:
      namespace:
        description: Namespace of the ConfigMap, which has to be there.
        type: str
        required: true
      name:
        description: First part of its name.
        type: str
        default: gpu-fabric-drift
      run:
        description: What this run is called, the same for all of its slices. Lower case letters, digits and V(-).
        type: str
        required: true
      job:
        description: What this slice of the run is called, likewise.
        type: str
        default: local
      merge:
        description: Whether the reports in this run's ConfigMaps are merged, as those of O(merge) are.
        type: bool
        default: false
      keep:
        description: How many runs are kept, this one included. The ConfigMaps of older ones are deleted.
        type: int
        default: 14
      kubeconfig:
        description: Path of a kubeconfig on the controller, or its content as a dictionary. Without it, as with the modules for the cluster.
        type: raw
      context:
        description: Context of the kubeconfig.
        type: str
      timeout:
        description: How long to wait for one answer of the API server, in seconds.
        type: int
        default: 30
  url:
    description:
      - A URL that the report is sent to as JSON. The server's certificate is always checked, and redirections are not followed.
      - Messages name it without user, password and query.
    type: dict
    suboptions:
      url:
        description: The URL.
        type: str
        required: true
      method:
        description: How it is sent.
        type: str
        choices: [PUT, POST]
        default: PUT
      headers:
        description: Headers, such as V(Authorization). They are in no message.
        type: dict
        default: {}
      ca_path:
        description: File with the CA certificates that the server's certificate is checked by. Without it, those of the system.
        type: path
      timeout:
        description: How long to wait for the server, in seconds.
        type: int
        default: 30
seealso:
  - plugin: rdmaops.gpu_fabric.drift
    plugin_type: callback
"""

EXAMPLES = r"""
---
- name: Fail when anything has drifted, or could not be looked at
  rdmaops.gpu_fabric.drift_verdict:

- name: Tell of drift, and leave a page for those who ask
  rdmaops.gpu_fabric.drift_verdict:
    drift_fail: false
    html: /srv/drift/latest.html
    prometheus: /var/lib/node_exporter/gpu_fabric_drift.prom

- name: Publish this slice in the cluster
  rdmaops.gpu_fabric.drift_verdict:
    configmap:
      namespace: monitoring
      run: "{{ awx_workflow_job_id }}"
      job: "{{ awx_job_id }}"

- name: Judge all slices of last night's job
  rdmaops.gpu_fabric.drift_verdict:
    merge: "{{ query('ansible.builtin.fileglob', '/srv/drift/' ~ night ~ '/*.json') }}"
    html: /srv/drift/latest.html
  vars:
    night: "2026-11-21"
"""

RETURN = r"""
verdict:
  description: V(in_sync), V(drift) or V(unknown).
  returned: when the report could be read
  type: str
  sample: drift
counts:
  description: How many objects have each status.
  returned: when the report could be read
  type: dict
  contains:
    in_sync:
      description: Objects that are as they are wanted.
      type: int
      sample: 41
    unknown:
      description: Objects that could not be looked at.
      type: int
      sample: 0
    drift:
      description: Objects that are not, or were not, as they are wanted.
      type: int
      sample: 1
msg:
  description: The verdict, with the first ten objects that have drifted or are not known, drift first.
  returned: always
  type: str
  sample: >-
    The verdict is drift: 1 drift, 0 unknown, 41 in sync, on 2 hosts; gpu-02: rdma_netns_mode ib_core: live shared, next boot exclusive, wanted exclusive
files:
  description: The files that were written.
  returned: when the report could be read
  type: list
  elements: str
  sample: [/srv/drift/latest.html]
published:
  description: What else the report was published as.
  returned: when the report could be read
  type: list
  elements: str
  sample: [ConfigMap monitoring/gpu-fabric-drift.4711.4712]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes.auth import CONNECTION

ARGUMENT_SPEC: dict[str, t.Any] = {
    "drift_fail": {"type": "bool", "default": True},
    "fail_on": {"type": "list", "elements": "str", "choices": ["drift", "unknown"], "default": ["drift", "unknown"]},
    "merge": {"type": "list", "elements": "path", "default": []},
    "slices": {"type": "int", "default": 0},
    "report": {"type": "path"},
    "html": {"type": "path"},
    "prometheus": {"type": "path"},
    "artifact": {"type": "bool", "default": False},
    "configmap": {
        "type": "dict",
        "options": {
            "namespace": {"type": "str", "required": True},
            "name": {"type": "str", "default": "gpu-fabric-drift"},
            "run": {"type": "str", "required": True},
            "job": {"type": "str", "default": "local"},
            "merge": {"type": "bool", "default": False},
            "keep": {"type": "int", "default": 14},
            **{name: CONNECTION[name] for name in ("kubeconfig", "context", "timeout")},
        },
    },
    "url": {
        "type": "dict",
        "options": {
            "url": {"type": "str", "required": True},
            "method": {"type": "str", "choices": ["PUT", "POST"], "default": "PUT"},
            "headers": {"type": "dict", "default": {}, "no_log": True},
            "ca_path": {"type": "path"},
            "timeout": {"type": "int", "default": 30},
        },
    },
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="drift_verdict runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.drift_verdict, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
