# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a scrape."""

from __future__ import annotations

import itertools
import re
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev, traffic

from .collector import KINDS, Place, Problem, Snapshot
from .counters import PREFIXES, counter
from .exposition import Families, labels

_STATES = {name: number for number, name in nldev.STATES.items()}
_PHYSICAL_STATES = {name: number for number, name in nldev.PHYSICAL_STATES.items()}
_UNKNOWN = re.compile(r"UNKNOWN \((\d+)\)\Z")
# What every driver counts, under names of its own.
_TRAFFIC = (("bytes", "Bytes", traffic.BYTES), ("packets", "Packets", traffic.PACKETS))
_DIRECTIONS = (("receive", "received", traffic.received), ("transmit", "sent", traffic.sent))
_PORT = re.compile(r"ports/(\d+)/(.*)\Z")


def _text(names: t.Mapping[int, str]) -> str:
    return ", ".join("%d: %s" % row for row in sorted(names.items()))


STATE_HELP = "State of the port (%s)" % _text(nldev.STATES)
PHYSICAL_STATE_HELP = "Physical state of the port (%s)" % _text(nldev.PHYSICAL_STATES)


class Render:
    """Renders one scrape."""

    def __init__(self) -> None:
        self.families = Families()
        # metric -> the only kernel counter that it has
        self._names: dict[str, tuple[str, str]] = {}
        self._tables: dict[str, dict[str, tuple[list[str] | None, str, int]]] = {name: {} for name in PREFIXES}
        self.clashes: list[Problem] = []

    def snapshot(self, snapshot: Snapshot) -> None:
        self._system(snapshot)
        for place, device in snapshot.devices:
            self._device(place, device)
        for place, name, both in snapshot.netdevs:
            self._netdev(place, name, both)
        for name, present in snapshot.present.items():
            if present is not None:
                self.families.gauge(
                    "rdma_device_present",
                    "Whether a device that is expected or was seen since the start is present (0: it is gone). "
                    "No value while this is not known",
                    int(present),
                    labels({"device": name}),
                )
        self._problems([*snapshot.problems, *self.clashes])

    def expected(self, names: t.Iterable[str]) -> None:
        for name in names:
            self.families.gauge(
                "rdma_device_expected", "A device that is expected on this node", 1, labels({"device": name})
            )

    def _system(self, snapshot: Snapshot) -> None:
        families = self.families
        families.gauge("rdma_subsystem_loaded", "Whether the kernel's RDMA subsystem is loaded", int(snapshot.loaded))
        if snapshot.mode is not None:
            for mode in ("exclusive", "shared"):
                families.gauge(
                    "rdma_netns_mode",
                    "Network namespace mode of the RDMA subsystem: 1 for the one in force",
                    int(snapshot.mode == mode),
                    labels({"mode": mode}),
                )
        for kind in KINDS:
            if kind in snapshot.kinds:
                families.gauge(
                    "rdma_network_namespaces",
                    "Network namespaces by kind: the host's, those of pods, and others",
                    snapshot.kinds[kind],
                    labels({"netns": kind}),
                )
        families.gauge(
            "rdma_exporter_scrape_complete",
            "Whether every network namespace could be looked at (0: devices may be missing because of that)",
            int(snapshot.complete),
        )
        families.gauge("rdma_exporter_scrape_duration_seconds", "Time that the look took", round(snapshot.seconds, 6))

    def _device(self, place: Place, device: t.Mapping[str, t.Any]) -> None:
        info = {"device": device["name"]}
        for name in ("driver", "protocol", "node_type", "firmware", "board_id", "pci_address", "node_guid"):
            info[name] = device[name] or ""
        info.update(netns=place.kind, netns_name=place.name)
        info.update(pod_namespace=place.pod_namespace, pod_name=place.pod_name, pod_uid=place.pod_uid)
        info["claims"] = place.claims
        self.families.gauge("rdma_device_info", "What a device is, and where. The value is always 1", 1, labels(info))
        base = {"netns": place.kind, "pod_namespace": place.pod_namespace, "pod_name": place.pod_name}
        where = labels({"device": device["name"], **base})
        self._counters(where, place, device["name"], "", "hw_counters", device["hw_counters"])
        for port in device["ports"]:
            self._port(place, device["name"], port, base)

    def _netdev(self, place: Place, name: str, both: tuple[int, int]) -> None:
        own = {"netdev": name, "netns": place.kind, "pod_namespace": place.pod_namespace, "pod_name": place.pod_name}
        where = labels(own)
        for direction, verb, value in zip(("receive", "transmit"), ("received", "sent"), both):
            text = "Bytes that a network device %s, in a pod that has RDMA devices" % verb
            self.families.counter("rdma_netdev_%s_bytes_total" % direction, text, value, where)

    def _port(self, place: Place, device: str, port: t.Mapping[str, t.Any], base: t.Mapping[str, str]) -> None:
        own = {"device": device, "port": str(port["port"]), "netdev": port["netdev"] or ""}
        where = labels({**own, "link_layer": port["link_layer"] or "", **base})
        families = self.families
        for metric, text, value in (
            ("rdma_port_state_id", STATE_HELP, _number(port["state"], _STATES)),
            ("rdma_port_physical_state_id", PHYSICAL_STATE_HELP, _number(port["physical_state"], _PHYSICAL_STATES)),
        ):
            if value is not None:
                families.gauge(metric, text, value, where)
        if port["rate_gbps"] is not None:
            rate = int(port["rate_gbps"] * 1e9 / 8)
            families.gauge("rdma_port_rate_bytes_per_second", "Rate of the link, in one direction", rate, where)
        if port["netdev_mtu"] is not None:
            families.gauge("rdma_port_netdev_mtu_bytes", "MTU of the port's network device", port["netdev_mtu"], where)
        if port["carrier_down"] is not None:
            text = "Times that the port's network device lost its carrier"
            families.counter("rdma_port_netdev_carrier_down_total", text, port["carrier_down"], where)
        for directory in ("counters", "hw_counters"):
            self._counters(where, place, device, own["port"], directory, port[directory] or {})
        self._traffic(where, {**(port["hw_counters"] or {}), **(port["counters"] or {})})

    def _traffic(self, where: str, numbers: t.Mapping[str, int]) -> None:
        if traffic.full(numbers):
            return
        for (what, title, kinds), (direction, verb, count) in itertools.product(_TRAFFIC, _DIRECTIONS):
            value = count(numbers, kinds)
            if value is not None:
                text = "%s of RDMA %s, whatever the driver calls them. No value if it does not count them" % (
                    title,
                    verb,
                )
                self.families.counter("rdma_port_%s_%s_total" % (direction, what), text, value, where)

    def _counters(
        self, where: str, place: Place, device: str, port: str, directory: str, values: t.Mapping[str, int]
    ) -> None:
        table = self._tables[directory]
        for name, value in values.items():
            entry = table.get(name)
            if entry is None:
                entry = table[name] = self._declare(directory, name)
            lines, metric, factor = entry
            if lines is None:
                part = "%s/%s" % (directory, name) if not port else "ports/%s/%s/%s" % (port, directory, name)
                text = "%s: %s would be %s, which is %s" % (device, part, metric, "/".join(self._names[metric]))
                self.clashes.append(Problem(place, device, part, "clash", text))
            else:
                lines.append("%s%s %s\n" % (metric, where, value * factor))

    def _declare(self, directory: str, name: str) -> tuple[list[str] | None, str, int]:
        """Return a counter's list of samples (None if its metric is another counter's), its metric and its factor."""
        family = counter(directory, name)
        key = (directory, name)
        if self._names.setdefault(family.metric, key) != key:
            return None, family.metric, family.factor
        return self.families.declare(family.metric, family.kind, family.help), family.metric, family.factor

    def _problems(self, problems: t.Iterable[Problem]) -> None:
        counts: dict[str, int] = {}
        for problem in problems:
            match = _PORT.match(problem.part)
            port, part = match.groups() if match else ("", problem.part)
            own = {
                "device": problem.device,
                "port": port,
                "what": part,
                "error": problem.error,
                "netns": problem.place.kind,
            }
            own.update(pod_namespace=problem.place.pod_namespace, pod_name=problem.place.pod_name)
            where = labels(own)
            counts[where] = counts.get(where, 0) + 1
        for where, number in counts.items():
            self.families.gauge(
                "rdma_unreadable",
                "What exists but could not be read in this scrape, by the system's error",
                number,
                where,
            )


def _number(state: str | None, names: t.Mapping[str, int]) -> int | None:
    if state is None or state in names:
        return names.get(state or "")
    match = _UNKNOWN.match(state)
    return int(match.group(1)) if match else None


__all__ = ("PHYSICAL_STATE_HELP", "STATE_HELP", "Render")
