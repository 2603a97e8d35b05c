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
  - Reads what C(ib_write_bw), C(ib_read_bw), C(ib_send_bw) and C(ib_atomic_bw) print, with and without
    C(--report_gbits),
    or the file of C(--out_json), also in the form of older versions that is no valid JSON.
  - All rates are in Gb/s (10^9 bits). What perftest calls MB is 2^20 bytes.
  - An output without a result is an error with perftest's own words, as is a failure after a result.
  - Latency tests are refused.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description: What one run printed (standard output and standard error together), its JSON, or the JSON decoded.
    type: raw
    required: true
  report_gbits:
    description:
      - Whether the test ran with C(--report_gbits). Only needed for JSON, which does not say it.
      - Without it the unit is found by comparing the rate with the message rate; where that cannot decide, it is an
        error.
    type: bool
seealso:
  - plugin: rdmaops.gpu_fabric.rping
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Show what a pair of nodes reached
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
      description: Name of the program, told from the test's title; null when that is missing.
      type: str
      returned: always
      sample: ib_write_bw
    bidirectional:
      description: Whether data went both ways (C(-b)). The rates are then the sum of both.
      type: bool
      returned: always
    device:
      description: Name of the RDMA device.
      type: str
      returned: always
      sample: mlx5_0
    link_type:
      description: Link layer in perftest's words.
      type: str
      returned: always
      sample: Ethernet
    gid_index:
      description: Index of the GID that was used, null when perftest does not say (InfiniBand without C(-x)).
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
        - Whether perftest itself said that a rate is below what C(-w) or C(-y) wanted. Never true of JSON, which
          does not say it.
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
          description: Peak rate, V(0) when it was not measured.
          type: float
        average_gbps:
          description: Average rate.
          type: float
        mpps:
          description: Million messages each second.
          type: float
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.perftest import PerftestError, from_document, parse


def perftest(output: object, report_gbits: object = None) -> dict[str, t.Any]:
    """Return what was measured."""
    if report_gbits is not None and not isinstance(report_gbits, bool):
        raise AnsibleFilterError(f"perftest wants for report_gbits true or false, not {report_gbits!r}")
    try:
        if isinstance(output, t.Mapping):
            return from_document(output, report_gbits)
        if isinstance(output, str):
            return parse(output, report_gbits)
    except PerftestError as exc:
        raise AnsibleFilterError(f"perftest: {exc}") from exc
    raise AnsibleFilterError(
        f"perftest wants what a bandwidth test printed, or its JSON, not a value of type {type(output).__name__}"
    )


class FilterModule:
    """The filter perftest."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"perftest": perftest}
