# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Plan the tests of one node in a round, and its side in each of them."""

from __future__ import annotations

import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._rails.ports import lacks_gid
from .vocabulary import CUDA, TESTS, WANTED

SIDES = ("server", "client")
# These connect by IP addresses; otherwise, perftest uses one only to agree with the other side.
_BY_ADDRESS = ("rping", "ib_write_bw_cm")

# perftest's own default, and as many above it as a pair has tests.
FIRST_PORT = 18515

Node = t.Mapping[str, t.Any]


class PlanError(FabricError):
    """The input is not enough to plan the tests."""


def usable(node: Node) -> bool:
    """Return whether a node can take part: it is reachable, nothing is missing, and no other job is disturbed."""
    return bool(node["reachable"]) and not node["problems"] and not node["busy"]


def _active_rails(node: Node) -> dict[int, t.Mapping[str, t.Any]]:
    return {rail["rail"]: rail for rail in node["rails"] if rail["state"] == "ACTIVE"}


def _placement(node: Node, rail: int) -> t.Mapping[str, t.Any]:
    return next((entry for entry in node.get("placements") or () if entry["rail"] == rail), {})


def plan_tests(
    nodes: t.Mapping[str, Node],
    pairs: t.Sequence[t.Mapping[str, str]],
    host: str,
    side: str,
    selection: t.Sequence[str],
    *,
    pings: int = 5,
    seconds: int = 3,
    size: int = 65536,
    first_port: int = FIRST_PORT,
) -> list[dict[str, t.Any]]:
    """Return the tests of module fabric_probe for one node and one round.

    Tests of one end are not included: module fabric_probe runs them when it checks whether an end is ready.
    A rail that is not ACTIVE at both ends, or lacks a GID, has no tests: its state is enough for the verdict.
    """
    if side not in SIDES:
        raise PlanError("Building the tests of %s: side is %r, but must be one of %s" % (host, side, ", ".join(SIDES)))
    unknown = [test for test in selection if test not in WANTED]
    if unknown:
        raise PlanError(
            "Building the tests of %s: unknown test %r. There are: %s" % (host, unknown[0], ", ".join(WANTED))
        )
    selection = [test for test in selection if test in TESTS]
    tests = []
    for number, pair in enumerate(pairs):
        if pair[side] != host:
            continue
        ends = {end: nodes[pair[end]] for end in SIDES}
        if not all(usable(node) for node in ends.values()):
            continue
        rails = {end: _active_rails(node) for end, node in ends.items()}
        port = first_port
        for rail in sorted(set(rails["server"]) & set(rails["client"])):
            server, client, local = rails["server"][rail], rails["client"][rail], rails[side][rail]
            if lacks_gid(server) or lacks_gid(client):
                continue
            placements = {end: _placement(node, rail) for end, node in ends.items()}
            for test in selection:
                port += 1
                address = server["ipv4"] or (None if test in _BY_ADDRESS else ends["server"].get("address"))
                if address is None or (test in _BY_ADDRESS and not client["ipv4"]):
                    continue
                if test == CUDA and not all(placements[end].get("gpu") for end in SIDES):
                    continue
                tests.append(
                    {
                        "id": "%d-%d-%s" % (number, rail, test),
                        "client": pair["client"],
                        "server": pair["server"],
                        "rail": rail,
                        "test": test,
                        "address": address,
                        "source": client["ipv4"],
                        "tcp_port": port - 1,
                        "device": local["device"],
                        "port": local["port"] or 1,
                        "gid_index": local["gid_index"],
                        "gpu": placements[side].get("gpu"),
                        "dmabuf": placements[side].get("dmabuf", True),
                        "pings": pings,
                        "seconds": seconds,
                        "bytes": size,
                    }
                )
    return tests


__all__ = ("FIRST_PORT", "SIDES", "TESTS", "PlanError", "plan_tests", "usable")
