# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thousand nodes with eight rails: the plan, the lint and the schedule, as functions, against a limit in seconds."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import config
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import lint as cni_lint
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.lint_model import Attachment, Report, Surroundings
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rails import plan as rails_plan
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric import schedule
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Sample, limited
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import Place

NODES = 1000
RAILS = 8
RUNS = 5
LIMIT_S = 2.0
SCHEDULE_LIMIT_S = 1.0
NETWORK = "10.64.0.0/12"
Json = dict[str, t.Any]


def device(rail: int) -> Json:
    """Return a device as rdma_info does."""
    return {
        "name": f"mlx5_{rail}",
        "protocol": "roce",
        "pci_address": pci(rail),
        "numa_node": rail // 4,
        "node_guid": f"0c42:a103:0065:{rail:04x}",
        "netns": {"inode": 4026531840, "name": None, "initial": True},
        "pod": None,
        "ports": [{"port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": f"ens{rail}"}],
    }


def pci(rail: int) -> str:
    return f"0000:{0x10 + rail:02x}:00.0"


def interface(name: str, place: str | None, addresses: list[str], uses: list[str]) -> Json:
    """Return a network device as network_info does."""
    return {
        "name": name,
        "mac": "00:00:00:00:00:01",
        "mtu": 9000,
        "pci_address": place,
        "numa_node": 0,
        "master": None,
        "addresses": addresses,
        "uses": uses,
    }


def seen(nodes: int = NODES) -> dict[str, Json]:
    """Return what rdma_info and network_info see on so many nodes with eight rails and one card of their own."""
    plugins = ["host-device", "rdma", "tuning", "sbr", "whereabouts"]
    info: dict[str, Json] = {}
    for number in range(nodes):
        own = interface("eno1", "0000:01:00.0", [f"10.0.{number // 250}.{number % 250 + 1}/16"], ["default_route"])
        rails = [interface(f"ens{rail}", pci(rail), [], []) for rail in range(RAILS)]
        info[f"gpu-{number}"] = {
            "devices": [device(rail) for rail in range(RAILS)],
            "interfaces": [own, *rails],
            "cni": {"bin_dir": "/opt/cni/bin", "plugins": plugins},
        }
    return info


def node(number: int) -> Json:
    """Return a Node of the API as far as the lint reads it."""
    address = {"type": "InternalIP", "address": f"10.0.{number // 250}.{number % 250 + 1}"}
    return {"metadata": {}, "spec": {}, "status": {"addresses": [address], "allocatable": {"cpu": "128"}}}


def attachments(plan: Json) -> list[Attachment]:
    """Return a plan's attachments as the module network_attachment reads them."""
    result = []
    for row in plan["attachments"]:
        options = {key: value for key, value in row.items() if key != "name"}
        result.append(Attachment("default", row["name"], config.build(options, "0.3.1")))
    return result


def lint(requested: list[Attachment], info: dict[str, Json]) -> Report:
    """Lint attachments against the nodes that they are for."""
    around = Surroundings(
        others=[],
        nodes={name: node(number) for number, name in enumerate(info)},
        targets=sorted(info),
        pod_networks=[f"100.64.{number // 16}.{number % 16 * 16}/28" for number in range(len(info))],
        service_networks=["172.30.0.0/16"],
        node_info=info,
        expected_pods={row.key: len(info) for row in requested},
        settled=set(),
        why={},
    )
    report = Report()
    cni_lint.check(requested, around, report)
    return report


def timed(work: t.Callable[[], t.Any]) -> Sample:
    values = []
    for _number in range(RUNS):
        began = time.perf_counter()
        work()
        values.append(time.perf_counter() - began)
    return Sample(values)


def cases(nodes: int = NODES) -> list[Case]:
    """Measure the functions alone; what they return is looked at first."""
    info = seen(nodes)
    plan = rails_plan.plan(info, NETWORK, rails_plan.Options())
    requested = attachments(plan)
    clean = lint(requested, info)
    if len(requested) != RAILS or clean.findings or clean.not_checked:
        raise BenchmarkError(
            f"the plan of {len(requested)} rails does not fit: {[str(row) for row in clean.findings][:3]}"
        )
    # The worst that a lint can be asked: no node has what any of the attachments names.
    bare = {name: {**row, "interfaces": row["interfaces"][:1]} for name, row in info.items()}
    faulty = lint(requested, bare)
    if len(faulty.errors) != RAILS * nodes:
        raise BenchmarkError(f"the lint finds {len(faulty.errors)} of {RAILS * nodes} missing devices")
    names = list(info)
    pairs = sum(map(len, schedule.rounds(names, "all")))
    if pairs != nodes * (nodes - 1) // 2:
        raise BenchmarkError(f"the schedule has {pairs} pairs")
    about = f"{nodes} nodes x {RAILS} rails"
    planned = timed(lambda: lint(attachments(rails_plan.plan(info, NETWORK, rails_plan.Options())), info))
    refused = timed(lambda: lint(requested, bare))
    every = timed(lambda: schedule.rounds(names, "all"))
    ring = timed(lambda: schedule.rounds(names, "ring"))
    return [
        limited(f"rail plan and lint, {about}", "s", planned, LIMIT_S),
        limited(f"lint that finds {len(faulty.errors)} faults, {about}", "s", refused, LIMIT_S),
        limited(f"schedule of all pairs, {nodes} nodes", "s", every, SCHEDULE_LIMIT_S, f"{pairs} pairs"),
        limited(f"schedule of a ring, {nodes} nodes", "s", ring, SCHEDULE_LIMIT_S),
    ]


def scale(_place: Place) -> list[Case]:
    return cases()


CASES: dict[str, t.Callable[[Place], list[Case]]] = {"scale": scale}

__all__ = ["CASES", "cases"]
