# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Take the network device of a PCI card back to the host, out of a namespace that a pod has left behind."""

from __future__ import annotations

import os
import socket
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._netns import enter, pods, survey, target, walk
from .._rdma import pci_netdevs
from .info import pod_of, pod_text

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

LIMIT_S = 40


class DeviceError(FabricError):
    """The network device cannot be taken back; the text says why, and what unblocks it."""


class Location(t.NamedTuple):
    """Where a card's network device is. No namespace: on the host."""

    name: str
    space: Namespace | None


class Host:
    """The edges."""

    def here(self) -> list[pci_netdevs.Netdev]:
        return pci_netdevs.netdevs()

    def others(self) -> tuple[list[Namespace], str | None]:
        surveyed = survey.survey()
        return surveyed.namespaces, surveyed.problem

    def inside(self, spaces: t.Sequence[Namespace]) -> dict[int, Answer]:
        """Name and PCI address of each network device in each namespace, by its inode."""
        return walk.look_into(spaces, pci_netdevs.netdevs)

    def pods(self) -> dict[str, tuple[str, str]]:
        return pods.names()

    def take(self, space: Namespace, device: pci_netdevs.Netdev, name: str) -> None:
        """Give a network device to the host's namespace, under a name that may be a new one."""
        doing = "Taking the network device %s (%s) back to the host as %s" % (device.name, device.pci_address, name)
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
        from ansible.module_utils.basic import missing_required_lib

        raise DeviceError(
            "%s: %s (%s). The package is python3-pyroute2; the role gpu_node installs it with "
            "gpu_node_return_stranded_ok=true" % (doing, missing_required_lib("pyroute2"), exc)
        ) from exc


def _move(device: pci_netdevs.Netdev, host: int, name: str) -> str:
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
    with IPRoute() as route:
        try:
            route.link("set", index=index, net_ns_fd=host, ifname=name)
        except NetlinkError as exc:
            return "the kernel refused to move or rename it: %s" % os.strerror(exc.code)
    return ""


def locate(pci_address: str, host: Host) -> Location:
    """Find the network device of a card in the host's namespace, else in every other one."""
    here = host.here()
    for netdev in here:
        if netdev.pci_address == pci_address:
            return Location(netdev.name, None)
    spaces, problem = host.others()
    reached, unread = walk.values(spaces, host.inside(spaces))
    problem = problem or unread
    for space, netdevs in reached:
        for name, address in netdevs:
            if address == pci_address:
                return Location(name, space)
    known = ", ".join("%s (%s)" % (netdev.pci_address, netdev.name) for netdev in here) or "none"
    raise DeviceError(
        "No network device of this host has the PCI address %s. The host's own namespace has: %s%s"
        % (pci_address, known, ". It may be in a namespace that was not searched: " + problem if problem else "")
    )


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    address = params["pci_address"]
    device = locate(address, host)
    name = params["name"] or device.name
    decision = Decision()
    live = "the host"
    if device.space is not None:
        space = device.space
        pod = pod_of(space, host.pods())
        live = "netns %s" % space.name if space.name else "net:[%d]" % space.inode
        if pod:
            live = pod_text(pod)
        if pod and not params["disrupt"]:
            raise DeviceError(
                "Taking the network device %s (%s) back to the host: %s is running and has it. Delete that pod, or set "
                "disrupt to true" % (device.name, address, live)
            )
        namesakes = sorted(netdev.pci_address for netdev in host.here() if netdev.name == name)
        if namesakes:
            raise DeviceError(
                "Taking the network device %s (%s) back to the host as %s: the host's %s already has that name. Choose "
                "another one" % (device.name, address, name, namesakes[0])
            )
        decision.add(
            "Take the network device %s (%s) from %s to the host as %s" % (device.name, address, live, name),
            lambda: host.take(space, pci_netdevs.Netdev(device.name, address), name),
        )
        decision.show("network device %s" % address, "%s in %s\n" % (device.name, live), "%s on the host\n" % name)
    if not check_mode:
        decision.carry_out()
        if decision.changed and locate(address, host) != Location(name, None):
            raise DeviceError(
                "Taking the network device %s (%s) back to the host: the kernel reported success, but the device is "
                "still missing" % (device.name, address)
            )
    return {
        **decision.result(),
        "pci_address": address,
        "name": device.name,
        "netns": live,
        "after": {"name": name if decision.changed else device.name, "netns": "the host"},
        "resources": [
            resource(
                "network_device",
                address,
                desired="the host",
                live=live,
                status=DRIFT if decision.changed else IN_SYNC,
            )
        ],
    }


__all__ = ("DeviceError", "Host", "Location", "locate", "manage")
