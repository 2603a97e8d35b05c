#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm
short_description: Have kubeadm make, join, leave or renew a node of a cluster
version_added: 0.1.0
description:
  - Runs one action of kubeadm on a host. Which one is due, M(rdmaops.gpu_fabric.kubernetes_plan) tells of what
    M(rdmaops.gpu_fabric.kubernetes_node_info) saw; this module does it.
  - Configurations are handed over in a file that only root can read and that is gone afterwards. Tokens and keys are neither among the arguments of a program
    nor in what is returned, but for O(action=token), whose result is secret.
  - One module at a time changes a host by kubeadm. V(init), V(join), V(reset), V(renew) and V(unmark) hold a lock, V(/run/rdmaops/kubeadm.lock), and kubeadm
    holds it where it outlives the module. Another module is refused, with the PID, the action and the time since when it is at work.
  - While C(kubeadm init) or C(kubeadm join) is at work, V(/var/lib/rdmaops/kubeadm-started.json) names it and its process. By that file a try that was broken
    off is recognized - its process has ended, or the host has booted since.
  - Before anything is changed, the host is looked at again under the lock. What has become a node since, by another run or an administrator, is left alone.
  - Before C(kubeadm reset) removes data of etcd, a copy of it is made in V(/var/lib/rdmaops/etcd-<time>) and stays there - C(snapshot.db) by C(etcdctl) where
    it is installed and the member runs, else C(member), the files of the member, which is stopped for it and started again. If no copy can be made, nothing is
    removed.
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
      - What an action is about to do is in RV(actions).
  idempotent:
    support: none
    details:
      - It does what it is told. C(kubeadm init) and C(kubeadm join) themselves refuse a host that is a node already.
options:
  action:
    description:
      - V(init) makes the first control-plane node, V(join) a further node of the kind that O(documents) describe.
      - V(token) makes a bootstrap token, V(token_absent) deletes it.
      - V(reset) takes the host out of its cluster. Everything that kubeadm has made on it goes, a control-plane node's copy of the cluster's data included.
      - V(renew) renews certificates (with O(renew=true)) and restarts the static pods one by one, so that they read them.
      - V(unmark) removes the mark of an V(init) or V(join) that did not come to its end, on a host that has become a node all the same.
    type: str
    choices: [init, join, token, token_absent, reset, renew, unmark]
    required: true
  documents:
    description: Configuration for kubeadm, as the filter P(rdmaops.gpu_fabric.kubeadm_config#filter) makes it, without secrets.
    type: list
    elements: dict
    default: []
  clean:
    description:
      - Whether to remove what an interrupted O(action=init) or O(action=join) has left, by C(kubeadm reset), before it is tried again.
      - A control plane that answers, or whose manifests are complete and whose etcd has data, is never removed by it.
    type: bool
    default: false
  discard_etcd:
    description: Whether O(clean=true) may remove data of etcd. With V(false) a host with such data is left as it is.
    type: bool
    default: false
  without_backup_ok:
    description: Whether data of etcd may be removed although no copy of it could be made. A warning reports it.
    type: bool
    default: false
  token:
    description: Bootstrap token for O(action=join), which needs one but in check mode.
    type: str
  certificate_key:
    description: Key to the certificates in the cluster, for O(action=join) of a control-plane node.
    type: str
  upload_certificates:
    description:
      - Whether O(action=token) also leaves the control plane's certificates in the cluster, encrypted, and O(action=token_absent) removes them.
    type: bool
    default: false
  token_id:
    description: The public part of a token, for O(action=token_absent).
    type: str
  token_ttl:
    description: How long a token is good for, in seconds.
    type: int
    default: 1800
  renew:
    description: Whether O(action=renew) makes new certificates. Without it only static pods are brought back that an earlier run has taken down.
    type: bool
    default: true
  bind_port:
    description: Port of the API server on this host.
    type: int
    default: 6443
  ignore_preflight_errors:
    description: Checks of kubeadm whose errors it goes on with, by the names that it prints.
    type: list
    elements: str
    default: []
  program_dirs:
    description: Directories in which programs are looked for, besides those of the system.
    type: list
    elements: path
    default: [/usr/local/bin]
  timeout:
    description: How long kubeadm may take, in seconds.
    type: int
    default: 900
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_node_info
  - plugin: rdmaops.gpu_fabric.kubeadm_config
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Make a token for the nodes that join now
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
  description: The directory with the copy of the data of etcd that was removed.
  returned: O(action=reset), or O(clean=true), where there was such data, not in check mode
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
  description: The key to the certificates that were left in the cluster.
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
        one = Kubeadm(runner(params["program_dirs"], params["timeout"], work), params, work=work)
        result = manage(one, params["action"], module.check_mode)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
