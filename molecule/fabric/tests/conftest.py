# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two nodes, in exclusive mode, with their devices on the host before and after every test."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import lab_ssh

NODES = ("gpu-1", "gpu-2")
# Where the devices of rail 1 go to.
SPACE = "blue"
# Takes everything back: a card that leaves its namespace is without address and link. What a test did not make is not
# there to be removed; the last line must succeed, and a device that is not back fails the next test.
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


@pytest.fixture(scope="session")
def nodes() -> dict[str, lab_ssh.Guest]:
    return {name: lab_ssh.guest(name) for name in NODES}


@pytest.fixture
def first(nodes: dict[str, lab_ssh.Guest]) -> t.Iterator[lab_ssh.Guest]:
    """The first node; what a test did to both is undone."""
    yield nodes["gpu-1"]
    for node in nodes.values():
        node.shell(HOME)


@pytest.fixture
def away(nodes: dict[str, lab_ssh.Guest]) -> str:
    """The cards of rail 1 are in a namespace of each node, without a link as yet."""
    for node in nodes.values():
        node.shell(AWAY.replace("ADDRESS", node.rails[1]["address"]))
    return SPACE
