# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA traffic runs between the nodes, on every rail."""

from __future__ import annotations

import typing as t

import pytest

# One run per rail: the first node is the server, the second one the client.
testinfra_hosts = ["ansible://gpu-2"]

PINGS = "5"
LIMIT_S = "60"


@pytest.mark.parametrize("rail", [0, 1])
def test_rping(host: t.Any, rail: int) -> None:
    server = host.get_host("ansible://gpu-1", ansible_inventory=host.backend.ansible_inventory)
    address = server.ansible.get_variables()["rails"][rail]["address"]
    server.check_output(
        "systemd-run --collect --unit rping-%s -p LimitMEMLOCK=infinity timeout %s rping -s -a %s -C %s",
        str(rail),
        LIMIT_S,
        address,
        PINGS,
    )
    server.check_output("timeout 30 sh -c 'until rdma resource show cm_id | grep -q LISTEN; do sleep 1; done'")
    pinged = host.run("timeout %s rping -c -v -a %s -C %s", LIMIT_S, address, PINGS)
    assert pinged.rc == 0, pinged
    assert pinged.stdout.count("ping data: rdma-ping-") == int(PINGS)
