# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gNMIc as the role configures it, among switches that answer, one that knows another password, and one that is not there."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import play
from ansible_collections.rdmaops.gpu_fabric.tests.integration.switch_telemetry.written import places, role
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import Collector, Switches, collecting
from ansible_collections.rdmaops.gpu_fabric.tests.support.switch import PASSWORD

# gNMIc takes long to build, where its release cannot be had.
pytestmark = pytest.mark.long

Labels = dict[str, str]

INTERFACE = "/interfaces/interface[name=Ethernet1/{}]/"
QUEUE = "/qos/interfaces/interface[interface-id=Ethernet1/{}]/output/queues/queue[name={}]/state/"
OPENCONFIG = {
    **{INTERFACE.format(port) + "state/counters/in-octets": 1000 * port for port in (1, 2, 3)},
    INTERFACE.format(1) + "ethernet/state/counters/in-mac-pause-frames": 7,
    **{QUEUE.format(1, queue) + "transmit-octets": 100 * queue for queue in (3, 4)},
    QUEUE.format(1, 3) + "dropped-pkts": 5,
    # Some servers put the module before every name.
    "/openconfig-interfaces:interfaces/interface[name=Ethernet1/2]/state/counters": {
        "openconfig-interfaces:out-octets": "4711"
    },
}
PRIORITY = "/qos/interfaces/interface[interface-id=swp1]/state/switch-priority[priority={}]/counters/"
CUMULUS = {
    "/interfaces/interface[name=swp1]/state/counters/in-octets": 10,
    "/qos/interfaces/interface[interface-id=swp1]/output/queues/queue[name=3]/state/ecn-marked-pkts": 33,
    PRIORITY.format(3) + "in-pause-pkts": 44,
    PRIORITY.format(3) + "out-pause-pkts": 55,
}
# As sonic-gnmi's doc/grpc_telemetry.md shows them.
SONIC = {
    "/COUNTERS/Ethernet0": {"SAI_PORT_STAT_IF_IN_OCTETS": "66", "SAI_PORT_STAT_PFC_3_RX_PKTS": "77"},
    "/COUNTERS/Ethernet0/Queues": {
        "Ethernet0:3": {"SAI_QUEUE_STAT_PACKETS": "88"},
        "Ethernet0:4": {"SAI_QUEUE_STAT_PACKETS": "99"},
    },
}


class Fabric(t.NamedTuple):
    collector: Collector
    place: Path


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fabric]:
    need_root()
    need_tool("unshare")
    place = tmp_path_factory.mktemp("fabric")
    common: dict[str, t.Any] = {"address": "127.0.0.1", "ca_file": str(place / "ca.crt"), "credentials": "fabric"}
    with ports.reserve() as reserved, ports.reserve() as not_there, Switches(place) as switches:
        port = ports.number(reserved)
        switch_ports = {
            "Leaf-1": switches.start("Leaf-1", OPENCONFIG, password=PASSWORD),
            "leaf-2": switches.start("leaf-2", CUMULUS, password=PASSWORD, basic=True),
            "leaf-3": switches.start("leaf-3", SONIC, password=PASSWORD),
            "other-password": switches.start("other-password", OPENCONFIG, password="another"),
            "not-there": ports.number(not_there),
        }
        kinds = {"leaf-2": ("cumulus", ["swp1"]), "leaf-3": ("sonic", ["Ethernet0"])}
        targets = []
        for name, number in switch_ports.items():
            vendor, fabric_ports = kinds.get(name, ("openconfig", ["Ethernet1/1", "Ethernet1/2"]))
            about = {"name": name, "port": number, "vendor": vendor, "ports": fabric_ports}
            targets.append({**common, **about, "sample_interval": 1})
        # Its certificate is for another name than that which is expected.
        targets.append({**targets[0], "name": "false-name", "server_name": "leaf-1.example.org"})
        variables = {
            **places(place),
            "switch_telemetry_listen_address": f"127.0.0.1:{port}",
            "switch_telemetry_targets": targets,
            "switch_telemetry_credentials": {"fabric": {"username": "admin", "password": PASSWORD}},
        }
        done = play(place / "work", role("config.yml", **variables))
        assert done.rc == 0, done.output
        with collecting(place / "switch_telemetry.service", port, place / "log") as collector:
            collector.wait(
                lambda: all(f'switch="{name}"' in collector.metrics() for name in ("Leaf-1", "leaf-2", "leaf-3"))
            )
            yield Fabric(collector, place)


