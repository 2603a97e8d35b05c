#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_node_info
short_description: Collect the state of a host as a Kubernetes node in one process
version_added: 0.1.0
description:
  - Reads in one module process what determines whether kubeadm may turn a host into a node, or what kind of node it already is - memory, swap, cgroups, ports
    in use, kernel modules and settings, programs, the configuration of containerd, what kubeadm has left in V(/etc/kubernetes), and when certificates expire.
  - With O(cluster=true), a control-plane node is queried for the cluster's nodes and for the configuration that kubeadm stores in the cluster.
  - No key, token or kubeconfig is returned. Certificate authorities are identified by their fingerprint.
  - Nothing is changed.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
options:
  ports:
    description: TCP ports to check for listening processes.
    type: list
    elements: int
    default: []
  modules:
    description: Kernel modules to check.
    type: list
    elements: str
    default: []
  sysctls:
    description: Kernel settings to read.
    type: list
    elements: str
    default: []
  cluster:
    description: Whether to query the API server, using C(kubectl) and V(/etc/kubernetes/admin.conf). Without that file, nothing is queried.
    type: bool
    default: false
  wait:
    description: How long to wait for an API server that does not respond, in seconds. After a reboot, it takes a while.
    type: int
    default: 0
  program_dirs:
    description: Directories to search for programs, in addition to those of the system.
    type: list
    elements: path
    default: [/usr/local/bin]
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_plan
  - module: rdmaops.gpu_fabric.kubeadm
notes:
  - Requires C(openssl) on a host that has certificates of kubeadm or of the kubelet.
"""

EXAMPLES = r"""
---
- name: Check a host before it becomes a node
  rdmaops.gpu_fabric.kubernetes_node_info:
    ports: [10250]
    modules: [overlay, br_netfilter]
    sysctls: [net.ipv4.ip_forward]
  register: node
"""

RETURN = r"""
host:
  description: The host itself. C(cgroup) is V(v2), V(v1) (also with v2 next to it) or null. C(cpus) is the number of CPUs that are online.
  returned: success
  type: dict
  sample:
    hostname: gpu-1
    machine_id: 8f3c9a1db0a94a5e8b0e6d0b0c5c7f10
    memory_mib: 1963
    cpus: 2
    swap: []
    cgroup: v2
    interfaces: [{"device": "eth0", "address": "192.0.2.11/24"}]
programs:
  description: Versions of installed programs, null if a program is missing or does not report a version.
  returned: success
  type: dict
  sample: {"kubeadm": "1.37.1", "kubelet": "1.37.1", "kubectl": "1.37.1", "containerd": "1.7.24"}
runtime:
  description:
    - The configuration that containerd runs with (C(config), null if containerd is missing), and the owner of its configuration file (C(config_owner)) -
      V(absent), V(ours), V(package) (as shipped by the distribution) or V(foreign).
  returned: success
  type: dict
  sample:
    config_owner: ours
    config:
      cri: true
      systemd_cgroup: true
      sandbox_image: registry.k8s.io/pause:3.10.2
      config_path: /etc/containerd/certs.d
      cni_bin_dirs: [/opt/cni/bin]
      cni_conf_dir: /etc/cni/net.d
ports:
  description: Those of O(ports) on which a process listens, with that process.
  returned: success
  type: list
  elements: dict
  sample: [{"port": 10250, "pid": 811, "command": "kubelet"}]
modules:
  description: O(modules), and whether each is loaded or built in.
  returned: success
  type: dict
  sample: {"overlay": true, "br_netfilter": false}
sysctls:
  description: O(sysctls), with the value of each, or null if the kernel does not have it.
  returned: success
  type: dict
  sample: {"net.ipv4.ip_forward": "0"}
membership:
  description:
    - What kubeadm has left here. C(kubelet) and C(admin) show the server, authority and user of the two kubeconfigs, null if the file is missing.
      C(bootstrapping) indicates an unfinished join. C(authority.pin) is what C(kubeadm join) takes as the hash of the authority.
    - C(started) is an action of M(rdmaops.gpu_fabric.kubeadm) that is running or was not finished, or null. C(at_work) is true while the lock of the host is
      held or its process runs, false if that process has ended or the host has booted since, and null if the mark contains no process. C(answers) is whether
      the API server of this host reports ready to the administrator, null if that was not checked or cannot be determined.
  returned: success
  type: dict
  sample:
    kubelet: {"server": "https://192.0.2.10:6443", "authority": "1f0c", "user": "system:node:gpu-1"}
    bootstrapping: false
    admin: null
    authority: {"fingerprint": "1f0c", "pin": "sha256:77aa"}
    manifests: []
    parked: []
    etcd: false
    started:
      action: join
      since: "2026-04-01T12:00:00Z"
      pid: 4711
      at_work: false
      answers: false
certificates:
  description: Certificates of the node, with the days until they expire. Certificates that cannot be read have null. C(renewable) is true for those that
    kubeadm renews.
  returned: success
  type: list
  elements: dict
  sample:
    - name: apiserver
      path: /etc/kubernetes/pki/apiserver.crt
      common_name: kube-apiserver
      not_after: 1826845323
      days: 364
      renewable: true
cluster:
  description: What the API server returned. Null if it was not queried.
  returned: success
  type: dict
  sample:
    reachable: true
    error: null
    nodes:
      - name: gpu-1
        version: 1.37.1
        machine_id: 8f3c9a1db0a94a5e8b0e6d0b0c5c7f10
        ready: true
        internal_ip: 192.0.2.11
        pod_cidr: 10.244.1.0/24
        control_plane: false
    cluster_configuration: "kind: ClusterConfiguration"
    kubelet_configuration: "kind: KubeletConfiguration"
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._kubeadm.node_look import Looker
from ..module_utils._kubeadm.run import runner


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "int", "default": []},
            "modules": {"type": "list", "elements": "str", "default": []},
            "sysctls": {"type": "list", "elements": "str", "default": []},
            "cluster": {"type": "bool", "default": False},
            "wait": {"type": "int", "default": 0},
            "program_dirs": {"type": "list", "elements": "path", "default": ["/usr/local/bin"]},
        },
        supports_check_mode=True,
    )
    try:
        result = Looker(runner(module.params["program_dirs"], 60)).look(module.params)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
