# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take pictures of the two pages, of a made-up fabric and a made-up night: docs/images/fabric.png and drift.png.

python tests/tools/screenshots.py

It needs Chromium, which no test does.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.objects import OK, UNREACHABLE, Task, objects_of
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.page import page as drift_page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import Recorder
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.page import page as fabric_page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.verdict import judge

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
STARTED = "2026-01-01T02:00:00Z"
Json = dict[str, t.Any]

NODES = ["gpu-%02d" % number for number in range(1, 9)]
RAILS = (0, 1)
TESTS = ("rping", "ib_write_bw")
# The card of one node on one rail, and the path between two nodes on the other.
BAD_PORT = ("gpu-05", 1)
BAD_PATH = ({"gpu-02", "gpu-07"}, 0)


def fabric() -> str:
    """Eight nodes with two rails."""

    def port(rail: int) -> Json:
        return {
            "rail": rail, "device": "mlx5_%d" % rail, "port": 1, "netdev": "ens%df0np0" % (rail + 1), "state": "ACTIVE",
            "rate_gbps": 200.0, "netdev_mtu": 9000, "active_mtu": 4096, "link_layer": "Ethernet", "protocol": "roce",
        }  # fmt: skip

    nodes = {
        name: {"reachable": True, "problems": [], "busy": [], "gpus": 8, "rails": [port(rail) for rail in RAILS]}
        for name in NODES
    }
    pairs = list(itertools.combinations(NODES, 2))
    results = []
    for (client, server), rail, test in itertools.product(pairs, RAILS, TESTS):
        result: Json = {"client": client, "server": server, "rail": rail, "test": test, "ok": True}
        if test == "rping":
            result["pings"] = 5
        else:
            result["gbps"] = 194.0 + (sum(map(ord, client + server)) % 7) / 2
            if (BAD_PORT[0] in (client, server) and BAD_PORT[1] == rail) or ({client, server}, rail) == BAD_PATH:
                result["gbps"] /= 2.6
        results.append(result)
    plan = {"pairs": pairs, "rails": list(RAILS), "tests": list(TESTS)}
    return fabric_page(judge(nodes, results, plan, 0.8, STARTED))


def drift() -> str:
    """A night after changes by hand."""
    run = Recorder(check_mode=True, started=STARTED)
    mode = Task("Compare the RDMA subsystem with its mode", "rdmaops.gpu_fabric.rdma_system", check_mode=True)
    packages = Task("Install packages", "ansible.builtin.package", check_mode=True)
    ping = Task("Reach the host", "ansible.builtin.ping", check_mode=True)
    run.begin_playbook({"nodes": "Compare the GPU nodes"})
    run.begin_play("nodes", "Compare the GPU nodes", NODES, NODES)
    for name in NODES[:-1]:
        live, boot = {"gpu-02": ("shared", "exclusive"), "gpu-04": ("exclusive", "shared")}.get(
            name, ("exclusive",) * 2
        )
        status = "in_sync" if live == boot else "drift"
        values = {"desired": "exclusive", "configured": "exclusive", "live": live, "next_boot": boot, "status": status}
        result = {"changed": status == "drift", "resources": [{"kind": "rdma_system", "name": "netns_mode", **values}]}
        run.add(name, objects_of(mode, OK, result))
        wrong = name == "gpu-02"
        run.add(
            name, objects_of(packages, OK, {"changed": wrong, "invocation": {"module_args": {"name": ["perftest"]}}})
        )
    away = {"unreachable": True, "msg": "Failed to connect to the host via ssh: Connection timed out"}
    run.add(NODES[-1], objects_of(ping, UNREACHABLE, away))
    run.end()
    return drift_page({**run.document(), "finished": STARTED})


def shoot(html: str, target: Path, width: int, height: int) -> None:
    """Have Chromium draw a page."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("screenshots: there is no Chromium on this machine")
    with tempfile.TemporaryDirectory(prefix="rdmaops-") as place:
        source = Path(place) / "page.html"
        source.write_text(html, encoding="utf-8")
        argv = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={place}/profile",
        ]
        argv += [f"--window-size={width},{height}", f"--screenshot={target}", source.as_uri()]
        subprocess.run(argv, check=True, capture_output=True, timeout=300)
    print(target.relative_to(ROOT))


def main() -> None:
    shoot(fabric(), IMAGES / "fabric.png", 1150, 1170)
    shoot(drift(), IMAGES / "drift.png", 1150, 970)


if __name__ == "__main__":
    main()
