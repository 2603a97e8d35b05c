# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rails in one network, as Linux has them by default."""

from __future__ import annotations

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.rails.tests import raillab


def test_both_rails_answer_for_each_address(nodes: dict[str, Host]) -> None:
    for address in raillab.ADDRESSES.values():
        assert raillab.answering(nodes, address) == ["rail0", "rail1"]


def test_all_packets_leave_by_one_rail(nodes: dict[str, Host]) -> None:
    counts = [raillab.sent(nodes, address) for address in raillab.ADDRESSES.values()]
    print(counts)
    assert len({max(count, key=lambda rail: count[rail]) for count in counts}) == 1, counts
