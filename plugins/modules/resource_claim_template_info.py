#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_claim_template_info
short_description: Check whether any node has devices for a ResourceClaimTemplate
version_added: 0.1.0
description:
  - Compares templates for device claims (dynamic resource allocation, C(resource.k8s.io/v1)) with the devices that DRA drivers publish in ResourceSlices, and
    says of each node whether it has devices for a pod with such a claim. A pod whose claim no node can satisfy stays pending, with an event that counts nodes.
  - For each template that no node can satisfy, a sentence says which request or constraint it fails on, what the devices have instead, and which other
    attribute of a constraint has a solution.
  - What devices are allocated to claims at the moment does not matter. It asks whether the template can ever be satisfied, and not whether it can be now.
  - Expressions (CEL) of classes and requests are evaluated by the Python library C(cel-python). One that it cannot evaluate leaves the template unknown.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  templates:
    description:
      - The templates, as objects of the API of the kind C(ResourceClaimTemplate), or claims, of the kind C(ResourceClaim). Without any, those of all namespaces
        of the cluster.
    type: list
    elements: dict
    default: []
  device_classes:
    description: Objects of the kind C(DeviceClass) that count besides those of the cluster, because they are about to be created.
    type: list
    elements: dict
    default: []
  namespace:
    description: Namespace of templates that do not specify one.
    type: str
    default: default
  nodes:
    description:
      - Names of the Node objects on which pods with these claims are intended to run. Without any, all nodes that have a ResourceSlice.
    type: list
    elements: str
    default: []
  on_impossible:
    description:
      - Whether the module fails if no node can satisfy a template, or if a driver would refuse its parameters.
    type: str
    choices: [fail, warn]
    default: fail
notes:
  - Requires the rights to list C(resourceslices), C(deviceclasses), C(resourceclaims) and C(devicetaintrules) of C(resource.k8s.io), and, without O(templates),
    C(resourceclaimtemplates).
  - Counters that devices share (partitions of a GPU) and capacities that several claims consume are not counted. With them, V(possible) is an upper bound.
  - "Codes of RV(lint). A request: V(class_missing), V(driver_missing), V(none_selected), V(device_tainted), V(expression_aborts), V(too_few_devices).
    A constraint: V(split), V(same_value), V(attribute_missing), V(too_few_together). Parameters: V(parameters), V(wrong_driver). Unknown:
    V(device_in_use), V(expression_unknown), V(attribute_list), V(undecided)."
requirements:
  - cel-python, on the host that the module runs on
seealso:
  - module: rdmaops.gpu_fabric.network_attachment
  - name: Dynamic Resource Allocation
    description: Concepts and objects, in the documentation of Kubernetes.
    link: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

EXAMPLES = r"""
---
- name: Check every template of the cluster
  rdmaops.gpu_fabric.resource_claim_template_info:
    on_impossible: warn

- name: Check a pod with a GPU and the RDMA card beside it, before it is created
  rdmaops.gpu_fabric.resource_claim_template_info:
    templates:
      - apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: pair, namespace: ml}
        spec:
          spec:
            devices:
              requests:
                - name: gpu
                  exactly: {deviceClassName: gpu.nvidia.com}
                - name: nic
                  exactly:
                    deviceClassName: dra.net
                    selectors:
                      - cel:
                          expression: has(device.attributes["dra.net"].rdma) && device.attributes["dra.net"].rdma
              constraints:
                - requests: [gpu, nic]
                  matchAttribute: resource.kubernetes.io/pcieRoot
"""

RETURN = r"""
templates:
  description: What is known of each template.
  returned: success, or a failure because of an impossible template
  type: list
  elements: dict
  sample:
    - template: ml/pair
      status: possible
      nodes: {"gpu-01": "possible", "gpu-02": "impossible"}
  contains:
    template:
      description: Namespace and name.
      type: str
    status:
      description: V(possible) if any node has devices for it; else V(unknown) if only the scheduler can say it of some node, or V(impossible).
      type: str
    nodes:
      description: The same for each node.
      type: dict
lint:
  description: The findings. A node that cannot satisfy a template that others can is a warning.
  returned: success, or a failure because of an impossible template
  type: list
  elements: dict
  sample:
    - level: warning
      code: split
      template: ml/pair
      nodes: [gpu-02]
      problem: >-
        on 1 of 2 nodes (gpu-02), requests gpu, nic cannot have one value of resource.kubernetes.io/pcieRoot: gpu has pci0000:00, pci0000:10;
        nic has pci0000:80
      remedy: With matchAttribute resource.kubernetes.io/numaNode there is a solution, where that is close enough. Ask for devices that sit together
unknown:
  description: What could not be looked at. C(node) is null if it concerns all of them.
  returned: success, or a failure because of an impossible template
  type: list
  elements: dict
  sample: [{"node": "gpu-03", "what": "pool gpu-03 of dra.net has 1 of its 2 ResourceSlices; the driver is writing them, or has stopped"}]
resources:
  description: State of each template, as the drift report reads it.
  returned: success, or a failure because of an impossible template
  type: list
  elements: dict
  sample:
    - kind: resource_claim_template
      name: ml/pair
      status: in_sync
      desired: a node with devices for it
      configured: null
      live: possible
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._claims.manage import manage
from ..module_utils._kubernetes import client


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "templates": {"type": "list", "elements": "dict", "default": []},
            "device_classes": {"type": "list", "elements": "dict", "default": []},
            "namespace": {"type": "str", "default": "default"},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "on_impossible": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
