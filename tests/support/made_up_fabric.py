# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for the modules that look at a host's rails and measure them, because a fault must come, or not come again.

The interpreter of a host has to set TEST_FAULT: a file with the node and the rail that are slow, and how many times.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.rdma_results import TWO

Json = t.Any
GOOD, BAD = 388.0, 97.0
PORT = {"rate_gbps": 400.0, "netdev_mtu": 9000, "active_mtu": 4096}
DEVICES = [
    {**device, "netns": {"initial": True}, "users": [], "ports": [{**port, **PORT} for port in device["ports"]]}
    for device in TWO["devices"]
]
INFO = f"""#!/usr/bin/python
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(dict.fromkeys(("gather", "all_netns", "pod"), {{"type": "raw"}}), supports_check_mode=True)
module.exit_json(**json.loads({json.dumps(json.dumps({**TWO, "devices": DEVICES}))}))
"""
PROBE = f"""#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
OPTIONS = ("state", "exec", "tools", "devices", "ports", "numa_pinning", "memlock_bytes", "tcp_port", "tests", "lifetime",
           "patience", "rail_netdevs", "test_timeout", "kubeconfig", "context", "pod", "container", "quiet_bytes_per_second")
module = AnsibleModule({{name: {{"type": "raw"}} for name in OPTIONS}}, supports_check_mode=True)
ready = {{"address": None, "gpus": 0, "problems": [], "busy": [], "checks": [], "placements": []}}
results = []
fault = json.load(open(os.environ["TEST_FAULT"]))
for test in module.params["tests"] or [] if module.params["state"] == "measured" else []:
    slow = fault["node"] in (test["client"], test["server"]) and test["rail"] == fault["rail"]
    if slow:
        # The slow node is in one pair of a round, so that one of these is counted at a time.
        with open(os.environ["TEST_FAULT"] + ".times", "a") as stream:
            stream.write("x")
            slow = stream.tell() <= fault["times"]
    results.append({{**{{key: test[key] for key in ("client", "server", "rail", "test", "id")}}, "ok": True,
                    "gbps": {BAD} if slow else {GOOD}}})
module.exit_json(changed=False, failed_tests=[], results=results, **ready)
"""
MODULES = {"rdma_info": INFO, "fabric_probe": PROBE}


def write_modules(collection: Path) -> None:
    """Replace the modules of a copy of the collection, whose files may be links to the real ones."""
    for name, text in MODULES.items():
        path = collection / f"plugins/modules/{name}.py"
        path.unlink(missing_ok=True)
        path.write_text(text)


def write_fault(path: Path, node: str, rail: int, times: int) -> None:
    path.write_text(json.dumps({"node": node, "rail": rail, "times": times}))
