#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_attachment
short_description: Manage a set of NetworkAttachmentDefinitions, checked against the nodes before they are applied
version_added: 0.1.0
description:
  - Creates, changes and, with O(prune), deletes the C(NetworkAttachmentDefinition) objects of one owner, from typed options or from raw CNI configurations.
  - Before anything is applied, all attachments are checked against each other, the cluster and O(node_info). A single error stops the module. What could not be
    checked is in RV(not_checked), and has neither passed nor failed.
  - Configurations are compared by their meaning. Key order, spacing and another notation of an address do not count as a change. An added key does.
  - Objects are applied with server-side apply and the field manager V(rdmaops.gpu_fabric).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Before the CRD exists, check mode reports what would be created.
      - With the right to patch, check mode asks the API server in a dry run whether it would accept the objects, so that conflicts show up. Without it, this is
        in RV(not_checked).
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  owner:
    description:
      - Name of the set. It becomes the label C(rdmaops.gpu-fabric/owner) of each attachment, by which O(prune) finds it.
    type: str
    required: true
  namespace:
    description: Namespace of attachments that do not specify one.
    type: str
    default: default
  cni_version:
    description:
      - Version of the CNI specification of attachments that do not specify one.
      - V(0.3.1) is supported by every plugin, including those of older distributions, and has plugin lists. Nothing that an attachment needs was added later.
        Since V(0.4.0), runtimes may call C(CHECK), which not every plugin supports.
    type: str
    default: 0.3.1
  attachments:
    description:
      - The set. An empty list is a set without attachments. See O(prune_all).
      - Each has either O(attachments[].type) with its options or O(attachments[].config). Options are the plugin's own keys in snake case (C(pciBusID) is
        O(attachments[].pci_bus_id)). An option that the plugin of that type does not have is refused.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name, as used by pods in the annotation C(k8s.v1.cni.cncf.io/networks).
        type: str
        required: true
      namespace:
        description: Namespace. The default is O(namespace).
        type: str
      type:
        description: The CNI plugin.
        type: str
        choices: [host-device, macvlan, ipvlan, ipoib, sriov, ib-sriov]
      config:
        description:
          - The CNI configuration, as JSON or as a dictionary, instead of O(attachments[].type) and all plugin options. For plugins without typed options here,
            and for existing configurations.
        type: raw
      cni_version:
        description: Version of the CNI specification. The default is O(cni_version).
        type: str
      resource_name:
        description:
          - Resource of a device plugin, such as V(nvidia.com/rail0). Multus passes the device allocated to the pod to the plugin.
        type: str
      capabilities:
        description:
          - What Multus passes to the plugin when a pod starts. C(deviceID) is for V(host-device) with a O(attachments[].resource_name) whose devices are
            sub-functions; the plugin must be version 1.5.0 or newer.
        type: dict
      device:
        description: Name of the network device on the node, for V(host-device). It can be that of a sub-function, but not a bond or a member of one.
        type: str
      hwaddr:
        description: MAC address of the device, for V(host-device).
        type: str
      kernelpath:
        description: Path of the device in sysfs, for V(host-device).
        type: str
      pci_bus_id:
        description:
          - PCI address of the device, for V(host-device). That of a sub-function is its parent's, so select a sub-function by O(attachments[].device), or by
            O(attachments[].resource_name) with O(attachments[].capabilities).
        type: str
        aliases: [pci_address]
      device_id:
        description: PCI address of the virtual function, for V(sriov) and V(ib-sriov), if O(attachments[].resource_name) does not select it.
        type: str
      master:
        description: Network device on top of which the new one is created, for V(macvlan), V(ipvlan) and V(ipoib).
        type: str
      mode:
        description:
          - For V(macvlan) V(bridge), V(private), V(vepa) or V(passthru); for V(ipvlan) V(l2), V(l3) or V(l3s).
        type: str
      mtu:
        description: MTU in bytes, for V(macvlan) and V(ipvlan), at most that of O(attachments[].master). V(0) is the kernel's choice.
        type: int
      mac:
        description: MAC address of the new device, for V(macvlan) and V(sriov).
        type: str
      link_in_container:
        description: Whether O(attachments[].master) is in the pod, for V(macvlan) and V(ipvlan).
        type: bool
      bcqueuelen:
        description: Length of the broadcast queue, for V(macvlan).
        type: int
      vlan:
        description: VLAN of the virtual function, V(0) to V(4094), for V(sriov).
        type: int
      vlan_qos:
        description: Priority of the VLAN, V(0) to V(7), for V(sriov).
        type: int
      vlan_proto:
        description: Protocol of the VLAN, for V(sriov).
        type: str
        choices: ['802.1q', '802.1ad']
      min_tx_rate:
        description: Minimum transmit rate in Mb/s, for V(sriov).
        type: int
      max_tx_rate:
        description: Maximum transmit rate in Mb/s, for V(sriov).
        type: int
      spoofchk:
        description: Whether the card checks source addresses, V(on) or V(off) as text, for V(sriov).
        type: str
        choices: ['on', 'off']
      trust:
        description: Whether the virtual function is trusted, V(on) or V(off) as text, for V(sriov).
        type: str
        choices: ['on', 'off']
      link_state:
        description: State of the virtual function's link, for V(sriov) and V(ib-sriov).
        type: str
        choices: [auto, enable, disable]
      log_level:
        description: Log level of the plugin, for V(sriov).
        type: str
        choices: [panic, error, warning, info, debug]
      log_file:
        description: Log file of the plugin, for V(sriov).
        type: str
      pkey:
        description: Partition key, for V(ib-sriov).
        type: str
      rdma_isolation:
        description: Whether the plugin moves the RDMA device into the pod itself, for V(ib-sriov).
        type: bool
      ib_kubernetes_enabled:
        description: Whether ib-kubernetes assigns the GUIDs, for V(ib-sriov).
        type: bool
      ipam:
        description: IP address management. Without it, the device has no addresses.
        type: dict
        suboptions:
          type:
            description: Plugin that assigns the addresses. V(none) assigns none.
            type: str
            required: true
            choices: [whereabouts, host-local, static, dhcp, none]
          range:
            description: Network in CIDR notation, for V(whereabouts).
            type: str
          range_start:
            description: First address, for V(whereabouts), and for V(host-local) with O(attachments[].ipam.subnet).
            type: str
          range_end:
            description: Last address, for V(whereabouts), and for V(host-local) with O(attachments[].ipam.subnet).
            type: str
          exclude:
            description: Networks to exclude, for V(whereabouts).
            type: list
            elements: str
          ip_ranges:
            description:
              - Additional networks, for V(whereabouts). Dictionaries of C(range), C(range_start), C(range_end) and C(exclude). A pod gets an address from each.
            type: list
            elements: dict
          gateway:
            description: Gateway, for V(whereabouts) (which does not reserve it), and for V(host-local) with O(attachments[].ipam.subnet).
            type: str
          network_name:
            description: Name that separates identical ranges of different networks, for V(whereabouts).
            type: str
          configuration_path:
            description: Path of C(whereabouts.conf) on the nodes, for V(whereabouts).
            type: str
          enable_overlapping_ranges:
            description: Whether an address is unique across all ranges, for V(whereabouts). This is the default.
            type: bool
          node_slice_size:
            description: Size of each node's own part of the range, such as V(/28), for V(whereabouts).
            type: str
          subnet:
            description: Network in CIDR notation, for V(host-local).
            type: str
          ranges:
            description:
              - Lists of networks, for V(host-local). A list of lists of dictionaries of C(subnet), C(range_start), C(range_end) and C(gateway). A pod gets an
                address from each of the outer lists.
            type: list
            elements: list
          data_dir:
            description: Directory where V(host-local) stores its allocations.
            type: str
          resolv_conf:
            description: Path of a C(resolv.conf) on the node, for V(host-local).
            type: str
          addresses:
            description: Addresses with prefix length, for V(static). Dictionaries of C(address) and C(gateway). Each pod gets the same addresses.
            type: list
            elements: dict
          routes:
            description: Routes. Dictionaries of C(dst), C(gw), C(mtu), C(advmss), C(priority), C(table) and C(scope).
            type: list
            elements: dict
          dns:
            description: DNS of the attachment, for V(static) and V(whereabouts). C(nameservers), C(domain), C(search) and C(options).
            type: dict
          daemon_socket_path:
            description: Socket of the DHCP daemon, for V(dhcp).
            type: str
      chain:
        description: Plugins that run after the first, in this order.
        type: list
        elements: dict
        suboptions:
          type:
            description:
              - V(rdma) moves the RDMA device into the pod, and requires mode V(exclusive) on the node (see M(rdmaops.gpu_fabric.rdma_system)). V(tuning) sets
                kernel parameters and link properties in the pod, V(sbr) a routing table for each device.
            type: str
            required: true
            choices: [rdma, tuning, sbr]
          sysctl:
            description: Kernel parameters in the pod's network namespace, for V(tuning). C(IFNAME) stands for the device.
            type: dict
          mac:
            description: MAC address, for V(tuning).
            type: str
          promisc:
            description: Promiscuous mode, for V(tuning).
            type: bool
          mtu:
            description: MTU in bytes, for V(tuning).
            type: int
          tx_q_len:
            description: Length of the transmit queue, in packets, for V(tuning).
            type: int
          allmulti:
            description: Whether to receive all multicast packets, for V(tuning).
            type: bool
          data_dir:
            description: Directory where V(tuning) stores what it has changed.
            type: str
          table:
            description: Number of the routing table, for V(sbr).
            type: int
  node_info:
    description:
      - The state of the nodes. Maps the name of the Node object to a dictionary of C(devices) (as RV(rdmaops.gpu_fabric.rdma_info#module:devices)),
        C(interfaces) and C(cni).
      - C(interfaces) are dictionaries of C(name), C(mac), C(mtu), C(kind) (such as C(bond)), C(pci_address), C(auxiliary_device) (of a sub-function),
        C(numa_node), C(master), C(addresses) (with prefix length) and C(uses) (what the host needs it for, such as C(default_route)). C(cni) is a
        dictionary of C(bin_dir) and C(plugins). Null is anything that was not read, and is not checked.
    type: dict
    default: {}
  expected_pods:
    description:
      - How many pods each attachment must have addresses for. A number for all, or a dictionary of attachment (C(NAME) or C(NAMESPACE/NAME)) to number.
    type: raw
  target_nodes:
    description:
      - Nodes for which the attachments are intended, by the names of their Node objects. Without it and O(node_selector), the nodes in O(node_info), else all
        nodes except those of the control plane.
    type: list
    elements: str
    default: []
  node_selector:
    description: Label selector of the nodes for which the attachments are intended.
    type: str
  prune:
    description:
      - Whether to delete attachments of O(owner) that are not in O(attachments), in O(namespace), in the namespaces of O(attachments) and in
        O(prune_namespaces).
      - An attachment that is referenced by a pod, or by a pod template (Deployment, DaemonSet, StatefulSet, Job, CronJob, MPIJob and so on), is kept and listed
        in RV(kept). If not all of these could be checked, every attachment is kept.
    type: bool
    default: false
  prune_namespaces:
    description: Additional namespaces in which O(prune) searches for attachments, such as one that the set no longer uses.
    type: list
    elements: str
    default: []
  prune_in_use:
    description: Whether O(prune) also deletes attachments that pods and templates reference. Running pods keep their devices, but cannot start again.
    type: bool
    default: false
  prune_all:
    description: Whether to allow O(prune) with an empty list of O(attachments). It is refused otherwise.
    type: bool
    default: false
  ignore_lint:
    description:
      - Lint errors to turn into warnings, by their codes (see the notes).
    type: list
    elements: str
    default: []
  force_conflicts:
    description:
      - Whether to take back fields of an attachment of this O(owner) from another manager that has changed them (C(kubectl), C(helm), an operator).
    type: bool
    default: false
  force:
    description:
      - Whether to take over fields owned by any other manager, and attachments of another O(owner).
    type: bool
    default: false
notes:
  - "Lint codes. Form: V(invalid_json), V(invalid_config), V(invalid_name), V(duplicate_name), V(unknown_key), V(invalid_value), V(missing_key),
    V(cni_version), V(interface_name). Addresses: V(invalid_cidr), V(exclude_outside), V(range_bounds), V(gateway_in_range), V(range_too_small),
    V(range_overlap), V(range_overlaps_pods), V(range_overlaps_services), V(range_overlaps_nodes), V(range_in_use), V(address_shared). Cluster:
    V(namespace_missing), V(resource_missing), V(owned_by_other). Nodes: V(plugin_missing), V(device_missing), V(duplicate_device), V(several_devices),
    V(host_interface), V(mtu_too_large)."
  - V(invalid_json), V(invalid_config), V(invalid_name), V(duplicate_name), V(host_interface), V(range_in_use) and V(owned_by_other) cannot be ignored.
  - Requires the rights to list C(network-attachment-definitions) and to patch them, in their namespaces. The lint also uses rights to list nodes, service
    networks and, if ranges change, C(ippools.whereabouts.cni.cncf.io). O(prune) uses rights to list pods and workloads.
seealso:
  - module: rdmaops.gpu_fabric.rdma_info
"""

EXAMPLES = r"""
---
- name: Give pods the second card, with an address from a separate network
  rdmaops.gpu_fabric.network_attachment:
    owner: training
    attachments:
      - name: nic0
        type: host-device
        device: ens192
        ipam:
          type: whereabouts
          range: 10.100.100.0/29
    expected_pods: 3

- name: Define two rails with virtual functions whose RDMA devices move into the pod
  rdmaops.gpu_fabric.network_attachment:
    owner: rails
    namespace: training
    attachments:
      - name: rail0
        type: sriov
        resource_name: nvidia.com/rail0
        chain:
          - type: rdma
          - type: tuning
            sysctl:
              net.ipv4.conf.IFNAME.arp_announce: 2
        ipam:
          type: whereabouts
          range: 10.200.0.0/24
      - name: rail1
        type: sriov
        resource_name: nvidia.com/rail1
        chain:
          - type: rdma
        ipam:
          type: whereabouts
          range: 10.200.1.0/24
    expected_pods: 64
    node_info: "{{ gpu_node_info }}"
    prune: true

- name: Use an existing configuration
  rdmaops.gpu_fabric.network_attachment:
    owner: legacy
    attachments:
      - name: bridge0
        config: "{{ lookup('ansible.builtin.file', 'bridge0.json') }}"
"""

RETURN = r"""
owner:
  description: The set.
  returned: success
  type: str
  sample: training
attachments:
  description: The requested set, with the CNI configurations generated from the options.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      name: nic0
      resource_name:
      config: {"cniVersion": "0.3.1", "type": "host-device", "device": "ens192", "ipam": {"type": "whereabouts", "range": "10.100.100.0/29"}}
actions:
  description: What was done, or would be done in check mode. After a failure, what had been done by then.
  returned: success, or a failure during changes
  type: list
  elements: str
  sample: ["Create the attachment default/nic0"]
lint:
  description: The findings. Errors stop the module, warnings do not.
  returned: success or a refusal by the lint
  type: list
  elements: dict
  sample:
    - level: error
      code: range_too_small
      attachment: default/nic0
      problem: 10.100.100.0/30 holds 2 addresses and 3 pods are expected
      remedy: 10.100.100.0/29 would fit (6 addresses)
not_checked:
  description: What the lint could not check, by code, and why. RV(not_checked[].attachment) and RV(not_checked[].node) are null if it concerns all.
  returned: success or a refusal by the lint
  type: list
  elements: dict
  sample:
    - {"code": "host_interface", "attachment": null, "node": null, "why": "node_info is not set"}
  contains:
    code:
      description: The lint code.
      type: str
    attachment:
      description: The attachment.
      type: str
    node:
      description: The node.
      type: str
    why:
      description: Why it was not checked.
      type: str
existing:
  description:
    - The attachments of O(owner) before anything was done, as objects of the API server. They are those in the namespaces of O(attachments), or in O(namespace)
      if that list is empty, and with O(prune) in O(prune_namespaces) too. With an empty list and without O(prune), the module only reads.
  returned: success
  type: list
  elements: dict
  sample:
    - metadata:
        namespace: default
        name: nic0
        labels: {"rdmaops.gpu-fabric/owner": training}
        annotations: {}
      spec:
        config: "{\"cniVersion\": \"0.3.1\", \"type\": \"host-device\", \"device\": \"ens192\"}"
kept:
  description: Attachments that O(prune) left alone, with what references them and what could not be checked.
  returned: success
  type: list
  elements: dict
  sample:
    - {"namespace": "default", "name": "nic1", "used_by": ["Deployment default/trainer"], "unknown": []}
resources:
  description: State of each attachment before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: network_attachment
      name: default/nic0
      status: drift
      desired: {"config": {"cniVersion": "0.3.1", "type": "host-device", "device": "ens192"}, "resource_name": null}
      configured:
      live:
      next_boot:
"""

import difflib
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError, fail
from ..module_utils._kubernetes.client import CONNECTION, connect
from ..module_utils._net_attach_def.manage import manage

TEXT: dict[str, t.Any] = {"type": "str"}
WHOLE: dict[str, t.Any] = {"type": "int"}
FLAG: dict[str, t.Any] = {"type": "bool"}
SWITCH: dict[str, t.Any] = {"type": "str", "choices": ["on", "off"]}
DICTS: dict[str, t.Any] = {"type": "list", "elements": "dict"}

IPAM: dict[str, t.Any] = {
    "type": {"type": "str", "required": True, "choices": ["whereabouts", "host-local", "static", "dhcp", "none"]},
    "range": TEXT,
    "range_start": TEXT,
    "range_end": TEXT,
    "exclude": {"type": "list", "elements": "str"},
    "ip_ranges": DICTS,
    "gateway": TEXT,
    "network_name": TEXT,
    "configuration_path": TEXT,
    "enable_overlapping_ranges": FLAG,
    "node_slice_size": TEXT,
    "subnet": TEXT,
    "ranges": {"type": "list", "elements": "list"},
    "data_dir": TEXT,
    "resolv_conf": TEXT,
    "addresses": DICTS,
    "routes": DICTS,
    "dns": {"type": "dict"},
    "daemon_socket_path": TEXT,
}
CHAIN: dict[str, t.Any] = {
    "type": {"type": "str", "required": True, "choices": ["rdma", "tuning", "sbr"]},
    "sysctl": {"type": "dict"},
    "mac": TEXT,
    "promisc": FLAG,
    "mtu": WHOLE,
    "tx_q_len": WHOLE,
    "allmulti": FLAG,
    "data_dir": TEXT,
    "table": WHOLE,
}
ATTACHMENT: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "namespace": TEXT,
    "type": {"type": "str", "choices": ["host-device", "macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov"]},
    "config": {"type": "raw"},
    "cni_version": TEXT,
    "resource_name": TEXT,
    "capabilities": {"type": "dict"},
    "device": TEXT,
    "hwaddr": TEXT,
    "kernelpath": TEXT,
    "pci_bus_id": {"type": "str", "aliases": ["pci_address"]},
    "device_id": TEXT,
    "master": TEXT,
    "mode": TEXT,
    "mtu": WHOLE,
    "mac": TEXT,
    "link_in_container": FLAG,
    "bcqueuelen": WHOLE,
    "vlan": WHOLE,
    "vlan_qos": WHOLE,
    "vlan_proto": {"type": "str", "choices": ["802.1q", "802.1ad"]},
    "min_tx_rate": WHOLE,
    "max_tx_rate": WHOLE,
    "spoofchk": SWITCH,
    "trust": SWITCH,
    "link_state": {"type": "str", "choices": ["auto", "enable", "disable"]},
    "log_level": {"type": "str", "choices": ["panic", "error", "warning", "info", "debug"]},
    "log_file": TEXT,
    "pkey": {"type": "str", "no_log": False},
    "rdma_isolation": FLAG,
    "ib_kubernetes_enabled": FLAG,
    "ipam": {"type": "dict", "options": IPAM},
    "chain": {"type": "list", "elements": "dict", "options": CHAIN},
}


class Module(AnsibleModule):
    """Names the nearest option if one does not exist."""

    def fail_json(self, msg: str, **kwargs: t.Any) -> t.NoReturn:
        if msg.startswith("Unsupported parameters for"):
            msg += hint(msg)
        super().fail_json(msg, **kwargs)
        raise AssertionError("fail_json returned")


def hint(message: str) -> str:
    """Return the nearest options to those that Ansible calls unsupported."""
    # validate_sub_spec writes them as attachments.ipam.rnage.
    match = re.match(r"Unsupported parameters for .*? module: (.*?)\. Supported parameters include", message)
    meant = []
    for path in (match.group(1) if match else "").split(", "):
        where, dot, name = path.rpartition(".")
        known = {"attachments": ATTACHMENT, "attachments.ipam": IPAM, "attachments.chain": CHAIN}.get(where, {})
        close = difflib.get_close_matches(
            name.replace("_", "").lower(), [key.replace("_", "") for key in known], 1, 0.6
        )
        meant += [where + dot + key for key in known if close and key.replace("_", "") == close[0]]
    return " Did you mean %s?" % ", ".join(meant) if meant else ""


def main() -> None:
    module = Module(
        argument_spec={
            **CONNECTION,
            "owner": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "cni_version": {"type": "str", "default": "0.3.1"},
            "attachments": {"type": "list", "elements": "dict", "required": True, "options": ATTACHMENT},
            "node_info": {"type": "dict", "default": {}},
            "expected_pods": {"type": "raw"},
            "target_nodes": {"type": "list", "elements": "str", "default": []},
            "node_selector": {"type": "str"},
            "prune": {"type": "bool", "default": False},
            "prune_namespaces": {"type": "list", "elements": "str", "default": []},
            "prune_in_use": {"type": "bool", "default": False},
            "prune_all": {"type": "bool", "default": False},
            "ignore_lint": {"type": "list", "elements": "str", "default": []},
            "force": {"type": "bool", "default": False},
            "force_conflicts": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("target_nodes", "node_selector")],
        supports_check_mode=True,
    )
    try:
        result = manage(module.params, module.check_mode, lambda: connect(module))
    except (FabricError, OSError) as exc:
        fail(module, exc, **getattr(exc, "result", {}))
    for finding in result["lint"]:
        module.warn("%(code)s, %(attachment)s: %(problem)s" % finding)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
