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
  - Reads what the callback P(rdmaops.gpu_fabric.drift#callback) has recorded so far in this run of C(ansible-playbook), and fails if anything has drifted. It
    belongs in the last play of a run.
  - The verdict is V(drift) if an object has drifted, else V(unknown) if one could not be checked, if nothing was checked or if a host was not reached, else
    V(in_sync).
  - It sets C(drift_verdict), C(drift_counts), C(drift_hosts) and C(drift_message) as custom statistics of the run, whether it fails or not, so that the next
    nodes of a workflow and the notifications of AWX can use them.
  - It runs on the controller, without a connection to a host. If the callback is not enabled, it fails and reports how to enable it.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - It is made for runs in check mode. It changes nothing except the files it writes and the reports it publishes, which it also does in check mode, because
        these concern the run and not a host.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - It changes no managed object and never reports a change.
  platform:
    support: full
    platforms: posix
options:
  drift_fail:
    description: Whether the task fails if the verdict is one of O(fail_on). If V(false), the verdict is only reported.
    type: bool
    default: true
  fail_on:
    description: The verdicts that make the task fail. The files are written and the statistics are set before that.
    type: list
    elements: str
    choices: [drift, unknown]
    default: [drift, unknown]
  merge:
    description:
      - Reports that other runs, such as the slices of one job, have published as JSON. The verdict covers all of them, and this run if it has checked anything.
      - A host that is in two of them is an error, because there is no way to determine which of the two results counts.
      - A report that cannot be read, or was written by a release with another format, makes the task fail. The verdict on the others is still reported, written
        and published, and is never V(in_sync).
    type: list
    elements: path
    default: []
  slices:
    description:
      - How many reports there are when all are merged. With any other number the verdict is never V(in_sync), because hosts of a slice that has published
        nothing are in no report.
      - With V(0), any number is accepted.
    type: int
    default: 0
  report:
    description:
      - A file on the controller for the report as JSON, including what was merged. A relative path is relative to the playbook's directory.
      - The file is written atomically, and its directory is created. If it cannot be written, the task fails, with the verdict in RV(msg) and the other files
        written.
      - A new file is readable by its owner only (mode 0600), whatever the umask, because it contains diffs of files that others may not read. An existing file
        keeps its mode.
    type: path
  html:
    description: The same for the report as a self-contained HTML page.
    type: path
  prometheus:
    description:
      - The same for metrics in the Prometheus format, as read by the textfile collector of node_exporter. The name must end in C(.prom).
      - They contain host names and numbers, and a new file is world-readable (mode 0644).
    type: path
  artifact:
    description:
      - Whether to set the report as the custom statistic C(drift_report), which AWX shows as an artifact of the job and passes to the next nodes of a workflow.
      - A report of more than 256 KiB is reduced to that size. Objects in sync are dropped first, then diffs, then the rest from its end, then hosts in sync.
        C(left_out) in the report shows how many of each were dropped.
    type: bool
    default: false
  configmap:
    description:
      - A ConfigMap for the report, as C(report.json.gz) in C(binaryData), with the verdict and RV(msg) in C(data). The API server is contacted from the
        controller, which needs the Python library C(kubernetes).
      - Its name is V(NAME.RUN.JOB), or V(NAME.RUN) for a merged report.
      - A report larger than 1 MiB when compressed, the limit of a ConfigMap, makes the task fail.
      - It requires the rights to list, patch, create and delete ConfigMaps in that namespace.
    type: dict
    suboptions:
      namespace:
        description: Namespace of the ConfigMap, which must exist.
        type: str
        required: true
      name:
        description: First part of its name.
        type: str
        default: gpu-fabric-drift
      run:
        description: Name of this run, the same for all of its slices. Lowercase letters, digits and V(-).
        type: str
        required: true
      job:
        description: Name of this slice of the run, with the same rules.
        type: str
        default: local
      merge:
        description: Whether to merge the reports in this run's ConfigMaps, as those of O(merge) are.
        type: bool
        default: false
      keep:
        description: How many runs are kept, including this one. The ConfigMaps of older runs are deleted.
        type: int
        default: 14
      kubeconfig:
        description: Path of a kubeconfig on the controller, or its content as a dictionary. If it is not set, the same rules apply as in the cluster modules.
        type: raw
      context:
        description: Context of the kubeconfig.
        type: str
      timeout:
        description: How long to wait for one response of the API server, in seconds.
        type: int
        default: 30
  url:
    description:
      - A URL to which the report is sent as JSON. The server's certificate is always verified, and redirects are not followed.
      - Messages show it without user, password and query.
    type: dict
    suboptions:
      url:
        description: The URL.
        type: str
        required: true
      method:
        description: The HTTP method.
        type: str
        choices: [PUT, POST]
        default: PUT
      headers:
        description: Headers, such as V(Authorization). They appear in no message.
        type: dict
        default: {}
      ca_path:
        description: File with the CA certificates used to verify the server's certificate. By default, those of the system.
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
- name: Fail if anything has drifted or could not be checked
  rdmaops.gpu_fabric.drift_verdict:

- name: Only report drift, and publish a page
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
      description: Objects in their desired state.
      type: int
      sample: 41
    unknown:
      description: Objects that could not be checked.
      type: int
      sample: 0
    drift:
      description: Objects that are not, or were not, in their desired state.
      type: int
      sample: 1
msg:
  description: The verdict, with the first object that has drifted or is unknown, drift first, and the file that has all of them.
  returned: always
  type: str
  sample: >-
    The verdict is drift: 1 drift, 0 unknown, 41 in sync, on 2 hosts; gpu-02: rdma_netns_mode ib_core: live shared, next boot exclusive, wanted exclusive. All
    of it: /srv/drift/latest.html
files:
  description: The files that were written.
  returned: when the report could be read
  type: list
  elements: str
  sample: [/srv/drift/latest.html]
published:
  description: Other places where the report was published.
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
