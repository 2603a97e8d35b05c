# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ibv_devinfo prints."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.ibv_devinfo import parse

FIXTURES = Path(__file__).parents[1] / "fixtures/ibv_devinfo"


def text(name: str) -> str:
    return (FIXTURES / f"ibv_devinfo-{name}.txt").read_text()


def test_devices_and_ports() -> None:
    ethernet = {"link_layer": "Ethernet"}
    assert parse(text("56.1_from-source_two-devices")) == [
        {
            "name": "mlx5_0",
            "transport": "InfiniBand",
            "firmware": "28.43.1014",
            "ports": [
                {"port": 1, "state": "PORT_ACTIVE", "active_mtu": 1024, **ethernet},
                {"port": 2, "state": "PORT_DOWN", "active_mtu": 1024, **ethernet},
            ],
        },
        {
            "name": "iwp1s0",
            "transport": "iWARP",
            "firmware": "1.71",
            "ports": [{"port": 1, "state": "PORT_ACTIVE", "active_mtu": 4096, **ethernet}],
        },
    ]


def test_verbose_output_has_more_lines() -> None:
    lines = text("56.1_from-source_two-devices").replace(
        "\t\tport:\t1\n", "\tmax_mr_size:\t\t\t0xffff\n\t\tport:\t1\n", 1
    )
    more = (
        "\t\t\tport_cap_flags:\t\t0x00890000\n\t\t\tphys_state:\t\tLINK_UP (5)\n\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n"
    )
    assert parse(lines.replace("\n\nhca_id", "\n" + more + "\nhca_id", 1)) == parse(
        text("56.1_from-source_two-devices")
    )


def test_nothing_is_made_up() -> None:
    assert parse(text("44.0_no-rdma")) == []
    assert parse("") == []
    assert parse("\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n") == []
    cut = text("56.1_from-source_two-devices").partition("\t\t\tstate")[0]
    assert parse(cut)[0]["ports"] == [{"port": 1, "state": None, "link_layer": None, "active_mtu": None}]
