# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running node of the lab, by the inventory that the lab wrote."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import tarfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, skip_or_fail

INVENTORY = Path(os.environ.get("LAB_INVENTORY") or COLLECTION / "inventories" / "lab") / "hosts.yml"


def without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith("__pycache__") else member


class Guest:
    def __init__(self, name: str, variables: dict[str, t.Any]) -> None:
        self.name = name
        self.rails: list[dict[str, str]] = variables["rails"]
        address = f"{variables['ansible_user']}@{variables['ansible_host']}"
        self._ssh = ["ssh", "-p", str(variables["ansible_port"]), "-i", variables["ansible_ssh_private_key_file"]]
        self._ssh += [*shlex.split(variables["ansible_ssh_common_args"]), address]
        self.directory = ""

    def run(self, *argv: str, stdin: bytes = b"", check: bool = True, limit: float = 180) -> str:
        done = subprocess.run([*self._ssh, shlex.join(argv)], input=stdin, capture_output=True, timeout=limit)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {shlex.join(argv)}: rc {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()

    def shell(self, script: str, check: bool = True, limit: float = 180) -> str:
        return self.run("sh", "-euc", script, check=check, limit=limit)

    def install(self) -> None:
        """Put the private utils into a directory of their own; remove() takes them away. They need no ansible-core."""
        self.directory = self.run("mktemp", "-d", "/run/rdmaops-test.XXXXXX").strip()
        base = Path("ansible_collections/rdmaops/gpu_fabric/plugins/module_utils")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(COLLECTION / "plugins/module_utils", arcname=str(base), filter=without_caches)
        self.run("tar", "-xf", "-", "-C", self.directory, stdin=packed.getvalue())

    def python(self, program: str, *arguments: str, limit: float = 180) -> str:
        """Run a program that can import the collection's parts for RDMA and namespaces by their short names."""
        prelude = (
            "import errno, json, os, sys\n"
            f"sys.path.insert(0, {self.directory!r})\n"
            "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import kernel, netlink, nldev, sysfs\n"
            "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import survey as netns\n"
        )
        return self.run("python3", "-B", "-", *arguments, stdin=(prelude + program).encode(), limit=limit)

    def remove(self) -> None:
        if self.directory:
            self.run("rm", "-rf", self.directory)
            self.directory = ""


def guest(name: str = "") -> Guest:
    """The node of that name, or the first; skips when no lab runs."""
    import yaml

    if not INVENTORY.exists():
        skip_or_fail("needs a running lab (make lab-up)")
    hosts = yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["gpu_nodes"].get("hosts") or {}
    name = name or min(hosts, default="")
    if name not in hosts:
        skip_or_fail(f"needs a running node {name} of the lab (make lab-up)")
    guest = Guest(name, hosts[name])
    try:
        guest.run("true", limit=60)
    except (AssertionError, subprocess.TimeoutExpired) as exc:
        skip_or_fail(f"needs a node of the lab that answers: {exc}")
    return guest


__all__ = ["Guest", "guest"]
