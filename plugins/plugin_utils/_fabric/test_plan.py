# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Plan the tests of one node in a round, and its side in each of them."""

from __future__ import annotations

import itertools
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


def _measurable_rails(ends: t.Mapping[str, Node]) -> dict[int, dict[str, t.Mapping[str, t.Any]]]:
    """Return the rails that are ACTIVE at both ends and have the GIDs that they need, each by end."""
    rails = {end: _active_rails(node) for end, node in ends.items()}
    both = {
        rail: {end: rails[end][rail] for end in SIDES} for rail in sorted(set(rails["server"]) & set(rails["client"]))
    }
    return {rail: ports for rail, ports in both.items() if not any(map(lacks_gid, ports.values()))}


def _own_address(port: t.Mapping[str, t.Any]) -> str | None:
    return port["ipv4"] or port.get("ipv6")


def _address(test: str, ports: t.Mapping[str, t.Mapping[str, t.Any]], ends: t.Mapping[str, Node]) -> str | None:
    """Return the server's address for a test, None if it cannot be run between these ports."""
    server, client = (_own_address(ports[end]) for end in SIDES)
    if test in _BY_ADDRESS:
        return server if client else None
    # perftest exchanges parameters over IPv6 since 23.07 only (perftest#218).
    return ports["server"]["ipv4"] or ends["server"].get("address") or server


def plan_tests(
    nodes: t.Mapping[str, Node],
    pairs: t.Sequence[t.Mapping[str, t.Any]],
    host: str,
    side: str,
    selection: t.Sequence[str],
    *,
    pings: int = 5,
    seconds: int = 3,
    size: int = 65536,
    first_port: int = FIRST_PORT,
    queue_pairs: int = 1,
    service_level: int | None = None,
    traffic_class: int | None = None,
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
    options: dict[str, int | None] = {"pings": pings, "seconds": seconds, "bytes": size, "queue_pairs": queue_pairs}
    options.update(service_level=service_level, traffic_class=traffic_class)
    tests: list[dict[str, t.Any]] = []
    for number, pair in enumerate(pairs):
        ends = {end: nodes[pair[end]] for end in SIDES}
        if pair[side] == host and all(usable(node) for node in ends.values()):
            tests += [
                {
                    "id": "%d-%d-%s" % (number, test["rail"], test["test"]),
                    **{end: pair[end] for end in SIDES},
                    **test,
                    **options,
                }
                for test in _pair_tests(ends, side, [test for test in selection if test in TESTS], first_port)
                if test["rail"] in pair.get("rails", [test["rail"]])
            ]
    return tests


def _pair_tests(
    ends: t.Mapping[str, Node], side: str, selection: t.Sequence[str], first_port: int
) -> t.Iterator[dict[str, t.Any]]:
    """Yield the tests between two ends, with the devices of one side."""
    rails = _measurable_rails(ends)
    for tcp_port, (rail, test) in enumerate(itertools.product(rails, selection), first_port):
        ports = rails[rail]
        placements = {end: _placement(node, rail) for end, node in ends.items()}
        address = _address(test, ports, ends)
        if address is None or (test == CUDA and not all(placements[end].get("gpu") for end in SIDES)):
            continue
        yield {
            "rail": rail,
            "test": test,
            "address": address,
            "source": _own_address(ports["client"]),
            "tcp_port": tcp_port,
            "device": ports[side]["device"],
            "port": ports[side]["port"] or 1,
            "gid_index": ports[side]["gid_index"],
            "cpus": placements[side].get("cpus"),
            "gpu": placements[side].get("gpu"),
            "dmabuf": placements[side].get("dmabuf", True),
        }


__all__ = ("FIRST_PORT", "SIDES", "TESTS", "PlanError", "plan_tests", "usable")
