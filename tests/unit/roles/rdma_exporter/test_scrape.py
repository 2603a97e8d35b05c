# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole scrapes over a made-up sysfs."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.roles.rdma_exporter.files.rdma_exporter import collector
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.site import Site
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import Tree, node

pytestmark = pytest.mark.usefixtures("closed_files")


def test_every_counter_of_every_port(tmp_path: Path) -> None:
    """A file is a series, whatever its name: 64 of each port, and none of them is a gauge."""
    site = Site(node(tmp_path / "sys", 4, 64))
    scrape = site.scrape()
    counters = [(name, labels, value) for name, labels, value in scrape.samples if labels.get("port")]
    counters = [row for row in counters if scrape.types[row[0]] == "counter"]
    # And bytes and packets, in both directions, under names that all drivers share, and the losses of the carrier.
    assert len(counters) == 4 * (64 + 4 + 1)
    assert {value for _name, _labels, value in counters} >= {1234567.0, 123456789012.0}
    assert scrape.value("rdma_port_rcv_data_bytes_total", device="mlx5_2") == 4 * (123456789012 + 8)
    (labels,) = [labels for labels in scrape.labels("rdma_hw_out_of_sequence_total") if labels["device"] == "mlx5_3"]
    expected = {"device": "mlx5_3", "port": "1", "netdev": "rail3", "link_layer": "Ethernet", "netns": "host"}
    assert labels == expected
    assert scrape.value("rdma_port_state_id", device="mlx5_0") == 4
    assert scrape.value("rdma_port_physical_state_id", device="mlx5_0") == 5
    assert scrape.value("rdma_port_rate_bytes_per_second", device="mlx5_0") == 50e9
    assert scrape.value("rdma_port_netdev_mtu_bytes", device="mlx5_0") == 9000
    assert scrape.value("rdma_port_netdev_carrier_down_total", device="mlx5_0") == 3
    assert scrape.value("rdma_exporter_scrape_complete") == 1
    assert scrape.of("rdma_device_present") == dict.fromkeys(["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], 1.0)
    assert scrape.unreadable() == set()


# What a driver counts: received, sent; and what is served of it: bytes, packets.
TRAFFIC = {
    "mlx5": ({"port_rcv_data": 10, "port_rcv_packets": 1}, {"port_xmit_data": 20, "port_xmit_packets": 2}, 4),
    "irdma": (
        {"ip4InOctets": 7, "ip6InOctets": 3, "ip4InPkts": 1, "ip6InPkts": 0},
        {"ip4OutOctets": 12, "ip6OutOctets": 8, "ip4OutPkts": 1, "ip6OutPkts": 1},
        1,
    ),
    "bnxt_re and efa": ({"rx_bytes": 10, "rx_pkts": 1}, {"tx_bytes": 20, "tx_pkts": 2}, 1),
    "erdma": ({"rx_bytes_cnt": 10, "rx_packets_cnt": 1}, {"tx_bytes_cnt": 20, "tx_packets_cnt": 2}, 1),
    "soft-RoCE": ({"rcvd_bytes": 10, "rcvd_pkts": 1}, {"sent_bytes": 20, "sent_pkts": 2}, 1),
}
FAMILIES = [
    f"rdma_port_{direction}_{what}_total" for what in ("bytes", "packets") for direction in ("receive", "transmit")
]


@pytest.mark.parametrize("driver", TRAFFIC)
def test_the_traffic_of_every_driver_has_one_name(tree: Tree, driver: str) -> None:
    received, sent, unit = TRAFFIC[driver]
    counters = {**received, **sent}
    device = tree.device("dev_0")
    device.counters(**{name: number for name, number in counters.items() if name.startswith("port_")})
    device.hw_counters(**{name: number for name, number in counters.items() if not name.startswith("port_")})
    scrape = Site(tree).scrape()
    assert [scrape.value(family, device="dev_0") for family in FAMILIES] == [10 * unit, 20 * unit, 1, 2]


def test_traffic_that_is_not_counted_is_not_zero(tree: Tree) -> None:
    tree.device("rxe0").hw_counters(sent_pkts=5, rcvd_pkts=6)
    tree.device("mlx5_0").counters(port_rcv_data=0xFFFFFFFF, port_xmit_data=7)
    scrape = Site(tree).scrape()
    assert [scrape.of(family) for family in FAMILIES] == [{}, {}, {"rxe0": 6}, {"rxe0": 5}]


def test_a_node_without_rdma(tree: Tree) -> None:
    shutil.rmtree(tree.root / "class")
    scrape = Site(tree, expected=("mlx5_0",)).scrape()
    assert scrape.value("rdma_subsystem_loaded") == 0
    assert scrape.of("rdma_device_present") == {"mlx5_0": 0}
    assert scrape.of("rdma_device_expected") == {"mlx5_0": 1}
    assert scrape.devices() == set()
    assert "rdma_netns_mode" not in scrape.types


def test_knobs_are_no_counters_and_a_whole_devices_counters_have_no_port(tree: Tree) -> None:
    card = tree.device("mlx5_0").hw_counters(lifespan=10, rx_bytes=7, active_qps=3)
    card.write("hw_counters/lifespan", "10")
    card.write("hw_counters/tx_bytes", "9")
    scrape = Site(tree).scrape()
    assert "lifespan" not in scrape.text
    assert scrape.labels("rdma_hw_tx_bytes_total") == [{"device": "mlx5_0", "netns": "host"}]
    assert (scrape.types["rdma_hw_active_qps"], scrape.value("rdma_hw_active_qps")) == ("gauge", 3)


def test_what_cannot_be_read_is_said_and_no_zero_is_made_up(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    card = tree.device("mlx5_0").counters(symbol_error=1, link_downed=2).hw_counters(out_of_buffer=3, rx_pkts=4)
    tree.device("mlx5_1", 1, netdev="rail1").counters(symbol_error=5)
    card.write("ports/1/counters/symbol_error", "N/A (no PMA)")
    card.write("ports/1/counters/port_rcv_errors", "-1")
    card.breaks("ports/1/hw_counters/out_of_buffer")
    card.breaks("ports/1/rate")
    card.write("ports/1/state", "9: NEW")
    site = Site(tree)
    scrape = site.scrape()
    assert scrape.unreadable() == {
        ("mlx5_0", "1", "counters/symbol_error", "text"),
        ("mlx5_0", "1", "counters/port_rcv_errors", "text"),
        ("mlx5_0", "1", "hw_counters/out_of_buffer", "EISDIR"),
        ("mlx5_0", "1", "rate", "EISDIR"),
    }
    assert scrape.of("rdma_port_symbol_error_total") == {"mlx5_1": 5}
    assert scrape.of("rdma_port_link_downed_total") == {"mlx5_0": 2}
    assert scrape.of("rdma_hw_rx_pkts_total") == {"mlx5_0": 4}
    assert "rdma_hw_out_of_buffer_total" not in scrape.types
    assert scrape.of("rdma_port_rate_bytes_per_second") == {"mlx5_1": 50e9}
    assert scrape.of("rdma_port_state_id") == {"mlx5_1": 4}
    # One counter does not hide a device.
    assert scrape.value("rdma_exporter_scrape_complete") == 1
    said = capfd.readouterr().err
    assert "mlx5_0: ports/1/counters/symbol_error: 'N/A (no PMA)' is not a number" in said
    assert "mlx5_0: ports/1/hw_counters/out_of_buffer: EISDIR (Is a directory)" in said
    site.scrape()
    assert capfd.readouterr().err == ""


def test_einval_of_a_counter(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """What some drivers answer while the link is down."""
    tree.device("mlx5_0").counters(symbol_error=1).hw_counters(rx_pkts=2)
    real = os.pread
    bad = os.stat(tree.root / "class/infiniband/mlx5_0/ports/1/hw_counters/rx_pkts").st_ino

    def pread(handle: int, size: int, offset: int) -> bytes:
        if os.fstat(handle).st_ino == bad:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(handle, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    site = Site(tree)
    for _turn in range(2):
        scrape = site.scrape()
        assert scrape.unreadable() == {("mlx5_0", "1", "hw_counters/rx_pkts", "EINVAL")}
        assert scrape.of("rdma_port_symbol_error_total") == {"mlx5_0": 1}


def test_two_counters_with_one_name(tree: Tree) -> None:
    tree.device("mlx5_0").hw_counters(**{"rx-pkts": 1, "rx.pkts": 2})
    scrape = Site(tree).scrape()
    assert scrape.of("rdma_hw_rx_pkts_total") == {"mlx5_0": 1}
    assert scrape.unreadable() == {("mlx5_0", "1", "hw_counters/rx.pkts", "clash")}


def test_a_device_that_goes_takes_its_series_along_and_is_missed(tree: Tree) -> None:
    card = tree.device("mlx5_0").counters(symbol_error=1)
    tree.device("mlx5_1", 1, netdev="rail1").counters(symbol_error=2)
    site = Site(tree, expected=("mlx5_0", "mlx5_7"))
    assert site.scrape().of("rdma_device_present") == {"mlx5_0": 1, "mlx5_1": 1, "mlx5_7": 0}
    shutil.rmtree(card.place)
    scrape = site.scrape()
    assert scrape.of("rdma_device_present") == {"mlx5_0": 0, "mlx5_1": 1, "mlx5_7": 0}
    assert scrape.of("rdma_port_symbol_error_total") == {"mlx5_1": 2}
    assert scrape.devices() == {"mlx5_1"}
    # It comes back.
    tree.device("mlx5_0").counters(symbol_error=9)
    assert site.scrape().of("rdma_port_symbol_error_total") == {"mlx5_0": 9, "mlx5_1": 2}


def test_a_device_that_is_renamed_is_not_missed(tree: Tree) -> None:
    card = tree.device("mlx5_0").counters(symbol_error=1)
    site = Site(tree)
    site.scrape()
    card.place.rename(card.place.parent / "rocep7s0f0")
    scrape = site.scrape()
    assert scrape.of("rdma_device_present") == {"rocep7s0f0": 1}
    assert scrape.of("rdma_port_symbol_error_total") == {"rocep7s0f0": 1}


def test_an_expected_device_is_found_by_its_guid_under_another_name(tree: Tree) -> None:
    """A device that returns to a namespace where its name is taken is ibdevN there, from Linux 7.3 on."""
    guid = "0800:2703:00a1:0000"
    card = tree.device("mlx5_0")
    # No series is there twice.
    twice = Site(tree, expected=(guid, "mlx5_0")).scrape()
    assert twice.text.count("rdma_device_expected{") == 1
    site = Site(tree, expected=(guid, "0800:2703:00A1:0009"))
    scrape = site.scrape()
    assert scrape.of("rdma_device_present") == {"mlx5_0": 1, "0800:2703:00A1:0009": 0}
    # Its ports are found by the name that they have.
    assert scrape.of("rdma_device_expected") == {"mlx5_0": 1, "0800:2703:00A1:0009": 1}
    card.place.rename(card.place.parent / "ibdev0")
    tree.device("mlx5_0", 9)
    scrape = site.scrape()
    assert scrape.of("rdma_device_present") == {"ibdev0": 1, "mlx5_0": 1}
    assert scrape.of("rdma_device_expected") == {"ibdev0": 1, "mlx5_0": 1}
    shutil.rmtree(card.place.parent / "ibdev0")
    assert site.scrape().of("rdma_device_present") == {"ibdev0": 0, "mlx5_0": 1}
    # The name of the missing device is another's by now.
    tree.device("ibdev0", 7)
    assert site.scrape().of("rdma_device_present") == {guid: 0, "ibdev0": 1, "mlx5_0": 1}


def test_a_sub_function_is_expected_by_its_own_place(tree: Tree) -> None:
    place = "0000:08:00.0"
    card = tree.device("mlx5_2")
    target = tree.root / "devices/pci0000:00" / place / "mlx5_core.sf.4"
    target.mkdir(parents=True)
    (card.place / "device").symlink_to(target)
    expected = (place, place + "/mlx5_core.sf.4")
    assert Site(tree, expected=expected).scrape().of("rdma_device_present") == {"mlx5_2": 1, place: 0}


def test_a_list_that_cannot_be_read(tree: Tree) -> None:
    tree.device("mlx5_0").counters(symbol_error=1)
    site = Site(tree)
    site.scrape()
    shutil.rmtree(tree.root / "class")
    tree.write("class/infiniband", "no directory")
    scrape = site.scrape()
    assert scrape.unreadable() == {("", "", "devices", "other")}
    assert scrape.value("rdma_exporter_scrape_complete") == 0
    # Whether it is gone nobody knows.
    assert scrape.of("rdma_device_present") == {}


def test_a_look_that_hangs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.device("mlx5_0")
    site = Site(tree, limit=0.2)
    come_back = threading.Event()
    monkeypatch.setattr(collector, "look", lambda *arguments: come_back.wait(60))
    try:
        assert site.scrape().unreadable() == {("", "", "devices", "ETIMEDOUT")}
    finally:
        come_back.set()
