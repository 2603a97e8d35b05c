#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_node_info
short_description: Look at a host as a node of Kubernetes in one go
version_added: 0.1.0
description:
  - Reads in one module process what decides whether kubeadm may make a host a node, or what kind of node it is already - memory, swap, cgroups, ports in use,
    modules and settings of the kernel, programs, the configuration of containerd, what kubeadm has left in V(/etc/kubernetes), and when certificates end.
  - With O(cluster=true), a control-plane node is asked for the cluster's nodes and for the configuration that kubeadm keeps in the cluster.
  - No key, token or kubeconfig is returned. Authorities are told by their fingerprint.
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
    description: TCP ports of which it is asked who listens there.
    type: list
    elements: int
    default: []
  modules:
    description: Modules of the kernel of which it is asked whether they are there.
    type: list
    elements: str
    default: []
  sysctls:
    description: Settings of the kernel whose value is asked.
    type: list
    elements: str
    default: []
  cluster:
    description: Whether to ask the API server, by C(kubectl) and V(/etc/kubernetes/admin.conf). Without that file nothing is asked.
    type: bool
    default: false
  wait:
    description: How long to wait for an API server that does not answer, in seconds. One that has rebooted takes a while.
    type: int
    default: 0
  program_dirs:
    description: Directories in which programs are looked for, besides those of the system.
    type: list
    elements: path
    default: [/usr/local/bin]
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_plan
  - module: rdmaops.gpu_fabric.kubeadm
"""

EXAMPLES = r"""
---
- name: Look at a host before it becomes a node
  rdmaops.gpu_fabric.kubernetes_node_info:
    ports: [10250]
    modules: [overlay, br_netfilter]
    sysctls: [net.ipv4.ip_forward]
  register: node
"""

RETURN = r"""
host:
  description: The host itself. C(cgroup) is V(v2), V(v1) (also with v2 at its side) or null. C(cpus) are those that are on.
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
  description: Versions of what is installed, null for what is not there or tells no version.
  returned: success
  type: dict
  sample: {"kubeadm": "1.36.3", "kubelet": "1.36.3", "kubectl": "1.36.3", "containerd": "1.7.24"}
runtime:
  description:
    - What containerd runs with (C(config), null where it is not there), and whose its configuration file is (C(config_owner)) - V(absent), V(ours),
      V(package) (as the distribution delivers it) or V(foreign).
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
  description: Those of O(ports) on which somebody listens, and who.
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
  description: O(sysctls), with the value of each, or null where the kernel has none of that name.
  returned: success
  type: dict
  sample: {"net.ipv4.ip_forward": "0"}
membership:
  description:
    - What kubeadm has left here. C(kubelet) and C(admin) tell of the two kubeconfigs which server and authority they name and who their user is, null where
      the file is not there. C(bootstrapping) tells of a join that did not come to its end. C(authority.pin) is what C(kubeadm join) takes as hash of the
      authority.
    - C(started) is an action of M(rdmaops.gpu_fabric.kubeadm) that is at work or did not come to its end, or null. C(at_work) is true while the lock of the
      host is held or its process runs, false if that process has ended or the host has booted since, and null if the mark names no process. C(answers) says
      whether the API server of this host reports ready to the administrator, null if that was not asked or cannot be judged.
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
  description: Certificates of the node, with the days that are left. What cannot be read has null. C(renewable) are those that kubeadm renews.
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
  description: What the API server says. Null where it was not asked.
  returned: success
  type: dict
  sample:
    reachable: true
    error: null
    nodes:
      - name: gpu-1
        version: 1.36.3
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
        found = Looker(runner(module.params["program_dirs"], 60)).look(module.params)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
