# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rail_claims
short_description: Make ResourceClaimTemplates of the rails of a plan
version_added: 0.1.0
description:
  - Turns the rails of C(rail_plan) into ResourceClaimTemplates (C(resource.k8s.io/v1)) for dranet - one for each rail,
    under its name, and one for each entry of O(shapes).
  - A claim selects a rail by the name of its network device or by its PCI address, as the plan does, and only while the
    RDMA device is on the host with it.
  - By itself, dranet offers every network device of a node but the one with the default route. With
    RV(_value.filter), it offers the rails only.
author:
  - rdmaops contributors (@rdmaops)
positional: shapes
options:
  _input:
    description: The rails of a plan, C(rails) of what the filter P(rdmaops.gpu_fabric.rail_plan#filter) returns.
    type: list
    elements: dict
    required: true
  shapes:
    description: What pods claim beyond one rail.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the template.
        type: str
        required: true
      rails:
        description: Names of rails. The default is all of them.
        type: list
        elements: str
      gpus:
        description: Number of GPUs that are claimed with the rails. They are spread evenly over these, in order.
        type: int
        default: 0
      gpu_class:
        description: DeviceClass of the GPUs.
        type: str
        default: gpu.nvidia.com
      align:
        description: Attribute that a rail's card and its GPUs have the same value of. Empty for none.
        type: str
        default: resource.kubernetes.io/pcieRoot
      parameters:
        description: Parameters for dranet that replace those of O(parameters), by their first keys.
        type: dict
        default: {}
  namespace:
    description: Namespace of the templates.
    type: str
    default: default
  device_class:
    description: DeviceClass of dranet's devices.
    type: str
    default: dranet
  parameters:
    description: Parameters for dranet, such as C(interface) with C(mtu). Without any, a pod gets what the card has.
    type: dict
    default: {}
seealso:
  - plugin: rdmaops.gpu_fabric.rail_plan
    plugin_type: filter
  - module: rdmaops.gpu_fabric.resource_claim_template_info
"""

EXAMPLES = r"""
---
- name: Show the templates for each rail, and for eight GPUs with all of them
  ansible.builtin.debug:
    msg: "{{ (plan.rails | rdmaops.gpu_fabric.rail_claims([{'name': 'node', 'gpus': 8}], namespace='ml')).templates }}"
"""

RETURN = r"""
_value:
  description: What claims of the rails need.
  type: dict
  contains:
    templates:
      description: The templates, as objects of the API.
      type: list
      elements: dict
    filter:
      description: Value of dranet's option C(--filter), an expression (CEL).
      type: str
"""

import typing as t

from ..module_utils._claims import rails as claims
from ..plugin_utils._filter import ansible_errors


@ansible_errors
def rail_claims(rails: t.Any, shapes: t.Any = None, **options: t.Any) -> dict[str, t.Any]:
    """Return ResourceClaimTemplates for the rails of a plan, and what dranet may publish."""
    return claims.plan(rails, claims.Options(shapes, **options))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"rail_claims": rail_claims}
