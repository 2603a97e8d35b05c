#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Manage a set of Kubernetes objects that belong to one owner
version_added: 0.1.0
description:
  - Applies a set of manifests in one module process with server-side apply, namespaces and CustomResourceDefinitions first.
  - The API server itself determines what would change, in a dry run of the same request. Spelling, key order and defaults do not count as a change. Unknown
    fields are an error and are not silently dropped.
  - It works in check mode before the CustomResourceDefinitions exist, when M(kubernetes.core.k8s) does not know their kinds.
  - Each object gets the label C(rdmaops.gpu-fabric/owner). An existing object with another owner, or none, stops the module before anything is written.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Objects that depend on a CustomResourceDefinition or a namespace that does not exist yet cannot be checked by the API server, and are shown as given.
  diff_mode:
    support: full
    details:
      - The data of Secrets is hidden.
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  owner:
    description: Name of the set. It is a label of each object and part of the field manager's name.
    type: str
    required: true
  state:
    description:
      - V(absent) removes the given objects, as far as they belong to this owner.
    type: str
    choices: [present, absent]
    default: present
  objects:
    description: Manifests.
    type: list
    elements: dict
    default: []
  files:
    description: YAML files with manifests, on the host where the module runs. A file may contain several documents.
    type: list
    elements: path
    default: []
  namespace:
    description: Namespace of objects that do not specify one.
    type: str
    default: default
  namespaces:
    description:
      - Manifests of namespaces that are created if an object of the set needs them and they do not exist. C(apiVersion) and C(kind) may be omitted.
      - They do not belong to the set, but to the owner V(namespaces), as several sets may use them. An existing one is left as it is.
    type: list
    elements: dict
    default: []
  prune:
    description:
      - Whether to remove this owner's objects that are not in the set, of the kinds in the set and of O(prune_kinds).
      - Namespaced objects are searched for in O(namespace), in the namespaces of O(objects) and in O(prune_namespaces), and nowhere else. Cluster-scoped kinds
        are searched for in the whole cluster, so two installations in one cluster need two values of O(owner).
    type: bool
    default: false
  prune_kinds:
    description: Additional kinds to search, as V(VERSION/KIND) or V(GROUP/VERSION/KIND).
    type: list
    elements: str
    default: []
  prune_namespaces:
    description: Additional namespaces to search, such as one that the set no longer uses.
    type: list
    elements: str
    default: []
  remove_definitions:
    description: Consent to remove namespaces and CustomResourceDefinitions, with everything in them.
    type: bool
    default: false
  adopt:
    description: Consent to take over objects of the set that exist and do not belong to this owner.
    type: bool
    default: false
  force_conflicts:
    description: Whether to take over fields that another manager has set.
    type: bool
    default: false
  wait_timeout:
    description: How long to wait for a CustomResourceDefinition to be served, in seconds.
    type: int
    default: 60
seealso:
  - module: kubernetes.core.k8s
"""

EXAMPLES = r"""
---
- name: Create a namespace and an account
  rdmaops.gpu_fabric.cluster_objects:
    owner: training
    objects:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: training
      - apiVersion: v1
        kind: ServiceAccount
        metadata:
          name: launcher
          namespace: training
    prune: true
"""

RETURN = r"""
kept:
  description: What should have been removed and was not, and why.
  returned: success
  type: list
  elements: str
  sample: ["Namespace training: what is in it would go too; consent by remove_definitions"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Make Namespace training", "Make ServiceAccount training/launcher"]
resources:
  description: State of each object before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "Namespace", "name": "training", "status": "drift", "desired": "present", "configured": null, "live": "absent", "next_boot": null}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._kubernetes.manifests import secrets
from ..module_utils._kubernetes.object_set import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "owner": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "files": {"type": "list", "elements": "path", "default": []},
            "namespace": {"type": "str", "default": "default"},
            "namespaces": {"type": "list", "elements": "dict", "default": []},
            "prune": {"type": "bool", "default": False},
            "prune_kinds": {"type": "list", "elements": "str", "default": []},
            "prune_namespaces": {"type": "list", "elements": "str", "default": []},
            "remove_definitions": {"type": "bool", "default": False},
            "adopt": {"type": "bool", "default": False},
            "force_conflicts": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(secrets(module.params["objects"]))
    client.run(module, manage)


if __name__ == "__main__":
    main()
