# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Put an RDMA device into a network namespace, or take it back to the host."""

from __future__ import annotations

import os
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._netns import enter, pods, survey, target, walk
from .._rdma import drivers, nldev

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.target import Target

# The subsystem's own objects on every device, which go and come with a move.
CORE = ("ib_core", "ib_mad", "ib_cm", "ib_sa", "iw_cm", "rdma_cm", "ib_umad", "ib_uverbs", "rdma_ucm")
# What the drivers of drivers/infiniband make for themselves on their own devices (Linux 7.2).
DRIVERS = (
    *("bnxt_re", "efa", "erdma", "hfi1", "hns_roce_hw_v2", "ib_mthca", "ionic_rdma", "irdma", "iw_cxgb4", "mana_ib"),
    *("mlx4_ib", "mlx5_ib", "ocrdma", "qedr", "rdma_rxe", "rdmavt", "siw", "usnic_verbs", "vmw_pvrdma"),
)
# IP over InfiniBand removes its network device and makes a new one, without addresses: an interruption, and no data are
# lost.
INTERRUPTED = ("ib_ipoib",)

# devtmpfs has the node at once; udev may still rename it.
NODE_SECONDS = 5.0


class DeviceError(FabricError):
    """The device cannot be moved; the text says why, and what unblocks it. Nothing has been changed."""


class GoneError(DeviceError):
    """The device does not exist; ``complete`` is whether all namespaces were searched."""

    def __init__(self, text: str, *, complete: bool) -> None:
        super().__init__(text)
        self.complete = complete


class Location(t.NamedTuple):
    """Where a device is. ``handle`` is open on that namespace; the receiver closes it. ``pod`` is its pod."""

    index: int  # type: ignore[assignment]  # hides tuple.index()
    handle: int
    inode: int
    text: str
    initial: bool
    driver: str | None
    netdevs: list[str]
    name: str
    pod: str | None = None


class Use(t.NamedTuple):
    """Who uses a device: processes with a user context, and parts of the kernel."""

    processes: list[dict[str, t.Any]]
    kernel: list[str]


class Host:
    """The edges: what is read from the host, and the move itself."""

    def mode(self) -> str | None:
        return nldev.sys_get().netns_mode

    def initial(self) -> Target:
        return target.initial()

    def resolve(self, kind: str, value: t.Any) -> Target:
        return target.resolve(kind, value)

    def devices(self, handle: int) -> list[dict[str, t.Any]]:
        """Name, index, driver and network devices of what is in a namespace."""
        return t.cast("list[dict[str, t.Any]]", enter.inside(handle, _list, sysfs=True))

    def other_namespaces(self) -> tuple[list[survey.Namespace], str | None]:
        result = survey.survey()
        return result.namespaces, result.problem

    def pod(self, space: survey.Namespace) -> str | None:
        """``namespace/name`` of the pod that has a process in a namespace, or its UID if the kubelet is unknown."""
        for holder in space.holders:
            if holder.kind == "process" and holder.pod:
                known = pods.names().get(holder.pod["uid"])
                return "%s/%s" % known if known else "with the UID %s" % holder.pod["uid"]
        return None

    def inside(self, spaces: t.Sequence[survey.Namespace]) -> dict[int, Answer]:
        """As devices(), for each namespace, by its inode."""
        return walk.look_into(spaces, _list)

    def open(self, space: survey.Namespace) -> int:
        return enter.opened(space)

    def close(self, handle: int) -> None:
        os.close(handle)

    def netns_capable_drivers(self) -> set[str] | None:
        return drivers.netns_capable_drivers()

    def users(self, handle: int, index: int) -> list[tuple[int | None, str | None]]:
        """PID or part of the kernel of each owner of an object of the device."""
        return t.cast("list[tuple[int | None, str | None]]", enter.inside(handle, lambda: nldev.owners(index)))

    def command(self, pid: int) -> str:
        try:
            with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as stream:
                return stream.read().strip()
        except OSError:
            return ""

    def move(self, source: int, index: int, goal: int) -> None:
        # The kernel looks for the device in the namespace of the calling thread.
        enter.inside(source, lambda: nldev.set_netns(index, goal))

    def node(self, handle: int, index: int) -> dict[str, t.Any]:
        """The uverbs character device that the kernel names, and whether it is there."""
        name, _abi, major, minor = enter.inside(handle, lambda: list(nldev.chardev(index, "uverbs")))
        path = "/dev/infiniband/%s" % name
        deadline = time.monotonic() + NODE_SECONDS
        while True:
            try:
                status = os.stat(path)
                there = (os.major(status.st_rdev), os.minor(status.st_rdev)) == (major, minor)
            except OSError:
                there = False
            if there or time.monotonic() > deadline:
                return {"path": path, "major": major, "minor": minor, "present": there}
            time.sleep(0.1)


