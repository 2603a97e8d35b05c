# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Read the input, which modules returned, and refuse it if it has another shape."""

from __future__ import annotations

import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._rails.ports import brief
from . import checks as fabric_checks
from .vocabulary import CHECKS, NCCL, TESTS, WANTED, Json

_TEXTS = ("device", "netdev", "state", "link_layer", "protocol", "gid", "ipv4", "ipv6")
SHOWN = (
    "device", "port", "netdev", "state", "rate_gbps", "netdev_mtu", "active_mtu", "link_layer", "protocol",
    "gid_index", "gid", "ipv4", "ipv6",
)  # fmt: skip
# What the tests of a rail run with on a node, and why not.
PLACEMENT = ("numa_node", "cpus", "cpus_error", "gpu", "gpu_error")


class VerdictError(FabricError):
    """The input does not have the required shape."""


class Plan(t.NamedTuple):
    pairs: list[tuple[str, str]]
    rails: list[int]
    tests: list[str]  # between two ends
    checks: list[str]  # of one end
    nccl: bool


def invalid_input(text: str) -> VerdictError:
    return VerdictError("Could not judge the fabric: " + text)


def limit_of(value: t.Any, name: str = "min_share") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise invalid_input("%s must be a number above 0 and up to 1, for example 0.8, not %s" % (name, brief(value)))
    return float(value)


