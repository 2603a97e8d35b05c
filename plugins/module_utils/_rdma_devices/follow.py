# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""RDMA devices that go where their network devices are.

A network plugin gives a pod the network device of a card. The card's RDMA device stays with the host, unless
another program moves it, too. What belongs together is found by the PCI address and, of a sub-function, the auxiliary
device, which do not change with a namespace or a name.
"""

from __future__ import annotations

import errno
import os
import typing as t

from .._errors import FabricError
from .._netns import enter, quick_survey, walk
from .._netns.survey import Namespace
from .._netns.target import Target
from .._rdma import nldev, pci_netdevs
from .._rdma.pci_netdevs import Function, Netdev
from . import link as rdma_devices_link
from . import move

# An answer in a namespace takes milliseconds, and a pod waits for the end of the whole look.
LIMIT_S, TOTAL_S = 2.0, 10.0


class Link(t.NamedTuple):
    """A software link that a card without RDMA hardware is to have, wherever the card is."""

    name: str
    type: str
    pci_address: str


class Device(t.NamedTuple):
    """An RDMA device of the host's namespace. ``incomplete``: not all its ports have their network device there."""

    name: str
    function: Function | None
    node_guid: str | None = None
    incomplete: bool = False


class Place(t.NamedTuple):
    """Where a network device is: the namespace, the network device's name there, and the RDMA devices there."""

    space: Namespace
    netdev: str
    devices: tuple[str, ...]
    infiniband: bool = False

    @property
    def path(self) -> str:
        """What people find the namespace by."""
        holders = sorted(self.space.holders, key=lambda holder: holder.kind != "mount")
        return holders[0].path if holders else "net:[%d]" % self.space.inode


class Step(t.NamedTuple):
    """``link`` is made at ``place``; without a link the device is moved there. No place: the host."""

    device: str
    link: Link | None
    netdev: str
    place: Place | None


class Plan(t.NamedTuple):
    """``waiting`` says what may yet come, by device; ``wrong`` what will not."""

    steps: list[Step]
    waiting: dict[str, str]
    wrong: dict[str, str]


def members(
    devices: t.Sequence[Device], links: t.Sequence[Link], include: t.Sequence[str], exclude: t.Sequence[str]
) -> dict[str, Function]:
    """Function by name of every device that is to go with its network device.

    ``include`` and ``exclude`` have names, node GUIDs and functions: a device may come back under another name.
    """
    functions = {device.name: device.function for device in devices}
    functions.update({link.name: Function(link.pci_address) for link in links})
    guids = {device.name: device.node_guid for device in devices}
    result = {}
    for name, function in sorted(functions.items()):
        if function is None:
            continue
        known = {name, str(function), guids.get(name)}
        if known.isdisjoint(exclude) and not (include and known.isdisjoint(include)):
            result[name] = function
    return result


def elsewhere(
    followed: t.Mapping[str, Function], devices: t.Sequence[Device], here: t.Sequence[Netdev]
) -> set[Function]:
    """The functions that have a network device, or more than one, that is not with the host."""
    incomplete = {device.function for device in devices if device.incomplete}
    local = {netdev.function for netdev in here}
    return {function for function in followed.values() if function not in local or function in incomplete}


def plan(
    followed: t.Mapping[str, Function],
    devices: t.Sequence[Device],
    here: t.Sequence[Netdev],
    places: t.Mapping[Function, t.Sequence[Place]],
    links: t.Sequence[Link],
    problem: str | None = None,
) -> Plan:
    """Decide for each device of ``followed``. ``places`` is where the network devices are that are not ``here``.

    ``problem`` says why some places may be missing.
    """
    result = Plan([], {}, {})
    kinds = {link.name: link for link in links}
    host = {device.name for device in devices}
    for name, function in followed.items():
        link = kinds.get(name)
        local = [netdev.name for netdev in here if netdev.function == function]
        candidates = places.get(function, ())
        paths = sorted({place.path for place in candidates}) + (["the host"] if local else [])
        if local and not candidates:
            if name not in host and link is not None:
                result.steps.append(Step(name, link, local[0], None))
        elif not candidates:
            text = "%s: the network device of %s is in no network namespace that could be seen"
            result.waiting[name] = text % (name, function) + (". " + problem if problem else "")
        elif len(paths) > 1:
            text = "%s: the network devices of %s are in several network namespaces (%s), but it can be in only one"
            result.wrong[name] = text % (name, function, ", ".join(paths))
        elif name in host and candidates[0].infiniband:
            result.wrong[name] = _IPOIB % (name, candidates[0].netdev, paths[0])
        elif name in host:
            result.steps.append(Step(name, None, candidates[0].netdev, candidates[0]))
        elif link is not None and name not in candidates[0].devices:
            result.steps.append(Step(name, link, candidates[0].netdev, candidates[0]))
    return result


