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
  - Turns observations of the nodes, and measurements between them, into a report with one verdict, V(pass), V(unknown) or V(fail).
  - Nothing passes untested. The verdict is V(pass) only if every requested measurement was made and is good. Anything skipped, missing or unreadable is
    V(unknown). V(fail) beats V(unknown), which beats V(pass).
  - The culprit is found by elimination, from what the failing measurements have in common and the good ones do not involve - a node, a port of a node on a
    rail, a whole rail, or the path between two nodes.
  - Before that, the ports of the requested rails are checked. A port that is absent or not ACTIVE, and an MTU, rate, link layer or protocol that differs
    between the nodes of a rail, also fail. So does a port that is slower than most of the other rails of its node.
  - It runs on the controller, without a connection to a host. It does not measure anything itself.
  - A table of at most 46 lines is shown on the terminal, with the worst first and the rest counted, unless the task has C(no_log).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
    details:
      - The verdict is reported, and the task fails, as it would otherwise. The files are not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A file that already has the same report is left alone. The report differs if O(started) differs, which defaults to the current time.
  platform:
    support: full
    platforms: posix
options:
  nodes:
    description:
      - What was observed on each node, as a dictionary by node name.
      - C(reachable) is whether the node was checked, C(problems) is a list of what could not be checked there, C(busy) a list of reasons why nothing was
        measured with it. Each of the last two makes the verdict V(unknown) at best.
      - C(gpus) is the number of its GPUs, null or missing if unknown.
      - C(leaf) is the leaf switch, or the group of leaf switches, that its rails are connected to. It may be missing.
      - C(pod) is the pod that was used, C(checks) what M(rdmaops.gpu_fabric.fabric_probe) returns under this name. Both may be missing.
      - C(placements) is what M(rdmaops.gpu_fabric.fabric_probe) returns under this name. It may be missing.
      - C(rails) is the list that the filter P(rdmaops.gpu_fabric.rails#filter) returns.
    type: dict
    required: true
  results:
    description:
      - The measurements, each a dictionary of C(client), C(server), C(rail) and C(test); of C(ok), which is true, false, or null if the result could not be
        read; and of C(gbps), C(pings), C(error), C(skipped) and C(traffic), each of which may be null or missing.
      - If there are several for the same pair, rail and test, the worst one counts. Measurements that were not requested also count, and are named.
      - Those with C(again) set to true were made again, by P(rdmaops.gpu_fabric.fabric_repeats#filter). A culprit that did not fail again is none, and what it
        explained is V(unknown). A result that could not be read does not count if the measurement was made again.
    type: list
    elements: dict
    required: true
  pairs:
    description: The pairs of nodes to be measured, each a list of client and server.
    type: list
    elements: list
    required: true
  rails:
    description: The numbers of the rails to be measured.
    type: list
    elements: int
    required: true
  tests:
    description: The tests to be run.
    type: list
    elements: str
    choices: [rping, ib_send_lat, ib_write_bw, ib_write_bw_bidirectional, ib_write_bw_all_rails, ib_write_bw_cm, ib_write_bw_cuda,
      ibv_devinfo, memlock, nccl_tests]
    required: true
  nccl:
    description: What M(rdmaops.gpu_fabric.fabric_probe) returns as C(nccl). Omit it if the test was not run.
    type: dict
  min_share:
    description:
      - The share of the link's rate that a bandwidth must reach, above 0 and up to 1. The rate is the lower one of the two ends, for
        V(ib_write_bw_bidirectional) twice that.
    type: float
    default: 0.8
  min_of_best:
    description:
      - The share of what the best pair of a rail reaches that each other pair of it must reach, above 0 and up to 1. It is compared with O(min_share) met, and
        if at least three pairs of the rail were measured well.
      - The default is what NVIDIA's ClusterKit takes for a bad pair.
    type: float
    default: 0.93
  max_latency_of_best:
    description:
      - The largest acceptable latency of a pair, as a multiple of the lowest on its rail, at least 1. It applies if at least three pairs of the rail were
        measured well. There is no absolute limit.
      - The default is what NVIDIA's ClusterKit takes for a bad pair.
    type: float
    default: 2.1
  baseline:
    description:
      - RV(report) of an earlier run. RV(report.baseline) compares the bandwidths with it.
      - A pair is compared with itself, in whatever direction; a pair that is measured again with others, with the slowest of the rail.
    type: dict
  min_of_baseline:
    description: The share of its bandwidth in O(baseline) that each pair must reach, above 0 and up to 1.
    type: float
    default: 0.93
  missing:
    description:
      - Why a requested result is missing, if nothing else explains it. The default is that none came back.
      - With it, what failed and was not measured again is V(unknown).
    type: str
  node_names:
    description: What the cluster calls a node, by its name in O(nodes), for RV(conditions). A name that is empty or missing is the same in both.
    type: dict
    default: {}
  started:
    description: When the measurements were started, as it appears in the report. The default is the current time in UTC.
    type: str
  json_path:
    description:
      - A file on the controller for the report as JSON. A relative path is relative to the playbook's directory.
      - The file is written atomically, and its directory is created.
      - The mode of a new file depends on the umask of C(ansible-playbook). An existing file keeps its mode.
    type: path
  html_path:
    description: The same for the report as a self-contained HTML page.
    type: path
  fail_on:
    description: The verdicts that make the task fail. The files are written before that.
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
- name: Judge what was measured, and publish a page
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

- name: Only report
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
  description: The verdict, the number of reasons, the first one, and the file that has all of them.
  returned: always
  type: str
  sample: >-
    Fabric check: FAIL, 24 reasons; first: rail 1: node gpu-03 (mlx5_1, ens2f0np0): the port is DOWN, not ACTIVE. All of it: /srv/reports/fabric.html
conditions:
  description:
    - The condition of each node, as M(rdmaops.gpu_fabric.node_condition) takes it. It is V(False) for a node that is to blame. If a pair of nodes or a whole
      rail is, the status is V(Unknown), as it is for a node that was not measured to the end.
  returned: when the arguments are valid
  type: list
  elements: dict
  sample:
    - node: gpu-03
      status: "False"
      reason: FabricCheckFailed
      why: "rail 1: node gpu-03 (mlx5_1, ens2f0np0): the port is DOWN, not ACTIVE"
files:
  description: The files that were written, or would be in check mode.
  returned: when the arguments are valid
  type: list
  elements: str
  sample: [/srv/reports/fabric.json]
report:
  description:
    - The report. Ansible does not print it, not even with C(-v).
    - If the task fails, the report is only in the files, because Ansible prints everything that a failed task returns. To have it in a variable regardless of
      the verdict, set O(fail_on) to an empty list, and let a second task fail, as role P(rdmaops.gpu_fabric.fabric_check#role) does.
  returned: when the task does not fail
  type: dict
  contains:
    schema:
      description: Version of this format.
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
    min_of_best:
      description: O(min_of_best).
      type: float
      sample: 0.93
    max_latency_of_best:
      description: O(max_latency_of_best).
      type: float
      sample: 2.1
    min_of_baseline:
      description: O(min_of_baseline).
      type: float
      sample: 0.93
    baseline:
      description: What O(baseline) compares, or null without it.
      type: dict
      contains:
        started:
          description: When the measurements of O(baseline) were started.
          type: str
          sample: "2026-11-14T02:00:00Z"
        changes:
          description:
            - The measurements that both reports have, what lost most first - C(client), C(server), C(rail), C(test), C(gbps), C(baseline_gbps), and C(change),
              which is -0.2 for a fifth less.
          type: list
          elements: dict
    wanted:
      description: O(pairs), O(rails) and O(tests).
      type: dict
    reasons:
      description: Why the verdict is not V(pass), in sentences, failures first. Empty with V(pass).
      type: list
      elements: str
    suspects:
      description: The culprits.
      type: list
      elements: dict
      contains:
        kind:
          description: V(rail), V(leaf), V(node), V(port) or V(pair).
          type: str
        node:
          description: The node, if the culprit is a node or a port.
          type: str
        rail:
          description: The rail, null for a node.
          type: int
        pair:
          description: Client and server, if the culprit is a pair.
          type: list
          elements: str
        leaves:
          description: The leaf switches, each with its nodes, if the culprit is what connects them, or the uplinks of one.
          type: dict
        direction:
          description: V(to) or V(from) if the culprit is a port that is good in the other direction.
          type: str
        why:
          description: The reason.
          type: str
        worst:
          description: The worst measurement there.
          type: str
    coherence:
      description: What is wrong with ports, or unknown about them, before any traffic.
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
          description: The key of the affected port property, such as V(state) or V(netdev_mtu).
          type: str
        nodes:
          description: The affected nodes. Without a majority, all nodes.
          type: list
          elements: str
        values:
          description: Their values.
          type: dict
        why:
          description: The corresponding sentence in the reasons.
          type: str
    nodes:
      description: O(nodes) as a list, with C(name) and C(verdict), and for each rail C(verdict) (null if it was not requested), C(problems), and
        C(numa_node), C(cpus), C(cpus_error), C(gpu) and C(gpu_error) of RV(rdmaops.gpu_fabric.fabric_probe#module:placements).
      type: list
      elements: dict
    pairs:
      description: The measurements, requested ones first.
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
        baseline_gbps:
          description: The bandwidth in O(baseline) in Gb/s, null if there is none.
          type: float
        expected_gbps:
          description: The rate of the slower end in Gb/s.
          type: float
        share:
          description: The bandwidth divided by the rate.
          type: float
        latency_us:
          description: The median of the latency in microseconds, half of a round trip.
          type: float
        latency_99_us:
          description: Its 99th percentile in microseconds.
          type: float
        pings:
          description: The number of pings.
          type: int
        error:
          description: Why the verdict is not V(pass).
          type: str
        skipped:
          description: Why it was skipped.
          type: str
        quiet:
          description:
            - Whether the traffic went through the RDMA device and nowhere else. False fails the measurement. Null if this was not checked, or if C(why) of
              C(traffic) gives the reason why the counters cannot show it.
          type: bool
        traffic:
          description: The underlying counters, as C(traffic) of RV(rdmaops.gpu_fabric.fabric_probe#module:results), or null.
          type: dict
        wanted:
          description: Whether it was requested.
          type: bool
        results:
          description: Number of results, of which this is the worst.
          type: int
        samples:
          description: The bandwidths of all of them in Gb/s.
          type: list
          elements: float
        spread:
          description: How much the slowest is below the fastest, as a share of the fastest. Null for fewer than two.
          type: float
    again:
      description: What failed and was measured again, likewise.
      type: list
      elements: dict
    checks:
      description:
        - The tests that involve one end only, of each node on each rail - C(node), C(rail), C(test), C(device), C(verdict), C(error), and the findings of
          M(rdmaops.gpu_fabric.fabric_probe).
      type: list
      elements: dict
    nccl:
      description:
        - nccl-tests on all GPUs - C(verdict), C(error), C(transport), C(gpudirect), C(avg_busbw) in GB/s, C(out_of_bounds), C(ranks). Null if it was not
          requested. Wrong values and TCP as the transport fail.
      type: dict
    gpudirect:
      description:
        - Whether GPUDirect RDMA is C(proven), C(by) which measurements, or C(why) it is not. It is proven if V(ib_write_bw_cuda) passed, or if NCCL's log shows
          GDRDMA. It does not affect the verdict.
      type: dict
      sample: {"proven": false, "by": [], "why": "no GPUs (no nvidia-smi) on gpu-01, gpu-02"}
    skipped:
      description: What was not measured, as C(what) and C(why).
      type: list
      elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

WANTED = (
    "rping",
    "ib_send_lat",
    "ib_write_bw",
    "ib_write_bw_bidirectional",
    "ib_write_bw_all_rails",
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
    "min_of_best": {"type": "float", "default": 0.93},
    "max_latency_of_best": {"type": "float", "default": 2.1},
    "baseline": {"type": "dict"},
    "min_of_baseline": {"type": "float", "default": 0.93},
    "missing": {"type": "str"},
    "node_names": {"type": "dict", "default": {}},
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
