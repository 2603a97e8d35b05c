#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: devlink_param
short_description: Set devlink parameters of every PCI device of a driver
version_added: 0.1.0
description:
  - Compares the runtime values of devlink parameters with the desired ones, on every device bound to the driver, and sets those that differ, in the order
    given. See devlink-dev(8) and the kernel's Documentation/networking/devlink/devlink-params.rst.
  - On a host without such a device there is nothing to set.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.manages
  - rdmaops.gpu_fabric._attributes.linux
options:
  driver:
    description: Name of the PCI driver, for example V(ice).
    type: str
    required: true
  params:
    description:
      - The parameters and their boolean values.
      - The ice driver refuses to enable RoCE and iWARP together, so list the one to disable first.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the parameter, for example V(enable_roce).
        type: str
        required: true
      value:
        description: The desired value.
        type: bool
        required: true
"""

EXAMPLES = r"""
- name: Use RoCE v2 on Intel E810
  rdmaops.gpu_fabric.devlink_param:
    driver: ice
    params:
      - name: enable_iwarp
        value: false
      - name: enable_roce
        value: true
"""

RETURN = r"""
devices:
  description: The values of these parameters before anything was done, by devlink handle and parameter.
  returned: success
  type: dict
  sample: {"pci/0000:07:00.0": {"enable_iwarp": false, "enable_roce": true}}
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Set enable_roce of pci/0000:07:00.0 to true"]
resources:
  description: State of each parameter before anything was done, as the drift report reads it.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "devlink_param", "name": "pci/0000:07:00.0 enable_roce", "status": "in_sync", "desired": true, "configured": null, "live": true,
       "next_boot": null}
"""

import functools
import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._decision import DRIFT, IN_SYNC, Decision, resource

COMMAND_LIMIT_S = "60"
PCI_DRIVERS = "/sys/bus/pci/drivers"


class DevlinkError(Exception):
    """devlink failed; the text has the command and its output."""


def parse_show(text: str) -> dict[str, dict[str, t.Any]]:
    """Return the runtime values in the JSON of ``devlink -j dev param show DEV name NAME``, by handle and parameter."""
    try:
        handles = json.loads(text or "{}").get("param", {})
        return {
            handle: {
                param["name"]: value["value"]
                for param in params
                for value in param.get("values", [])
                if value.get("cmode") == "runtime" and "value" in value
            }
            for handle, params in handles.items()
        }
    except (ValueError, AttributeError, KeyError, TypeError) as exc:
        raise DevlinkError("Reading what devlink printed: %s: %s" % (exc, text[:200])) from exc


def read_live(
    handles: t.Sequence[str], names: t.Sequence[str], devlink: t.Callable[..., str]
) -> dict[str, dict[str, t.Any]]:
    """Return the runtime values of these parameters, by handle and parameter.

    One parameter of one device at a time: the kernel ends a dump of all devices with the first device that answers with
    an error (devlink_nl_param_get_dump_one() in net/devlink/param.c), whatever that device is.
    """
    live: dict[str, dict[str, t.Any]] = {}
    for handle in handles:
        for name in names:
            try:
                text = devlink("-j", "dev", "param", "show", handle, "name", name)
            except DevlinkError as exc:
                hint = "Check with 'devlink dev param show' that the device has this parameter"
                raise DevlinkError("%s. %s" % (exc, hint)) from exc
            live.setdefault(handle, {}).update(parse_show(text).get(handle, {}))
    return live


def decide(
    handles: t.Sequence[str],
    live: t.Mapping[str, t.Mapping[str, t.Any]],
    wishes: t.Sequence[t.Mapping[str, t.Any]],
    set_param: t.Callable[[str, str, bool], None],
) -> tuple[Decision, dict[str, t.Any]]:
    """Compare, and plan what to set."""
    decision = Decision()
    resources = []
    for handle in handles:
        values = live.get(handle, {})
        for wish in wishes:
            name, value = wish["name"], wish["value"]
            if name not in values:
                raise DevlinkError(
                    "Setting %s of %s: the device has no such parameter at runtime; it has %s"
                    % (name, handle, ", ".join(sorted(values)) or "none")
                )
            if values[name] != value:
                shown = str(value).lower()
                decision.add(
                    "Set %s of %s to %s" % (name, handle, shown),
                    functools.partial(set_param, handle, name, value),
                )
                decision.show("%s %s" % (handle, name), "%s\n" % str(values[name]).lower(), "%s\n" % shown)
            resources.append(
                resource(
                    "devlink_param",
                    "%s %s" % (handle, name),
                    desired=value,
                    live=values[name],
                    status=IN_SYNC if values[name] == value else DRIFT,
                )
            )
    return decision, {"devices": {handle: dict(live.get(handle, {})) for handle in handles}, "resources": resources}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "driver": {"type": "str", "required": True},
            "params": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "value": {"type": "bool", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LANG": "C", "LC_ALL": "C"}

    def devlink(*argv: str) -> str:
        program = module.get_bin_path("devlink", required=True)
        rc, stdout, stderr = module.run_command(
            [module.get_bin_path("timeout", required=True), COMMAND_LIMIT_S, program, *argv]
        )
        if rc != 0:
            raise DevlinkError("Running devlink %s: exit status %d: %s" % (" ".join(argv), rc, stderr.strip()))
        return stdout

    def set_param(handle: str, name: str, value: bool) -> None:
        devlink("dev", "param", "set", handle, "name", name, "value", str(value).lower(), "cmode", "runtime")

    try:
        directory = os.path.join(PCI_DRIVERS, module.params["driver"])
        names = os.listdir(directory) if os.path.isdir(directory) else []
        handles = sorted("pci/" + name for name in names if name.count(":") == 2)
        params = module.params["params"]
        live = read_live(handles, [param["name"] for param in params], devlink)
        decision, result = decide(handles, live, params, set_param)
        if not module.check_mode:
            decision.carry_out()
    except DevlinkError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**decision.result(), **result)


if __name__ == "__main__":
    main()
