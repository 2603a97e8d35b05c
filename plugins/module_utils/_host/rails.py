# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the module host_rails compares, and what it does: the service's files, sysctl.d, and the live state."""

from __future__ import annotations

import functools
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._files import in_root
from . import network, owned_files, rail_links, rail_managers, rail_model, rail_sysctl
from .rail_links import Live, Rule
from .rail_model import Rail, RailError

ARGUMENTS: dict[str, t.Any] = {
    "rails": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "netdev": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "mtu": {"type": "int"},
            "table": {"type": "int"},
            "routes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"to": {"type": "str", "required": True}, "via": {"type": "str", "required": True}},
            },
        },
    },
    "sysctl": {
        "type": "dict",
        "apply_defaults": True,
        "options": {name: {"type": "int", "default": value} for name, value in rail_sysctl.DEFAULTS.items()},
    },
    "manager": {
        "type": "str",
        "choices": ["auto", rail_managers.NETPLAN, rail_managers.NETWORKD, rail_managers.NETWORK_MANAGER],
        "default": "auto",
    },
    "on_conflict": {"type": "str", "choices": ["fail", "take_over"], "default": "fail"},
}


class Host:
    """The edges. Files are those below ``root``, the live state is that of the namespace of this process."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.network = network.Host()
        self.services = rail_managers.Host(root)
        self.sysctl = rail_sysctl.Host(root)

    def links(self) -> rail_links.Rtnetlink:
        return rail_links.Rtnetlink()

    def place(self, path: str) -> str:
        return in_root(self.root, path)


class Step(t.NamedTuple):
    """A change of the live state: the method of Rtnetlink that makes it, and that method's arguments."""

    action: str
    method: str
    arguments: tuple[t.Any, ...]


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    rails = rail_model.rails(params["rails"])
    take_over = params["on_conflict"] == "take_over"
    own, pending = rail_managers.own_files(host.services), host.services.unread()
    live = rail_links.read(host.network)
    _refuse_uses(rails, live)
    managers = {rail.netdev: _manager(rail, live, own, params["manager"], take_over, host) for rail in rails}
    settings, conflicts = rail_sysctl.settings(rails, params["sysctl"], host.sysctl)
    # Without a file of ours, a table is not known to be ours.
    if not own and not take_over:
        conflicts += [text for rail in rails for text in _foreign(rail, live)]
    if conflicts:
        raise RailError("Configuring the rails: %s. Remove these, or choose other values" % "; ".join(conflicts))

    decision = Decision()
    changed, unread = _decide_files(rails, managers, live, own, pending, params["sysctl"], host, decision)
    steps = {rail.netdev: _steps(rail, live) for rail in rails}
    if any(steps.values()):
        links = None if check_mode else host.links()
        for rail in rails:
            for step in steps[rail.netdev]:
                decision.add(step.action, functools.partial(_carry_out, links, step))
            if steps[rail.netdev]:
                decision.show("rail %s" % rail.netdev, _live_text(rail, live), _desired_text(rail))
    rail_sysctl.decide(settings, decision, host.sysctl)
    if not check_mode:
        for manager in unread:
            host.services.note(manager)
        decision.carry_out()
        if decision.changed:
            _verify(rails, host)
    return {
        **decision.result(),
        "rails": [_shown(rail, managers[rail.netdev], live) for rail in rails],
        "resources": [
            *(
                _resource(rail, managers[rail.netdev], live, own, changed, pending, steps[rail.netdev])
                for rail in rails
            ),
            *map(rail_sysctl.shown, settings),
        ],
    }


def _refuse_uses(rails: t.Sequence[Rail], live: Live) -> None:
    for rail in rails:
        device = live.devices.get(rail.netdev)
        if device and device.master:
            raise RailError(
                "Configuring rail %s: it is a member of %s. Name that device as the rail" % (rail.netdev, device.master)
            )
        if device and device.default_route:
            raise RailError(
                "Configuring rail %s: it has the default route of the host, which could become unreachable. Leave it "
                "to the configuration of the host's network" % rail.netdev
            )


