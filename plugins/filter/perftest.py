# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter perftest: what ib_write_bw and its kin measured."""

from __future__ import annotations

DOCUMENTATION = r"""
name: perftest
short_description: Read the output of perftest's bandwidth tests
version_added: 0.1.0
description:
  - Reads the output of C(ib_write_bw), C(ib_read_bw), C(ib_send_bw) and C(ib_atomic_bw), with and without
    C(--report_gbits), or the file of C(--out_json), including that of older versions, which is not valid JSON.
  - All rates are in Gb/s (10^9 bits). What perftest calls MB is 2^20 bytes.
  - An output without a result is an error with perftest's own text, as is a failure after a result.
  - Latency tests are refused.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description: Output of one run (standard output and standard error together), its JSON, or the decoded JSON.
    type: raw
    required: true
  report_gbits:
    description:
      - Whether the test ran with C(--report_gbits). Only needed for JSON, which does not contain it.
      - If not set, the unit is determined by comparing the rate with the message rate. If that is not conclusive, it is
        an error.
    type: bool
seealso:
  - plugin: rdmaops.gpu_fabric.rping
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Show the bandwidth between a pair of nodes
  ansible.builtin.debug:
    msg: "{{ result.device }}: {{ result.rows | map(attribute='average_gbps') | max }} Gb/s"
  vars:
    result: "{{ (client.stdout ~ '\n' ~ client.stderr) | rdmaops.gpu_fabric.perftest }}"
"""

RETURN = r"""
_value:
  description: What was measured.
  type: dict
  contains:
    test:
      description: Name of the program, determined from the test's title; null if that is missing.
      type: str
      returned: always
      sample: ib_write_bw
    bidirectional:
      description: Whether data was sent in both directions (C(-b)). The rates are then the sum of both.
      type: bool
      returned: always
    device:
      description: Name of the RDMA device.
      type: str
      returned: always
      sample: mlx5_0
    link_type:
      description: Link layer as named by perftest.
      type: str
      returned: always
      sample: Ethernet
    gid_index:
      description: Index of the GID that was used, null if perftest does not print it (InfiniBand without C(-x)).
      type: int
      returned: always
      sample: 3
    mtu_bytes:
      description: MTU of the RDMA path.
      type: int
      returned: always
      sample: 4096
    below_limit:
      description:
        - Whether perftest itself reported that a rate is below that required by C(-w) or C(-y). Never true for JSON,
          which does not contain it.
      type: bool
      returned: always
    rows:
      description: One entry for each message size, or for each report of C(--run_infinitely). Never empty.
      type: list
      elements: dict
      returned: always
      contains:
        bytes:
          description: Message size.
          type: int
        iterations:
          description: Number of messages.
          type: int
        peak_gbps:
          description: Peak rate, V(0) if it was not measured.
          type: float
        average_gbps:
          description: Average rate.
          type: float
        mpps:
          description: Million messages per second.
          type: float
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.perftest import PerftestError, from_document, parse


def perftest(output: object, report_gbits: object = None) -> dict[str, t.Any]:
    """Return what was measured."""
    if report_gbits is not None and not isinstance(report_gbits, bool):
        raise AnsibleFilterError("perftest needs true or false for report_gbits, not %r" % (report_gbits,))
    try:
        if isinstance(output, t.Mapping):
            return from_document(output, report_gbits)
        if isinstance(output, str):
            return parse(output, report_gbits)
    except PerftestError as exc:
        raise AnsibleFilterError("perftest: %s" % exc) from exc
    raise AnsibleFilterError(
        "perftest needs what a bandwidth test printed, or its JSON, not a value of type %s" % type(output).__name__
    )


class FilterModule:
    """The filter perftest."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"perftest": perftest}
