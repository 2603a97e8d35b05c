#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cni_install
short_description: Install CNI plugins with their configurations and kubeconfigs
version_added: 0.1.0
description:
  - Manages CNI plugins from pinned archives or single programs, the configurations that use them, and kubeconfigs of service accounts on a host. All are
    compared in one module process.
  - A download is verified before anything from it is installed, and a plugin is replaced by renaming, so that a running one is not disturbed.
  - What this module has installed is recorded in O(record). Everything else in the directories belongs to others. It is never removed, and a configuration that
    belongs to others is never overwritten.
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
      - Nothing is downloaded. Only a real run detects a download that fails or has another checksum.
  diff_mode:
    support: full
    details:
      - Plugins are shown by name and checksum, kubeconfigs without their token.
  idempotent:
    support: full
options:
  state:
    description:
      - V(absent) removes what this module has installed, regardless of O(sources), O(configs) and O(kubeconfigs).
    type: str
    choices: [present, absent]
    default: present
  bin_dir:
    description: Directory of the CNI plugins.
    type: path
    default: /opt/cni/bin
  sources:
    description: Where plugins come from. Anything from a source that is no longer listed is removed.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the source, used in messages and in O(record).
        type: str
        required: true
      url:
        description: A tar archive or a single program, given as a URL, a V(file://) URL or an absolute path on the host.
        type: str
        required: true
      checksum:
        description:
          - V(sha256:) and the digest of the file at O(sources[].url), 64 hexadecimal digits in lower case.
          - A checksum file is not accepted, because it comes from the same place as the program, and anyone who changes one can change the other.
        type: str
        required: true
      files:
        description: Names of the plugins to install from it. A single program is installed under the one name given.
        type: list
        elements: str
        required: true
  on_foreign:
    description:
      - What to do about a plugin of that name that this module has not installed. V(keep) uses it as it is, V(fail) stops, V(take_over) replaces it.
    type: str
    choices: [keep, fail, take_over]
    default: keep
  configs:
    description: Files, written as a whole, after the plugins and kubeconfigs.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The text.
        type: str
        required: true
      delegate:
        description:
          - Absolute path of another CNI configuration, which becomes the only entry of C(delegates) in O(configs[].content), which then must be JSON. A change
            of that file is a change of this one.
        type: path
      public:
        description: Whether the file is world-readable.
        type: bool
        default: false
  kubeconfigs:
    description: Kubeconfigs of service accounts. Only root can read them.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      server:
        description: URL of the API server as seen from this host.
        type: str
        required: true
      ca_data:
        description: Its CA certificates, PEM in Base64.
        type: str
        required: true
      namespace:
        description: Namespace of the context.
        type: str
        default: kube-system
      user:
        description: Name of the service account.
        type: str
        required: true
      node_uid:
        description: UID of the Node object to which the token must be bound. A token that is not bound, or is bound to another object, is replaced.
        type: str
      renew_before:
        description: How many seconds before its expiry a token is replaced.
        type: int
        default: 2592000
  tokens:
    description:
      - Tokens by service account. A token is used if a kubeconfig has none that is valid for longer than O(kubeconfigs[].renew_before).
    type: dict
    default: {}
  mirror:
    description:
      - Base URL, or directory on the host, that replaces that of O(sources[].url). File names stay the same, and so does O(sources[].checksum).
    type: str
    default: ""
  record:
    description: File that records what this module has installed.
    type: path
    default: /var/lib/rdmaops/cni.json
  timeout:
    description: How long to wait for a download server, in seconds.
    type: int
    default: 60
seealso:
  - module: rdmaops.gpu_fabric.network_info
  - module: rdmaops.gpu_fabric.service_account_token
"""

EXAMPLES = r"""
---
- name: Install the standard plugins
  rdmaops.gpu_fabric.cni_install:
    sources:
      - name: cni-plugins
        url: https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz
        checksum: sha256:b98f74a0f8522f0a83867178729c1aa70f2158f90c45a2ca8fa791db1c76b303
        files: [host-device, macvlan, ipvlan, tuning]
"""

RETURN = r"""
kept:
  description: What was left as it is because it belongs to others.
  returned: success
  type: list
  elements: str
  sample: ["/opt/cni/bin/bridge: not installed by this collection"]
token_needed:
  description: Kubeconfigs that have no valid token and for which none was given.
  returned: success
  type: list
  elements: str
  sample: ["/etc/cni/net.d/multus.d/multus.kubeconfig"]
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Install host-device, macvlan in /opt/cni/bin from /mnt/mirror/cni-plugins.tgz"]
resources:
  description: State of each source, configuration and kubeconfig before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "cni_plugins", "name": "cni-plugins", "status": "drift", "desired": "present", "configured": "absent", "live": "absent", "next_boot": null}
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cni.install import RECORD, manage
from ..module_utils._errors import FabricError, fail

SOURCE = {
    "name": {"type": "str", "required": True},
    "url": {"type": "str", "required": True},
    "checksum": {"type": "str", "required": True},
    "files": {"type": "list", "elements": "str", "required": True},
}
FILE = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True},
    "delegate": {"type": "path"},
    "public": {"type": "bool", "default": False},
}
KUBECONFIG = {
    "path": {"type": "path", "required": True},
    "server": {"type": "str", "required": True},
    "ca_data": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "kube-system"},
    "user": {"type": "str", "required": True},
    "node_uid": {"type": "str"},
    "renew_before": {"type": "int", "default": 2592000},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "bin_dir": {"type": "path", "default": "/opt/cni/bin"},
            "sources": {"type": "list", "elements": "dict", "default": [], "options": SOURCE},
            "on_foreign": {"type": "str", "choices": ["keep", "fail", "take_over"], "default": "keep"},
            "configs": {"type": "list", "elements": "dict", "default": [], "options": FILE},
            "kubeconfigs": {"type": "list", "elements": "dict", "default": [], "options": KUBECONFIG},
            "tokens": {"type": "dict", "default": {}, "no_log": True},
            "mirror": {"type": "str", "default": ""},
            "record": {"type": "path", "default": RECORD},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = manage(module.params, module.check_mode, time.time())
    except FabricError as exc:
        fail(module, exc)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
