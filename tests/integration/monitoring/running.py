# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up site that is really monitored: nodes with exporters, what the role writes, and a Prometheus that reads it."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter import running as exporters
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool, prometheus
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import HERE, Run, ansible_playbook, book
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.monitoring.made_up import (
    DCGM,
    EXPECTED,
    GNMIC,
    MadeUp,
    pod_node,
)

ROLE = "rdmaops.gpu_fabric.monitoring"
# All of 127.0.0.0/8 is this machine: the same port for all nodes, as on a real site.
NODES = {"gpu-1": "127.0.0.1", "gpu-2": "127.0.0.2"}
GNMIC_HOST = "127.0.0.3"
# Of the device that is in a pod.
SWITCH_PORT = {"node": "gpu-2", "device": "mlx5_0", "switch": "leaf-1", "interface": "Ethernet1"}


class Place:
    """A host's directories, in a test's own directory, and the nodes that are its targets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.rules = root / "rules/rdmaops-gpu_fabric.yml"
        self.scrape = root / "scrape/rdmaops-gpu_fabric.yml"
        self.config = root / "prometheus.yml"
        self.dashboards = root / "dashboards"
        self.provider = root / "provisioning/dashboards/rdmaops-gpu_fabric.yml"

    def variables(self, **more: t.Any) -> dict[str, t.Any]:
        return {
            # That of the Prometheus of the tests, wherever PATH has it.
            "monitoring_promtool": need_tool("promtool"),
            "monitoring_prometheus_config": str(self.config),
            "monitoring_scrape_configs_directory": str(self.root / "scrape"),
            "monitoring_rules_directory": str(self.root / "rules"),
            "monitoring_targets_directory": str(self.root / "targets"),
            "monitoring_grafana_provisioning_directory": str(self.root / "provisioning"),
            "monitoring_grafana_dashboards_directory": str(self.dashboards),
            **more,
        }

    def configured(self) -> None:
        """Write the site's prometheus.yml. Before 2.43, which reads no files of jobs, it has the jobs itself."""
        settings: dict[str, t.Any] = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}}
        settings["rule_files"] = [str(self.rules.parent / "*.yml")]
        if prometheus.version() >= (2, 43):
            settings["scrape_config_files"] = [str(self.scrape.parent / "*.yml")]
        else:
            settings["scrape_configs"] = [
                {"job_name": job, "file_sd_configs": [{"files": [str(self.root / "targets" / f"{job}.yml")]}]}
                for job in ("rdma_exporter", "dcgm_exporter", "switch_telemetry")
            ]
        self.config.write_text(json.dumps(settings))

    def play(
        self,
        *runs: t.Mapping[str, t.Any],
        check: bool = False,
        modes: t.Mapping[str, str] | None = None,
        gnmic: str = "",
    ) -> Run:
        """Have the role run on this machine, once for each set of variables.

        ``modes`` of nodes are the inventory's, and ``gnmic`` is the address of a host in the group switch_telemetry.
        """
        hosts = {node: {"ansible_host": address} for node, address in NODES.items()}
        for node, mode in (modes or {}).items():
            hosts[node]["gpu_node_netns_mode"] = mode
        groups = {"monitoring": {"hosts": {"here": HERE}}, "gpu_nodes": {"hosts": hosts}}
        if gnmic:
            groups["switch_telemetry"] = {"hosts": {"metrics-1": {"ansible_host": gnmic}}}
        role = {"name": "Role", "ansible.builtin.include_role": {"name": ROLE}}
        play = {"hosts": "monitoring", "tasks": [{**role, "vars": dict(variables)} for variables in runs]}
        argv = book(self.root, play, inventory={"all": {"children": groups}})
        return ansible_playbook(*argv, "--diff", *(["--check"] if check else []), limit=300)


class Metrics(Server):
    """Answers with what a function returns."""

    def __init__(self, address: str, port: int, text: t.Callable[[], bytes]) -> None:
        super().__init__(address, port)
        self.text = text

    def answer(self, request: Request) -> Answer:
        return Answer(200, self.text(), {"Content-Type": "text/plain; version=0.0.4"})


class Traffic:
    """Has counters rise in a thread, as much as ``load`` says of the time that has passed; 1 is a busy fabric."""

    def __init__(self, made: MadeUp, load: t.Callable[[float], float]) -> None:
        self.made, self.load = made, load
        # Seconds of full load so far.
        self.done = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = self._last = time.monotonic()

    def of_a_pod(self, counter: str) -> int:
        return 1000 + _risen(self.done, "mlx5_0", counter)

    def now(self) -> float:
        return self.load(time.monotonic() - self._began)

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            at = time.monotonic()
            seconds, self._last = at - self._last, at
            load = self.now()
            self.made.rise(functools.partial(_risen, load * seconds))
            self.done += load * seconds

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        self.made.close()


