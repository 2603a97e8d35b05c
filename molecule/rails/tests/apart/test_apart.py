# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rail answers and sends for its own address only."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.rails.tests import raillab


@pytest.mark.parametrize("rail", raillab.ADDRESSES)
def test_a_rail_keeps_to_itself(nodes: dict[str, Host], rail: str) -> None:
    address = raillab.ADDRESSES[rail]
    assert raillab.answering(nodes, address) == [rail]
    counts = raillab.sent(nodes, address)
    print(counts)
    assert counts.pop(rail) >= 100
    # Others send now and then, such as IPv6's router solicitations.
    assert all(count < 10 for count in counts.values()), counts


def test_routes_by_source(nodes: dict[str, Host]) -> None:
    host = nodes["gpu-1"]
    assert host.check_output("cat /sys/class/net/rail0/mtu /sys/class/net/rail1/mtu").split() == ["1400", "1400"]
    for rail, address in raillab.ADDRESSES.items():
        route = host.check_output("ip route get %s from %s", raillab.PEER, address)
        assert f"dev {rail} " in route
    assert "via 10.91.0.21 dev rail1" in host.check_output("ip route get 10.92.0.1 from 10.91.0.2")


def test_systemd_networkd_configures_them(nodes: dict[str, Host]) -> None:
    for rail in raillab.ADDRESSES:
        status = nodes["gpu-1"].check_output("networkctl status --no-pager --lines=0 %s", rail)
        assert f"/etc/systemd/network/05-rdmaops-{rail}.network" in status
        assert "(configured)" in status
