# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The devices that DRA drivers publish, from ResourceSlices (resource.k8s.io/v1)."""

from __future__ import annotations

import typing as t

from .._kubernetes.manifests import allocated

# Attributes that drivers share: k8s.io/dynamic-resource-allocation/deviceattribute.
COMMON = "resource.kubernetes.io"
ROOT = COMMON + "/pcieRoot"

Value = t.Union[str, int, bool, t.Tuple[t.Any, ...]]


class Taint(t.NamedTuple):
    """Who is kept away from a device (DeviceTaint)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return "%s%s:%s" % (self.key, "=" + self.value if self.value else "", self.effect)


class Device(t.NamedTuple):
    """One device of one node, with its attributes by their qualified names (``dra.net/ifName``)."""

    node: str
    driver: str
    pool: str
    name: str
    attributes: t.Mapping[str, Value]
    taints: tuple[Taint, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.name


class Published(t.NamedTuple):
    """Devices by node, and what is unknown of the nodes."""

    nodes: dict[str, list[Device]]
    # Node to a sentence; the node "" stands for all of them.
    unknown: dict[str, list[str]]


def qualified(name: str, driver: str) -> str:
    """Return the whole name of an attribute: one without a domain has that of the driver (QualifiedName)."""
    return name if "/" in name else "%s/%s" % (driver, name)


def _value(attribute: t.Mapping[str, t.Any]) -> Value | None:
    """Return what an attribute has: one value or, alpha in 1.37, a list; None: of a type of a later Kubernetes."""
    for kind in ("string", "int", "bool", "version"):
        if attribute.get(kind) is not None:
            return t.cast("Value", attribute[kind])
        if attribute.get(kind + "s") is not None:
            return tuple(attribute[kind + "s"])
    return None


def _taints(raw: t.Mapping[str, t.Any]) -> tuple[Taint, ...]:
    rows = raw.get("taints") or []
    # With effect None, a taint is only shown.
    return tuple(
        Taint(str(row.get("key")), str(row.get("value") or ""), str(row.get("effect")))
        for row in rows
        if row.get("effect") in ("NoSchedule", "NoExecute")
    )


def _device(raw: t.Mapping[str, t.Any], node: str, driver: str, pool: str) -> Device:
    values = {qualified(name, driver): _value(row) for name, row in (raw.get("attributes") or {}).items()}
    known = {name: value for name, value in values.items() if value is not None}
    return Device(node, driver, pool, str(raw.get("name")), known, _taints(raw))


def _current(slices: t.Iterable[t.Mapping[str, t.Any]]) -> dict[tuple[str, str], list[t.Mapping[str, t.Any]]]:
    """Return the slices of each driver and pool; those of an earlier generation of the pool do not count."""
    pools: dict[tuple[str, str], list[t.Mapping[str, t.Any]]] = {}
    for row in slices:
        spec = row.get("spec") or {}
        pool = spec.get("pool") or {}
        pools.setdefault((str(spec.get("driver")), str(pool.get("name"))), []).append(spec)
    for key, specs in pools.items():
        newest = max(int(spec["pool"].get("generation") or 0) for spec in specs)
        pools[key] = [spec for spec in specs if int(spec["pool"].get("generation") or 0) == newest]
    return pools


def published(slices: t.Iterable[t.Mapping[str, t.Any]], names: t.Iterable[str]) -> Published:
    """Return the devices of nodes by their names, every node with a list.

    The scheduler takes no device of a pool of which slices are missing (``resourceSliceCount``), so neither does this.
    """
    nodes: dict[str, list[Device]] = {name: [] for name in names}
    unknown: dict[str, list[str]] = {}
    for (driver, pool), specs in sorted(_current(slices).items()):
        expected = max(int(spec["pool"].get("resourceSliceCount") or 0) for spec in specs)
        node = str(specs[0].get("nodeName") or "")
        if len(specs) < expected:
            text = "pool %s of %s has %d of its %d ResourceSlices; the driver is writing them, or has stopped"
            unknown.setdefault(node, []).append(text % (pool, driver, len(specs), expected))
            continue
        for spec in specs:
            for raw in spec.get("devices") or []:
                chosen = raw if spec.get("perDeviceNodeSelection") else spec
                if not chosen.get("nodeName") and not chosen.get("allNodes"):
                    text = "pool %s of %s is for nodes that a selector chooses, which is not looked at here"
                    unknown[""] = list(dict.fromkeys([*unknown.get("", []), text % (pool, driver)]))
                    continue
                for name in [chosen["nodeName"]] if chosen.get("nodeName") else list(nodes):
                    if name in nodes:
                        nodes[name].append(_device(raw, name, driver, pool))
    return Published(nodes, unknown)


def in_use(claims: t.Iterable[t.Mapping[str, t.Any]]) -> dict[tuple[str, str, str], str]:
    """Return which device (driver, pool, name) which claim (``NAMESPACE/NAME``) has."""
    held: dict[tuple[str, str, str], str] = {}
    for claim in claims:
        meta = claim.get("metadata") or {}
        for row in allocated(claim):
            key = (str(row.get("driver")), str(row.get("pool")), str(row.get("device")))
            held[key] = "%s/%s" % (meta.get("namespace"), meta.get("name"))
    return held


def tainted(
    nodes: t.Mapping[str, list[Device]],
    rules: t.Iterable[t.Mapping[str, t.Any]],
    answer: t.Callable[[str, Device], bool | None],
) -> tuple[dict[str, list[Device]], list[str]]:
    """Return devices with the taints of DeviceTaintRules too, and which rules could not be evaluated."""
    result = {name: list(devices) for name, devices in nodes.items()}
    unknown = []
    for rule in rules:
        spec = rule.get("spec") or {}
        selector = spec.get("deviceSelector") or {}
        taints = _taints({"taints": [spec.get("taint") or {}]})
        texts = [str((row.get("cel") or {}).get("expression")) for row in selector.get("selectors") or []]
        for devices in result.values():
            for number, device in enumerate(devices):
                if any(selector.get(key) not in (None, getattr(device, field)) for key, field in _SELECTED):
                    continue
                answers = [answer(text, device) for text in texts]
                if None in answers:
                    unknown.append("DeviceTaintRule %s has an expression that is not evaluated here" % _name(rule))
                elif all(answers):
                    devices[number] = device._replace(taints=device.taints + taints)
    return result, list(dict.fromkeys(unknown))


# Of a DeviceTaintRule's deviceSelector, and of a device.
_SELECTED = (("driver", "driver"), ("pool", "pool"), ("device", "name"))


def _name(raw: t.Mapping[str, t.Any]) -> str:
    return str((raw.get("metadata") or {}).get("name"))


__all__ = ("COMMON", "ROOT", "Device", "Published", "Taint", "Value", "in_use", "published", "qualified", "tainted")
