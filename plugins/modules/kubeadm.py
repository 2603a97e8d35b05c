#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm
short_description: Create, join, reset or renew a node of a cluster with kubeadm
version_added: 0.1.0
description:
  - Runs one action of kubeadm on a host. M(rdmaops.gpu_fabric.kubernetes_plan) determines which action is due from the output of
    M(rdmaops.gpu_fabric.kubernetes_node_info). This module carries it out.
  - Configurations are passed in a file that only root can read and that is deleted afterwards. Tokens and keys appear neither among the arguments of a program
    nor in the result, except with O(action=token), whose result is secret.
  - Only one module at a time changes a host with kubeadm. V(init), V(join), V(reset), V(renew) and V(unmark) hold a lock, V(/run/rdmaops/kubeadm.lock), and
    kubeadm keeps holding it if it outlives the module. Another module is refused, with the PID, the action and the time at which it started.
  - While C(kubeadm init) or C(kubeadm join) is running, V(/var/lib/rdmaops/kubeadm-started.json) contains its name and process. An interrupted attempt is
    recognized by that file - its process has ended, or the host has booted since.
  - Before anything is changed, the host is checked again under the lock. A host that has become a node in the meantime, through another run or an
    administrator, is left alone.
  - A worker whose C(kubeadm join) ended because the API server did not answer its request for the Node within 10 seconds is cleaned up and joined again, up to
    five times. kubeadm has started nothing by then.
  - Before C(kubeadm reset) removes etcd data, it is copied to V(/var/lib/rdmaops/etcd-<time>) and kept there - as C(snapshot.db), using C(etcdctl), if it is
    installed and the member runs, else as C(member), the files of the member, which is stopped for the copy and started again. If no copy can be made, nothing
    is removed.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.linux
  - rdmaops.gpu_fabric._attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - RV(actions) shows what an action is about to do.
  idempotent:
    support: none
    details:
      - It always carries out the action. C(kubeadm init) and C(kubeadm join) themselves refuse a host that is already a node.
options:
  action:
    description:
      - V(init) creates the first control-plane node, V(join) an additional node of the kind described in O(documents).
      - V(token) creates a bootstrap token, V(token_absent) deletes it.
      - V(reset) removes the host from its cluster. Everything that kubeadm has created on it is deleted, including a control-plane node's copy of the cluster's
        data.
      - V(renew) renews certificates (with O(renew=true)) and restarts the static pods one by one, so that they read the new certificates.
      - V(unmark) removes the mark of an unfinished V(init) or V(join) on a host that has nevertheless become a node.
    type: str
    choices: [init, join, token, token_absent, reset, renew, unmark]
    required: true
  documents:
    description: Configuration for kubeadm, as returned by the filter P(rdmaops.gpu_fabric.kubeadm_config#filter), without secrets.
    type: list
    elements: dict
    default: []
  clean:
    description:
      - Whether to remove the leftovers of an interrupted O(action=init) or O(action=join) with C(kubeadm reset) before it is tried again.
      - It never removes a control plane that responds, or whose manifests are complete and whose etcd has data.
    type: bool
    default: false
  discard_etcd:
    description: Whether O(clean=true) may remove etcd data. With V(false), a host with such data is left as it is.
    type: bool
    default: false
  without_backup_ok:
    description: Whether etcd data may be removed even if no copy of it could be made. A warning reports it.
    type: bool
    default: false
  token:
    description: Bootstrap token for O(action=join), required except in check mode.
    type: str
  certificate_key:
    description: Key to the certificates in the cluster, for O(action=join) of a control-plane node.
    type: str
  upload_certificates:
    description:
      - Whether O(action=token) also stores the control plane's certificates in the cluster, encrypted, and O(action=token_absent) removes them.
    type: bool
    default: false
  token_id:
    description: The public part of a token, for O(action=token_absent).
    type: str
  token_ttl:
    description: How long a token is valid, in seconds.
    type: int
    default: 1800
  renew:
    description: Whether O(action=renew) creates new certificates. If V(false), it only restores static pods that an earlier run has stopped.
    type: bool
    default: true
  bind_port:
    description: Port of the API server on this host.
    type: int
    default: 6443
  ignore_preflight_errors:
    description: Preflight checks of kubeadm whose errors are ignored, by the names that kubeadm prints.
    type: list
    elements: str
    default: []
  program_dirs:
    description: Directories to search for programs, in addition to those of the system.
    type: list
    elements: path
    default: [/usr/local/bin]
  timeout:
    description: Time limit for kubeadm, in seconds.
    type: int
    default: 900
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_node_info
  - plugin: rdmaops.gpu_fabric.kubeadm_config
    plugin_type: filter
notes:
  - Requires C(openssl) on a host that has certificates of kubeadm or of the kubelet.
"""

EXAMPLES = r"""
---
- name: Create a token for the nodes that join now
  rdmaops.gpu_fabric.kubeadm:
    action: token
    token_ttl: 900
  no_log: true
  register: made

- name: Join
  rdmaops.gpu_fabric.kubeadm:
    action: join
    documents: "{{ settings | rdmaops.gpu_fabric.kubeadm_config('join', node, pin=authority.pin) }}"
    token: "{{ made.token }}"
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Join the cluster by kubeadm join"]
etcd_backup:
  description: The directory with the copy of the removed etcd data.
  returned: O(action=reset) or O(clean=true), if there was such data, not in check mode
  type: str
  sample: /var/lib/rdmaops/etcd-20260401T120000Z
token:
  description: The token.
  returned: O(action=token), not in check mode
  type: str
  sample: abcdef.0123456789abcdef
token_id:
  description: Its public part.
  returned: O(action=token), not in check mode
  type: str
  sample: abcdef
certificate_key:
  description: The key to the certificates stored in the cluster.
  returned: O(action=token) with O(upload_certificates=true), not in check mode
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import FabricError
from ..module_utils._kubeadm.manage import Kubeadm, manage
from ..module_utils._kubeadm.run import runner
from ..module_utils._kubeadm.work import Work


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "action": {
                "type": "str",
                "choices": ["init", "join", "token", "token_absent", "reset", "renew", "unmark"],
                "required": True,
            },
            "documents": {"type": "list", "elements": "dict", "default": []},
            "clean": {"type": "bool", "default": False},
            "discard_etcd": {"type": "bool", "default": False},
            "without_backup_ok": {"type": "bool", "default": False},
            "token": {"type": "str", "no_log": True},
            "certificate_key": {"type": "str", "no_log": True},
            "upload_certificates": {"type": "bool", "default": False},
            "token_id": {"type": "str", "no_log": False},
            "token_ttl": {"type": "int", "default": 1800, "no_log": False},
            "renew": {"type": "bool", "default": True},
            "bind_port": {"type": "int", "default": 6443},
            "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
            "program_dirs": {"type": "list", "elements": "path", "default": ["/usr/local/bin"]},
            "timeout": {"type": "int", "default": 900},
        },
        required_if=[
            ("action", "init", ["documents"]),
            ("action", "join", ["documents"]),
            ("action", "token_absent", ["token_id"]),
        ],
        supports_check_mode=True,
    )
    params = module.params
    try:
        work = Work()
        kubeadm = Kubeadm(runner(params["program_dirs"], params["timeout"], work), params, work=work)
        result = manage(kubeadm, params["action"], module.check_mode)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
