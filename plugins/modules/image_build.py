#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_build
short_description: Build a container image with buildah, where something that it is made of changed
version_added: 0.1.0
description:
  - Builds an image from a Containerfile and the files of its context, and writes it to an OCI archive or pushes it to a registry.
  - A hash over all that the image is made of is a label of the image, C(rdmaops.gpu-fabric.inputs). While it is the same, nothing is built. What the tag of a
    base image means in its registry is not part of it. Give the base image by digest, or set O(rebuild).
  - Serves the role P(rdmaops.gpu_fabric.training_image#role).
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
      - Nothing is fetched or built, and the digest of what would be built is not known. buildah may be missing then, since an earlier task may be what
        installs it.
  diff_mode:
    support: full
    details:
      - Shows the hash over what the image is made of.
  idempotent:
    support: full
    details:
      - Not with O(rebuild=true).
options:
  name:
    description: Full name of the image, V(HOST/PATH:TAG), under which it is pushed, too.
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
        description: URL, or absolute path on the host, in place of O(files[].content).
        type: str
      checksum:
        description:
          - V(sha256:) and the digest of O(files[].src). Required for a URL. With it, the file is read where something is built and not before.
        type: str
      mode:
        description: Mode of a file with O(files[].content), octal.
        type: str
        default: "0644"
  output:
    description: Where the image goes.
    type: str
    choices: [archive, registry]
    default: archive
  directory:
    description: Directory of archives, of the record of what was pushed, and of contexts while something is built.
    type: path
    default: /var/lib/rdmaops/images
  isolation:
    description:
      - How buildah runs the steps. V(chroot) needs no container runtime.
      - With V(chroot) and as root, buildah runs by C(unshare) of util-linux in namespaces of its own, so that a build that takes too long or is interrupted
        ends with every process that its steps have started, and with its mounts. With the others it is up to the container runtime.
    type: str
    choices: [chroot, oci, rootless]
    default: chroot
  rebuild:
    description: Whether to build, write and push although nothing has changed, as when a base image's tag has moved or a registry has lost the image.
    type: bool
    default: false
  username:
    description: User of the registry of O(name), to push the image, and to pull a base image that is in it, too.
    type: str
  password:
    description: Password or token of that user.
    type: str
  auth_file:
    description: File on the host with logins, as C(buildah login) writes it, in place of O(username).
    type: path
  buildah_binary:
    description: Name or path of buildah.
    type: str
  timeout:
    description: How long a build or a transfer may take, in seconds.
    type: int
    default: 7200
notes:
  - What a step writes to the file C(/run/rdmaops-build-error) is part of the message when the build fails there, after the last lines of the step's output.
    With O(isolation=chroot), buildah can lose the output of a step that fails. A step can redirect its standard error to the file. buildah leaves an empty
    file of that name in the image.
  - Which registries have no TLS, and where mirrors are, stands in C(/etc/containers/registries.conf).
seealso:
  - module: rdmaops.gpu_fabric.container_image
"""

EXAMPLES = r"""
---
- name: Build an image with one more package
  rdmaops.gpu_fabric.image_build:
    name: registry.example.com/ml/training:1
    containerfile: |
      FROM docker.io/library/debian:13
      RUN apt-get update && apt-get install -y perftest
"""

RETURN = r"""
digest:
  description: Digest of the image in the archive or the registry. Null in check mode where something would be built, written or pushed.
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
archive:
  description: Path of the OCI archive. Null with O(output=registry).
  returned: success
  type: str
  sample: /var/lib/rdmaops/images/registry.example.com_ml_training_1.tar
inputs:
  description: The hash over what the image is made of.
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
  description: What the image was made of before anything was done, as the drift report reads it.
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
