# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that docs/drift.md shows is what the callback prints of such a run."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.objects import OK, UNREACHABLE, Task, objects_of
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import Recorder
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.text import table
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

PAGE = (COLLECTION / "docs/drift.md").read_text(encoding="utf-8")
MODE = Task("Compare the RDMA subsystem with its mode", "rdmaops.gpu_fabric.rdma_system", check_mode=True)
PACKAGES = Task("Install packages", "ansible.builtin.package", check_mode=True)
PING = Task("Reach the host", "ansible.builtin.ping", check_mode=True)


def mode(live: str, next_boot: str) -> dict[str, t.Any]:
    values = {"desired": "exclusive", "configured": "exclusive", "live": live, "next_boot": next_boot}
    status = "in_sync" if live == next_boot == "exclusive" else "drift"
    return {
        "changed": status == "drift",
        "resources": [{"kind": "rdma_system", "name": "netns_mode", "status": status, **values}],
    }


def test_the_table_that_is_shown_is_what_is_printed() -> None:
    run = Recorder(check_mode=True)
    hosts = ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    run.begin_playbook({"nodes": "Compare the GPU nodes"})
    run.begin_play("nodes", "Compare the GPU nodes", hosts, hosts)
    run.add("gpu-1", objects_of(MODE, OK, mode("exclusive", "shared")))
    run.add("gpu-2", objects_of(MODE, OK, mode("shared", "exclusive")))
    missing = {"changed": True, "invocation": {"module_args": {"name": ["perftest"]}}}
    run.add("gpu-2", objects_of(PACKAGES, OK, missing))
    run.add("gpu-3", objects_of(MODE, OK, mode("exclusive", "exclusive")))
    away = {"unreachable": True, "msg": "Failed to connect to the host via ssh: Connection timed out"}
    run.add("gpu-4", objects_of(PING, UNREACHABLE, away))
    run.end()
    shown = table(run.document())
    print(shown)
    assert re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S) == [shown]
