# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the collection in which node_maintenance works on machines of a test, each a file, and reboots none."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

Json = t.Any
RAILS = [{"name": f"mlx5_{n}", "pci_address": f"0000:{n:02x}:00.0", "node_guid": f"::{n}"} for n in (1, 2)]
SOFT = {"name": "rxe0", "pci_address": None, "node_guid": "5054:00ff:fe12:3456"}
# As kernel names become names by PCI address.
RENAMED = [{**rail, "name": f"rocep{n}s0"} for n, rail in enumerate(RAILS, 1)]
# What the role looks at on a host is the machine's of the test, whatever this one has run.
VARIABLES = {
    "ansible_become": False,
    "__node_maintenance_api_server": "{{ test_memory }}/kube-apiserver.yaml",
    "__node_maintenance_device_plugins": "{{ test_memory }}/device-plugins",
}

HEAD = """#!/usr/bin/python
import json, os, subprocess
from ansible.module_utils.basic import AnsibleModule

OPTIONS = ("netns_mode", "persistent", "runtime", "on_absent", "all_netns", "gather", "reboot_timeout", "msg")
module = AnsibleModule(argument_spec={name: {"type": "raw"} for name in OPTIONS}, supports_check_mode=True)
with open(os.environ["TEST_MACHINE"]) as stream:
    machine = json.load(stream)
"""
MODULES = {
    "rdma_system": HEAD
    + """
wrong = machine["mode"] != module.params["netns_mode"]
module.exit_json(
    changed=False,
    boot_id=machine["boot_id"],
    mode={"live": machine["mode"], "next_boot": machine["next"]["mode"], "desired": module.params["netns_mode"]},
    reboot_required=wrong,
    reboot_would_help=True,
    reboot_reason="The running mode is %s and %s is configured." % (machine["mode"], module.params["netns_mode"]),
    reboot_cause="cause-" + module.params["netns_mode"],
)
""",
    "rdma_info": HEAD
    + """
module.exit_json(changed=False, devices=machine["devices"], unreadable=[])
""",
    "reboot": HEAD
    + """
if not module.check_mode:
    if "broken" in machine:
        module.fail_json(msg=machine["broken"])
    with open(os.environ["TEST_MACHINE"], "w") as stream:
        json.dump({**machine, **machine["next"]}, stream)
    for argv in machine["then"]:
        subprocess.run(argv, check=True)
module.exit_json(changed=True, rebooted=not module.check_mode)
""",
}


def write_interpreter(path: Path, **variables: object) -> None:
    """Write a host's interpreter. What a task has in its environment is the play's to say; an interpreter can be the host's."""
    words = " ".join(f"{name}={value}" for name, value in variables.items())
    path.write_text(f'#!/bin/sh\n{words} exec {sys.executable} "$@"\n')
    path.chmod(0o755)


def linked(target: Path, role: str = "", modules: t.Collection[str] = MODULES) -> None:
    """Link all of the collection that has no stand-in."""
    for folder in (target / "plugins/modules", target / "roles"):
        folder.mkdir(parents=True)
    kept = {".": ("plugins", "roles"), "plugins": ("modules",), "roles": (role,)}
    kept["plugins/modules"] = tuple(f"{name}.py" for name in modules)
    for folder_name, names in kept.items():
        for entry in (COLLECTION / folder_name).iterdir():
            if entry.name not in names and not entry.name.startswith((".", "__")):
                (target / entry.relative_to(COLLECTION)).symlink_to(entry)


def copied(place: Path) -> Path:
    """Make a copy of the collection with the stand-ins, and return what Ansible calls the path of collections."""
    target = place / "ansible_collections/rdmaops/gpu_fabric"
    role = target / "roles/node_maintenance"
    linked(target, role.name)
    for name, text in MODULES.items():
        (target / "plugins/modules" / f"{name}.py").write_text(text)
    (role / "tasks").mkdir(parents=True)
    for name in ("defaults", "meta", "vars"):
        (role / name).symlink_to(COLLECTION / "roles/node_maintenance" / name)
    reboots = 0
    for entry in (COLLECTION / "roles/node_maintenance/tasks").iterdir():
        text = entry.read_text()
        reboots += text.count("rdmaops.gpu_fabric.node_reboot:")
        text = text.replace("rdmaops.gpu_fabric.node_reboot:", "rdmaops.gpu_fabric.reboot:")
        text = text.replace("/var/lib/rdmaops/reboot.yml", '"{{ test_memory }}/reboot.yml"')
        text = text.replace("/etc/kubernetes/kubelet.conf", '"{{ test_memory }}/kubelet.conf"')
        (role / "tasks" / entry.name).write_text(text)
    assert reboots == 1
    return place
