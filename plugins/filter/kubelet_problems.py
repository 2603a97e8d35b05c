# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubelet_problems
short_description: Find why a kubelet cannot run with a containerd
version_added: 0.1.0
description:
  - Compares the version of a kubelet with that of the containerd on its host. The role
    P(rdmaops.gpu_fabric.kubernetes#role) uses it after it has installed containerd. For a containerd that is there
    before, M(rdmaops.gpu_fabric.kubernetes_plan) checks the same.
  - Since Kubernetes 1.38, the kubelet takes the cgroup driver from the container runtime, which containerd 1.x does
    not support (U(https://kep.k8s.io/4033)).
author:
  - rdmaops contributors (@rdmaops)
positional: containerd, ignore
options:
  _input:
    description: Version of the kubelet, for example V(1.38.0).
    type: str
    required: true
  containerd:
    description: Version of containerd. If it is empty, it is unknown, and no problem is found.
    type: str
    required: true
  ignore:
    description: Preflight checks to ignore, by kubeadm's names. V(ContainerRuntimeVersion) is this one.
    type: list
    elements: str
    default: []
seealso:
  - module: rdmaops.gpu_fabric.kubernetes_plan
"""

EXAMPLES = r"""
- name: Compare the kubelet with containerd
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join(' ') }}"
  vars:
    problems: "{{ '1.38.0' | rdmaops.gpu_fabric.kubelet_problems('1.7.24') }}"
"""

RETURN = r"""
_value:
  description: A sentence for each problem, with what solves it.
  type: list
  elements: str
"""

import typing as t

from ..plugin_utils._kubernetes import preflight


def kubelet_problems(kubelet: t.Any, containerd: t.Any, ignore: t.Sequence[str] = ()) -> list[str]:
    """Return why the kubelet cannot run with this containerd."""
    return preflight.runtime(kubelet, containerd, ignore)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"kubelet_problems": kubelet_problems}
