#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_secret
short_description: Manage SSH keys for the pods of one deployment
version_added: 0.1.0
description:
  - Creates a Secret with a host key (C(ssh_host_ed25519_key)), a login key (C(id_ed25519)) and C(authorized_keys), which allows the login key. The entry point
    of an image of P(rdmaops.gpu_fabric.training_image#role) reads it.
  - A Secret whose keys are complete and match is left as it is. If keys are missing or damaged, both are created again.
  - Keys are created with C(ssh-keygen) on the host where the module runs, in a directory that is removed immediately. No result, diff or message contains them.
  - To remove the Secret, use M(rdmaops.gpu_fabric.cluster_objects) with the same owner.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._kubernetes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the names of keys, and what is wrong with them.
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the Secret.
    type: str
    required: true
  namespace:
    description: Its namespace, which must exist.
    type: str
    default: default
  owner:
    description: Owner of the Secret, as in M(rdmaops.gpu_fabric.cluster_objects). A Secret of another owner is refused.
    type: str
    required: true
  labels:
    description: Labels of a new Secret.
    type: dict
    default: {}
seealso:
  - module: rdmaops.gpu_fabric.cluster_objects
"""

EXAMPLES = r"""
---
- name: Create keys for the pods of one job
  rdmaops.gpu_fabric.ssh_secret:
    name: resnet-ssh
    namespace: ml
    owner: training-job-resnet
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode.
  returned: success
  type: list
  elements: str
  sample: ["Make Secret ml/resnet-ssh"]
resources:
  description:
    - The Secret before anything was done, as the drift report reads it.
    - C(live) is V(keys), V(absent), or what is wrong with the keys.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: Secret
      name: ml/resnet-ssh
      status: drift
      desired: keys
      configured: null
      live: absent
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._kubernetes.ssh_secret import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "owner": {"type": "str", "required": True},
            "labels": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
