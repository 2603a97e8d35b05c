# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Software RDMA links (soft-RoCE, siw): made on a network device, in the namespace where that is.

A link has no hardware that identifies it, so its name does, once on a host. That is right from Linux 7.3 on, too: a
link is made in the initial namespace, where its name must be free (assign_name() in drivers/infiniband/core/device.c),
and is moved from there.
"""

from __future__ import annotations

import os
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._netns import enter, target
from .._rdma import nldev
from . import move

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.target import Target
    from .move import Location

# Link types of drivers/infiniband/sw and the modules that provide them.
DRIVERS = {"rxe": "rdma_rxe", "siw": "siw"}


class LinkError(move.DeviceError):
    """The link cannot be made or removed; the text says why, and what unblocks it. Nothing has been changed."""


class Host(move.Host):
    """The edges: those of the devices, and making and removing links."""

    def netdevs(self, handle: int) -> list[str]:
        return t.cast("list[str]", enter.inside(handle, lambda: sorted(os.listdir("/sys/class/net")), sysfs=True))

    def add(self, handle: int, name: str, link_type: str, netdev: str) -> None:
        # The network device is looked up in the namespace of the socket; the RDMA device is born in the initial one.
        enter.inside(handle, lambda: nldev.link_add(name, link_type, netdev))

    def delete(self, handle: int, index: int) -> None:
        enter.inside(handle, lambda: nldev.link_del(index))


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    try:
        mode = host.mode()
    except nldev.NotLoaded:
        mode = None
    location = _existing(params["name"], mode, host) if mode else None
    goal = None
    try:
        if params["state"] == "absent":
            return _absent(params, check_mode, host, location)
        kind = next((kind for kind in target.KINDS if params[kind] is not None), None)
        goal = host.resolve(kind, params[kind]) if kind else host.initial()
        return _present(params, check_mode, host, mode, location, goal)
    finally:
        for place in (location, goal):
            if place is not None:
                host.close(place.handle)


def _existing(name: str, mode: str | None, host: Host) -> Location | None:
    try:
        return move.locate(name, mode, host)
    except move.GoneError as exc:
        if not exc.complete:
            raise
        return None


def _result(
    params: t.Mapping[str, t.Any], decision: Decision, location: Location | None, text: str | None
) -> dict[str, t.Any]:
    live = (
        None
        if location is None
        else "%s on %s in %s" % (location.driver, ", ".join(location.netdevs) or "none", location.text)
    )
    return {
        **decision.result(),
        "name": params["name"],
        "link": None
        if location is None
        else {"index": location.index, "driver": location.driver, "netdevs": location.netdevs, "netns": location.text},
        "resources": [
            resource(
                "rdma_link",
                params["name"],
                desired=text,
                live=live,
                status=DRIFT if decision.changed else IN_SYNC,
            )
        ],
    }


def _present(
    params: t.Mapping[str, t.Any],
    check_mode: bool,
    host: Host,
    mode: str | None,
    location: Location | None,
    goal: Target,
) -> dict[str, t.Any]:
    name, link_type, netdev = params["name"], params["type"], params["netdev"]
    text = "%s on %s in %s" % (DRIVERS[link_type], netdev, goal.text)
    decision = Decision()
    if location is not None:
        other_netdev = bool(location.netdevs) and netdev not in location.netdevs
        if location.driver != DRIVERS[link_type] or location.inode != _home(mode, goal, host) or other_netdev:
            raise LinkError(
                "Creating the RDMA link %s of type %s on %s in %s: a device of that name already exists (%s on %s in "
                "%s). Remove it first (state: absent), or choose another name"
                % (
                    name,
                    link_type,
                    netdev,
                    goal.text,
                    location.driver or "of an unknown driver",
                    ", ".join(location.netdevs) or "no network device",
                    location.text,
                )
            )
        return _result(params, decision, location, text)
    known = host.netdevs(goal.handle)
    if netdev not in known:
        raise LinkError(
            "Creating the RDMA link %s: no network device %s in %s. There are: %s. A link does not survive "
            "the move of its network device: move that first" % (name, netdev, goal.text, ", ".join(known) or "none")
        )
    decision.add(
        "Create the RDMA link %s of type %s on %s in %s" % (name, link_type, netdev, goal.text),
        lambda: _make(name, link_type, netdev, mode, host, goal),
    )
    decision.show("rdma link %s" % name, "", text + "\n")
    if not check_mode:
        decision.carry_out()
    return _result(params, decision, None, text)


def _home(mode: str | None, goal: Target, host: Host) -> int:
    """The namespace that a link for ``goal`` belongs to: in shared mode every device is the initial one's."""
    if mode == "exclusive":
        return goal.inode
    first = host.initial()
    host.close(first.handle)
    return first.inode


def _make(name: str, link_type: str, netdev: str, mode: str | None, host: Host, goal: Target) -> None:
    host.add(goal.handle, name, link_type, netdev)
    first = host.initial()
    try:
        if mode is None:
            mode = host.mode()  # making the link has loaded ib_core
        if mode != "exclusive" or first.inode == goal.inode:
            return
        for device in host.devices(first.handle):
            if device["name"] == name:
                try:
                    host.move(first.handle, device["index"], goal.handle)
                except OSError as exc:
                    host.delete(first.handle, device["index"])
                    raise LinkError(
                        "Creating the RDMA link %s in %s: it was created, could not be moved there, and was removed "
                        "again: %s" % (name, goal.text, exc)
                    ) from exc
                return
    finally:
        host.close(first.handle)
    raise LinkError("Creating the RDMA link %s: the kernel reported success, but the device is missing" % name)


def _absent(params: t.Mapping[str, t.Any], check_mode: bool, host: Host, location: Location | None) -> dict[str, t.Any]:
    name = params["name"]
    decision = Decision()
    if location is not None:
        if location.driver not in DRIVERS.values():
            raise LinkError(
                "Removing the RDMA link %s: it is not a software link but a device of the driver %s, which is not "
                "removed" % (name, location.driver or "(unknown)")
            )
        who = move.use(location, host)
        if (who.processes or who.kernel) and not params["disrupt"]:
            users = ["%s (PID %s)" % (row["command"] or "a process", row["pid"] or "unseen") for row in who.processes]
            raise LinkError(
                "Removing the RDMA link %s: it is in use by %s. Stop them, or set disrupt to true"
                % (name, ", ".join(users + who.kernel))
            )
        decision.add(
            "Remove the RDMA link %s from %s" % (name, location.text),
            lambda: host.delete(location.handle, location.index),
        )
        decision.show("rdma link %s" % name, "%s on %s\n" % (location.driver, ", ".join(location.netdevs)), "")
    if not check_mode:
        decision.carry_out()
    return _result(params, decision, location, None)


__all__ = ("DRIVERS", "Host", "LinkError", "manage")
