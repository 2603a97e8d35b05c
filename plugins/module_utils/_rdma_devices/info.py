# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The RDMA devices of a host, in its own network namespace and in all others."""

from __future__ import annotations

import errno
import os
import typing as t

from .._netns import pods
from .._rdma import addresses, devices, drivers, nldev

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

SUBSETS = ("gids", "empty_gids", "pkeys", "counters", "hw_counters", "active_mtu", "users")
DEFAULT_SUBSETS = ("gids", "pkeys")


class Host:
    """The edges: everything that is read from the host."""

    def system(self) -> tuple[bool, str | None]:
        """Whether ib_core is loaded, and the mode; None from a kernel older than Linux 5.2, which has no modes."""
        try:
            return True, nldev.sys_get().netns_mode
        except nldev.NotLoaded:
            return False, None
        except nldev.NldevError as exc:
            if exc.errno != errno.EINVAL:
                raise
            return True, None

    def own(self) -> int:
        return os.stat("/proc/self/ns/net").st_ino

    def initial(self) -> int | None:
        from .._netns import target

        return target.initial_inode()

    def look(self, gather: t.Collection[str]) -> dict[str, t.Any]:
        return devices.look(gather)

    def netns_capable_drivers(self) -> set[str] | None:
        return drivers.netns_capable_drivers()

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        """The other namespaces, and why the list may be incomplete."""
        from .._netns import survey

        result = survey.survey()
        return result.namespaces, result.problem

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, Answer]:
        """What devices.look() returns in each namespace, by its inode."""
        from .._netns import walk

        return walk.look_into(spaces, lambda: devices.look(gather))

    def look_in_pod(self, pod: str, gather: t.Collection[str]) -> dict[str, t.Any]:
        """What is in the namespace of a pod: what devices.look() returns, and the ``gids`` of its network devices.

        With the namespace's ``inode`` and the pod's ``uid``.
        """
        from .._netns import enter, target

        opened, uid = target.of_pod(pod)

        def everything() -> dict[str, t.Any]:
            return {**devices.look(gather), "gids": addresses.gids()}

        try:
            result = enter.inside(opened.handle, everything, sysfs=True, timeout=60.0)
        finally:
            os.close(opened.handle)
        return {**result, "inode": opened.inode, "uid": uid}

    def pods(self) -> dict[str, tuple[str, str]]:
        return pods.names()

    def claims(self) -> dict[str, list[str]]:
        return pods.claims()


def pod_of(space: Namespace, names: t.Mapping[str, tuple[str, str]]) -> dict[str, str | None] | None:
    """The pod whose processes are in a namespace; name and namespace None if the kubelet has no log of it.

    A pod that sees the mount of a namespace, as thick Multus and dranet do, is not in it.
    """
    for holder in space.holders:
        uid = holder.kind == "process" and holder.pod and holder.pod.get("uid")
        if uid:
            namespace, name = names.get(uid, (None, None))
            return {"namespace": namespace, "name": name, "uid": uid}
    return None


def with_claims(pod: t.Mapping[str, t.Any] | None, claims: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any] | None:
    """Add to a pod that pod_of() returned which ResourceClaims it has; ``claims`` has them by the UID of the pod."""
    return None if pod is None else {**pod, "claims": list(claims.get(pod["uid"], ()))}


def pod_text(pod: t.Mapping[str, t.Any]) -> str:
    """The usual name of a pod that pod_of() returned."""
    return "pod %s/%s" % (pod["namespace"], pod["name"]) if pod["name"] else "the pod with the UID %s" % pod["uid"]


