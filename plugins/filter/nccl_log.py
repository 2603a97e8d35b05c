# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter nccl_log: which way NCCL took between nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_log
short_description: Determine from NCCL's log whether it used RDMA
version_added: 0.1.0
description:
  - Reads the log that NCCL writes with C(NCCL_DEBUG=INFO), of versions 2.3 to 2.27, of one rank or of all ranks.
  - The channels that were opened are better evidence than what NCCL logged at startup. A process that opened no channel
    to another node is judged by its startup.
  - Only lines with NCCL's own prefix (C(host:pid:tid [gpu] NCCL INFO)) count, optionally after tags of C(mpirun),
    C(torchrun), C(kubectl logs) or Ray, or a timestamp. Output of the program that uses NCCL is not evidence.
  - NCCL's communication inside a node (P2P, SHM, NVLink) is ignored.
author:
  - rdmaops contributors (@rdmaops)
positional: _input
options:
  _input:
    description: The log.
    type: string
    required: true
seealso:
  - plugin: rdmaops.gpu_fabric.nccl_tests
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Fail if a job fell back to TCP
  ansible.builtin.assert:
    that:
      - log.transport == 'rdma'
      - log.evidence == 'channels'
      - log.gpudirect
    fail_msg: "NCCL used {{ log.network }} ({{ log.transport }}); {{ log.errors | join('; ') }}"
  vars:
    log: "{{ job.stdout | rdmaops.gpu_fabric.nccl_log }}"
"""

RETURN = r"""
_value:
  description: What NCCL logged.
  type: dict
  contains:
    transport:
      description:
        - V(rdma) if everything used InfiniBand, RoCE or iWARP, V(socket) if everything used TCP, V(mixed) if some of it
          used TCP.
        - V(unknown) if the log does not show it, or if it is unknown whether a plugin's network is RDMA. A plugin's
          network is known to be RDMA if a channel ends in C(/GDRDMA), or libfabric's provider is C(efa) or C(verbs).
      type: str
      returned: always
      choices: [rdma, socket, mixed, unknown]
      sample: rdma
    evidence:
      description: Whether the evidence is from channels, or only from startup. Null if there is none.
      type: str
      returned: always
      choices: [channels, init]
      sample: channels
    network:
      description: NCCL's names for the network, the first 10 separated by commas. Null if it has named none.
      type: str
      returned: always
      sample: IBext_v8
    devices:
      description: RDMA devices that NCCL announced it would use, of all nodes, each name and port once.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the device.
          type: str
          sample: mlx5_0
        port:
          description: Number of its port.
          type: int
          sample: 1
        link_layer:
          description: V(InfiniBand) or V(Ethernet). NCCL calls all Ethernet RoCE, including iWARP.
          type: str
          sample: Ethernet
    interface:
      description:
        - The first network interface named, of the sockets if RV(_value.transport=socket), else of NCCL's startup.
      type: str
      returned: always
      sample: eth0
    gpudirect:
      description:
        - Whether the network cards access the GPUs' memory. True if every network channel ends in C(/GDRDMA), false if
          one does not.
        - Without channels, it is what NCCL logged about its devices, and null if it logged nothing or contradictory
          information.
      type: bool
      returned: always
    version:
      description: NCCL's version.
      type: str
      returned: always
      sample: 2.18.5+cuda12.2
    ranks:
      description: The ranks that occur in the log. Those of several communicators are in one list.
      type: list
      elements: int
      returned: always
      sample: [0, 1]
    socket_ranks:
      description: Those that used TCP.
      type: list
      elements: int
      returned: always
      sample: []
    errors:
      description:
        - NCCL's warnings and failures, and failures reported by PyTorch or nccl-tests, each once.
        - The first 100, truncated to 1024 characters each.
      type: list
      elements: str
      returned: always
    left_out:
      description:
        - How many more the log has than fit in RV(_value.errors) (100), RV(_value.devices) (1000), RV(_value.ranks) and
          RV(_value.socket_ranks) (100000 each).
      type: dict
      returned: always
      sample: {devices: 0, errors: 0, ranks: 0, socket_ranks: 0}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.nccl_log import parse


def nccl_log(text: object) -> dict[str, t.Any]:
    """Return the transport and what shows it."""
    if not isinstance(text, str):
        raise AnsibleFilterError("nccl_log needs the text of a log, not a value of type %s" % type(text).__name__)
    return parse(text)


class FilterModule:
    """The filter nccl_log."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"nccl_log": nccl_log}
