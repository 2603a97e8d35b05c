# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ibv_devinfo prints."""

from __future__ import annotations

from pathlib import Path

import pytest

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
            "limits": None,
            "ports": [
                {"port": 1, "state": "PORT_ACTIVE", "active_mtu": 1024, **ethernet},
                {"port": 2, "state": "PORT_DOWN", "active_mtu": 1024, **ethernet},
            ],
        },
        {
            "name": "iwp1s0",
            "transport": "iWARP",
            "firmware": "1.71",
            "limits": None,
            "ports": [{"port": 1, "state": "PORT_ACTIVE", "active_mtu": 4096, **ethernet}],
        },
    ]


def test_verbose_output_has_the_limits() -> None:
    (device,) = parse(text("56.1_from-source_irdma-verbose"))
    assert device == {
        "name": "irdma0",
        "transport": "InfiniBand",
        "firmware": "1.53",
        "limits": {"max_qp": 131069, "max_srq": 0, "max_cq": 262141, "max_mr": 2097150},
        "ports": [{"port": 1, "state": "PORT_ACTIVE", "link_layer": "Ethernet", "active_mtu": 1024}],
    }


@pytest.mark.parametrize("line", ["", "\tmax_srq:\t\t\t\t0x0\n", "\tmax_srq:\t\t\t\t-1\n"])
def test_a_limit_that_was_not_printed_is_not_zero(line: str) -> None:
    shown = text("56.1_from-source_irdma-verbose").replace("\tmax_srq:\t\t\t0\n", line)
    assert parse(shown)[0]["limits"] == {"max_qp": 131069, "max_srq": None, "max_cq": 262141, "max_mr": 2097150}


def test_nothing_is_made_up() -> None:
    assert parse(text("44.0_no-rdma")) == []
    assert parse("") == []
    assert parse("\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n") == []
    cut = text("56.1_from-source_two-devices").partition("\t\t\tstate")[0]
    assert parse(cut)[0]["ports"] == [{"port": 1, "state": None, "link_layer": None, "active_mtu": None}]
