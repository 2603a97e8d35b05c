# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which plugins role secondary_network puts behind the rails' own."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

TUNING = {
    "type": "tuning",
    "sysctl": {
        "net.ipv4.conf.IFNAME.arp_ignore": 1,
        "net.ipv4.conf.IFNAME.arp_announce": 2,
        "net.ipv4.conf.IFNAME.rp_filter": 2,
    },
}
OWN = {"type": "tuning", "mtu": 9000}
BANDWIDTH = {"type": "bandwidth"}
RDMA = {"type": "rdma"}


@pytest.mark.parametrize(
    ("chain", "attachment", "sysctl", "expected"),
    [
        (None, "move", True, [TUNING]),
        (None, "move", False, None),
        ([BANDWIDTH], "none", True, [TUNING, BANDWIDTH]),
        ([OWN], "none", True, [OWN]),
        (None, "cni", True, [TUNING, RDMA]),
        (None, "cni", False, [RDMA]),
        ([RDMA, BANDWIDTH], "cni", True, [TUNING, BANDWIDTH, RDMA]),
    ],
)
def test_the_chain(chain: t.Any, attachment: str, sysctl: bool, expected: t.Any) -> None:
    site: dict[str, t.Any] = {
        "secondary_network_rails_options": {"mtu": 9000} if chain is None else {"mtu": 9000, "chain": chain},
        "secondary_network_rdma_attachment": attachment,
    }
    if not sysctl:
        site["secondary_network_rails_sysctl"] = {}
    options = values(COLLECTION / "roles/secondary_network").value("__secondary_network_rails_options", **site)
    assert options == ({"mtu": 9000, "chain": expected} if expected else {"mtu": 9000})
