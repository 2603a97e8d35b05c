# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter nccl_log: which way NCCL took between nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_log
short_description: Tell from NCCL's log whether it used RDMA
version_added: 0.1.0
description:
  - Reads the log that NCCL writes with C(NCCL_DEBUG=INFO), of versions 2.3 to 2.27, of one rank or of all.
  - The channels that were opened are better evidence than what NCCL said at its start.
    A process that opened no channel to another node is judged by its start.
  - Only lines that begin as NCCL's own do (C(host:pid:tid [gpu] NCCL INFO)) count, after tags of C(mpirun),
    C(torchrun), C(kubectl logs),
    Ray, or a time. Words of the program that uses NCCL are no evidence.
  - What NCCL does inside a node (P2P, SHM, NVLink) is not looked at.
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
- name: Refuse a job that fell back to TCP
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
  description: What NCCL said.
  type: dict
  contains:
    transport:
      description:
        - V(rdma) when everything went over InfiniBand, RoCE or iWARP, V(socket) when everything went over TCP,
          V(mixed) when some of it went over TCP.
        - V(unknown) when the log does not tell, and where a plugin's network is not known to be RDMA.
          A plugin's network is known to be RDMA when a channel ends in C(/GDRDMA), or libfabric's provider is
          C(efa) or C(verbs).
      type: str
      returned: always
      choices: [rdma, socket, mixed, unknown]
      sample: rdma
    evidence:
      description: Whether channels tell it, or only the start. Null when nothing does.
      type: str
      returned: always
      choices: [channels, init]
      sample: channels
    network:
      description: NCCL's name for the network, the first 10 with a comma between them. Null when it has named none.
      type: str
      returned: always
      sample: IBext_v8
    devices:
      description: RDMA devices that NCCL said it would use, of all nodes, each name and port once.
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
          description: V(InfiniBand) or V(Ethernet). NCCL calls all Ethernet RoCE, also iWARP.
          type: str
          sample: Ethernet
    interface:
      description:
        - The first network interface that was named, of the sockets when RV(_value.transport=socket), else of
          NCCL's start.
      type: str
      returned: always
      sample: eth0
    gpudirect:
      description:
        - Whether the network cards read the GPUs' memory. True when every network channel ends in C(/GDRDMA), false
          when one does not.
        - Without channels it is what NCCL said of its devices, and null when it said nothing or different things.
      type: bool
      returned: always
    version:
      description: NCCL's version.
      type: str
      returned: always
      sample: 2.18.5+cuda12.2
    ranks:
      description: The ranks that the log speaks of. Of several communicators they are all in one list.
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
        - NCCL's warnings and failures, and what PyTorch or nccl-tests say of its failures, each once.
        - The first 100, of each the first 1024 characters.
      type: list
      elements: str
      returned: always
    left_out:
      description:
        - How many more the log has than RV(_value.errors) (100), RV(_value.devices) (1000), RV(_value.ranks) and
          RV(_value.socket_ranks) (100000 each) can hold.
      type: dict
      returned: always
      sample: {devices: 0, errors: 0, ranks: 0, socket_ranks: 0}
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._tool_output.nccl_log import parse


def nccl_log(text: object) -> dict[str, t.Any]:
    """Return the transport and what it is told by."""
    if not isinstance(text, str):
        raise AnsibleFilterError(f"nccl_log wants the text of a log, not a value of type {type(text).__name__}")
    return parse(text)


class FilterModule:
    """The filter nccl_log."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"nccl_log": nccl_log}