def _list() -> list[dict[str, t.Any]]:
    return [
        {
            "name": row.name,
            "node_guid": row.node_guid,
            "index": row.index,
            "driver": drivers.driver(row.name),
            "netdevs": [port.netdev for port in nldev.ports(row.index) if port.netdev],
        }
        for row in nldev.devices()
    ]


def locate(name: str, mode: str | None, host: Host) -> Location:
    """Find the device in the host's namespace, else in every other one, by its name or its node GUID.

    From Linux 7.3 on, a name is unique in its namespace only: the kernel looks for namesakes where the device is
    (__ib_device_get_by_name() in drivers/infiniband/core/device.c).
    """
    here = host.initial()
    known = []
    for device in host.devices(here.handle):
        known.append(device["name"])
        if _is(device, name):
            return _location(device, here.handle, here.inode, here.text, initial=True)
    host.close(here.handle)
    problem = None
    if mode == "exclusive":
        namespaces, problem = host.other_namespaces()
        answers, unanswered = walk.values(namespaces, host.inside(namespaces))
        problem = problem or unanswered
        inside = [(space, device) for space, devices in answers for device in devices]
        known += [device["name"] for _space, device in inside]
        # A device that moves meanwhile is seen twice.
        matches = {device["index"]: (space, device) for space, device in inside if _is(device, name)}
        if len(matches) > 1:
            raise DeviceError(_several(name, list(matches.values()), host))
        for space, device in matches.values():
            try:
                handle = host.open(space)
            except OSError as exc:
                problem = problem or str(exc)
                continue
            pod = host.pod(space)
            text = "pod %s" % pod if pod else _netns_label(space)
            return _location(device, handle, space.inode, text, initial=False)._replace(pod=pod)
    raise GoneError(
        "No RDMA device is named %s on this host. There are: %s%s"
        % (
            name,
            ", ".join(sorted(known)) or "none",
            ". It may be in a namespace that was not searched: " + problem if problem else "",
        ),
        complete=problem is None,
    )


def _is(device: t.Mapping[str, t.Any], name: str) -> bool:
    # A virtual function's GUID is zero until it gets one.
    return device["name"] == name or (device.get("node_guid") == name and bool(name.strip("0:")))


def _several(name: str, matches: t.Sequence[tuple[survey.Namespace, t.Mapping[str, t.Any]]], host: Host) -> str:
    places = []
    for space, device in matches:
        pod = host.pod(space)
        place = "pod %s" % pod if pod else _netns_label(space)
        places.append("that with the node GUID %s in %s" % (device.get("node_guid"), place))
    return "Several RDMA devices of this host are named %s: %s. Give the node GUID instead of the name" % (
        name, ", ".join(places),
    )  # fmt: skip


def _location(device: t.Mapping[str, t.Any], handle: int, inode: int, text: str, *, initial: bool) -> Location:
    index, driver, netdevs = device["index"], device["driver"], list(device["netdevs"])
    return Location(index, handle, inode, text, initial, driver, netdevs, device["name"])


def _netns_label(space: survey.Namespace) -> str:
    if space.name:
        return "netns %s" % space.name
    for holder in space.holders:
        if holder.kind == "process":
            return "net:[%d] of process %d (%s)" % (space.inode, holder.pid, holder.command)
    return "net:[%d]" % space.inode


def use(location: Location, host: Host) -> Use:
    """Who uses the device, less the subsystem itself and the device's own driver."""
    processes: dict[int | None, dict[str, t.Any]] = {}
    kernel = set()
    for pid, module in host.users(location.handle, location.index):
        if module is not None:
            kernel.add(module.strip("[]"))
        else:
            processes[pid] = {"pid": pid, "command": host.command(pid) if pid is not None else ""}
    rest = kernel - set(CORE) - set(DRIVERS) - {location.driver}
    return Use(sorted(processes.values(), key=lambda row: (row["pid"] is None, row["pid"] or 0)), sorted(rest))


def _refuse(name: str, location: Location, goal: str, mode: str | None, host: Host) -> None:
    """Refuse what the kernel would refuse, in words that help."""
    doing = "Moving the RDMA device %s from %s to %s" % (name, location.text, goal)
    if mode != "exclusive":
        raise DeviceError(
            "%s: the RDMA subsystem is in mode %s, in which devices belong to no namespace. "
            "Switch it to exclusive first (module rdma_system, netns_mode: exclusive)" % (doing, mode or "shared")
        )
    can, why = drivers.ability(
        location.driver, not location.initial, host.netns_capable_drivers() if location.initial else None
    )
    if can is False:
        raise DeviceError(
            "%s: its driver cannot move a device to another network namespace: %s. "
            "Give the pod the host's network, or a device of another driver" % (doing, why)
        )


