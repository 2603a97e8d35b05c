#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_image
short_description: Keep an image in containerd, by name, digest and content
version_added: 0.1.0
description:
  - Sees to it that a name in one of containerd's namespaces means the image with a certain digest, and that all content of it is there for this machine.
    Every blob of the manifest has to be in the content store and as large as the manifest says. A name alone proves nothing, since content can be removed or
    be damaged behind it.
  - A name that has been moved to another digest, a blob that is missing and a blob of another size are drift. They are put right.
  - Content arrives under C(REPOSITORY@DIGEST) first. O(name) is given to it when it is complete. Where something fails, O(name) means what it meant before.
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
      - A registry is not asked, and what it refuses is found by a real run only. An archive is read and verified as in a real run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - Full name of the image, V(HOST/PATH:TAG) or V(HOST/PATH@sha256:DIGEST), as pods name it.
      - A pod that names an image by digest does not find it by its tag. Where both are used, both are to be present. The second name costs no transfer.
    type: str
    required: true
  state:
    description:
      - With V(present) the name means the image with O(digest), and its content is complete.
      - With V(absent) there is no such name. Content that no other name needs is then removed by containerd. Running containers keep what they use. Only
        O(name), O(namespace), O(address) and O(ctr_binary) count.
    type: str
    choices: [present, absent]
    default: present
  digest:
    description:
      - Digest of the image, V(sha256:) and 64 hexadecimal digits, of its manifest or of the index that has a manifest for this machine.
      - Required with O(source=registry), unless O(name) has it. With O(source=archive) it is read from the archive where it is not given, and an archive with
        another one is refused.
      - An archive of C(docker save) without C(index.json) has no digest of its own. It gets the one that containerd gives it.
    type: str
  source:
    description: Where the image comes from when it is not there, or not complete.
    type: str
    choices: [registry, archive]
    default: registry
  archive:
    description:
      - Absolute path of an OCI archive or a Docker archive on the host. It is read as a whole before anything is imported.
      - Where O(digest) is given and the image is there, it is not looked at and may be gone.
    type: path
  username:
    description: User of the registry.
    type: str
  password:
    description:
      - Password or token of that user, at most 4000 bytes. It is typed into C(ctr) through a terminal and does not appear among its arguments.
    type: str
  auth_file:
    description:
      - File on the host with the login, as C(docker login) writes it and as a Kubernetes pull secret has it under C(.dockerconfigjson). The entry with the
        longest matching path is taken.
    type: path
  hosts_dir:
    description:
      - Directory with C(HOST/hosts.toml), by which containerd knows mirrors, certificates and registries without TLS.
      - By default C(/etc/containerd/certs.d), where that exists.
    type: path
  namespace:
    description: containerd's namespace. Kubernetes uses V(k8s.io).
    type: str
    default: k8s.io
  address:
    description: Path of containerd's socket.
    type: path
    default: /run/containerd/containerd.sock
  ctr_binary:
    description: Name or path of C(ctr). By default it is looked for in E(PATH) and where distributions put it.
    type: str
  timeout:
    description: How long a transfer may take, in seconds.
    type: int
    default: 1800
notes:
  - C(ctr) talks to the registry, and containerd does not. A proxy has to be in the environment of the task.
  - C(ctr) also sends O(username) and O(password) to a host to which the registry redirects, if that host asks for a login (seen with containerd 1.6.20).
    Use a token that may only pull from this registry.
  - With C(discard_unpacked_layers) in containerd's configuration, images that kubelet pulls have no layers in the content store. Such an image counts as
    incomplete, and is pulled again.
"""

EXAMPLES = r"""
---
- name: Have the training image on the node, from the registry
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.11
    digest: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
    username: pull
    password: "{{ registry_password }}"

- name: Have it from an archive, where nodes reach no registry
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.11
    source: archive
    archive: /mnt/images/training.tar

- name: Take an old one away
  rdmaops.gpu_fabric.container_image:
    name: registry.example.com/ml/training:2026.10
    state: absent
"""

RETURN = r"""
digest:
  description: Digest that was wanted, given or read from the archive. Null with O(state=absent).
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
live:
  description: Digest that the name meant before anything was done. Null where there was no such name.
  returned: success
  type: str
  sample: sha256:7f0f2590a171f96da0ea0143dbe45edd6a3cd876d406f7be8271bf1f418f8eef
content:
  description: What was found of the image's content for this machine. Null where the name meant no or another image.
  returned: success
  type: dict
  contains:
    required:
      description: Number of blobs that are known to be needed. Behind a manifest that is missing or damaged, there may be more.
      type: int
      returned: success
    missing:
      description: Digests of blobs that were not in the content store.
      type: list
      elements: str
      returned: success
    damaged:
      description: Digests of blobs that had another size, and of manifests that had another content.
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
