# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_rounds
short_description: Pair nodes for measurements, in rounds
version_added: 0.1.0
description:
  - Turns a list of nodes into pairs that measure with each other, in rounds.
  - No node is in two pairs of a round, so all pairs of a round can be measured at the same time.
  - No pair occurs twice. A node is the client in about as many pairs as it is the server.
  - The same list always results in the same rounds.
author:
  - rdmaops contributors (@rdmaops)
positional: topology, leaves
options:
  _input:
    description: The names of the nodes. A duplicate name is an error.
    type: list
    elements: str
    required: true
  topology:
    description:
      - V(all) pairs every node with every other. This takes one round less than there are nodes, or as many rounds as
        there are nodes if their number is odd.
      - V(ring) pairs each node with the next, and the last with the first. This takes two rounds, or three for an odd
        number of nodes. Two nodes are one pair.
      - V(auto) is V(all) for up to 16 nodes and V(ring) for more.
    type: str
    choices: [auto, all, ring]
    default: auto
  leaves:
    description:
      - The leaf switch of each node, or the group of leaf switches that its rails are connected to, as a dictionary by
        node. A node that is missing or empty is not known.
      - With it, a ring is one ring within each leaf, all of them at the same time, followed by a ring of leaves, in
        which each node is measured with one of the next leaf. So a slow node, and a slow path between leaves, are each
        measured by themselves. This takes up to three rounds more.
    type: dict
seealso:
  - module: rdmaops.gpu_fabric.fabric_verdict
"""

EXAMPLES = r"""
---
- name: Measure round by round
  ansible.builtin.include_tasks:
    file: round.yml
  loop: "{{ ansible_play_hosts | rdmaops.gpu_fabric.fabric_rounds }}"
  loop_control:
    loop_var: pairs

- name: Measure within each leaf, and between leaves
  ansible.builtin.debug:
    msg: "{{ leaves.keys() | list | rdmaops.gpu_fabric.fabric_rounds('ring', leaves) }}"
  vars:
    leaves: {gpu-01: leaf-1, gpu-02: leaf-1, gpu-03: leaf-2, gpu-04: leaf-2}

- name: Show each node with the next one
  ansible.builtin.debug:
    msg: "{{ groups['gpu_nodes'] | rdmaops.gpu_fabric.fabric_rounds(topology='ring') }}"
"""

RETURN = r"""
_value:
  description: The rounds, each a list of dictionaries with C(client) and C(server). Empty for fewer than two nodes.
  type: list
  elements: list
  sample:
    - - {"client": "gpu-01", "server": "gpu-03"}
    - - {"client": "gpu-02", "server": "gpu-03"}
    - - {"client": "gpu-01", "server": "gpu-02"}
"""

import typing as t

from ..plugin_utils._fabric.schedule import Pair, rounds
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def fabric_rounds(hosts: t.Any, topology: t.Any = "auto", leaves: t.Any = None) -> list[list[Pair]]:
    """Return the rounds."""
    return rounds(hosts, topology, leaves)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"fabric_rounds": fabric_rounds}
