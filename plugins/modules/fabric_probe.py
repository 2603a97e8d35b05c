#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_probe
short_description: Run one host's part of an RDMA fabric measurement
version_added: 0.1.0
description:
  - Runs C(rping) and C(ib_write_bw) between hosts or pods, for the role P(rdmaops.gpu_fabric.fabric_check#role), which decides who measures with whom.
  - Every program has a time limit, including the servers, which keep running after the task. The last 4 MiB of its output are kept.
  - On hosts it requires root (C(become=true)). For pods, see O(exec).
  - The traffic uses the full bandwidth of the link. O(state=ready) reports devices that are in use. Whether to go on is up to the caller.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: partial
    details:
      - O(state=ready) only reads, and runs as usual. The others send traffic, so they do nothing in check mode and return no results.
  diff_mode:
    support: none
    details:
      - There is nothing to compare.
  idempotent:
    support: N/A
    details:
      - Measures again every time, and changes nothing permanently.
options:
  pod:
    description:
      - Pod as V(NAMESPACE/NAME). Everything that is otherwise done on the host is done in its container. Where the task runs depends on O(exec).
      - Programs are the container's own, and the container runtime runs them with the user, capabilities, limits, control group, seccomp filter and label of
        the container. Nothing is written into the container, and none of its paths is opened from outside.
      - The time limit of a program is set with C(timeout) of the image. Leftover processes are found by E(RDMAOPS_FABRIC_CHECK) in their environment, and
        killed.
      - The image needs C(sh), and C(env), C(timeout) and C(cat) from coreutils or busybox.
      - A pod without a running container is an error.
      - O(devices) cannot be used with pods, because containers do not see each other's processes. V(users) of O(rdmaops.gpu_fabric.rdma_info#module:gather)
        shows which processes have the devices of a pod open.
    type: str
  container:
    description:
      - Container of O(pod). The default with O(exec=api) is the one that C(kubectl exec) selects, with O(exec=crictl) the running container that was created
        first.
    type: str
  exec:
    description:
      - How programs are run in O(pod).
      - V(api) uses the API server's exec, like C(kubectl exec). The task runs on a host that has the kubeconfig, and does not need root. The account needs
        C(get) on C(pods), and C(create) and C(get) on C(pods/exec), in the pod's namespace.
      - V(crictl) uses C(crictl exec) on the node of the pod. The task runs there, as root.
    type: str
    choices: [api, crictl]
    default: api
  state:
    description:
      - V(ready) reports what is missing and what is in use.
      - V(listening) starts the servers of O(tests).
      - V(measured) runs the clients of O(tests), one after another.
      - V(together) runs C(all_reduce_perf) of nccl-tests on all O(members), using C(mpirun) and the members' sshd.
    type: str
    choices: [ready, listening, measured, together]
    required: true
  tools:
    description:
      - Tests to be run, for O(state=ready). Tests that involve one end only are run immediately, on O(ports). See RV(checks).
      - V(ibv_devinfo) uses C(ibv_devinfo) to check that the port exists and is active.
      - V(memlock) registers O(memlock_bytes) with the device, as the container's user, within its RLIMIT_MEMLOCK and without CAP_IPC_LOCK, to which the limit
        would not apply. A container that has this capability needs C(setpriv) (util-linux) in its image to be tested. The test uses the image's C(python3) with
        its libibverbs, or, if there is none, C(ibv_rc_pingpong) with a message of that size, which does not show the reason for a failure. In pods only.
    type: list
    elements: str
    choices: [rping, ib_send_lat, ib_write_bw, ib_write_bw_bidirectional, ib_write_bw_all_rails, ib_write_bw_cm, ib_write_bw_cuda,
      ibv_devinfo, memlock, nccl_tests]
    default: []
  ports:
    description:
      - Ports to check, for O(state=ready), as returned by the filter P(rdmaops.gpu_fabric.rails#filter). Their C(rail), C(device), C(port) and C(gid_index) are
        read, C(numa_node), and C(pci_address) for V(ib_write_bw_cuda) of O(tools). An absent port has no device and is skipped.
    type: list
    elements: dict
    default: []
  memlock_bytes:
    description: How much memory V(memlock) registers, in bytes.
    type: int
    default: 67108864
  tcp_port:
    description: TCP port that V(memlock) listens on if it uses C(ibv_rc_pingpong).
    type: int
    default: 18515
  numa_pinning:
    description: Whether C(ib_write_bw) shall run on the CPUs of the port's NUMA node, for O(state=ready). See C(cpus) in RV(placements).
    type: bool
    default: true
  devices:
    description: RDMA devices to be used, for O(state=ready).
    type: list
    elements: str
    default: []
  tests:
    description: The tests, for O(state=listening) and O(state=measured). The filter P(rdmaops.gpu_fabric.fabric_tests#filter) creates them.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: Name of the test. Letters, digits, dots, dashes and underscores.
        type: str
        required: true
      client:
        description: Name of the measuring host, for the result.
        type: str
        required: true
      server:
        description: Name of the listening host, for the result.
        type: str
        required: true
      rail:
        description: Number of the rail, for the result.
        type: int
        required: true
      test:
        description:
          - The test.
          - V(ib_send_lat) sends 1000 messages of 2 bytes.
          - V(ib_write_bw_bidirectional) is C(ib_write_bw -b), which counts both directions.
          - V(ib_write_bw_all_rails) is measured on all rails at once, after all other tests.
          - V(ib_write_bw_cm) is C(ib_write_bw -R), whose two ends connect through the RDMA connection manager.
          - V(ib_write_bw_cuda) is C(ib_write_bw --use_cuda_bus_id), from the memory of one GPU to that of another, and needs a perftest built with CUDA.
        type: str
        choices: [rping, ib_send_lat, ib_write_bw, ib_write_bw_bidirectional, ib_write_bw_all_rails, ib_write_bw_cm, ib_write_bw_cuda]
        required: true
      address:
        description: Address of the server.
        type: str
        required: true
      source:
        description: Source address of C(rping), which determines the client's device.
        type: str
      tcp_port:
        description: Port of the server.
        type: int
        required: true
      device:
        description: RDMA device on this side.
        type: str
        required: true
      port:
        description: Port of the RDMA device on this side.
        type: int
        default: 1
      gid_index:
        description: GID index on this side. Omitted on InfiniBand.
        type: int
      gpu:
        description: PCI address of the GPU on this side, for V(ib_write_bw_cuda). See RV(placements).
        type: str
      dmabuf:
        description: Whether the memory of the GPU is registered by DMA-BUF (C(--use_cuda_dmabuf)), for V(ib_write_bw_cuda), or else by C(nvidia_peermem).
        type: bool
        default: true
      pings:
        description: Number of pings.
        type: int
        default: 5
      seconds:
        description: Seconds that C(ib_write_bw) sends for.
        type: int
        default: 3
      bytes:
        description: Size of a message of C(ib_write_bw), in bytes.
        type: int
        default: 65536
      queue_pairs:
        description: Number of queue pairs that C(ib_write_bw) sends on.
        type: int
        default: 1
      service_level:
        description: Service level of C(ib_write_bw) (C(-S)).
        type: int
      traffic_class:
        description: Traffic class of C(ib_write_bw) (C(--tclass)), or TOS of V(ib_write_bw_cm) (C(-T)).
        type: int
      cpus:
        description: CPUs that C(ib_write_bw) runs on, on this side, as a list like V(0-27,56-83). See RV(placements). It needs C(taskset).
        type: str
  quiet_bytes_per_second:
    description:
      - Read the counters before and after each C(ib_write_bw), for O(state=measured), and report in C(traffic) of RV(results) whether the traffic went through
        the RDMA device. Network devices of the host or pod other than O(rail_netdevs) may carry this many bytes per second during the test.
      - By default, the counters are not read.
    type: int
  rail_netdevs:
    description: Network devices of the rails, which O(quiet_bytes_per_second) ignores.
    type: list
    elements: str
    default: []
  members:
    description: The participants, for O(state=together), each a dictionary of C(address) and C(gpus), the number of its ranks. The first one is this host or
      pod.
    type: list
    elements: dict
    default: []
  interface:
    description: Network device that MPI's processes use to reach each other, for O(state=together).
    type: str
  ssh_port:
    description: Port of the members' sshd, for O(state=together).
    type: int
    default: 2222
  environment:
    description: Environment of the ranks, for O(state=together). The filter P(rdmaops.gpu_fabric.nccl_env#filter) creates it.
    type: dict
    default: {}
  biggest:
    description: Largest message, for O(state=together), in bytes.
    type: int
    default: 134217728
  test_timeout:
    description: Time limit for each test on the client, in seconds.
    type: int
    default: 60
  lifetime:
    description: Number of seconds after which a server is stopped.
    type: int
    default: 300
  patience:
    description: How long a server may take until it listens, and how long a client retries while its server does not respond, in seconds.
    type: int
    default: 20
"""

EXAMPLES = r"""
---
- name: Check whether this host can be measured
  rdmaops.gpu_fabric.fabric_probe:
    state: ready
    tools: [rping, ib_write_bw]
    devices: [mlx5_0]

- name: Check whether a pod can be measured
  rdmaops.gpu_fabric.fabric_probe:
    state: ready
    pod: ml/train-0
    kubeconfig: ~/.kube/config
    tools: [rping, ib_write_bw]
  delegate_to: localhost
  become: false

- name: Measure with a listening host
  rdmaops.gpu_fabric.fabric_probe:
    state: measured
    tests:
      - id: "0-0-ib_write_bw"
        client: gpu-2
        server: gpu-1
        rail: 0
        test: ib_write_bw
        address: 10.90.0.1
        tcp_port: 18515
        device: mlx5_0
        gid_index: 3
"""

RETURN = r"""
problems:
  description: What prevents this host from being measured, or prevents finding out whether it is in use.
  returned: O(state=ready)
  type: list
  elements: str
  sample: ["ib_write_bw is not installed (package perftest)"]
busy:
  description: What is using the devices and the GPUs, and of which GPUs of a pod this cannot be determined, such as those in MIG mode.
  returned: O(state=ready)
  type: list
  elements: str
  sample: ["mlx5_0 is in use by python3 (PID 4242)"]
gpus:
  description: Number of GPUs that C(nvidia-smi) lists, 0 without C(nvidia-smi), null if unknown.
  returned: O(state=ready)
  type: int
  sample: 8
placements:
  description:
    - What each of O(ports) is measured with - C(rail), C(numa_node), C(cpus) and C(cpus_error), and C(gpu), C(dmabuf) and C(gpu_error).
    - C(cpus) are the CPUs of C(numa_node), the port's NUMA node, as far as the host or container may use them. C(ib_write_bw) is run on them by C(taskset)
      (util-linux), and so gets memory of that node. Null if it is not pinned, with the reason in C(cpus_error).
    - C(gpu) is the PCI address of the GPU with the shortest PCI path to the port, then of the same NUMA node. Rails to which several GPUs are as near take
      turns. Null if unknown, with the reason in C(gpu_error).
    - C(dmabuf) is whether its memory is registered by DMA-BUF, which needs a perftest built for it, NVIDIA's open kernel modules and Linux 5.12 or newer.
      Otherwise, C(nvidia_peermem) is used if it is loaded.
    - There is no C(gpu) without GPUs, or without V(ib_write_bw_cuda) in O(tools).
  returned: O(state=ready)
  type: list
  elements: dict
  sample:
    - rail: 0
      numa_node: 0
      cpus: 0-27,56-83
      cpus_error: null
      gpu: "0000:0f:00.0"
      dmabuf: true
      gpu_error: null
checks:
  description:
    - The tests that involve one end only, for each of O(ports) - C(rail), C(test), C(device), C(ok) and C(error). C(ok) is null if unknown.
    - Those of V(ibv_devinfo) also have C(state) of the port, and C(limits) of the device - C(max_qp), C(max_srq), C(max_cq) and C(max_mr), as
      C(ibv_devinfo -v) prints them, null if it did not. A device whose C(max_srq) is 0, such as those of irdma, has no shared receive queues, which UCX
      requires; Open MPI then needs C(pml) V(ob1) in O(rdmaops.gpu_fabric.training_job#role:main:training_job_ompi).
    - Those of V(memlock) also have C(limit_bytes), the RLIMIT_MEMLOCK of the container, null if it is C(unlimited); C(wanted_bytes); and C(by), which program
      did the registration.
  returned: O(state=ready)
  type: list
  elements: dict
  sample:
    - rail: 0
      test: memlock
      device: mlx5_0
      ok: true
      error: null
      wanted_bytes: 67108864
      limit_bytes: null
      unlimited: true
      by: python3
interface:
  description: Network device of the IPv4 default route of the host or pod. Null if there is none.
  returned: O(state=ready)
  type: str
  sample: eth0
address:
  description: IPv4 address of RV(interface), at which others reach the host or pod.
  returned: O(state=ready)
  type: str
  sample: 10.244.1.7
failed_tests:
  description: Tests whose server did not start, in the format of RV(results).
  returned: O(state=listening)
  type: list
  elements: dict
  sample: []
nccl:
  description:
    - The results of nccl-tests and NCCL's log - C(ok), which is null if nothing could be read, C(error), C(avg_busbw) and C(max_busbw) in GB/s,
      C(out_of_bounds), C(transport), C(evidence), C(network), C(gpudirect), C(version), C(ranks) and C(seconds). See P(rdmaops.gpu_fabric.nccl_tests#filter)
      and P(rdmaops.gpu_fabric.nccl_log#filter).
  returned: O(state=together), not in check mode
  type: dict
results:
  description:
    - The measurements. C(ok) is null if nothing could be read, C(gbps) is the average in Gb/s, C(seconds) is the duration of the test.
    - With O(quiet_bytes_per_second), C(traffic) has C(quiet), which is true if the RDMA device counted at least the bytes that were sent and nothing else
      carried more than is allowed, and null, with the reason in C(why), if its counters cannot show that, such as those of soft-RoCE; and the numbers
      C(seconds), C(sent_bytes), C(rdma_bytes), C(rdma_packets), C(ethernet_bytes) by network device, and C(allowed_bytes).
  returned: O(state=measured)
  type: list
  elements: dict
  sample:
    - id: "0-0-ib_write_bw"
      client: gpu-2
      server: gpu-1
      rail: 0
      test: ib_write_bw
      ok: true
      gbps: 372.1
      pings: null
      error: null
      traffic: null
      gid_index: 3
      seconds: 4.2
"""

import contextlib
import re

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._fabric import probe
from ..module_utils._fabric.host import Host
from ..module_utils._fabric.measure import TOOLS
from ..module_utils._fabric.pod import Pod
from ..module_utils._fabric.readiness import CHECKS
from ..module_utils._kubernetes import client
from ..module_utils._pod_exec import api, crictl
from ..module_utils._pod_exec.run import ContainerError

_TEST_SPEC = {
    "id": {"type": "str", "required": True},
    "client": {"type": "str", "required": True},
    "server": {"type": "str", "required": True},
    "rail": {"type": "int", "required": True},
    "test": {"type": "str", "choices": list(TOOLS), "required": True},
    "address": {"type": "str", "required": True},
    "source": {"type": "str"},
    "tcp_port": {"type": "int", "required": True},
    "device": {"type": "str", "required": True},
    "port": {"type": "int", "default": 1},
    "gid_index": {"type": "int"},
    "gpu": {"type": "str"},
    "dmabuf": {"type": "bool", "default": True},
    "pings": {"type": "int", "default": 5},
    "seconds": {"type": "int", "default": 3},
    "bytes": {"type": "int", "default": 65536},
    "queue_pairs": {"type": "int", "default": 1},
    "service_level": {"type": "int"},
    "traffic_class": {"type": "int"},
    "cpus": {"type": "str"},
}

_ARGUMENT_SPEC = {
    **client.CONNECTION,
    "pod": {"type": "str"},
    "container": {"type": "str"},
    "exec": {"type": "str", "choices": ["api", "crictl"], "default": "api"},
    "state": {"type": "str", "choices": list(probe.STATES), "required": True},
    "tools": {"type": "list", "elements": "str", "choices": [*TOOLS, *CHECKS, "nccl_tests"], "default": []},
    "ports": {"type": "list", "elements": "dict", "default": []},
    "numa_pinning": {"type": "bool", "default": True},
    "memlock_bytes": {"type": "int", "default": 67108864},
    "tcp_port": {"type": "int", "default": 18515},
    "devices": {"type": "list", "elements": "str", "default": []},
    "tests": {"type": "list", "elements": "dict", "default": [], "options": _TEST_SPEC},
    "quiet_bytes_per_second": {"type": "int"},
    "rail_netdevs": {"type": "list", "elements": "str", "default": []},
    "members": {"type": "list", "elements": "dict", "default": []},
    "interface": {"type": "str"},
    "ssh_port": {"type": "int", "default": 2222},
    "environment": {"type": "dict", "default": {}},
    "biggest": {"type": "int", "default": 134217728},
    "test_timeout": {"type": "int", "default": 60},
    "lifetime": {"type": "int", "default": 300},
    "patience": {"type": "int", "default": 20},
}


def place(module: AnsibleModule) -> Host:
    """Return the host or pod in which the programs run."""
    pod, container = module.params["pod"], module.params["container"]
    if not pod:
        return Host()
    if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9.-]+", pod):
        raise ContainerError("'%s' is not the name of a pod: write NAMESPACE/NAME" % pod)
    if module.params["exec"] == "api":
        return Pod(api.find(client.connect(module), pod, container))
    return Pod(crictl.find(pod, container))


def main() -> None:
    module = AnsibleModule(
        argument_spec=_ARGUMENT_SPEC,
        required_if=[("state", "together", ("members", "interface"))],
        required_by={"container": "pod"},
        supports_check_mode=True,
    )
    params = module.params
    try:
        probe.validate(params)
    except FabricError as exc:
        fail(module, exc)
    try:
        with contextlib.closing(place(module)) as host:
            result = probe.run(params, module.check_mode, host)
    except (FabricError, OSError) as exc:
        if not params["pod"] or params["state"] == "ready":
            fail(module, exc)
        result = probe.unknown(params, str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