def _risen(share: float, device: str, counter: str) -> int:
    return int(_per_second(device, counter) * share) + 1


def _per_second(device: str, counter: str) -> float:
    """How fast a counter rises under full load. Ports count data in units of four octets."""
    lower = counter.lower()
    if lower in ("port_rcv_data", "port_xmit_data"):
        return 4e9 if device.endswith("0") else 3e9
    if lower in ("packet_seq_err", "tcpretranssegs", "completer_retry_err", "retrans_pkts"):
        return 60.0
    if "bytes" in lower or "octets" in lower:
        return 2e9
    if lower.endswith(("packets", "pkts")) and "ecn" not in lower:
        return 4e6
    if "cnp" in lower or "ecn" in lower:
        return 900.0
    return 0.2 if "link" in lower else 5.0


def gpus(node: str, busy: float) -> bytes:
    """The DCGM exporter's text for a node, its first GPU as busy as is said (0 to 1)."""
    lines = []
    for line in DCGM.read_text().splitlines():
        line = line.replace('Hostname="gpu-1"', f'Hostname="{node}"')
        if line.startswith("DCGM_FI_DEV_GPU_UTIL{") and 'gpu="0"' in line:
            line = f"{line.rpartition(' ')[0]} {round(97 * busy)}"
        elif line.startswith("DCGM_FI_DEV_POWER_USAGE{") and 'gpu="0"' in line:
            line = f"{line.rpartition(' ')[0]} {90 + 550 * busy:.6f}"
        lines.append(line)
    return ("\n".join(lines) + "\n").encode()


def switches(done: float) -> bytes:
    """What gNMIc serves after some seconds of full load."""
    lines = []
    for line in GNMIC.read_text().splitlines():
        if not line.startswith("#"):
            metric, _blank, _value = line.rpartition(" ")
            line = f"{metric} {1000 + round((2e9 if 'octets' in metric.lower() else 5) * done)}"
        lines.append(line)
    return ("\n".join(lines) + "\n").encode()


class Site(t.NamedTuple):
    """All of it, as it runs."""

    place: Place
    server: prometheus.Prometheus
    made: MadeUp
    exporter: exporters.Running
    # What the role did when it set this up.
    run: Run


@contextlib.contextmanager
def site(
    workplace: Path, load: t.Callable[[float], float] = lambda seconds: 1.0, **variables: t.Any
) -> t.Iterator[Site]:
    """Start two nodes' exporters and a Prometheus, and have the role set up the monitoring."""
    with contextlib.ExitStack() as stack:
        port, dcgm_port, gnmic_port = (ports.number(stack.enter_context(ports.reserve())) for _ in range(3))
        commands = exporters.install(
            workplace / "exporter",
            rdma_exporter_listen_address=f"127.0.0.1:{port}",
            rdma_exporter_expected_devices=list(EXPECTED),
        )
        made_up = MadeUp(workplace / "sys")
        # The kernel's netlink and the namespaces of this machine are not the made-up node's.
        look = ["--path.sysfs", str(workplace / "sys"), "--no-collector.netlink", "--no-collector.netns"]
        traffic = stack.enter_context(Traffic(made_up, load))
        exporter = stack.enter_context(exporters.exporting(commands.further(look=look), port))
        stack.enter_context(Metrics(NODES["gpu-2"], port, lambda: pod_node(traffic.of_a_pod)))
        stack.enter_context(Metrics(NODES["gpu-1"], dcgm_port, lambda: gpus("gpu-1", traffic.now())))
        stack.enter_context(Metrics(NODES["gpu-2"], dcgm_port, lambda: gpus("gpu-2", 0.9 * traffic.now())))
        stack.enter_context(Metrics(GNMIC_HOST, gnmic_port, lambda: switches(traffic.done)))
        place = Place(workplace / "host")
        place.configured()
        server = stack.enter_context(prometheus.running(place.root, place.config))
        given = place.variables(
            monitoring_rdma_exporter_port=port,
            monitoring_dcgm_port=dcgm_port,
            monitoring_switches_port=gnmic_port,
            monitoring_switch_ports=[SWITCH_PORT],
            monitoring_scrape_interval="1s",
            monitoring_reload="http",
            monitoring_prometheus_url=server.url,
            **variables,
        )
        run = place.play(given, gnmic=GNMIC_HOST)
        assert run.rc == 0, run.output
        yield Site(place, server, made_up, exporter, run)


__all__ = ["GNMIC_HOST", "NODES", "Metrics", "Place", "Site", "gpus", "site"]
