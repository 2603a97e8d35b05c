# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_repeats
short_description: Pair nodes to measure again what failed
version_added: 0.1.0
description:
  - Finds what M(rdmaops.gpu_fabric.fabric_verdict) would blame, and pairs each of it with nodes that did well, in
    rounds. A node or a port sends to one of them and receives from another; a port that failed with two nodes at most
    is also measured with these again; of a path, each end is also measured with others. So a failure that does not come
    again is distinguished from a fault, and a port's fault from a path's.
  - Measurements whose result could not be read are repeated, too.
  - The results, with C(again) set to true, are for M(rdmaops.gpu_fabric.fabric_verdict) together with the first ones.
  - No node is in two pairs of a round.
author:
  - rdmaops contributors (@rdmaops)
positional: results, pairs, rails, tests, min_share, limits, baseline
options:
  _input:
    description: The known state of the nodes, in the format of M(rdmaops.gpu_fabric.fabric_verdict).
    type: dict
    required: true
  results:
    description: The measurements, likewise.
    type: list
    elements: dict
    required: true
  pairs:
    description: The pairs that were to be measured, each a list of client and server.
    type: list
    elements: list
    required: true
  rails:
    description: The rails that were to be measured.
    type: list
    elements: int
    required: true
  tests:
    description: The tests that were to be run.
    type: list
    elements: str
    required: true
  min_share:
    description: The share of the link's rate that a bandwidth must reach.
    type: float
    default: 0.8
  limits:
    description: C(min_of_best), C(max_latency_of_best) and C(min_of_baseline) of
      M(rdmaops.gpu_fabric.fabric_verdict), each of which may be missing.
    type: dict
  baseline:
    description: A report of an earlier run.
    type: dict
seealso:
  - plugin: rdmaops.gpu_fabric.fabric_rounds
    plugin_type: filter
  - module: rdmaops.gpu_fabric.fabric_verdict
"""

EXAMPLES = r"""
---
- name: Measure again what failed
  ansible.builtin.include_tasks:
    file: round.yml
  loop: "{{ nodes | rdmaops.gpu_fabric.fabric_repeats(results, pairs, [0, 1], ['ib_write_bw']) }}"
  loop_control:
    loop_var: pairs_of_the_round
"""

RETURN = r"""
_value:
  description: The rounds, each a list of dictionaries with C(client), C(server) and C(rails). Empty if nothing failed
    or could not be read.
  type: list
  elements: list
  sample:
    - - {"client": "gpu-02", "server": "gpu-05", "rails": [1]}
    - - {"client": "gpu-04", "server": "gpu-02", "rails": [1]}
"""

import typing as t

from ..plugin_utils._fabric.inputs import read, unread
from ..plugin_utils._fabric.repeat import again
from ..plugin_utils._fabric.verdict import judge
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def fabric_repeats(
    nodes: t.Any,
    results: t.Any,
    pairs: t.Any,
    rails: t.Any,
    tests: t.Any,
    min_share: t.Any = 0.8,
    limits: t.Any = None,
    baseline: t.Any = None,
) -> list[list[dict[str, t.Any]]]:
    """Return the rounds."""
    request = {"pairs": pairs, "rails": rails, "tests": tests}
    report = judge(nodes, results, request, min_share, "", limits=limits, baseline=baseline)
    return again(report, unread(read(results)[0]))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"fabric_repeats": fabric_repeats}
