# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Take the network device of a PCI card back to the host, out of a namespace that a pod has left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import typing as t

from .. import _command
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._netns import enter, pods, survey, target, walk
from .._rdma import pci_netdevs
from .._rdma.pci_netdevs import Netdev
from .._rdma.rtnetlink import missing_pyroute2
from . import former
from .info import pod_of, pod_text

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

LIMIT_S = 40
ALTNAME_LIMIT_S = 10


class DeviceError(FabricError):
    """The network device cannot be taken back; the text says why, and what unblocks it."""


class Location(t.NamedTuple):
    """Where a network device is. No namespace: on the host."""

    netdev: Netdev
    space: Namespace | None


class Look(t.NamedTuple):
    """What the namespace of a network device shows of it."""

    former: list[str]  # what may be the name that it had on the host, the surest one first
    immutable: bool  # the kernel says that it stays in its namespace; False: it does not say so


class Host:
    """The edges."""

    def here(self) -> list[Netdev]:
        return pci_netdevs.netdevs()

    def names(self) -> list[str]:
        """Names of all network devices of the host."""
        return os.listdir("/sys/class/net")

    def others(self) -> tuple[list[Namespace], str | None]:
        surveyed = survey.survey()
        return surveyed.namespaces, surveyed.problem

    def inside(self, spaces: t.Sequence[Namespace]) -> dict[int, Answer]:
        """The network devices of cards in each namespace, by its inode."""
        return walk.look_into(spaces, pci_netdevs.netdevs)

    def pods(self) -> dict[str, tuple[str, str]]:
        return pods.names()

    def look(self, space: Namespace, netdev: Netdev) -> Look:
        inside = enter.within(space, lambda: former.inside(netdev.name), sysfs=True, timeout=LIMIT_S)
        return Look(former.names(netdev, inside), inside["immutable"])

    def take(self, space: Namespace, device: Netdev, name: str) -> None:
        """Give a network device to the host's namespace, under a name that may be a new one."""
        doing = "Taking the network device %s (%s) back to the host as %s" % (device.name, device.identity, name)
        _require_pyroute2(doing)
        host = target.initial()
        try:
            failure = enter.within(space, lambda: _move(device, host.handle, name), sysfs=True, timeout=LIMIT_S)
        finally:
            os.close(host.handle)
        if failure:
            raise DeviceError("%s: %s" % (doing, failure))


def _require_pyroute2(doing: str) -> None:
    try:
        import pyroute2.netlink.exceptions  # noqa: F401 (the child has it already then)
    except ImportError as exc:
        text = missing_pyroute2(exc, "with gpu_node_return_stranded_ok=true")
        raise DeviceError("%s: %s" % (doing, text)) from exc


def _move(device: Netdev, host: int, name: str) -> str:
    """Move a network device out of the namespace of this process, and return why it failed, if it did.

    The kernel gets its index, so that a device that has taken its name since is not moved.
    """
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        index = socket.if_nametoindex(device.name)
    except OSError:
        index = 0
    if not index or device not in pci_netdevs.netdevs():
        return "it is no longer in its network namespace under that name. Run again"
    # The kernel refuses a name that the device has as an alternative one (dev_get_valid_name() in net/core/dev.c). It
    # seldom has, and older releases of pyroute2 cannot remove it, so an error does not matter here.
    with contextlib.suppress(OSError, _command.TimedOut):
        _command.run(["ip", "link", "property", "del", "dev", device.name, "altname", name], ALTNAME_LIMIT_S)
    with IPRoute() as route:
        try:
            route.link("set", index=index, net_ns_fd=host, ifname=name)
        except NetlinkError as exc:
            return "the kernel refused to move or rename it: %s" % os.strerror(exc.code)
    return ""


