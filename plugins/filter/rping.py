# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter rping: what rping said of a connection."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rping
short_description: Read the output of rping
version_added: 0.1.0
description:
  - Determines from the output of C(rping -v), of the client or of the server, whether RDMA data arrived.
  - Pass it standard output and standard error together, because C(rping) writes its errors to the latter.
  - C(rping) exits with 0 even if the other side disconnected in the middle. Therefore check RV(_value.ok) as well.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description: Output of one run of C(rping).
    type: string
    required: true
  count:
    description:
      - The expected number of pings, as passed to C(rping -C). With fewer pings, RV(_value.ok) is false.
      - If not set, one ping is enough.
    type: int
seealso:
  - plugin: rdmaops.gpu_fabric.perftest
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Ping over RDMA
  ansible.builtin.command:
    argv: [timeout, "30", rping, -c, -v, -C, "10", -a, "10.0.0.2"]
  register: ping
  changed_when: false
  failed_when: not ((ping.stdout ~ '\n' ~ ping.stderr) | rdmaops.gpu_fabric.rping(count=10)).ok
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  contains:
    ok:
      description: Whether there was a ping, each with the data that C(rping) sends, as many as O(count), and no error.
      type: bool
      returned: always
      sample: true
    pings:
      description:
        - Number of different pings seen. A persistent server for several clients (C(-P)) sees the same numbers again;
          they count once.
      type: int
      returned: always
      sample: 10
    errors:
      description:
        - C(rping)'s own messages, and sentences about missing pings. Empty if RV(_value.ok).
        - Without C(-v), nothing is printed, which is an error here.
      type: list
      elements: str
      returned: always
      sample: ["cma event RDMA_CM_EVENT_UNREACHABLE, error -110", "wait for CONNECTED state 4"]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.rping import parse


def rping(text: object, count: object = None) -> dict[str, t.Any]:
    """Return whether the pings came through."""
    if not isinstance(text, str):
        raise AnsibleFilterError(
            "rping needs the text that rping printed, not a value of type %s" % type(text).__name__
        )
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise AnsibleFilterError("rping needs a whole number of pings, at least 1, for count, not %r" % (count,))
    return parse(text, count)


class FilterModule:
    """The filter rping."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"rping": rping}
