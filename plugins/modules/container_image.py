#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_image
short_description: Manage an image in containerd by name, digest and content
version_added: 0.1.0
description:
  - Ensures that a name in one of containerd's namespaces refers to the image with a certain digest, and that all content of it for this machine is present.
    Every blob of the manifest must be in the content store and have the size given in the manifest. A name alone proves nothing, because the content behind it
    can be removed or damaged.
  - A name that refers to another digest, a missing blob and a blob of another size are drift, and are repaired.
  - Content is first imported under C(REPOSITORY@DIGEST). O(name) is assigned once it is complete. If something fails, O(name) refers to the same image as
    before.
  - Works with containerd 1.6 to 2.x, through its client C(ctr).
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
      - Registries are not contacted, and only a real run detects what they refuse. An archive is read and verified as in a real run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - Full name of the image, V(HOST/PATH:TAG) or V(HOST/PATH@sha256:DIGEST), as pods refer to it.
      - A pod that refers to an image by digest does not find it by its tag. If both are used, both must be present. The second name needs no transfer.
    type: str
    required: true
  state:
    description:
      - With V(present), the name refers to the image with O(digest), and its content is complete.
      - With V(absent), the name does not exist. containerd then removes content that no other name needs. Running containers keep what they use. Only O(name),
        O(namespace), O(address) and O(ctr_binary) are used.
    type: str
    choices: [present, absent]
    default: present
  digest:
    description:
      - Digest of the image, V(sha256:) and 64 hexadecimal digits, either of its manifest or of the index that has a manifest for this machine.
      - Required with O(source=registry), unless O(name) contains it. With O(source=archive), it is read from the archive if it is not given, and an archive
        with another digest is refused.
      - An archive of C(docker save) without C(index.json) has no digest. It gets the one that containerd assigns to it.
    type: str
  source:
    description: Where the image comes from if it is missing or incomplete.
    type: str
    choices: [registry, archive]
    default: registry
  archive:
    description:
      - Absolute path of an OCI archive or a Docker archive on the host. It is read completely before anything is imported.
      - If O(digest) is given and the image is present, the archive is not read and may be missing.
    type: path
  username:
    description: User name for the registry.
    type: str
  password:
    description:
      - Password or token of that user, at most 4000 bytes. It is typed into C(ctr) through a terminal and does not appear among its arguments.
    type: str
  auth_file:
    description:
      - File on the host with the login, in the format that C(docker login) writes and that a Kubernetes pull secret has under C(.dockerconfigjson). The entry
        with the longest matching path is used.
    type: path
  hosts_dir:
    description:
      - Directory with C(HOST/hosts.toml), which defines mirrors, certificates and registries without TLS for containerd.
      - By default C(/etc/containerd/certs.d), if that exists.
    type: path
  namespace:
    description: The containerd namespace. Kubernetes uses V(k8s.io).
    type: str
    default: k8s.io
  address:
    description: Path of containerd's socket.
    type: path
    default: /run/containerd/containerd.sock
  ctr_binary:
    description: Name or path of C(ctr). By default it is searched for in E(PATH) and where distributions install it.
    type: str
  timeout:
    description: Time limit for a transfer, in seconds.
    type: int
    default: 1800
notes:
  - C(ctr) talks to the registry, containerd does not. A proxy must be set in the environment of the task.
  - C(ctr) also sends O(username) and O(password) to a host to which the registry redirects, if that host requests a login (seen with containerd 1.6.20). Use a
    token that may only pull from this registry.
  - With C(discard_unpacked_layers) in containerd's configuration, images pulled by the kubelet have no layers in the content store. Such an image counts as
    incomplete and is pulled again.
"""

EXAMPLES = r"""
---
- name: Pull the training image to the node
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.11
    digest: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
    username: pull
    password: "{{ registry_password }}"

- name: Import it from an archive, if nodes cannot reach a registry
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.11
    source: archive
    archive: /mnt/images/training.tar

- name: Remove an old image
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.10
    state: absent
"""

RETURN = r"""
digest:
  description: The desired digest, given or read from the archive. Null with O(state=absent).
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
live:
  description: Digest that the name referred to before anything was done. Null if the name did not exist.
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
content:
  description: State of the image's content for this machine. Null if the name referred to no image or to another one.
  returned: success
  type: dict
  contains:
    required:
      description: Number of blobs known to be required. There may be more behind a missing or damaged manifest.
      type: int
      returned: success
    missing:
      description: Digests of blobs that were not in the content store.
      type: list
      elements: str
      returned: success
    damaged:
      description: Digests of blobs with another size, and of manifests with other content.
      type: list
      elements: str
      returned: success
  sample: {"required": 3, "missing": [], "damaged": []}
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample:
    - Pull registry.example.com/ml/training@sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
resources:
  description: State of the image before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: container_image
      name: registry.example.com/ml/training:2026.11
      status: drift
      desired: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
      configured: null
      live: absent
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._images.containerd import ADDRESS, NAMESPACE
from ..module_utils._images.manage import manage


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "digest": {"type": "str"},
            "source": {"type": "str", "choices": ["registry", "archive"], "default": "registry"},
            "archive": {"type": "path"},
            "username": {"type": "str"},
            "password": {"type": "str", "no_log": True},
            "auth_file": {"type": "path"},
            "hosts_dir": {"type": "path"},
            "namespace": {"type": "str", "default": NAMESPACE},
            "address": {"type": "path", "default": ADDRESS},
            "ctr_binary": {"type": "str"},
            "timeout": {"type": "int", "default": 1800},
        },
        required_if=[("source", "archive", ["archive"])],
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
