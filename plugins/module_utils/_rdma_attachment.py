# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""RDMA devices that go where their network devices are.

A network plugin gives a pod the network device of a card. The card's RDMA device stays with the host, unless somebody
moves it, too. What belongs together is told by the PCI address, which does not change with a namespace or a name.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _rdma_device, _rdma_link
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import cards, drivers, enter, nldev, spaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.cards import Netdev

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.netns import Namespace


class Link(t.NamedTuple):
    """A software link that a card without RDMA hardware is to have, wherever the card is."""

    name: str
    type: str
    pci_address: str


class Device(t.NamedTuple):
    """An RDMA device of the host's namespace."""

    name: str
    pci_address: str | None


class Place(t.NamedTuple):
    """Where a network device is: the namespace, by its path, and the network device's name there."""

    inode: int
    path: str
    netdev: str
    devices: tuple[str, ...]


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
) -> dict[str, str]:
    """PCI address by name of every device that is to go with its network device."""
    found = {device.name: device.pci_address for device in devices}
    found.update({link.name: link.pci_address for link in links})
    return {
        name: address
        for name, address in sorted(found.items())
        if address and name not in exclude and (name in include or not include)
    }


def elsewhere(wanted: t.Mapping[str, str], here: t.Sequence[Netdev]) -> set[str]:
    """The PCI addresses whose network device is not with the host."""
    return set(wanted.values()) - {netdev.pci_address for netdev in here}


def plan(
    wanted: t.Mapping[str, str],
    devices: t.Sequence[Device],
    here: t.Sequence[Netdev],
    places: t.Mapping[str, t.Sequence[Place]],
    links: t.Sequence[Link],
) -> Plan:
    """Decide for each device of ``wanted``. ``places`` is where the network devices are that are not ``here``."""
    made = Plan([], {}, {})
    kinds = {link.name: link for link in links}
    host = {device.name for device in devices}
    for name, address in wanted.items():
        link = kinds.get(name)
        local = [netdev.name for netdev in here if netdev.pci_address == address]
        found = places.get(address, ())
        if local:
            if name not in host and link is not None:
                made.steps.append(Step(name, link, local[0], None))
        elif not found:
            text = "%s: the network device of %s is in no network namespace that could be seen"
            made.waiting[name] = text % (name, address)
        elif len({place.inode for place in found}) > 1:
            paths = ", ".join(sorted(place.path for place in found))
            text = "%s: the network devices of %s are in several network namespaces (%s), and it can be in one"
            made.wrong[name] = text % (name, address, paths)
        elif name in host:
            made.steps.append(Step(name, None, found[0].netdev, found[0]))
        elif link is not None and name not in found[0].devices:
            made.steps.append(Step(name, link, found[0].netdev, found[0]))
    return made


class LinkHost(_rdma_link.Host):
    """Looks for a link of that name where processes are, which needs fewer rights than to look everywhere.

    One in a namespace that only an open file keeps is found by the kernel: names are unique on a host.
    """

    def others(self) -> tuple[list[Namespace], str | None]:
        found = spaces.spaces()
        return found.others, "; ".join("%s: %s" % one for one in found.unreadable) or None


class Host:
    """The edges."""

    def devices(self) -> list[Device]:
        found = []
        for row in nldev.devices():
            target = os.path.realpath("/sys/class/infiniband/%s/device" % row.name)
            found.append(Device(row.name, drivers.pci_address(target)))
        return found

    def netdevs(self) -> list[Netdev]:
        return cards.netdevs()

    def places(self, addresses: t.Collection[str]) -> dict[str, list[Place]]:
        """Look into all other namespaces: a card with two network devices may have them in two."""
        found: dict[str, list[Place]] = {}
        for space in spaces.spaces().others:
            path = _path(space)
            try:
                netdevs, devices = enter.within(space, _inside, sysfs=True)
            except OSError:
                continue  # it ended while we looked
            for name, address in netdevs:
                if address in addresses:
                    found.setdefault(address, []).append(Place(space.inode, path, name, tuple(devices)))
        return found

    def carry_out(self, step: Step) -> None:
        where = {"netns": step.place.path} if step.place else {}
        if step.link:
            _rdma_link.manage(
                _params(step.device, "present", type=step.link.type, netdev=step.netdev, **where),
                False,
                LinkHost(),
            )
        else:
            _rdma_device.manage(_params(step.device, "attached", **where), False, _rdma_device.Host())


def _params(name: str, state: str, **others: t.Any) -> dict[str, t.Any]:
    nothing = dict.fromkeys(("netns", "pid", "container", "pod"))
    return {**nothing, "name": name, "state": state, "disrupt": False, **others}


def _inside() -> tuple[list[Netdev], list[str]]:
    return cards.netdevs(), [row.name for row in nldev.devices()]


def _path(space: Namespace) -> str:
    """A path by which the host has the namespace."""
    for holder in space.holders:
        if holder.kind == "mount":
            return holder.path
    return "/proc/%d/ns/net" % space.holders[0].pid


class Follower:
    """Brings devices to where they belong, and says once what it did and what it cannot do."""

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
        self.told: dict[str, str] = {}

    def plan(self) -> Plan:
        devices, here = self.host.devices(), self.host.netdevs()
        wanted = members(devices, self.links, self.include, self.exclude)
        missing = elsewhere(wanted, here)
        return plan(wanted, devices, here, self.host.places(missing) if missing else {}, self.links)

    def once(self) -> bool:
        """Do what is to be done now; whether all is where it belongs."""
        made = self.plan()
        problems = {**made.waiting, **made.wrong}
        for step in made.steps:
            where = step.place.path if step.place else "the host"
            try:
                self.host.carry_out(step)
            except (FabricError, OSError) as exc:
                problems[step.device] = str(exc)
            else:
                self.say("%s is with %s in %s" % (step.device, step.netdev, where))
        for name, text in problems.items():
            if self.told.get(name) != text:
                self.say(text)
        self.told = problems
        return not problems


__all__ = (
    "Device", "Follower", "Host", "Link", "LinkHost", "Netdev", "Place", "Plan", "Step", "elsewhere", "members", "plan",
)  # fmt: skip
