# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces that others make by pyroute2, which the collection itself does not need.

From 0.5.14 to the newest: what it makes is found by name, entered, and has the links that it says.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter, survey
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root
from ansible_collections.rdmaops.gpu_fabric.tests.support.environment import create, interpreter

pytestmark = pytest.mark.long

# The release, and a Python of its time.
RELEASES = [("0.5.14", "3.8"), ("0.6.13", "3.9"), ("0.7.12", "3.11"), ("0.8.1", "3.12"), ("0.9.7", "3.13")]
MAKE = """
import json, sys
from pyroute2 import NetNS, netns
name = sys.argv[1]
netns.create(name)
space = NetNS(name)
space.link("set", index=1, mtu=4200)
links = {dict(one["attrs"])["IFLA_IFNAME"]: dict(one["attrs"])["IFLA_MTU"] for one in space.get_links()}
space.close()
print(json.dumps(links))
"""


def links() -> dict[str, int]:
    return {name: int(Path("/sys/class/net", name, "mtu").read_text()) for _index, name in socket.if_nameindex()}


@pytest.mark.parametrize(("release", "python"), RELEASES)
def test_what_pyroute2_makes_is_found(release: str, python: str, tmp_path: Path) -> None:
    need_root()
    create(tmp_path / "venv", interpreter(python), [f"pyroute2=={release}"])
    name = f"pyroute2-{os.getpid()}-{release}"
    try:
        argv: list[t.Any] = [tmp_path / "venv/bin/python", "-I", "-c", MAKE, name]
        made = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert made.returncode == 0, made.stderr
        found = [space for space in survey.survey().namespaces if space.name == name]
        assert [space.inode for space in found] == [os.stat(f"/run/netns/{name}").st_ino]
        assert enter.within(found[0], links, sysfs=True) == json.loads(made.stdout)
        assert json.loads(made.stdout)["lo"] == 4200
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)