def _manager(rail: Rail, live: Live, own: t.Mapping[str, str], wanted: str, take_over: bool, host: Host) -> str:
    """Return which service configures a rail."""
    device = live.devices.get(rail.netdev)
    if device is None:
        mine = [manager for path, manager in own.items() if path == rail_managers.path(manager, rail.netdev)]
        if mine:
            return mine[0]
        raise RailError(
            "Configuring rail %s: the host has no network device of that name. If it is in a pod, run this again when "
            "that pod has ended" % rail.netdev
        )
    manager = rail_managers.choose(host.services, rail.netdev, wanted, take_over)
    if manager == rail_managers.NETPLAN and device.kind in ("bond", "bridge", "vlan"):
        raise RailError(
            "Configuring rail %s: it is a %s, and netplan takes addresses and routes from the definition of that. Add "
            "them to its file in /etc/netplan" % (rail.netdev, device.kind)
        )
    return manager


def _foreign(rail: Rail, live: Live) -> t.Iterator[str]:
    """Yield what is in a rail's table, and was not put there by this module."""
    for rule in live.rules:
        if rule.table == rail.table and rule not in rail_links.rules(rail):
            yield "table %d, that of rail %s, is used by a rule for %s" % (rule.table, rail.netdev, rule.source)
    for table, _index, route in live.routes:
        if table == rail.table and route not in rail.routes:
            yield "table %d, that of rail %s, has a route to %s" % (table, rail.netdev, route)


def _decide_files(
    rails: t.Sequence[Rail],
    managers: t.Mapping[str, str],
    live: Live,
    own: t.Mapping[str, str],
    pending: t.Collection[str],
    sysctls: t.Mapping[str, int],
    host: Host,
    decision: Decision,
) -> tuple[set[str], list[str]]:
    """Add the steps for files, and for the services that read them.

    Return the paths of files that differ, and the services that must read theirs.
    """
    infiniband = {name for name, device in live.devices.items() if device.infiniband}
    infiniband |= rail_managers.written_for_infiniband(host.services, [rail.netdev for rail in rails]) - {*live.devices}
    desired: dict[str, rail_managers.File] = {}
    readers = dict(own)
    for manager in sorted(set(managers.values())):
        of_manager = [rail for rail in rails if managers[rail.netdev] == manager]
        for file in rail_managers.files(manager, of_manager, infiniband):
            desired[file.path], readers[file.path] = file, manager
    stale = [rail_managers.File(path, "", "0600") for path in own if path not in desired]
    sysctl = rail_managers.File(rail_sysctl.FILE, rail_sysctl.content(rails, sysctls), "0644")
    wishes = [
        {"path": host.place(file.path), "content": file.content, "mode": file.mode}
        for file in (*desired.values(), *stale, sysctl)
    ]
    written = owned_files.decide(wishes, decision)[1]["changed_paths"]
    changed = {path for path in readers if host.place(path) in written}
    unread = sorted({readers[path] for path in changed}.union(pending))
    for manager in unread:
        decision.add(
            "Have %s read its files again" % manager,
            functools.partial(rail_managers.reload, host.services, manager, [rail.netdev for rail in rails]),
        )
    return changed, unread


def _steps(rail: Rail, live: Live) -> list[Step]:
    """Return what is to be done to the live state of a rail, and nothing if its device is not on the host."""
    device = live.devices.get(rail.netdev)
    if device is None:
        return []
    steps = []
    if rail.mtu and device.mtu != rail.mtu:
        action = "Set the MTU of %s from %d to %d bytes" % (rail.netdev, device.mtu, rail.mtu)
        steps.append(Step(action, "mtu", (device.number, rail.mtu)))
    if not device.up:
        steps.append(Step("Set %s up" % rail.netdev, "up", (device.number,)))
    for address in rail.addresses:
        if str(address) not in device.addresses:
            steps.append(Step("Add address %s to %s" % (address, rail.netdev), "address", (device.number, address)))
    return steps + _table_steps(rail, device.number, live)


