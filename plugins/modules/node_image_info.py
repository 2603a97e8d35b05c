#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_image_info
short_description: Find the digest of an image that the nodes of a cluster have
version_added: 0.1.0
description:
  - Returns the digest of the image that the nodes have under a name with a tag, as their status in the cluster lists it. Pods that name the image by this
    digest run the same program on every node, even if the tag moves.
  - It is an error if no node lists the image, or if nodes have different images of that name.
  - A kubelet lists its 50 largest images (C(nodeStatusMaxImages)).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._kubernetes
attributes:
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the image, with its tag and without a digest.
    type: str
    required: true
  wait:
    description: How long to wait, in seconds, until the nodes list one image of that name. A kubelet lists a new image after half a minute or so.
    type: int
    default: 60
seealso:
  - module: rdmaops.gpu_fabric.container_image
"""

EXAMPLES = r"""
---
- name: Find out which image the nodes have
  rdmaops.gpu_fabric.node_image_info:
    name: registry.example.com/ml/training:2026.11
  register: image
"""

RETURN = r"""
reference:
  description: The image by its digest.
  returned: success
  type: str
  sample: registry.example.com/ml/training@sha256:0f1e...
digest:
  description: The digest.
  returned: success
  type: str
  sample: sha256:0f1e...
nodes:
  description: Nodes that have it.
  returned: success
  type: list
  elements: str
  sample: [gpu-1, gpu-2]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubernetes import client
from ..module_utils._training_job.image import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **client.CONNECTION,
            "name": {"type": "str", "required": True},
            "wait": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    client.run(module, manage)


if __name__ == "__main__":
    main()
