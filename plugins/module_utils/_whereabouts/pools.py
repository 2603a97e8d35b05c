# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The audit of whereabouts' pools, and the freeing of what was proven dead twice."""

from __future__ import annotations

import copy
import datetime
import functools
import ipaddress
import json
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._errors import FabricError
from .._formats import json_dictionary
from .._kubernetes.client import ApiError, Client, Object, path
from . import allocations as wb

API = "whereabouts.cni.cncf.io/v1alpha1"
POOLS = "ippools"
RESERVATIONS = "overlappingrangeipreservations"

# The annotation with the time since which an address has been without its pod.
SEEN = "rdmaops.gpu-fabric/without-pod"
# All annotations of an object together may have 256 KiB (TotalAnnotationSizeLimitB in apimachinery); an entry has 150.
MOST_SEEN = 1000
# A day's clock error between two machines that run this would be more than the wait.
FUTURE_S = 60


class PoolsError(FabricError):
    """The pools could not be read or changed."""


def _time(now: datetime.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _since(entry: t.Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(entry["since"], "%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, KeyError, ValueError):
        return None


class FirstSeen:
    """What an object's annotation remembers, and what it will."""

    def __init__(self, raw: Object, now: datetime.datetime) -> None:
        self.now = now
        self.before = json_dictionary((raw["metadata"].get("annotations") or {}).get(SEEN))
        self.after: dict[str, t.Any] = {}

    def since(self, key: str, identity: t.Mapping[str, str]) -> datetime.datetime | None:
        """Return since when exactly this was seen without its pod, and keep it in mind."""
        entry = self.before.get(key)
        began = _since(entry)
        same = isinstance(entry, dict) and {name: entry.get(name) for name in identity} == dict(identity)
        if same and began is not None and (began - self.now).total_seconds() <= FUTURE_S:
            self.after[key] = entry
            return began
        if len(self.after) < MOST_SEEN:
            self.after[key] = {**identity, "since": _time(self.now)}
        return None

    def forget(self, key: str) -> None:
        self.after.pop(key, None)

    @property
    def differs(self) -> bool:
        return self.before != self.after

    def write(self, raw: Object) -> None:
        notes = raw["metadata"].setdefault("annotations", {})
        if self.after:
            notes[SEEN] = json.dumps(self.after, sort_keys=True, separators=(",", ":"))
        else:
            notes.pop(SEEN, None)


class ClusterState(t.NamedTuple):
    """What was read, in this order: allocations first, so that a pod made meanwhile is not taken for gone."""

    pools: list[Object]
    reservations: list[Object] | None
    pods: list[Object]
    nodes: list[Object]


def read(client: Client, namespace: str) -> ClusterState | None:
    """Return what there is; None if the API server has no pools."""
    pools = client.items(path(API, POOLS, namespace), "Listing the IPPools of whereabouts in %s" % namespace)
    if pools is None:
        return None
    reservations = client.items(
        path(API, RESERVATIONS, namespace),
        "Listing the OverlappingRangeIPReservations of whereabouts in %s" % namespace,
    )
    pods = client.items(path("v1", "pods"), "Listing the pods") or []
    nodes = client.items(path("v1", "nodes"), "Listing the nodes") or []
    return ClusterState(pools, reservations, pods, nodes)


class Audit:
    """One look at everything, and what follows from it."""

    def __init__(self, state: ClusterState, params: t.Mapping[str, t.Any], now: datetime.datetime) -> None:
        self.state, self.params, self.now = state, params, now
        self.pods = {pod.ref: pod for pod in map(wb.read_pod, state.pods)}
        names = {str(node["metadata"]["name"]) for node in state.nodes}
        self.silent = wb.not_ready(state.nodes, params["dead_nodes"])
        self.result: dict[str, list[dict[str, t.Any]]] = {
            key: [] for key in ("pools", "leaked", "held", "duplicates", "unrecorded", "malformed")
        }
        self.resources: list[dict[str, t.Any]] = []
        self.decision = Decision()
        self.raw = {str(raw["metadata"]["name"]): raw for raw in state.pools}
        self.reserved = {str(raw["metadata"]["name"]): raw for raw in state.reservations or []}
        self.readable_pools: list[wb.Pool] = []
        for raw in state.pools:
            pool, why = wb.read_pool(raw, names)
            if pool is None:
                name = str(raw["metadata"]["name"])
                self.result["malformed"].append({"pool": name, "offset": None, "address": None, "why": why})
                self.resources.append(
                    resource("ippool", name, desired="a range that can be read", live=why, status=UNKNOWN)
                )
            else:
                self.readable_pools.append(pool)

    def run(self, client: Client) -> None:
        ready = list(self.pods.values())
        self.result["duplicates"] = wb.duplicates(self.readable_pools, ready)
        self.result["unrecorded"] = wb.unrecorded(self.readable_pools, ready)
        taken: set[str] = set()
        for pool in self.readable_pools:
            taken.update(wb.reservation_name(allocation.network, allocation.address) for allocation in pool.allocations)
            self._pool(client, pool)
        self._reservations(client, taken)

    def _wait(self, began: datetime.datetime | None) -> float | None:
        """Return how many seconds are left to wait; None if the wait begins now."""
        if began is None:
            return None
        return max(0.0, float(self.params["reclaim_after"]) - (self.now - began).total_seconds())

    def _row(self, verdict: wb.Verdict, began: datetime.datetime | None, **more: t.Any) -> dict[str, t.Any]:
        left = self._wait(began)
        return {
            **more,
            "why": verdict.why,
            "first_seen": _time(began) if began else None,
            "wait_s": None if left is None else round(left),
        }

    def _pool(self, client: Client, pool: wb.Pool) -> None:
        raw = self.raw[pool.name]
        first_seen = FirstSeen(raw, self.now)
        free: list[wb.Allocation] = []
        leaked = 0
        for allocation in pool.allocations:
            verdict = wb.judge(allocation.podref, allocation.address, self.pods, self.silent)
            if verdict.state == wb.LIVE:
                continue
            row = {
                "pool": pool.name,
                "address": str(allocation.address),
                "podref": allocation.podref,
                "interface": allocation.interface,
                "container": allocation.container,
            }
            if verdict.state == wb.HELD:
                self.result["held"].append({**row, "why": verdict.why})
                continue
            leaked += 1
            identity = {"id": allocation.container, "podref": allocation.podref, "uid": verdict.uid}
            began = first_seen.since(allocation.offset, identity)
            self.result["leaked"].append(self._row(verdict, began, **row))
            if self._wait(began) == 0:
                free.append(allocation)
                first_seen.forget(allocation.offset)
        self.result["malformed"] += pool.malformed
        used = len(pool.allocations)
        share = used / pool.size if pool.size else 1.0
        left = max(0, pool.size - used)
        exhausted = share >= self.params["exhausted_share"]
        self.result["pools"].append(
            {
                "name": pool.name,
                "network_name": pool.network,
                "range": str(pool.range),
                "size": pool.size,
                "used": used,
                "free": left,
                "share": round(share, 4),
                "leaked": leaked,
                "exhausted": exhausted,
            }
        )
        bad = [
            "%d leaked" % leaked if leaked else "",
            "%d of %d addresses used" % (used, pool.size) if exhausted else "",
            "%d malformed" % len(pool.malformed) if pool.malformed else "",
            "duplicates"
            if any(pool.name in text for row in self.result["duplicates"] for text in row["holders"])
            else "",
            "addresses not recorded" if any(row["pool"] == pool.name for row in self.result["unrecorded"]) else "",
        ]
        live = ", ".join(filter(None, bad))
        self.resources.append(
            resource("ippool", pool.name, desired="clean", live=live or "clean", status=DRIFT if live else IN_SYNC)
        )
        if self.params["reclaim"]:
            self._decide_pool(client, pool, raw, first_seen, free)

    def _decide_pool(
        self, client: Client, pool: wb.Pool, raw: Object, first_seen: FirstSeen, free: t.Sequence[wb.Allocation]
    ) -> None:
        if not free and not first_seen.differs:
            return
        changed = copy.deepcopy(raw)
        for allocation in free:
            del changed["spec"]["allocations"][allocation.offset]
        first_seen.write(changed)
        gone = []
        for allocation in free:
            name = wb.reservation_name(allocation.network, allocation.address)
            reserved = self.reserved.get(name)
            if reserved is not None and str((reserved.get("spec") or {}).get("podref")) == allocation.podref:
                gone.append(reserved)
        doing = (
            "Free %s of pool %s"
            % (", ".join("%s (%s)" % (allocation.address, allocation.podref) for allocation in free), pool.name)
            if free
            else "Record which addresses of pool %s have lost their pod, and since when" % pool.name
        )
        self.decision.add(doing, functools.partial(_put, client, changed, doing))
        self.decision.show("IPPool %s" % pool.name, _text(raw), _text(changed))
        for reserved in gone:
            self._delete(client, reserved)

    def _delete(self, client: Client, raw: Object) -> None:
        name = str(raw["metadata"]["name"])
        doing = "Delete the OverlappingRangeIPReservation %s" % name
        self.decision.add(doing, functools.partial(_delete, client, raw, doing))
        self.decision.show(doing[11:], "podref: %s\n" % (raw.get("spec") or {}).get("podref"), "")

    def _reservations(self, client: Client, taken: t.Container[str]) -> None:
        """A reservation without an allocation keeps its address from every pool of the network."""
        for name, raw in sorted(self.reserved.items()):
            if name in taken:
                continue
            podref = str((raw.get("spec") or {}).get("podref") or "")
            address = _address(name)
            row = {"pool": None, "address": str(address) if address else None, "podref": podref, "reservation": name}
            row.update(interface=str((raw.get("spec") or {}).get("ifname") or ""), container=None)
            if address is None or len(podref.split("/")) != 2:
                why = "podref is %r and not NAMESPACE/NAME" % podref if address else "its name has no address"
                self.result["malformed"].append({**row, "offset": None, "why": why})
                continue
            verdict = wb.judge(podref, address, self.pods, self.silent)
            status, live = IN_SYNC, "in use"
            if verdict.state == wb.HELD:
                self.result["held"].append({**row, "why": verdict.why})
                status, live = UNKNOWN, verdict.why
            elif verdict.state == wb.LEAKED:
                first_seen = FirstSeen(raw, self.now)
                began = first_seen.since("self", {"podref": podref, "uid": verdict.uid})
                self.result["leaked"].append(self._row(verdict, began, **row))
                status, live = DRIFT, verdict.why
                if self.params["reclaim"]:
                    self._decide_reservation(client, raw, first_seen, began)
            self.resources.append(resource("ip_reservation", name, desired="in use", live=live, status=status))

    def _decide_reservation(
        self, client: Client, raw: Object, first_seen: FirstSeen, began: datetime.datetime | None
    ) -> None:
        name = str(raw["metadata"]["name"])
        if self._wait(began) == 0:
            self._delete(client, raw)
        elif first_seen.differs:
            changed = copy.deepcopy(raw)
            first_seen.write(changed)
            doing = "Record since when the OverlappingRangeIPReservation %s has been without its pod" % name
            self.decision.add(doing, functools.partial(_put, client, changed, doing))
            self.decision.show("OverlappingRangeIPReservation %s" % name, _text(raw), _text(changed))


def _address(name: str) -> wb.Address | None:
    """Return the address in a reservation's name, behind the network's."""
    parts = name.split("-")
    for number in range(len(parts)):
        text = "-".join(parts[number:])
        for candidate in (text, text.replace("-", ":")):
            try:
                return ipaddress.ip_address(candidate)
            except ValueError:
                continue
    return None


def _text(raw: Object) -> str:
    """Return what a diff shows of an object."""
    times = (raw["metadata"].get("annotations") or {}).get(SEEN)
    lines = ["without pod: %s\n" % times] if times else []
    for offset, allocation in sorted(
        ((raw.get("spec") or {}).get("allocations") or {}).items(), key=lambda p: (len(p[0]), p[0])
    ):
        lines.append("%s: %s\n" % (offset, json.dumps(allocation, sort_keys=True)))
    return "".join(lines)


def _plural(raw: Object) -> str:
    return POOLS if "range" in (raw.get("spec") or {}) else RESERVATIONS


def _put(client: Client, raw: Object, doing: str) -> None:
    meta = raw["metadata"]
    where = path(API, _plural(raw), meta["namespace"], meta["name"])
    try:
        # With its resourceVersion: the faster writer, for example whereabouts, wins.
        client.replace(where, {"apiVersion": API, **raw}, doing)
    except ApiError as exc:
        if exc.status not in (404, 409):
            raise
        raise PoolsError(
            "%s: it was changed in the meantime, so nothing was done to it. Pods come and go: run again" % doing
        ) from exc


def _delete(client: Client, raw: Object, doing: str) -> None:
    meta = raw["metadata"]
    try:
        client.delete(path(API, RESERVATIONS, meta["namespace"], meta["name"]), doing, uid=str(meta.get("uid") or ""))
    except ApiError as exc:
        # Already gone, or recreated for a live pod.
        if exc.status not in (404, 409):
            raise


def manage(
    params: t.Mapping[str, t.Any], check_mode: bool, client: Client, now: datetime.datetime | None = None
) -> dict[str, t.Any]:
    """Return what the module whereabouts_pools returns."""
    if params["reclaim_after"] < 60:
        raise PoolsError(
            "reclaim_after is %d seconds; it must be at least 60, because a sandbox that is being created is in no "
            "pod's status yet" % params["reclaim_after"]
        )
    if not 0 < params["exhausted_share"] <= 1:
        raise PoolsError("exhausted_share is %s; it must be above 0 and at most 1" % params["exhausted_share"])
    state = read(client, params["namespace"])
    if state is None:
        return {
            "changed": False,
            "actions": [],
            "diff": [],
            "installed": False,
            "clean": None,
            "pools": [],
            "leaked": [],
            "held": [],
            "duplicates": [],
            "unrecorded": [],
            "malformed": [],
            "nodes_not_ready": [],
            "resources": [],
        }
    audit = Audit(state, params, now or datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None))
    audit.run(client)
    if not check_mode:
        audit.decision.carry_out()
    bad = any(audit.result[key] for key in ("leaked", "duplicates", "unrecorded", "malformed"))
    return {
        **audit.decision.result(),
        **audit.result,
        "installed": True,
        "clean": not bad and not any(pool["exhausted"] for pool in audit.result["pools"]),
        "nodes_not_ready": audit.silent,
        "resources": audit.resources,
    }


__all__ = ("API", "SEEN", "PoolsError", "manage", "read")
