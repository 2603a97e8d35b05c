# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two nodes, in exclusive mode, with their devices on the host before and after every test."""

from __future__ import annotations

import typing as t

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support.hosts import rail_address

# Where the devices of rail 1 go to.
SPACE = "blue"
# Undoes everything: a card that leaves its namespace loses its address and its link. What a test did not create cannot be
# removed; the last line must succeed, and a device that is not back fails the next test.
HOME = f"""
ip netns pids {SPACE} 2>/dev/null | xargs -r kill -9 || true
for name in rxe0 rxe1 siw0; do
  ip netns exec {SPACE} rdma link delete $name 2>/dev/null || rdma link delete $name 2>/dev/null || true
done
ip -n {SPACE} link set rail1 netns 1 2>/dev/null || true
ip netns del {SPACE} 2>/dev/null || true
pkill -x rping || true
pkill -x ib_write_bw || true
systemctl restart lab-node
"""
AWAY = f"""
ip netns add {SPACE}
ip link set rail1 netns {SPACE}
ip -n {SPACE} link set lo up
ip -n {SPACE} address add ADDRESS/24 dev rail1
ip -n {SPACE} link set rail1 up
"""


@pytest.fixture
def first(nodes: dict[str, Host]) -> t.Iterator[Host]:
    """The first node; afterwards both are as they were."""
    yield nodes["gpu-1"]
    for node in nodes.values():
        node.check_output(HOME)


@pytest.fixture
def away(nodes: dict[str, Host]) -> str:
    """The namespace of each node that has the card of rail 1, without a link so far."""
    for node in nodes.values():
        node.check_output(AWAY.replace("ADDRESS", rail_address(node, 1)))
    return SPACE