def latency_limit_of(value: t.Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 1:
        raise invalid_input("%s must be a number of at least 1, for example 2.1, not %s" % (name, brief(value)))
    return float(value)


def _list(value: t.Any, path: str) -> list[t.Any]:
    if not isinstance(value, (list, tuple)):
        raise invalid_input("%s must be a list, not %s" % (path, brief(value)))
    return list(value)


def _rail(value: t.Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid_input("%s must be the number of a rail, from 0, not %s" % (path, brief(value)))
    return int(value)


def _name(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid_input("%s must be the name of a node, not %s" % (path, brief(value)))
    return str(value)


def _text(value: t.Any, path: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise invalid_input("%s must be a string or null, not %s" % (path, brief(value)))
    return str(value) if value else None


def _texts(value: t.Any, path: str) -> list[str]:
    return [text for entry in _list([] if value is None else value, path) for text in [_text(entry, path)] if text]


def _number(value: t.Any, path: str) -> float | None:
    """Return a number, or None if it is out of range."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid_input("%s must be a number or null, not %s" % (path, brief(value)))
    return value if 0 <= value < 1e9 else None


def _test(value: t.Any, path: str, tests: t.Sequence[str] = TESTS) -> str:
    if value not in tests:
        raise invalid_input("%s is %s; the tests are %s" % (path, brief(value), ", ".join(tests)))
    return str(value)


def _count(value: t.Any, path: str) -> int | None:
    number = _number(value, path)
    return None if number is None else int(number)


def _checks(value: t.Any, where: str) -> list[Json]:
    checks = []
    for entry in _list([] if value is None else value, where):
        if not isinstance(entry, t.Mapping):
            raise invalid_input("%s must be a list of dictionaries; it has %s" % (where, brief(entry)))
        ok = entry.get("ok")
        if ok is not None and not isinstance(ok, bool):
            raise invalid_input("%s[].ok must be true, false or null, not %s" % (where, brief(ok)))
        limits = entry.get("limits")
        if limits is not None and not isinstance(limits, t.Mapping):
            raise invalid_input("%s[].limits must be a dictionary or null, not %s" % (where, brief(limits)))
        fields = {
            "rail": _rail(entry.get("rail"), where + "[].rail"),
            "test": _test(entry.get("test"), where + "[].test", CHECKS),
            "error": _text(entry.get("error"), where + "[].error"),
        }
        checks.append({**{key: entry.get(key) for key in fabric_checks.DETAILS}, **fields, "ok": ok})
    return checks


def nodes_of(nodes: t.Any) -> dict[str, Json]:
    if not isinstance(nodes, t.Mapping):
        raise invalid_input("nodes must be a dictionary, name of a node to what was seen on it, not %s" % brief(nodes))
    hosts = {}
    for key, node in nodes.items():
        name = _name(key, "a key of nodes")
        hosts[name] = _node(name, node)
    return hosts


def _node(name: str, node: t.Any) -> Json:
    where = "nodes[%r]" % name
    if not isinstance(node, t.Mapping):
        raise invalid_input("%s must be a dictionary, not %s" % (where, brief(node)))
    reachable = node.get("reachable")
    if not isinstance(reachable, bool):
        raise invalid_input("%s.reachable must be true or false, not %s" % (where, brief(reachable)))
    return {
        "reachable": reachable,
        "problems": _texts(node.get("problems"), where + ".problems"),
        "busy": _texts(node.get("busy"), where + ".busy"),
        "pod": _text(node.get("pod"), where + ".pod"),
        "claims": _texts(node.get("claims"), where + ".claims"),
        "leaf": _text(node.get("leaf"), where + ".leaf"),
        "gpus": _count(node.get("gpus"), where + ".gpus"),
        "checks": _checks(node.get("checks"), where + ".checks"),
        "rails": _rails(node.get("rails"), where + ".rails"),
        "placements": _placements(node.get("placements"), where + ".placements"),
    }


def _placements(value: t.Any, where: str) -> dict[int, Json]:
    return {
        rail: {
            key: (_count if key == "numa_node" else _text)(entry.get(key), "%s[].%s of rail %d" % (where, key, rail))
            for key in PLACEMENT
        }
        for rail, entry in _by_rail(value, where).items()
    }


def _rails(value: t.Any, where: str) -> dict[int, Json]:
    return {
        rail: {"rail": rail, **{key: _port_value(entry, key, where, rail) for key in SHOWN}}
        for rail, entry in _by_rail(value, where).items()
    }


def _by_rail(value: t.Any, where: str) -> dict[int, t.Mapping[str, t.Any]]:
    """Return the entries of a list by their rails."""
    entries: dict[int, t.Mapping[str, t.Any]] = {}
    for entry in _list([] if value is None else value, where):
        if not isinstance(entry, t.Mapping):
            raise invalid_input("%s must be a list of dictionaries; it has %s" % (where, brief(entry)))
        rail = _rail(entry.get("rail"), where + "[].rail")
        if rail in entries:
            raise invalid_input("%s has rail %d twice" % (where, rail))
        entries[rail] = entry
    return entries


def _port_value(entry: t.Mapping[str, t.Any], key: str, where: str, rail: int) -> t.Any:
    where = "%s[].%s of rail %d" % (where, key, rail)
    if key in _TEXTS:
        return _text(entry.get(key), where)
    if key in ("port", "gid_index"):
        return _count(entry.get(key), where)
    return _number(entry.get(key), where) or None  # a rate or MTU of 0 was not read


def plan_of(value: t.Any, hosts: t.Mapping[str, Json]) -> Plan:
    if not isinstance(value, t.Mapping):
        raise invalid_input("wanted must be a dictionary with pairs, rails and tests, not %s" % brief(value))
    unknown = sorted(set(map(str, value)) - {"pairs", "rails", "tests"})
    if unknown:
        raise invalid_input("wanted has %s; it has pairs, rails and tests" % ", ".join(unknown))
    pairs = []
    for entry in _list(value.get("pairs"), "wanted.pairs"):
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise invalid_input("wanted.pairs has %s, which is not a list of client and server" % brief(entry))
        client, server = (_name(name, "an entry of wanted.pairs") for name in entry)
        if client == server:
            raise invalid_input("wanted.pairs has %r with itself" % client)
        for name in (client, server):
            if name not in hosts:
                raise invalid_input("wanted.pairs has %r, which is not in nodes" % name)
        pairs.append((client, server))
    rails = [_rail(rail, "an entry of wanted.rails") for rail in _list(value.get("rails"), "wanted.rails")]
    tests = [_test(test, "an entry of wanted.tests", WANTED) for test in _list(value.get("tests"), "wanted.tests")]
    unique = list(dict.fromkeys(tests))
    return Plan(
        list(dict.fromkeys(pairs)),
        sorted(set(rails)),
        [test for test in unique if test in TESTS],
        [test for test in unique if test in CHECKS],
        NCCL in unique,
    )


def _traffic(value: t.Any, where: str) -> Json | None:
    if value is None:
        return None
    if not isinstance(value, t.Mapping) or not (value.get("quiet") is None or isinstance(value["quiet"], bool)):
        raise invalid_input(
            "%s must be a dictionary whose quiet is true, false or null, not %s" % (where, brief(value))
        )
    return {**value, "quiet": value.get("quiet"), "why": _text(value.get("why"), where + ".why")}


Measurements = t.Dict[t.Tuple[str, str, int, str], t.List[Json]]


def read(results: t.Any) -> tuple[Measurements, Measurements]:
    """Return the measurements, and those that were made again, by client, server, rail and test.

    Of those that could not be read and were made again, the later ones count.
    """
    first: Measurements = {}
    again: Measurements = {}
    for entry in _list(results, "results"):
        if not isinstance(entry, t.Mapping):
            raise invalid_input("results must be a list of dictionaries; it has %s" % brief(entry))
        client, server = (_name(entry.get(end), "the %s of a result" % end) for end in ("client", "server"))
        if client == server:
            raise invalid_input("results has one of %r with itself" % client)
        rail = _rail(entry.get("rail"), "the rail of a result of %r -> %r" % (client, server))
        where = "of the result of %r -> %r on rail %d, " % (client, server, rail)
        test = _test(entry.get("test"), where + "test")
        ok = entry.get("ok")
        if ok is not None and not isinstance(ok, bool):
            raise invalid_input(where + "ok must be true, false or null, not %s" % brief(ok))
        (again if entry.get("again") else first).setdefault((client, server, rail, test), []).append(
            {
                "ok": ok,
                "gbps": _number(entry.get("gbps"), where + "gbps"),
                "latency_us": _number(entry.get("latency_us"), where + "latency_us"),
                "latency_99_us": _number(entry.get("latency_99_us"), where + "latency_99_us"),
                "pings": _number(entry.get("pings"), where + "pings"),
                "error": _text(entry.get("error"), where + "error"),
                "skipped": _text(entry.get("skipped"), where + "skipped"),
                "traffic": _traffic(entry.get("traffic"), where + "traffic"),
            }
        )
    for key in unread(first):
        if key in again:
            first[key] = [result for result in first[key] if not _unread(result)] + again.pop(key)
    return first, again


def unread(measurements: Measurements) -> list[tuple[str, str, int, str]]:
    """Return the measurements that were made and could not be read, once at least."""
    return [key for key, results in measurements.items() if any(map(_unread, results))]


def _unread(result: Json) -> bool:
    return result["ok"] is None and not result["skipped"]


__all__ = (
    "Measurements",
    "PLACEMENT",
    "Plan",
    "SHOWN",
    "VerdictError",
    "invalid_input",
    "latency_limit_of",
    "limit_of",
    "nodes_of",
    "plan_of",
    "read",
    "unread",
)
