#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_build
short_description: Build a container image with buildah if its inputs changed
version_added: 0.1.0
description:
  - Builds an image from a Containerfile and the files of its context, and writes it to an OCI archive or pushes it to a registry.
  - A hash over all inputs of the image is stored in its label C(rdmaops.gpu-fabric.inputs). While it stays the same, nothing is built. The hash does not
    include what the tag of a base image refers to in its registry. Specify the base image by digest, or set O(rebuild).
  - Used by the role P(rdmaops.gpu_fabric.training_image#role).
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
attributes:
  check_mode:
    support: full
    details:
      - Nothing is fetched or built, and the digest of what would be built is unknown. buildah may be missing then, because an earlier task may install it.
  diff_mode:
    support: full
    details:
      - Shows the hash over the inputs of the image.
  idempotent:
    support: full
    details:
      - Not with O(rebuild=true).
options:
  name:
    description: Full name of the image, V(HOST/PATH:TAG), which is also used to push it.
    type: str
    required: true
  containerfile:
    description: The text of the Containerfile.
    type: str
    required: true
  files:
    description: Files of the context.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name in the context, without a directory.
        type: str
        required: true
      content:
        description: The text.
        type: str
      src:
        description: URL, or absolute path on the host, instead of O(files[].content).
        type: str
      checksum:
        description:
          - V(sha256:) and the digest of O(files[].src). Required for a URL. If it is given, the file is read only if something is built.
        type: str
      mode:
        description: Mode of a file with O(files[].content), octal.
        type: str
        default: "0644"
  output:
    description: Where to write the image.
    type: str
    choices: [archive, registry]
    default: archive
  directory:
    description: Directory of archives, of the record of what was pushed, and of build contexts.
    type: path
    default: /var/lib/rdmaops/images
  isolation:
    description:
      - How buildah runs the steps. V(chroot) needs no container runtime.
      - With V(chroot) and as root, buildah runs in its own namespaces, using C(unshare) of util-linux, so that a build that takes too long or is interrupted
        ends with all processes that its steps have started, and with its mounts. With the other values this is up to the container runtime.
    type: str
    choices: [chroot, oci, rootless]
    default: chroot
  rebuild:
    description: Whether to build, write and push even if nothing has changed, for example because a base image's tag has moved or a registry has lost the
      image.
    type: bool
    default: false
  username:
    description: User name for the registry of O(name), used to push the image, and to pull a base image from that registry.
    type: str
  password:
    description: Password or token of that user.
    type: str
  auth_file:
    description: File on the host with logins, in the format that C(buildah login) writes, instead of O(username).
    type: path
  buildah_binary:
    description: Name or path of buildah.
    type: str
  timeout:
    description: Time limit for a build or a transfer, in seconds.
    type: int
    default: 7200
notes:
  - If a step writes to the file C(/run/rdmaops-build-error) and the build fails there, the content is part of the message, after the last lines of the step's
    output. With O(isolation=chroot), buildah can lose the output of a failing step. A step can redirect its standard error to the file. buildah leaves an empty
    file of that name in the image.
  - Registries without TLS, and mirrors, are configured in C(/etc/containers/registries.conf).
seealso:
  - module: rdmaops.gpu_fabric.container_image
"""

EXAMPLES = r"""
---
- name: Build an image with an additional package
  rdmaops.gpu_fabric.image_build:
    name: registry.example.com/ml/training:1
    containerfile: |
      FROM docker.io/library/debian:13
      RUN apt-get update && apt-get install -y perftest
"""

RETURN = r"""
digest:
  description: Digest of the image in the archive or the registry. Null in check mode if something would be built, written or pushed.
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
archive:
  description: Path of the OCI archive. Null with O(output=registry).
  returned: success
  type: str
  sample: /var/lib/rdmaops/images/registry.example.com_ml_training_1.tar
inputs:
  description: The hash over the inputs of the image.
  returned: success
  type: str
  sample: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Build registry.example.com/ml/training:1"]
resources:
  description: State of the inputs of the image before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: image_build
      name: registry.example.com/ml/training:1
      status: drift
      desired: 2c26b46b68ff
      configured: null
      live: absent
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._images.build import DIRECTORY, manage

FILE = {
    "name": {"type": "str", "required": True},
    "content": {"type": "str"},
    "src": {"type": "str"},
    "checksum": {"type": "str"},
    "mode": {"type": "str", "default": "0644"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "containerfile": {"type": "str", "required": True},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": FILE,
                "mutually_exclusive": [("content", "src")],
                "required_one_of": [("content", "src")],
            },
            "output": {"type": "str", "choices": ["archive", "registry"], "default": "archive"},
            "directory": {"type": "path", "default": DIRECTORY},
            "isolation": {"type": "str", "choices": ["chroot", "oci", "rootless"], "default": "chroot"},
            "rebuild": {"type": "bool", "default": False},
            "username": {"type": "str"},
            "password": {"type": "str", "no_log": True},
            "auth_file": {"type": "path"},
            "buildah_binary": {"type": "str"},
            "timeout": {"type": "int", "default": 7200},
        },
        required_together=[("username", "password")],
        mutually_exclusive=[("username", "auth_file")],
        supports_check_mode=True,
    )
    try:
        result = manage(module.params, module.check_mode)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
