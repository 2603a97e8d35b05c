# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_env
short_description: Compute NCCL's environment variables for the RDMA ports of hosts
version_added: 0.1.0
description:
  - Computes from the result of C(rdma_info) which RDMA ports NCCL should use, and with which GID.
  - Only ports that are V(ACTIVE) are used. A port that is down makes the list shorter, which is not an error as long as
    another one is left. The filter P(rdmaops.gpu_fabric.rails#filter) shows all.
  - NCCL falls back to sockets without an error if it finds no device, and training becomes many times slower. So this
    filter fails, and reports why, if NCCL could not use RDMA with the result.
  - Pass it the state collected where the job runs. A pod with its own network sees other entries of the GID table than
    the host or another pod, at other indexes.
author:
  - rdmaops contributors (@rdmaops)
positional: include, exclude
options:
  _input:
    description:
      - What C(rdma_info) returned on one host, or the list of devices in it.
      - For several hosts of one job, a dictionary of host name to result, or a list of results. One environment is
        created for all; hosts that would need different ones are an error that names them.
    type: raw
    required: true
  include:
    description:
      - Only these, by name of the RDMA device, node GUID or network device. An empty list means all.
      - Names are compared exactly, so C(mlx5_1) does not match C(mlx5_10). GUIDs may be in upper or lower case, with or
        without colons.
      - An entry that matches nothing on any of the hosts is an error.
      - A network device may be a VLAN, bridge or bond on that of a port, such as V(ens1np0.100), if it has entries in
        the GID table of the port. The GID is then chosen among these. With O(gid_index=auto), it is an error if NCCL
        would choose another one.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Not these, specified as in O(include), over which this takes precedence. List storage adapters here.
      - An entry that matches nothing is not an error, because storage devices differ from host to host.
    type: list
    elements: str
    default: []
  socket_ifname:
    description:
      - Interfaces for NCCL's own connections over IP, a name or a list of names. If not set, NCCL chooses.
      - Names are exact, unless the value begins with V(=) (exact), V(^) (all except those with this prefix) or V(^=)
        (all except exactly these), which applies to the whole list and is kept.
    type: raw
  family:
    description:
      - The address family of the GIDs on RoCE.
      - With V(ipv6), a link-local address is used only if no global one exists, and only with O(gid_index=pin).
    type: str
    choices: [ipv4, ipv6]
    default: ipv4
  gid_index:
    description:
      - What to do about the GID index on RoCE.
      - V(pin) sets C(NCCL_IB_GID_INDEX), which is one number for all ports of all hosts. If they need different ones,
        this is an error that names the devices and their indexes.
      - V(auto) sets the criteria by which NCCL chooses for each port. This requires NCCL 2.26.2 or newer, or 2.21 or
        newer if no entry of the GID table below the chosen one is empty. In pods with macvlan some are, as other pods
        have them, and NCCL 2.21 to 2.25 ends there with C(read failed in ncclIbRoceGetVersionNum) (NVIDIA/nccl#1573).
      - NCCL does not consider network devices. If a VLAN has an address on the same port, narrow down the choice with
        C(NCCL_IB_ADDR_RANGE) (also since 2.21), or use V(pin).
    type: str
    choices: [pin, auto]
    default: pin
  debug:
    description: NCCL's log level.
    type: str
    choices: [VERSION, WARN, INFO, TRACE]
    default: INFO
  socket_family:
    description: The only address family that NCCL uses for its connections over IP. If not set, NCCL chooses.
    type: str
    choices: [ipv4, ipv6]
  socket_nthreads:
    description:
      - Threads for each connection of NCCL's transport over sockets, V(1) to V(16). It does not apply to RDMA.
      - If not set, NCCL chooses by the vendor of the network device.
      - NCCL opens at most 64 sockets for each connection. The product of O(socket_nthreads) and O(nsocks_perthread)
        cannot be greater.
    type: int
  nsocks_perthread:
    description:
      - Sockets for each thread of NCCL's transport over sockets, V(1) to V(64). It does not apply to RDMA.
      - Set it together with O(socket_nthreads). NCCL's own number of threads is 0 for most network devices, and sockets
        for each of them are none.
    type: int
  service_level:
    description:
      - Service level of NCCL's packets, V(0) to V(15). On RoCE it is the priority (PCP) of packets with a VLAN tag.
      - If not set, NCCL uses 0.
    type: int
  traffic_class:
    description:
      - Traffic class of NCCL's packets, V(0) to V(255). On RoCE v2 it is the TOS field of the IP header, which is the
        DSCP times 4 and the two bits of ECN, such as V(106) for DSCP 26 with ECN.
      - If not set, NCCL uses 0.
    type: int
notes:
  - InfiniBand ports cannot be combined with RoCE or iWARP ports in one environment.
  - NCCL reads at most 32 entries of C(NCCL_IB_HCA). More ports than that are an error.
  - The limits of O(socket_nthreads) and O(nsocks_perthread) are those of NCCL's documentation, and of C(MAX_THREADS)
    and C(MAX_SOCKETS) in its C(transport/net_socket.cc). NCCL lowers a greater number with a warning in its log.
  - NCCL uses the list only as a filter, and sorts devices by their PCI address itself. The order is for readers.
seealso:
  - plugin: rdmaops.gpu_fabric.rails
    plugin_type: filter
  - name: NCCL environment variables
    description: The reference of the variables.
    link: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

EXAMPLES = r"""
- name: Show the environment for this host
  ansible.builtin.debug:
    msg: "{{ rdma | rdmaops.gpu_fabric.nccl_env(exclude=['mlx5_4'], socket_ifname='eth0') }}"
  # {
  #   "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
  #   "NCCL_IB_GID_INDEX": "3",
  #   "NCCL_SOCKET_IFNAME": "=eth0",
  #   "NCCL_DEBUG": "INFO"
  # }

- name: Create one environment for all hosts of the play, each of which has registered its result as rdma
  ansible.builtin.set_fact:
    job_env: >-
      {{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'rdma')))
         | rdmaops.gpu_fabric.nccl_env(gid_index='auto') }}
  run_once: true
"""

RETURN = r"""
_value:
  description: Variable names and their values, all of them strings.
  type: dict
  contains:
    NCCL_IB_HCA:
      description:
        - The ports in the order of the filter P(rdmaops.gpu_fabric.rails#filter), as a list of exact names.
        - Without the leading C(=), NCCL interprets the names as prefixes. C(:1) is the port.
      returned: always
      type: str
      sample: "=mlx5_0:1,mlx5_1:1"
    NCCL_IB_GID_INDEX:
      description:
        - The GID index of all ports, since NCCL 2.1.4.
        - The default is C(-1), with which NCCL chooses (since 2.21; before, the default was C(0)).
      returned: on RoCE with O(gid_index=pin)
      type: str
      sample: "3"
    NCCL_IB_ROCE_VERSION_NUM:
      description: The RoCE version of the GIDs from which NCCL chooses, since NCCL 2.21.
      returned: on RoCE with O(gid_index=auto)
      type: str
      sample: "2"
    NCCL_IB_ADDR_FAMILY:
      description: The address family of the GIDs from which NCCL chooses, since NCCL 2.21.
      returned: on RoCE with O(gid_index=auto)
      type: str
      sample: AF_INET
    NCCL_IB_SL:
      description: The service level, since NCCL 2.1.4.
      returned: when O(service_level) is given
      type: str
      sample: "3"
    NCCL_IB_TC:
      description: The traffic class, since NCCL 2.1.15.
      returned: when O(traffic_class) is given
      type: str
      sample: "106"
    NCCL_SOCKET_IFNAME:
      description: Interfaces for NCCL's own connections over IP.
      returned: when O(socket_ifname) is given
      type: str
      sample: "=eth0"
    NCCL_SOCKET_FAMILY:
      description: The address family of NCCL's connections over IP.
      returned: when O(socket_family) is given
      type: str
      sample: AF_INET
    NCCL_SOCKET_NTHREADS:
      description: Threads for each connection of the transport over sockets, since NCCL 2.4.8.
      returned: when O(socket_nthreads) is given
      type: str
      sample: "4"
    NCCL_NSOCKS_PERTHREAD:
      description: Sockets for each of these threads, since NCCL 2.4.8.
      returned: when O(nsocks_perthread) is given
      type: str
      sample: "4"
    NCCL_DEBUG:
      description: NCCL's log level, the value of O(debug).
      returned: always
      type: str
      sample: INFO
"""

import typing as t

from ..module_utils._rails import nccl_env as rails_nccl_env
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def nccl_env(data: t.Any, *selection: t.Any, **options: t.Any) -> dict[str, str]:
    """Return names of variables to values."""
    return rails_nccl_env.nccl_env(data, *selection, **options)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"nccl_env": nccl_env}
