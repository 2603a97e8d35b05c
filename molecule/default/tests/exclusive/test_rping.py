# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA traffic runs between the nodes, on every rail."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support.hosts import rail_address

PINGS = "5"
LIMIT_S = "60"


@pytest.mark.parametrize("rail", [0, 1])
def test_rping(nodes: dict[str, Host], rail: int) -> None:
    server, client = nodes["gpu-1"], nodes["gpu-2"]
    address = rail_address(server, rail)
    server.check_output(
        "systemd-run --collect --unit rping-%s -p LimitMEMLOCK=infinity timeout %s rping -s -a %s -C %s",
        str(rail),
        LIMIT_S,
        address,
        PINGS,
    )
    server.check_output("timeout 30 sh -c 'until rdma resource show cm_id | grep -q LISTEN; do sleep 1; done'")
    pings = client.check_output("timeout %s rping -c -v -a %s -C %s", LIMIT_S, address, PINGS)
    assert pings.count("ping data: rdma-ping-") == int(PINGS)