# rdma_dev_change_netns() in drivers/infiniband/core/device.c disables the device, which removes the clients' network
# devices, and enables it again. https://github.com/k8snetworkplumbingwg/rdma-cni/pull/21
_IPOIB = (
    "%s: its IPoIB network device %s is in %s, and it is not moved there: the kernel would replace that network device "
    "by a new one without addresses. Use the network plugin ib-sriov with rdmaIsolation, which moves the RDMA device "
    "first"
)


class DeviceHost(move.Host):
    """Has one namespace to bring a device to: this very one, not what has its path by then."""

    def __init__(self, space: Namespace | None) -> None:
        self.space = space

    def resolve(self, kind: str, value: t.Any) -> Target:
        if self.space is None:
            return super().resolve(kind, value)
        return Target(enter.opened(self.space), self.space.inode, str(value))


class LinkHost(DeviceHost, rdma_devices_link.Host):
    """Looks for a link of that name where processes are, which needs fewer rights than to look everywhere.

    One in a namespace that only an open file keeps is not found. Before Linux 7.3 the kernel refuses its name then.
    """

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        survey = quick_survey.spaces()
        return survey.others, "; ".join("%s: %s" % item for item in survey.unreadable) or None


class Host:
    """The edges."""

    def devices(self) -> list[Device]:
        result = []
        for row in nldev.devices():
            target = os.path.realpath("/sys/class/infiniband/%s/device" % row.name)
            # InfiniBand ports have no network device of their own.
            ports = nldev.ports(row.index) if row.protocol == "roce" else []
            incomplete = any(port.netdev is None for port in ports)
            result.append(Device(row.name, pci_netdevs.function_of(target), row.node_guid, incomplete))
        return result

    def netdevs(self) -> list[Netdev]:
        return pci_netdevs.netdevs()

    def places(self, functions: t.Collection[Function]) -> tuple[dict[Function, list[Place]], str | None]:
        """Look into all other namespaces: a card with two network devices may have them in two. Report gaps."""
        result: dict[Function, list[Place]] = {}
        others = quick_survey.spaces().others
        answers = walk.look_into(others, _inside, LIMIT_S, TOTAL_S)
        problem = walk.unreached(others, answers)
        for space in others:
            answer = answers[space.inode]
            if "value" not in answer:
                if answer["errno"] != errno.ENOENT:  # else it ended while we looked
                    problem = problem or answer["error"]
                continue
            rows, devices = answer["value"]
            for netdev in (Netdev(*row) for row in rows):
                if netdev.function in functions:
                    place = Place(space, netdev.name, tuple(devices), netdev.infiniband)
                    result.setdefault(netdev.function, []).append(place)
        return result, problem

    def carry_out(self, step: Step) -> None:
        where = {"netns": step.place.path} if step.place else {}
        space = step.place.space if step.place else None
        if step.link:
            params = _params(step.device, "present", type=step.link.type, netdev=step.netdev, **where)
            rdma_devices_link.manage(params, False, LinkHost(space))
        else:
            move.manage(_params(step.device, "attached", **where), False, DeviceHost(space))


def _params(name: str, state: str, **others: t.Any) -> dict[str, t.Any]:
    nothing = dict.fromkeys(("netns", "pid", "container", "pod"))
    return {**nothing, "name": name, "state": state, "disrupt": False, **others}


def _inside() -> tuple[list[Netdev], list[str]]:
    return pci_netdevs.netdevs(), [row.name for row in nldev.devices()]


class Follower:
    """Brings devices to where they belong, and reports once what it did and what it cannot do."""

    def __init__(
        self,
        links: t.Sequence[Link],
        include: t.Sequence[str],
        exclude: t.Sequence[str],
        host: Host,
        say: t.Callable[[str], None],
    ) -> None:
        self.links, self.include, self.exclude = links, include, exclude
        self.host, self.say = host, say
        self.reported: dict[str, str] = {}

    def plan(self) -> Plan:
        devices, here = self.host.devices(), self.host.netdevs()
        followed = members(devices, self.links, self.include, self.exclude)
        missing = elsewhere(followed, devices, here)
        places, problem = self.host.places(missing) if missing else ({}, None)
        return plan(followed, devices, here, places, self.links, problem)

    def once(self) -> bool:
        """Do what is due now; return whether all is where it belongs."""
        due = self.plan()
        problems = {**due.waiting, **due.wrong}
        for step in due.steps:
            where = step.place.path if step.place else "the host"
            try:
                self.host.carry_out(step)
            except (FabricError, OSError) as exc:
                problems[step.device] = str(exc)
            else:
                self.say("%s is with %s in %s" % (step.device, step.netdev, where))
        for name, text in problems.items():
            if self.reported.get(name) != text:
                self.say(text)
        self.reported = problems
        return not problems


__all__ = (
    "Device", "Follower", "Function", "Host", "Link", "LinkHost", "Netdev", "Place", "Plan", "Step", "elsewhere",
    "members", "plan",
)  # fmt: skip
