# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a stranded device's namespace, of real namespaces. The device is invented: no kernel is asked for it."""

from __future__ import annotations

import os
import subprocess
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.audit import (
    AuditHost,
    Look,
    judge,
    stranded,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool

Json = dict[str, t.Any]


@pytest.fixture
def name() -> t.Iterator[str]:
    need_root()
    tool = need_tool("ip")
    made = f"rdmaops-audit-{os.getpid()}"
    subprocess.run([tool, "netns", "add", made], check=True, timeout=30)
    yield made
    subprocess.run([tool, "netns", "del", made], check=False, timeout=30, capture_output=True)


def place(name: str | None, inode: int) -> str:
    """Return where the audit says that a device in this namespace is, which it calls drift."""
    host = AuditHost()
    host.other_namespaces()
    where = {"inode": inode, "name": name, "initial": False}
    devices = [{"name": "mlx5_0", "index": 0, "netns": where, "pod": None}]
    info = {"netns_mode": "exclusive", "devices": devices, "unreadable": []}
    observed = Look(info, stranded(info), set())
    (entry,) = judge(observed, observed, host, [])
    assert entry["status"] == "drift"
    return str(entry["live"])


def test_what_keeps_the_namespace_is_named(name: str) -> None:
    inode = os.stat(f"/run/netns/{name}").st_ino
    assert place(name, inode) == f"netns {name}, held by /run/netns/{name}"
    program = subprocess.Popen([need_tool("ip"), "netns", "exec", name, need_tool("sleep"), "600"])
    try:
        ends = time.monotonic() + 60
        while os.stat(f"/proc/{program.pid}/ns/net").st_ino != inode and time.monotonic() < ends:
            time.sleep(0.1)
        assert f"process {program.pid} (" in place(name, inode)
        assert f"held by /run/netns/{name}, " in place(name, inode)
        # Without its name it lives on with the process.
        subprocess.run([need_tool("ip"), "netns", "del", name], check=True, timeout=30)
        assert place(None, inode).startswith(f"net:[{inode}], held by process {program.pid} (")
    finally:
        program.kill()
        program.wait(60)
