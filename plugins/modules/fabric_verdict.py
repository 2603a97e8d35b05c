#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_verdict
short_description: Judge measurements between GPU nodes
version_added: 0.1.0
description:
  - Makes of what was seen on the nodes, and measured between them, a report with one verdict, V(pass), V(unknown) or V(fail).
  - Nothing passes untested. The verdict is V(pass) only where every measurement that was asked for was made, and is good. What was skipped, is missing
    or cannot be read is V(unknown). V(fail) beats V(unknown), which beats V(pass).
  - What is to blame is found by elimination, from what the failing measurements have in common and the good ones do not touch - a node, a port of a
    node on a rail, a whole rail, or the path between two nodes.
  - Before that, the ports of the wanted rails are looked at. A port that is absent or not ACTIVE, and an MTU, rate, link layer or protocol that differs
    between the nodes of a rail, fail too. So does a port that is slower than most of the other rails of its node.
  - It runs on the controller, without a connection to a host. It measures nothing itself.
  - The table is shown on the terminal, unless the task has C(no_log).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - The verdict is told, and fails, as it would be otherwise. The files are not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A file that has the same report already is left alone. With another O(started), which is the present time unless it is given, the report is
        another one.
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description:
      - What was seen on each node, a dictionary by the names of the nodes.
      - C(reachable) tells whether the node was looked at, C(problems) is a list of what could not be looked at there, C(busy) a list of why nothing was
        measured with it. Each of the two makes the verdict V(unknown) at best.
      - C(gpus) is the number of its GPUs, null or missing where that is not known.
      - C(pod) is the pod in which it was looked, C(checks) what M(rdmaops.gpu_fabric.fabric_probe) returns under this name. Both may be missing.
      - C(rails) is the list that the filter P(rdmaops.gpu_fabric.rails#filter) gives.
    type: dict
    required: true
  results:
    description:
      - The measurements, each a dictionary of C(client), C(server), C(rail) and C(test); of C(ok), which is true, false, or null where the result could not
        be read; and of C(gbps), C(pings), C(error), C(skipped) and C(traffic), each of which may be null or missing.
      - Of several for the same pair, rail and test the worst counts. What was not asked for counts too, and is named.
    type: list
    elements: dict
    required: true
  pairs:
    description: The pairs of nodes that were to be measured, each a list of client and server.
    type: list
    elements: list
    required: true
  rails:
    description: The numbers of the rails that were to be measured.
    type: list
    elements: int
    required: true
  tests:
    description: The tests that were to be run.
    type: list
    elements: str
    choices: [rping, ib_write_bw, ib_write_bw_cm, ib_write_bw_cuda, ibv_devinfo, memlock, nccl_tests]
    required: true
  nccl:
    description: What M(rdmaops.gpu_fabric.fabric_probe) returns as C(nccl). Nothing where it was not run.
    type: dict
  min_share:
    description:
      - The share of the link's rate that V(ib_write_bw), V(ib_write_bw_cm) and V(ib_write_bw_cuda) have to reach, above 0 and up to 1.
        The rate is the lower one of the two ends.
    type: float
    default: 0.8
  started:
    description: When the measurements were started, as it shall be in the report. The present time, in UTC, where it is not given.
    type: str
  json_path:
    description:
      - A file on the controller for the report as JSON. A relative path is taken from the playbook's directory.
      - The file is written whole or not at all, and its directory is made.
      - Who may read a new file is up to the umask of C(ansible-playbook). One that exists keeps its mode.
    type: path
  html_path:
    description: The same for the report as an HTML page, which needs nothing but itself.
    type: path
  fail_on:
    description: The verdicts with which the task fails. The files are written before that.
    type: list
    elements: str
    choices: [fail, unknown]
    default: [fail, unknown]
seealso:
  - plugin: rdmaops.gpu_fabric.fabric_rounds
    plugin_type: filter
  - plugin: rdmaops.gpu_fabric.rails
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Judge what was measured, and leave a page for those who ask
  rdmaops.gpu_fabric.fabric_verdict:
    nodes: "{{ nodes }}"
    results: "{{ results }}"
    pairs: [[gpu-01, gpu-02]]
    rails: [0, 1]
    tests: [rping, ib_write_bw]
    json_path: reports/fabric.json
    html_path: reports/fabric.html
  vars:
    nodes:
      gpu-01: {reachable: true, problems: [], busy: [], rails: "{{ hostvars['gpu-01'].rdma | rdmaops.gpu_fabric.rails }}"}
      gpu-02: {reachable: true, problems: [], busy: [], rails: "{{ hostvars['gpu-02'].rdma | rdmaops.gpu_fabric.rails }}"}
    results:
      - {client: gpu-01, server: gpu-02, rail: 0, test: rping, ok: true, pings: 10}
      - {client: gpu-01, server: gpu-02, rail: 0, test: ib_write_bw, ok: true, gbps: 391.8}
      - {client: gpu-01, server: gpu-02, rail: 1, test: rping, ok: true, pings: 10}
      - {client: gpu-01, server: gpu-02, rail: 1, test: ib_write_bw, ok: true, gbps: 390.4}

- name: Only tell
  rdmaops.gpu_fabric.fabric_verdict:
    nodes: "{{ nodes }}"
    results: "{{ results }}"
    pairs: "{{ pairs }}"
    rails: [0]
    tests: [rping]
    fail_on: []
"""

RETURN = r"""
verdict:
  description: The verdict, as in RV(report.verdict).
  returned: when the arguments are valid
  type: str
  sample: fail
msg:
  description: The verdict and its first ten reasons.
  returned: always
  type: str
  sample: >-
    The verdict on the fabric is fail: rail 1: node gpu-03 (mlx5_1, ens2f0np0): all 3 measured pairs with it on this rail fail, not so on rail 0: its
    card, cable or switch port (ib_write_bw down to 12.1 of 400 Gb/s, 3.0%, limit 80%)
files:
  description: The files that were written, or would be in check mode.
  returned: when the arguments are valid
  type: list
  elements: str
  sample: [/srv/reports/fabric.json]
report:
  description: The report.
  returned: when the arguments are valid
  type: dict
  contains:
    schema:
      description: Version of this shape.
      type: int
      sample: 1
    started:
      description: O(started).
      type: str
      sample: "2026-11-21T12:00:00Z"
    verdict:
      description: V(pass), V(unknown) or V(fail).
      type: str
      sample: pass
    min_share:
      description: O(min_share).
      type: float
      sample: 0.8
    wanted:
      description: O(pairs), O(rails) and O(tests).
      type: dict
    reasons:
      description: Why the verdict is not V(pass), in sentences, what failed first. Empty with V(pass).
      type: list
      elements: str
    suspects:
      description: What is to blame.
      type: list
      elements: dict
      contains:
        kind:
          description: V(rail), V(node), V(port) or V(pair).
          type: str
        node:
          description: The node, of a node or port.
          type: str
        rail:
          description: The rail, null for a node.
          type: int
        pair:
          description: Client and server, of a pair.
          type: list
          elements: str
        why:
          description: Why it is to blame.
          type: str
        worst:
          description: What was measured there at worst.
          type: str
    coherence:
      description: What is wrong with ports, or not known of them, before any traffic.
      type: list
      elements: dict
      contains:
        verdict:
          description: V(fail) or V(unknown).
          type: str
        rail:
          description: The rail.
          type: int
        what:
          description: The key of the port that it is about, such as V(state) or V(netdev_mtu).
          type: str
        nodes:
          description: The nodes it is about. Where there is no majority, all.
          type: list
          elements: str
        values:
          description: Their values.
          type: dict
        why:
          description: The sentence that is among the reasons.
          type: str
    nodes:
      description: O(nodes) as a list, with C(name) and C(verdict), and for each rail C(verdict) (null where it was not asked for) and C(problems).
      type: list
      elements: dict
    pairs:
      description: The measurements, those that were asked for first.
      type: list
      elements: dict
      contains:
        client:
          description: The client.
          type: str
        server:
          description: The server.
          type: str
        rail:
          description: The rail.
          type: int
        test:
          description: The test.
          type: str
        verdict:
          description: V(pass), V(unknown) or V(fail).
          type: str
        gbps:
          description: The bandwidth in Gb/s.
          type: float
        expected_gbps:
          description: The rate of the slower end in Gb/s.
          type: float
        share:
          description: The former by the latter.
          type: float
        pings:
          description: The number of pings.
          type: int
        error:
          description: Why it is not V(pass).
          type: str
        skipped:
          description: Why it was skipped.
          type: str
        quiet:
          description:
            - Whether the measurement went through the RDMA device and nothing beside it. False fails the measurement. Null where that was not looked
              at, and where C(why) of C(traffic) says that the counters cannot tell.
          type: bool
        traffic:
          description: The counters behind it, as C(traffic) of RV(rdmaops.gpu_fabric.fabric_probe#module:results), or null.
          type: dict
        wanted:
          description: Whether it was asked for.
          type: bool
        results:
          description: How many results there were, of which this is the worst.
          type: int
    checks:
      description:
        - The tests of one end, of each node on each rail - C(node), C(rail), C(test), C(device), C(verdict), C(error), and what
          M(rdmaops.gpu_fabric.fabric_probe) found with them.
      type: list
      elements: dict
    nccl:
      description:
        - nccl-tests over all GPUs - C(verdict), C(error), C(transport), C(gpudirect), C(avg_busbw) in GB/s, C(out_of_bounds), C(ranks). Null where it
          was not asked for. Wrong values and a transport by TCP fail.
      type: dict
    gpudirect:
      description:
        - Whether GPUDirect RDMA is C(proven), C(by) which measurements, or C(why) it is not. It is proven where V(ib_write_bw_cuda)
          passed, and where NCCL's log says GDRDMA. It has no part in the verdict.
      type: dict
      sample: {"proven": false, "by": [], "why": "there are no GPUs (no nvidia-smi) on gpu-01, gpu-02"}
    skipped:
      description: What was not measured, C(what) and C(why).
      type: list
      elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

WANTED = (
    "rping",
    "ib_write_bw",
    "ib_write_bw_cm",
    "ib_write_bw_cuda",
    "ibv_devinfo",
    "memlock",
    "nccl_tests",
)

ARGUMENT_SPEC = {
    "nodes": {"type": "dict", "required": True},
    "results": {"type": "list", "elements": "dict", "required": True},
    "pairs": {"type": "list", "elements": "list", "required": True},
    "rails": {"type": "list", "elements": "int", "required": True},
    "tests": {"type": "list", "elements": "str", "choices": list(WANTED), "required": True},
    "nccl": {"type": "dict"},
    "min_share": {"type": "float", "default": 0.8},
    "started": {"type": "str"},
    "json_path": {"type": "path"},
    "html_path": {"type": "path"},
    "fail_on": {"type": "list", "elements": "str", "choices": ["fail", "unknown"], "default": ["fail", "unknown"]},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.fail_json(
        msg="fabric_verdict runs on the controller as an action, and this is only its documentation. "
        "Call it as rdmaops.gpu_fabric.fabric_verdict, so that Ansible finds the action of that name"
    )


if __name__ == "__main__":
    main()
