# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Take the network device of a PCI card back to the host, out of a namespace that a pod has left behind."""

from __future__ import annotations

import typing as t

from .. import _command
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._netns import enter, pods, survey, walk
from .._rdma import pci_netdevs
from .info import pod_of, pod_text

if t.TYPE_CHECKING:  # pragma: no cover
    from .._netns.child import Answer
    from .._netns.survey import Namespace

LIMIT_S = 30


class DeviceError(FabricError):
    """The network device cannot be taken back; the text says why, and what unblocks it. Nothing has been changed."""


class Found(t.NamedTuple):
    """Where a card's network device is. No namespace: on the host."""

    name: str
    space: Namespace | None


class Host:
    """The edges."""

    def here(self) -> list[pci_netdevs.Netdev]:
        return pci_netdevs.netdevs()

    def others(self) -> tuple[list[Namespace], str | None]:
        found = survey.survey()
        return found.namespaces, found.problem

    def inside(self, spaces: t.Sequence[Namespace]) -> dict[int, Answer]:
        """Name and PCI address of each network device in each namespace, by its inode."""
        return walk.look_into(spaces, pci_netdevs.netdevs)

    def pods(self) -> dict[str, tuple[str, str]]:
        return pods.names()

    def take(self, space: Namespace, netdev: str, name: str) -> None:
        """Give a network device to the namespace of process 1, under a name that may be a new one."""
        argv = ["ip", "link", "set", "dev", netdev, "netns", "1", "name", name]
        said = enter.within(space, lambda: _run(argv), timeout=LIMIT_S + 10)
        if said:
            raise DeviceError(
                "Taking the network device %s back to the host as %s: '%s' failed: %s"
                % (netdev, name, " ".join(argv), said)
            )


def _run(argv: t.Sequence[str]) -> str:
    """Run a program, and return its message if it failed."""
    try:
        done = _command.run(argv, LIMIT_S)
    except _command.TimedOut:
        return "timed out after %d s" % LIMIT_S
    return "" if done.status == 0 else done.err.strip() or "exit status %d" % done.status


def locate(pci_address: str, host: Host) -> Found:
    """Find the network device of a card in the host's namespace, else in every other one."""
    here = host.here()
    for netdev in here:
        if netdev.pci_address == pci_address:
            return Found(netdev.name, None)
    spaces, problem = host.others()
    answers = host.inside(spaces)
    problem = problem or walk.unreached(spaces, answers)
    for space in spaces:
        answer = answers[space.inode]
        if "value" not in answer:
            problem = problem or answer["error"]
            continue
        for name, address in answer["value"]:
            if address == pci_address:
                return Found(name, space)
    known = ", ".join("%s (%s)" % (one.pci_address, one.name) for one in here) or "none"
    raise DeviceError(
        "No network device of this host has the PCI address %s. The host's own namespace has: %s%s"
        % (pci_address, known, ". It may be in a namespace that was not searched: " + problem if problem else "")
    )


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    address = params["pci_address"]
    found = locate(address, host)
    name = params["name"] or found.name
    decision = Decision()
    live = "the host"
    if found.space is not None:
        space = found.space
        pod = pod_of(space, host.pods())
        live = "netns %s" % space.name if space.name else "net:[%d]" % space.inode
        if pod:
            live = pod_text(pod)
        if pod and not params["disrupt"]:
            raise DeviceError(
                "Taking the network device %s (%s) back to the host: %s is running and has it. Delete that pod, or set "
                "disrupt to true" % (found.name, address, live)
            )
        taken = sorted(one.pci_address for one in host.here() if one.name == name)
        if taken:
            raise DeviceError(
                "Taking the network device %s (%s) back to the host as %s: the host's %s already has that name. Choose "
                "another one" % (found.name, address, name, taken[0])
            )
        decision.add(
            "Take the network device %s (%s) from %s to the host as %s" % (found.name, address, live, name),
            lambda: host.take(space, found.name, name),
        )
        decision.show("network device %s" % address, "%s in %s\n" % (found.name, live), "%s on the host\n" % name)
    if not check_mode:
        decision.carry_out()
        if decision.changed and locate(address, host) != Found(name, None):
            raise DeviceError(
                "Taking the network device %s (%s) back to the host: the kernel reported success, but the device is "
                "still missing" % (found.name, address)
            )
    return {
        **decision.result(),
        "pci_address": address,
        "name": found.name,
        "netns": live,
        "after": {"name": name if decision.changed else found.name, "netns": "the host"},
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


__all__ = ("DeviceError", "Found", "Host", "locate", "manage")