def _table_steps(rail: Rail, index: int, live: Live) -> list[Step]:
    steps = []
    wanted = rail_links.rules(rail)
    rules = [rule for rule in live.rules if rule.table == rail.table]
    routes = [(device, route) for table, device, route in live.routes if table == rail.table]
    # A route needs the address that it is from, and the rule follows, so that no packet meets an empty table.
    for device, route in routes:
        if device != index or route not in rail.routes:
            action = "Remove the route to %s from table %d" % (route, rail.table)
            steps.append(Step(action, "route", ("del", rail.table, device, route)))
    for route in rail.routes:
        if (index, route) not in routes:
            action = "Add a route to %s by %s to table %d" % (route, rail.netdev, rail.table)
            steps.append(Step(action, "route", ("add", rail.table, index, route)))
    for command, verb, some in (
        ("del", "Remove", [rule for rule in rules if rule not in wanted]),
        ("add", "Add", [rule for rule in wanted if rule not in rules]),
    ):
        for rule in some:
            action = "%s the rule that packets from %s use table %d" % (verb, rule.source, rule.table)
            steps.append(Step(action, "rule", (command, rule)))
    return steps


def _carry_out(links: rail_links.Rtnetlink | None, step: Step) -> None:
    getattr(links, step.method)(step.action, *step.arguments)


def _verify(rails: t.Sequence[Rail], host: Host) -> None:
    """Read back what was written."""
    live = rail_links.read(host.network)
    left = [step.action for rail in rails for step in _steps(rail, live)]
    if left:
        raise RailError(
            "Configuring the rails: all was done, but the host is not as it should be. Something else changes it, and "
            "this is left: %s" % "; ".join(left)
        )


def _lines(mtu: int | None, addresses: t.Iterable[t.Any], rules: t.Iterable[Rule], routes: t.Iterable[t.Any]) -> str:
    lines = ["mtu %d" % mtu] if mtu else []
    lines += ["address %s" % address for address in addresses]
    lines += ["route " + str(route) for route in routes]
    lines += ["rule %d from %s lookup %d" % (rule.priority, rule.source, rule.table) for rule in rules]
    return "".join(line + "\n" for line in lines)


def _desired_text(rail: Rail) -> str:
    return _lines(rail.mtu, rail.addresses, rail_links.rules(rail), rail.routes)


def _live_text(rail: Rail, live: Live) -> str:
    device = live.devices[rail.netdev]
    wanted = [str(address) for address in rail.addresses]
    return _lines(
        device.mtu if rail.mtu else None,
        [address for address in device.addresses if address in wanted],
        [rule for rule in live.rules if rule.table == rail.table],
        [route for table, _index, route in live.routes if table == rail.table],
    )


def _shown(rail: Rail, manager: str, live: Live) -> dict[str, t.Any]:
    device = live.devices.get(rail.netdev)
    wanted = [str(address) for address in rail.addresses]
    return {
        "netdev": rail.netdev,
        "manager": manager,
        "table": rail.table,
        "mtu": device and device.mtu,
        "up": device and device.up,
        "other_addresses": device and [address for address in device.addresses if address not in wanted],
    }


def _resource(
    rail: Rail,
    manager: str,
    live: Live,
    own: t.Mapping[str, str],
    changed: t.Container[str],
    pending: t.Container[str],
    steps: t.Sequence[Step],
) -> dict[str, t.Any]:
    desired = _desired_text(rail)
    path = rail_managers.path(manager, rail.netdev)
    here = rail.netdev in live.devices
    status = DRIFT if path in changed or manager in pending or steps else IN_SYNC if here else UNKNOWN
    return resource(
        "host_rail",
        rail.netdev,
        desired=desired,
        configured=path if path in own and path not in changed else None,
        live=_live_text(rail, live) if here else None,
        next_boot=desired if path not in changed else None,
        status=status,
    )


__all__ = ("ARGUMENTS", "Host", "manage")
