# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of the lab: valid only on the machine that wrote it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import typing as t

from . import config

if t.TYPE_CHECKING:
    from .nodes import Lab

DIRECTORY = pathlib.Path(os.environ.get("LAB_INVENTORY") or config.REPOSITORY / "inventories" / "lab")


def hosts(lab: Lab) -> dict[str, t.Any]:
    prefix = lab.settings["network"]["rail_prefix"]
    nodes: dict[str, dict[str, t.Any]] = {}
    planes: dict[str, dict[str, t.Any]] = {}
    everywhere: dict[str, t.Any] = {}
    for name in lab.names():
        node = lab.node(name)
        if node.api_port:
            everywhere.setdefault("kubernetes_kubeconfig_server", f"https://127.0.0.1:{node.api_port}")
        (planes if node.api_port else nodes)[name] = {
            "ansible_host": "127.0.0.1",
            "ansible_port": node.ssh_port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(lab.image_of(name).identity),
            # In place of Ansible's own, which compress: that costs an emulated machine more than it saves.
            "ansible_ssh_args": "-o Compression=no",
            # Testinfra reads these, and not the ones above.
            "ansible_ssh_common_args": " ".join(lab.ssh_options(name)),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_pipelining": True,
            "ansible_timeout": 60,
            "rails": [
                {
                    "netdev": f"rail{rail}",
                    "address": config.rail_address(prefix, rail, node.number),
                    "rdma": f"rxe{rail}",
                }
                for rail in range(len(node.rail_ports))
            ],
        }
    # Soft-RoCE reports 2.5 Gb/s on any machine, and an emulated one reaches a hundredth of it.
    variables = {"fabric_check_min_share": 0.0001, "fabric_check_seconds": 6}
    groups = {"gpu_nodes": {"hosts": nodes, "vars": variables}}
    if planes:
        groups.update({"kubernetes_control_plane": {"hosts": planes}, "all": {"vars": everywhere}})
    return groups


def write(lab: Lab) -> pathlib.Path:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = DIRECTORY / "hosts.yml"
    temporary = DIRECTORY / "hosts.new"
    temporary.write_text(
        "---\n# Made by tests/lab: the nodes that run on this machine now.\n" + yaml(hosts(lab)) + "\n"
    )
    temporary.replace(path)
    return path


def remove() -> None:
    (DIRECTORY / "hosts.yml").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        DIRECTORY.rmdir()


def yaml(value: t.Any, indent: int = 0) -> str:
    """Block style for mappings and lists; a scalar in JSON is a scalar in YAML."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "\n".join(
            f"{pad}{key}:\n{yaml(item, indent + 1)}" if isinstance(item, (dict, list)) and item
            else f"{pad}{key}: {json.dumps(item)}"
            for key, item in value.items()
        )  # fmt: skip
    if isinstance(value, list) and value:
        return "\n".join(f"{pad}- {yaml(item, indent + 1).lstrip()}" for item in value)
    return pad + json.dumps(value)
