#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_job_info
short_description: Show the state of a training job, wait for it, and read its logs
version_added: 0.1.0
description:
  - Returns the state of a job of P(rdmaops.gpu_fabric.training_job#filter), the state of each of its pods, and why a pod does not run.
  - It can wait. While waiting, it prints a line for each change, and at least every O(progress_interval) seconds, with the last line of the first pod's log, on
    standard error of the control node.
  - When the job has ended, it reads the pods' logs. If pods of a job that has succeeded still run, as the workers of an MPIJob do, it waits up to 60 seconds
    more and reads what is left of them again, so that their logs are complete.
  - From the logs it returns which transport NCCL used, as P(rdmaops.gpu_fabric.nccl_log#filter) does. A log that is too long or is not text is truncated and
    cleaned, and at worst the transport is V(unknown).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - It reads, but does not wait.
  platform:
    support: full
    platforms: posix
options:
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
    default: default
  wait_timeout:
    description: How long to wait, in seconds. V(0) checks once.
    type: int
    default: 0
  wait_for:
    description:
      - What to wait for. V(ended) means that the job has succeeded, failed, or does not exist. V(gone) means that nothing of it exists.
    type: str
    choices: [ended, gone]
    default: ended
  start_timeout:
    description:
      - How long the job may be pending before the module stops waiting, in seconds. V(0) sets no separate limit.
      - The time in a queue of Kueue does not count.
    type: int
    default: 0
  progress_interval:
    description: How often a line is printed, in seconds, if nothing changes.
    type: int
    default: 60
  known:
    description: The previous value of RV(progress). The module returns as soon as it differs. Waiting consists of such calls.
    type: str
    default: ""
  log_head:
    description:
      - How much of the beginning of each pod's log is searched for NCCL's output, in bytes.
      - The limit for all logs together is 64 MiB, in equal shares for each pod.
    type: int
    default: 4194304
  log_tail:
    description:
      - How much of the end of each pod's log is returned, in bytes.
      - The limit for all logs together is 16 MiB, in equal shares for each pod.
    type: int
    default: 65536
seealso:
  - plugin: rdmaops.gpu_fabric.training_job
    plugin_type: filter
  - plugin: rdmaops.gpu_fabric.nccl_log
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Wait up to a day for a job
  rdmaops.gpu_fabric.training_job_info:
    kind: pytorchjob
    name: resnet
    namespace: training
    wait_timeout: 86400
  register: job

- name: Fail if the job used TCP
  ansible.builtin.assert:
    that: job.transport.transport == 'rdma'
"""

RETURN = r"""
state:
  description: State of the job.
  returned: success
  type: str
  choices: [absent, pending, running, succeeded, failed]
  sample: succeeded
said:
  description: What its operator reports about it. Null if it reports nothing.
  returned: success
  type: str
  sample: "JobFailed: Job train has reached the specified backoff limit"
queued:
  description: Whether Kueue keeps the job back. RV(said) has the reason.
  returned: success
  type: bool
progress:
  description: The state, this report and the pods in one line.
  returned: success
  type: str
  sample: "pending, pods: 1 Pending, 1 Running; train-1: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
reached:
  description: Whether the desired state was reached.
  returned: success
  type: bool
looked_once:
  description: Whether it checked only once, in check mode or without O(wait_timeout).
  returned: success
  type: bool
gave_up:
  description: Which limit ended the wait, V(start_timeout) or V(wait_timeout). Null if none did.
  returned: success
  type: str
waited_s:
  description: How long it waited, in seconds.
  returned: success
  type: int
pods:
  description: The pods, by number, a launcher first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pod.
      type: str
    node:
      description: Its node. Null while it has none.
      type: str
    phase:
      description: Its phase in Kubernetes.
      type: str
      sample: Running
    restarts:
      description: How often its containers were restarted.
      type: int
    exit_code:
      description: Exit code of its program. Null while it runs.
      type: int
    reason:
      description: Why it does not run, as reported by the scheduler or the kubelet. Null if nothing is wrong.
      type: str
last_line:
  description: Last line of the first pod's log. Null if the job does not run, or there is none.
  returned: success
  type: str
logs:
  description: The end of the logs, when the job has ended.
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Name of the pod.
      type: str
    text:
      description: The end of its log, at most O(log_tail) bytes, without control characters.
      type: str
    cut:
      description: Whether the log is longer.
      type: bool
    error:
      description: Why it could not be read. Null if it could be read.
      type: str
transport:
  description:
    - What P(rdmaops.gpu_fabric.nccl_log#filter) returns for the beginnings of all logs together, and the following keys. Null while the job has not ended.
    - If NCCL has printed no network, as with Open MPI and E(UCX_LOG_LEVEL=info), C(transport) and C(network) are those of UCX's lanes to other nodes.
  returned: success
  type: dict
  contains:
    transport:
      description: V(rdma), V(socket), V(mixed) or V(unknown).
      type: str
    library:
      description: Whose log shows it, V(NCCL) or V(UCX). Null if neither does.
      type: str
    socket_pods:
      description: Pods whose own log shows that sockets were used.
      type: list
      elements: str
    unread:
      description: Pods whose log could not be read, and why.
      type: list
      elements: str
    cut:
      description: Pods whose log is longer than what was searched or returned.
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._training_job.info import manage
from ..module_utils._training_job.options import KINDS

ARGUMENT_SPEC = {
    **client.CONNECTION,
    "kind": {"type": "str", "choices": list(KINDS), "required": True},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "default"},
    "wait_timeout": {"type": "int", "default": 0},
    "wait_for": {"type": "str", "choices": ["ended", "gone"], "default": "ended"},
    "start_timeout": {"type": "int", "default": 0},
    "progress_interval": {"type": "int", "default": 60},
    "known": {"type": "str", "default": ""},
    "log_head": {"type": "int", "default": 4194304},
    "log_tail": {"type": "int", "default": 65536},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    client.run(module, manage)


if __name__ == "__main__":
    main()