def locate(wanted: Netdev, host: Host) -> Location:
    """Find a network device by what it is, in the host's namespace, else in every other one."""
    here = host.here()
    places = [Location(netdev, None) for netdev in here if netdev.identity == wanted.identity]
    problem = None
    others: list[Netdev] = []
    if not places:
        spaces, problem = host.others()
        reached, unread = walk.values(spaces, host.inside(spaces))
        problem = problem or unread
        inside = [(Netdev(*row), space) for space, rows in reached for row in rows]
        others = [netdev for netdev, _space in inside]
        places = [Location(netdev, space) for netdev, space in inside if netdev.identity == wanted.identity]
    if len(places) == 1:
        return places[0]
    if places:
        raise DeviceError(
            "Several network devices are %s, and nothing tells them apart: %s. Move one with 'ip link set netns'"
            % (wanted.identity, ", ".join(sorted(place.netdev.name for place in places)))
        )
    there = [netdev for netdev in others if netdev.pci_address == wanted.pci_address]
    raise DeviceError(
        "No network device of this host is %s. The host's own namespace has: %s%s%s"
        % (
            wanted.identity,
            _listed(here) or "none",
            ". Other namespaces have, at this PCI address: " + _listed(there) if there else "",
            ". It may be in a namespace that was not searched: " + problem if problem else "",
        )
    )


def _listed(netdevs: t.Sequence[Netdev]) -> str:
    return ", ".join("%s (%s)" % (netdev.identity, netdev.name) for netdev in netdevs)


def _name_at_home(params: t.Mapping[str, t.Any], location: Location, host: Host) -> str:
    """The name that a network device gets on the host. Refuse one that another device has."""
    netdev, space = location
    if space is None:
        return netdev.name
    look = host.look(space, netdev)
    if look.immutable:
        raise DeviceError(
            "Taking the network device %s (%s) back to the host: the kernel keeps it in its network namespace "
            "(netns-immutable). mlx5 does so in switchdev mode: set the card to legacy mode in that namespace "
            "('devlink dev eswitch set')" % (netdev.name, netdev.identity)
        )
    name = params["name"] or next(iter(look.former), netdev.name)
    if name in host.names():
        raise DeviceError(
            "Taking the network device %s (%s) back to the host as %s: the host already has a network device of that "
            "name. Choose another one (name)" % (netdev.name, netdev.identity, name)
        )
    return str(name)


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    wanted = Netdev("", params["pci_address"], params["auxiliary_device"], params["port"])
    identity = wanted.identity
    location = locate(wanted, host)
    device, space = location
    name = device.name
    decision = Decision()
    live = "the host"
    if space is not None:
        pod = pod_of(space, host.pods())
        live = "netns %s" % space.name if space.name else "net:[%d]" % space.inode
        if pod:
            live = pod_text(pod)
        if pod and not params["disrupt"]:
            raise DeviceError(
                "Taking the network device %s (%s) back to the host: %s is running and has it. Delete that pod, or set "
                "disrupt to true" % (device.name, identity, live)
            )
        name = _name_at_home(params, location, host)
        decision.add(
            "Take the network device %s (%s) from %s to the host as %s" % (device.name, identity, live, name),
            functools.partial(host.take, space, device, name),
        )
        decision.show("network device %s" % identity, "%s in %s\n" % (device.name, live), "%s on the host\n" % name)
    if not check_mode:
        decision.carry_out()
        if decision.changed:
            name = _proof(wanted, device, host)
    return {
        **decision.result(),
        "pci_address": params["pci_address"],
        "name": device.name,
        "netns": live,
        "after": {"name": name, "netns": "the host"},
        "resources": [
            resource(
                "network_device",
                identity,
                desired="the host",
                live=live,
                status=DRIFT if decision.changed else IN_SYNC,
            )
        ],
    }


def _proof(wanted: Netdev, before: Netdev, host: Host) -> str:
    """Return the name that the network device has on the host now: udev may have given it another one."""
    after = locate(wanted, host)
    if after.space is not None:
        raise DeviceError(
            "Taking the network device %s (%s) back to the host: the kernel reported success, but the device is still "
            "in another network namespace" % (before.name, wanted.identity)
        )
    return after.netdev.name


__all__ = ("DeviceError", "Host", "Location", "Look", "locate", "manage")