def labelled(collector: Collector, name: str, **labels: str) -> list[float]:
    """Return the values of the series of exactly these labels."""
    expected = (f"switch_{name}", frozenset(labels.items()))
    return [value for series, value in collector.series().items() if series == expected]


# metric, labels, where it begins
SERIES: list[tuple[str, Labels, int]] = [
    ("interfaces_interface_state_counters_in_octets", {"switch": "Leaf-1", "interface": "Ethernet1/1"}, 1000),
    ("interfaces_interface_state_counters_in_octets", {"switch": "Leaf-1", "interface": "Ethernet1/2"}, 2000),
    (
        "interfaces_interface_ethernet_state_counters_in_mac_pause_frames",
        {"switch": "Leaf-1", "interface": "Ethernet1/1"},
        7,
    ),
    (
        "qos_interfaces_interface_output_queues_queue_state_transmit_octets",
        {"switch": "Leaf-1", "interface": "Ethernet1/1", "queue": "4"},
        400,
    ),
    (
        "qos_interfaces_interface_output_queues_queue_state_dropped_pkts",
        {"switch": "Leaf-1", "interface": "Ethernet1/1", "queue": "3"},
        5,
    ),
    (
        "qos_interfaces_interface_output_queues_queue_state_ecn_marked_pkts",
        {"switch": "leaf-2", "interface": "swp1", "queue": "3"},
        33,
    ),
    (
        "qos_interfaces_interface_state_switch_priority_counters_in_pause_pkts",
        {"switch": "leaf-2", "interface": "swp1", "priority": "3"},
        44,
    ),
]
# Values of JSON, which stay as they are.
STILL: list[tuple[str, Labels, int]] = [
    ("COUNTERS_SAI_PORT_STAT_IF_IN_OCTETS", {"switch": "leaf-3", "interface": "Ethernet0"}, 66),
    ("COUNTERS_SAI_PORT_STAT_PFC_RX_PKTS", {"switch": "leaf-3", "interface": "Ethernet0", "priority": "3"}, 77),
    ("COUNTERS_SAI_QUEUE_STAT_PACKETS", {"switch": "leaf-3", "interface": "Ethernet0", "queue": "3"}, 88),
    ("COUNTERS_SAI_QUEUE_STAT_PACKETS", {"switch": "leaf-3", "interface": "Ethernet0", "queue": "4"}, 99),
]


@pytest.mark.parametrize(("name", "labels", "begin"), SERIES)
def test_a_counter_is_there_and_grows(fabric: Fabric, name: str, labels: Labels, begin: int) -> None:
    (first,) = labelled(fabric.collector, name, **labels)
    assert begin <= first < begin + 100
    fabric.collector.wait(lambda: labelled(fabric.collector, name, **labels) > [first])


@pytest.mark.parametrize(("name", "labels", "value"), STILL)
def test_a_switch_without_keys_has_the_same_labels(fabric: Fabric, name: str, labels: Labels, value: int) -> None:
    assert labelled(fabric.collector, name, **labels) == [value]


def test_nothing_else_is_asked_for(fabric: Fabric) -> None:
    series = fabric.collector.series()
    assert {dict(labels)["switch"] for _name, labels in series} == {"Leaf-1", "leaf-2", "leaf-3"}
    assert {dict(labels)["interface"] for _name, labels in series} == {
        "Ethernet1/1",
        "Ethernet1/2",
        "swp1",
        "Ethernet0",
    }
    assert {key for _name, labels in series for key in dict(labels)} == {"switch", "interface", "queue", "priority"}


# switch, what gNMIc says
TROUBLES = [
    ("other-password", "authentication failed"),
    ("not-there", "connection refused"),
    ("false-name", "certificate is valid for Leaf-1, not leaf-1.example.org"),
]


@pytest.mark.parametrize(("name", "said"), TROUBLES)
def test_gnmic_says_what_is_wrong(fabric: Fabric, name: str, said: str) -> None:
    def lines() -> list[str]:
        return [
            line for line in fabric.collector.log.read_text().splitlines() if f'target "{name}": subscription' in line
        ]

    fabric.collector.wait(lambda: any(said in line for line in lines()))


def test_no_secret_is_seen(fabric: Fabric) -> None:
    assert PASSWORD not in fabric.collector.log.read_text()
    command = Path(f"/proc/{fabric.collector.process.pid}/cmdline").read_text()
    assert "gnmic" in command
    assert PASSWORD not in command
    assert (fabric.place / "credentials.env").stat().st_mode & 0o777 == 0o600
    for name in ("gnmic.yaml", "switch_telemetry.service"):
        assert "pa" + '"ss' not in (fabric.place / name).read_text()
