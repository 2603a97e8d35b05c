# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_tests
short_description: Create the tests that one node runs in a round
version_added: 0.1.0
description:
  - Creates the value of O(rdmaops.gpu_fabric.fabric_probe#module:tests) for one node, one side and one round of
    P(rdmaops.gpu_fabric.fabric_rounds#filter).
  - Nodes that cannot take part, and rails that are not ACTIVE at both ends, have no tests.
    M(rdmaops.gpu_fabric.fabric_verdict) reports them.
author:
  - rdmaops contributors (@rdmaops)
positional: pairs, host, side, wanted
options:
  _input:
    description: The known state of the nodes, in the format of M(rdmaops.gpu_fabric.fabric_verdict).
    type: dict
    required: true
  pairs:
    description: The pairs of the round.
    type: list
    elements: dict
    required: true
  host:
    description: The node.
    type: str
    required: true
  side:
    description: The node's side.
    type: str
    choices: [server, client]
    required: true
  wanted:
    description: The tests. Those that do not run between two ends are skipped.
    type: list
    elements: str
    choices: [rping, ib_send_lat, ib_write_bw, ib_write_bw_bidirectional, ib_write_bw_all_rails, ib_write_bw_cm,
      ib_write_bw_cuda, ibv_devinfo, memlock, nccl_tests]
    required: true
  pings:
    description: Number of pings.
    type: int
    default: 5
  seconds:
    description: Seconds that ib_write_bw sends for.
    type: int
    default: 3
  size:
    description: Size of a message of ib_write_bw, in bytes.
    type: int
    default: 65536
  queue_pairs:
    description: Number of queue pairs of ib_write_bw.
    type: int
    default: 1
  service_level:
    description: Service level of ib_write_bw, V(0) to V(15).
    type: int
  traffic_class:
    description: Traffic class of ib_write_bw, V(0) to V(255).
    type: int
  first_port:
    description: First of the TCP ports that servers listen on, one for each rail and test.
    type: int
    default: 18515
"""

EXAMPLES = r"""
---
- name: Show the tests for which this node listens in the first round
  ansible.builtin.debug:
    msg: "{{ nodes | rdmaops.gpu_fabric.fabric_tests(rounds[0], inventory_hostname, 'server', ['rping']) }}"
"""

RETURN = r"""
_value:
  description: The tests.
  type: list
  elements: dict
  sample:
    - id: "0-0-rping"
      client: gpu-2
      server: gpu-1
      rail: 0
      test: rping
      address: 10.90.0.1
      source: 10.90.0.2
      tcp_port: 18515
      device: mlx5_0
      port: 1
      gid_index: 3
      cpus: 0-27,56-83
      gpu: "0000:0f:00.0"
      dmabuf: true
      pings: 5
      seconds: 3
      bytes: 65536
      queue_pairs: 1
      service_level: null
      traffic_class: 106
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..plugin_utils._fabric.test_plan import plan_tests
from ..plugin_utils._filter import ansible_errors


def _numbers(options: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Return the options that are set; templates turn numbers into text, and null into an empty one."""
    return {name: int(value) for name, value in options.items() if value not in (None, "")}


@ansible_errors
def fabric_tests(
    nodes: t.Any, pairs: t.Any, host: str, side: str, wanted: t.Sequence[str], **numbers: t.Any
) -> list[dict[str, t.Any]]:
    """Return the tests."""
    try:
        return plan_tests(nodes, pairs, host, side, wanted, **_numbers(numbers))
    except (KeyError, TypeError, ValueError) as exc:
        raise AnsibleFilterError(
            "Building the tests of %s: nodes, pairs or a number does not have the shape that fabric_verdict and "
            "fabric_rounds return: %s: %s" % (host, type(exc).__name__, exc)
        ) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"fabric_tests": fabric_tests}