def of_pod(devices: t.Sequence[dict[str, t.Any]], own: t.Mapping[str, t.Collection[str]]) -> list[dict[str, t.Any]]:
    """What of the devices that every namespace shows, in shared mode, is the pod's.

    The GIDs of its own network devices are, and ports that have one; InfiniBand has no network device. ``own`` has the
    GIDs by network device. The kernel prints the name of a GID's network device without its namespace (print_ndev() in
    drivers/infiniband/core/sysfs.c), and many pods call theirs net1.
    """
    result = []
    for device in devices:
        ports = []
        for port in device["ports"]:
            gids = port["gids"]
            if port["link_layer"] != "InfiniBand" and gids is not None:
                gids = [gid for gid in gids if addresses.address_of(gid["gid"]) in own.get(gid["netdev"] or "", ())]
                if not gids and port["netdev"] not in own:
                    continue
            ports.append({**port, "gids": gids})
        if ports or not device["ports"]:
            result.append({**device, "ports": ports})
    return result


def gather_info(subsets: t.Sequence[str], all_netns: bool, host: Host, pod: str | None = None) -> dict[str, t.Any]:
    """Return what the module rdma_info returns."""
    loaded, mode = host.system()
    if not loaded:
        return {"netns_mode": None, "devices": [], "unreadable": []}
    if pod:
        look = host.look_in_pod(pod, subsets)
        own = look["inode"]
        namespace, _slash, name = pod.partition("/")
        place: dict[str, str | None] | None = {"namespace": namespace, "name": name, "uid": look["uid"]}
        rows = look["devices"] if mode == "exclusive" else of_pod(look["devices"], look["gids"])
    else:
        own, place, look = host.own(), None, host.look(subsets)
        rows = look["devices"]
    result = [_placed(device, own, None, own == host.initial(), place) for device in rows]
    unreadable = [{**line, "netns": {"inode": own, "name": None}} for line in look["unreadable"]]
    # In shared mode every namespace shows every device, and all of them are the initial one's.
    if all_netns and mode == "exclusive":
        inside, missed = _elsewhere(subsets, host)
        result += inside
        unreadable += missed
    able = (
        host.netns_capable_drivers()
        if any(device["netns"]["initial"] and device["driver"] for device in result)
        else None
    )
    claims = host.claims() if any(device["pod"] for device in result) else {}
    for device in result:
        device["pod"] = with_claims(device["pod"], claims)
        moved = not device["netns"]["initial"] and mode == "exclusive"
        can, source = drivers.ability(device["driver"], moved, able)
        device["can_change_netns"], device["can_change_netns_source"] = can, source
    result.sort(key=lambda device: device["index"])
    return {"netns_mode": mode, "devices": result, "unreadable": unreadable}


def _elsewhere(subsets: t.Sequence[str], host: Host) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """The devices in all other namespaces, and what could not be read."""
    from .._netns import walk

    spaces, problem = host.other_namespaces()
    answers = host.look_inside(spaces, subsets)
    devices: list[dict[str, t.Any]] = []
    unreadable: list[dict[str, t.Any]] = []
    for text in filter(None, (problem, walk.unreached(spaces, answers))):
        unreadable.append({"device": None, "what": "network namespaces", "error": text, "netns": None})
    names = host.pods() if any(holder.pod for space in spaces for holder in space.holders) else {}
    for space in spaces:
        where = {"inode": space.inode, "name": space.name}
        answer = answers[space.inode]
        if "value" in answer:
            held = pod_of(space, names)
            inside = answer["value"]
            devices += [_placed(device, space.inode, space.name, False, held) for device in inside["devices"]]
            unreadable += [{**line, "netns": where} for line in inside["unreadable"]]
        elif answer["error"] != walk.NOT_REACHED:
            text = answer["error"]
            unreadable.append({"device": None, "what": "network namespace", "error": text, "netns": where})
    return devices, unreadable


def _placed(
    device: dict[str, t.Any],
    inode: int,
    name: str | None,
    initial: bool,
    pod: t.Mapping[str, str | None] | None,
) -> dict[str, t.Any]:
    return {**device, "netns": {"inode": inode, "name": name, "initial": initial}, "pod": pod}


__all__ = ("DEFAULT_SUBSETS", "SUBSETS", "Host", "gather_info", "of_pod", "pod_of", "pod_text", "with_claims")
