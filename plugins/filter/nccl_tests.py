# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter nccl_tests: the tables of nccl-tests."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_tests
short_description: Read the output of nccl-tests
version_added: 0.1.0
description:
  - Reads the output of C(all_reduce_perf) and the other programs of nccl-tests, of versions 2.0 to 2.20, even between
    lines of NCCL's log and with tags of C(mpirun).
  - A run that ended early has the rows that it printed, and no RV(_value.avg_busbw). Check first that
    RV(_value.avg_busbw) is not null. A text without a table has no rows and no average.
  - A text with several tables is refused. It is from several runs, or from processes that did not find each other.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description: What one run printed.
    type: string
    required: true
seealso:
  - plugin: rdmaops.gpu_fabric.nccl_log
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Fail if a fabric is slow or was not measured
  ansible.builtin.assert:
    that:
      - result.avg_busbw is not none
      - result.out_of_bounds == 0
      - result.rows | map(attribute='out_of_place.busbw') | max >= 180
  vars:
    result: "{{ run.stdout | rdmaops.gpu_fabric.nccl_tests }}"
"""

RETURN = r"""
_value:
  description: What was measured.
  type: dict
  contains:
    rows:
      description: One entry for each size, in the order of the table. Anything not measured is null.
      type: list
      elements: dict
      returned: always
      contains:
        size_bytes:
          description: Size of the data.
          type: int
        count:
          description: Number of elements.
          type: int
        type:
          description: Type of an element.
          type: str
          sample: float
        redop:
          description: The reduction, null if there is none.
          type: str
          sample: sum
        root:
          description: The root's rank, V(-1) if there is none, null if the table does not show it.
          type: int
        out_of_place:
          description: The operation from one buffer to another.
          type: dict
          contains:
            time_us:
              description: Time of one operation, in microseconds. With C(-C 1) of nccl-tests, time of the CPU.
              type: float
            algbw:
              description: Size divided by time, in GB/s.
              type: float
            busbw:
              description: What the busiest link carried, in GB/s.
              type: float
            wrong:
              description:
                - Number of wrong elements; null if they were not checked, or the table does not count them.
              type: int
            error:
              description:
                - The maximum deviation, which tables before nccl-tests 2.13 have instead of a count; else null.
              type: float
        in_place:
          description: The operation within one buffer.
          type: dict
          contains:
            time_us:
              description: Time of one operation, in microseconds. With C(-C 1) of nccl-tests, time of the CPU.
              type: float
            algbw:
              description: Size divided by time, in GB/s.
              type: float
            busbw:
              description: What the busiest link carried, in GB/s.
              type: float
            wrong:
              description:
                - Number of wrong elements; null if they were not checked, or the table does not count them.
              type: int
            error:
              description:
                - The maximum deviation, which tables before nccl-tests 2.13 have instead of a count; else null.
              type: float

    avg_busbw:
      description:
        - Average of RV(_value.rows[].out_of_place.busbw) and its in-place counterpart, in GB/s. Null unless the run
          completed.
      type: float
      returned: always
      sample: 2.80687
    out_of_bounds:
      description: Number of wrong values according to the program's summary, null unless the run completed.
      type: int
      returned: always
      sample: 0
    errors:
      description: The program's own text about a failure.
      type: list
      elements: str
      returned: always
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.nccl_tests import NcclTestsError, parse


def nccl_tests(text: object) -> dict[str, t.Any]:
    """Return the rows and the summary of a run."""
    if not isinstance(text, str):
        raise AnsibleFilterError(
            "nccl_tests needs the text that a program of nccl-tests printed, not a value of type %s"
            % type(text).__name__
        )
    try:
        return parse(text)
    except NcclTestsError as exc:
        raise AnsibleFilterError("nccl_tests: %s" % exc) from exc


class FilterModule:
    """The filter nccl_tests."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"nccl_tests": nccl_tests}