def _refuse_pods(name: str, location: Location, goal: Target, disrupt: bool) -> None:
    """A pod that runs keeps what it was given, whether or not it uses it just now."""
    if location.pod and not disrupt:
        raise DeviceError(
            "Moving the RDMA device %s from %s to %s: the pod is running and holds it. Delete it, choose a free "
            "device, or set disrupt to true" % (name, location.text, goal.text)
        )


def _refuse_users(name: str, location: Location, goal: str, disrupt: bool, who: Use) -> None:
    doing = "Moving the RDMA device %s from %s to %s" % (name, location.text, goal)
    firm = [module for module in who.kernel if module not in INTERRUPTED]
    if firm:
        raise DeviceError(
            "%s: the kernel itself uses it (%s), for a mount, a block device or a connection that would hang. "
            "Unmount or disconnect that first; disrupt does not help here" % (doing, ", ".join(firm))
        )
    if disrupt or not (who.processes or who.kernel):
        return
    users = ["%s (PID %s)" % (row["command"] or "a process", row["pid"] or "unseen") for row in who.processes[:5]]
    users += ["and %d more" % (len(who.processes) - 5)] if len(who.processes) > 5 else []
    users += ["the kernel's %s" % module for module in who.kernel]
    raise DeviceError(
        "%s: it is in use, and a move cuts off all its users: %s. Stop them, or set disrupt to true"
        % (doing, ", ".join(users))
    )


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    attached = params["state"] == "attached"
    mode = host.mode()
    location = locate(params["name"], mode, host)
    params = {**params, "name": location.name}
    goal = None
    try:
        kind = next((kind for kind in target.KINDS if params[kind] is not None), None)
        goal = host.resolve(kind, params[kind]) if attached and kind else host.initial()
        return _decide(params, check_mode, host, mode, location, goal)
    finally:
        host.close(location.handle)
        if goal is not None:
            host.close(goal.handle)


def _decide(
    params: t.Mapping[str, t.Any], check_mode: bool, host: Host, mode: str | None, location: Location, goal: Target
) -> dict[str, t.Any]:
    name = params["name"]
    decision = Decision()
    who = Use([], [])
    # The kernel would "move" it to where it is by a reset, which cuts off its users.
    differs = location.inode != goal.inode
    if differs:
        _refuse(name, location, goal.text, mode, host)
        if params["state"] == "attached":
            _refuse_pods(name, location, goal, params["disrupt"])
        who = use(location, host)
        _refuse_users(name, location, goal.text, params["disrupt"], who)
        decision.add(
            "Move the RDMA device %s from %s to %s" % (name, location.text, goal.text),
            lambda: host.move(location.handle, location.index, goal.handle),
        )
        decision.show("rdma device %s" % name, "%s\n" % location.text, "%s\n" % goal.text)
    after: dict[str, t.Any] = {"name": name, "netns": {"inode": goal.inode, "text": goal.text}, "chardev": None}
    warnings: list[str] = []
    if not check_mode:
        decision.carry_out()
        if differs:
            after.update(_proof(name, location, goal, host, warnings))
    return {
        **decision.result(),
        "name": name,
        "index": location.index,
        "driver": location.driver,
        "netns": {"inode": location.inode, "text": location.text, "initial": location.initial},
        "users": who.processes,
        "kernel_users": who.kernel,
        "after": after,
        "warnings": warnings,
        "resources": [
            resource(
                "rdma_device",
                name,
                desired=goal.text,
                live=location.text if differs else goal.text,
                status=DRIFT if differs else IN_SYNC,
            )
        ],
    }


def _proof(name: str, location: Location, goal: Target, host: Host, warnings: list[str]) -> dict[str, t.Any]:
    """Read back where the device is now, by its index: on its way home udev may give it another name."""
    there = [device for device in host.devices(goal.handle) if device["index"] == location.index]
    if not there:
        raise DeviceError(
            "Moving the RDMA device %s to %s: the kernel reported success, but the device is not there"
            % (name, goal.text)
        )
    node = host.node(goal.handle, location.index)
    if not node["present"]:
        raise DeviceError(
            "Moving the RDMA device %s to %s: it is there, but its character device %s (%d:%d) is missing, so no "
            "program can open it. Is devtmpfs mounted on /dev, and the module ib_uverbs loaded?"
            % (name, goal.text, node["path"], node["major"], node["minor"])
        )
    if not there[0]["netdevs"]:
        before = " (%s was with it before)" % ", ".join(location.netdevs) if location.netdevs else ""
        warnings.append(
            "%s is in %s, where none of its network devices is%s: RoCE has no GIDs there, and RDMA CM no address. "
            "Move the network device too" % (there[0]["name"], goal.text, before)
        )
    return {"name": there[0]["name"], "chardev": {key: node[key] for key in ("path", "major", "minor")}}


__all__ = ("DeviceError", "Location", "GoneError", "Host", "Use", "locate", "manage", "use")
