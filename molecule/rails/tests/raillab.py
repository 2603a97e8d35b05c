# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host with two rails, and its peer."""

from __future__ import annotations

import json
import typing as t

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import rails

PEER = "10.91.0.21"
# An emulated machine takes its time.
ANSWER_S = "10"
ADDRESSES = {"rail0": "10.91.0.1", "rail1": "10.91.0.2"}


def answering(nodes: dict[str, Host], address: str) -> list[str]:
    """The rails that answer when the peer asks who has an address."""
    links = json.loads(nodes["gpu-1"].check_output("ip -json link"))
    names = {link["address"]: link["ifname"] for link in links}
    output = nodes["gpu-2"].check_output("python3 -c %s rail0 %s %s %s", rails.ARP, PEER, address, ANSWER_S)
    return sorted(names[mac] for mac in output.split())


def sent(nodes: dict[str, Host], source: str) -> dict[str, int]:
    """How many packets each rail sent while a hundred datagrams went from an address to the peer."""
    output = nodes["gpu-1"].check_output("python3 -c %s %s %s", rails.SEND, source, PEER)
    return t.cast(dict[str, int], json.loads(output))
