# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Who configures a network device of this host, and the files by which it configures a rail."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import time
import typing as t
import uuid

from .. import _command, _files_write
from .._files import in_root, is_ours, read_text
from .rail_model import Rail, RailError

LIMIT_S = 30
# Seconds until systemd-networkd has configured its devices again.
SETTLE_S = 30
NETPLAN, NETWORKD, NETWORK_MANAGER, IFUPDOWN = "netplan", "networkd", "NetworkManager", "ifupdown"
# Our files; netplan's is for all rails. systemd-networkd uses the first file that matches a device
# (systemd.network(5)).
FILES = {
    NETPLAN: "/etc/netplan/90-rdmaops-rails.yaml",
    NETWORKD: "/etc/systemd/network/05-rdmaops-%s.network",
    NETWORK_MANAGER: "/etc/NetworkManager/system-connections/rdmaops-%s.nmconnection",
}
# There from before a file is written until its service has read it, because no service says which files it has read. A
# service reads them when the host boots, and then the note is gone, too.
UNREAD = "/run/rdmaops/unread-%s"
# nm-dbus-interface.h: NM_DEVICE_STATE_UNMANAGED, NM_DEVICE_STATE_UNAVAILABLE.
_UNMANAGED = 10


class File(t.NamedTuple):
    path: str
    content: str
    # netplan and NetworkManager warn of files, or ignore those, that others may read.
    mode: str


class Manager(t.NamedTuple):
    """A service that configures a device, and its configuration of the device, if that is not ours."""

    name: str
    foreign: str | None


class Host:
    """The edges: programs of the services, and their files below a root."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def ask(self, *argv: str) -> str | None:
        """Return what a program printed, or None if it is not there or its service does not run."""
        if shutil.which(argv[0], path=os.pathsep.join(_command.DIRECTORIES)) is None:
            return None
        try:
            done = _command.run(argv, LIMIT_S)
        except _command.TimedOut as exc:
            raise RailError("Running %s: no answer within %d s" % (" ".join(argv), LIMIT_S)) from exc
        return done.out if done.status == 0 else None

    def tell(self, *argv: str) -> None:
        """Have a service read its files again."""
        try:
            done = _command.run(argv, LIMIT_S, merged=True)
        except (OSError, _command.TimedOut) as exc:
            raise RailError("Running %s: %s" % (" ".join(argv), exc)) from exc
        if done.status:
            raise RailError("Running %s: exit status %d: %s" % (" ".join(argv), done.status, done.out.strip()))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def note(self, manager: str) -> None:
        """Note that a service has files to read."""
        _files_write.atomic_write(in_root(self.root, UNREAD % manager), "")

    def forget(self, manager: str) -> None:
        _files_write.remove(in_root(self.root, UNREAD % manager))

    def unread(self) -> set[str]:
        """Return the services with files that they have not read: a former run ended before."""
        return {manager for manager in FILES if self.read(UNREAD % manager) is not None}

    # What is the same for all devices is asked once.

    @functools.cached_property
    def has_netplan(self) -> bool:
        return bool(self.names("/etc/netplan", ".yaml")) and self.ask("netplan", "get") is not None

    @functools.cached_property
    def netplan_has_network_manager(self) -> bool:
        """Whether netplan leaves devices to NetworkManager (netplan(5), renderer), not to systemd-networkd."""
        return (self.ask("netplan", "get", "network.renderer") or "").strip() == "NetworkManager"

    @functools.cached_property
    def runs_networkd(self) -> bool:
        return self.ask("systemctl", "is-active", "systemd-networkd.service") is not None

    @functools.cached_property
    def runs_network_manager(self) -> bool:
        return self.ask("systemctl", "is-active", "NetworkManager.service") is not None

    def read(self, path: str) -> str | None:
        return read_text(in_root(self.root, path))

    def names(self, directory: str, suffix: str) -> list[str]:
        try:
            names = os.listdir(in_root(self.root, directory))
        except FileNotFoundError:
            return []
        return sorted("%s/%s" % (directory, name) for name in names if name.endswith(suffix))


def configuring(host: Host, netdev: str) -> list[Manager]:
    """Return the services that configure a device."""
    result = []
    # Without its service, networkctl prints what udev knows.
    state, file = _networkd(host, netdev) if host.runs_networkd else (None, None)
    manager_state, connection = network_manager_status(
        host.ask("nmcli", "--get-values", "GENERAL.STATE,GENERAL.CONNECTION", "device", "show", netdev)
    )
    if host.has_netplan:
        result.append(Manager(NETPLAN, _named_in(host, netdev)))
    else:
        if state not in (None, "unmanaged"):
            result.append(Manager(NETWORKD, None if file is None or is_ours(host.read(file)) else file))
        if manager_state is not None and manager_state != _UNMANAGED:
            ours = connection in ("", connection_name(netdev))
            result.append(Manager(NETWORK_MANAGER, None if ours else "the connection %s" % connection))
    if host.ask("ifquery", netdev) is not None:
        result.append(Manager(IFUPDOWN, "/etc/network/interfaces"))
    return result


def _named_in(host: Host, netdev: str) -> str | None:
    """Return netplan's first file of others that has a key of this name."""
    pattern = re.compile(r"""(?:^|[\s{,])["']?%s["']?\s*:""" % re.escape(netdev), re.M)
    others = (path for path in host.names("/etc/netplan", ".yaml") if path != FILES[NETPLAN])
    return next((path for path in others if pattern.search(host.read(path) or "")), None)


def _networkd(host: Host, netdev: str) -> tuple[str | None, str | None]:
    return networkd_status(host.ask("networkctl", "status", "--no-pager", "--lines=0", netdev))


def networkd_status(text: str | None) -> tuple[str | None, str | None]:
    """Return the setup state (networkctl(1)) and the .network file of a device."""
    fields = dict(re.findall(r"^\s*(State|Network File): (.*?)\s*$", text or "", re.M))
    state = re.search(r"\((\S+)\)", fields.get("State", ""))
    file = fields.get("Network File")
    return state and state.group(1), None if file in (None, "n/a") else file


def network_manager_status(text: str | None) -> tuple[int | None, str]:
    """Return the number of a device's state (nm-dbus-interface.h) and its active connection, of nmcli's values."""
    lines = (text or "").split("\n")
    number = re.match(r"\d+", lines[0])
    if number is None:
        return None, ""
    return int(number.group()), re.sub(r"\\(.)", r"\1", lines[1]) if len(lines) > 1 else ""


def choose(host: Host, netdev: str, wanted: str, take_over: bool) -> str:
    """Return which service is to configure a rail, or say why none can."""
    doing = "Configuring rail %s: " % netdev
    managers = configuring(host, netdev)
    names = [manager.name for manager in managers]
    if IFUPDOWN in names:
        raise RailError(
            "%s/etc/network/interfaces configures it (ifupdown), which this module does not write. Remove it there, so "
            "that systemd-networkd or NetworkManager can configure it, or configure it there by hand" % doing
        )
    if wanted == "auto" and len(names) > 1:
        raise RailError("%s%s both configure it. Choose one with the option manager" % (doing, " and ".join(names)))
    # It configures a device when it has a file for it.
    if wanted == "auto" and not names and not host.runs_networkd:
        raise RailError(
            "%sno service configures it: netplan has no files, systemd-networkd does not run, and NetworkManager does "
            "not run or has it unmanaged. Start one of them, or choose one with the option manager" % doing
        )
    name = wanted if wanted != "auto" else names[0] if names else NETWORKD
    # https://github.com/canonical/netplan/pull/526
    if name == NETPLAN and host.netplan_has_network_manager:
        raise RailError(
            "%snetplan has NetworkManager configure it, and up to netplan 1.1 NetworkManager gets no rules from it. "
            "Set the option manager to NetworkManager, whose own file has them" % doing
        )
    foreign = next((manager.foreign for manager in managers if manager.name == name), None)
    # netplan merges what its files say of a device.
    if foreign and (name == NETPLAN or not take_over):
        raise RailError(
            "%sit is configured by %s, which this module has not written. Remove it there%s"
            % (doing, foreign, "" if name == NETPLAN else ", or set on_conflict to take_over")
        )
    return name


def files(manager: str, rails: t.Sequence[Rail], infiniband: t.Container[str]) -> list[File]:
    """Return the files by which a service configures rails."""
    if not rails:
        return []
    if manager == NETPLAN:
        return [File(FILES[NETPLAN], netplan(rails), "0600")]
    if manager == NETWORKD:
        return [File(path(manager, rail.netdev), networkd(rail), "0644") for rail in rails]
    return [
        File(path(manager, rail.netdev), network_manager(rail, rail.netdev in infiniband), "0600") for rail in rails
    ]


def path(manager: str, netdev: str) -> str:
    """Return the file by which a service configures a rail."""
    return FILES[manager].replace("%s", netdev)


def own_files(host: Host) -> dict[str, str]:
    """Return the files of former runs and the service that reads each."""
    result = {}
    for manager, pattern in FILES.items():
        start, _netdev, end = pattern.partition("%s")
        for name in host.names(os.path.dirname(pattern), end):
            if name.startswith(start) and is_ours(host.read(name)):
                result[name] = manager
    return result


def written_for_infiniband(host: Host, netdevs: t.Sequence[str]) -> set[str]:
    """Return the devices whose keyfile of a former run is for IPoIB: one that is in a pod cannot be looked at."""
    return {name for name in netdevs if "\ntype=infiniband\n" in (host.read(path(NETWORK_MANAGER, name)) or "")}


def reload(host: Host, manager: str, netdevs: t.Sequence[str]) -> None:
    """Have a service read its files again, and wait until systemd-networkd has configured the devices."""
    if manager == NETPLAN:
        host.tell("netplan", "generate")
    if manager in (NETPLAN, NETWORKD) and host.runs_networkd:
        host.tell("networkctl", "reload")
        # It changes the MTU of a device while that is down.
        for _second in range(SETTLE_S):
            if not {_networkd(host, netdev)[0] for netdev in netdevs} & {"pending", "initialized", "configuring"}:
                break
            host.sleep(1)
    if manager in (NETPLAN, NETWORK_MANAGER) and host.runs_network_manager:
        host.tell("nmcli", "connection", "reload")
    host.forget(manager)


def networkd(rail: Rail) -> str:
    """Return a .network file (systemd.network(5)): the boot does not wait for the rail."""
    lines = ["[Match]", "Name=%s" % rail.netdev, "", "[Link]", "RequiredForOnline=no"]
    lines += ["MTUBytes=%d" % rail.mtu] if rail.mtu else []
    lines += ["", "[Network]", *("Address=%s" % address for address in rail.addresses)]
    for route in rail.routes:
        lines += ["", "[Route]", "Destination=%s" % route.to]
        lines += ["Gateway=%s" % route.via] if route.via else [] if route.to.version == 6 else ["Scope=link"]
        lines.append("Table=%d" % rail.table)
    for address in rail.addresses:
        lines += ["", "[RoutingPolicyRule]", "From=%s" % address.ip, "Table=%d" % rail.table]
        lines += ["Priority=%d" % rail.table]
    return "\n".join(lines)


def netplan(rails: t.Sequence[Rail]) -> str:
    """Return netplan's YAML, which JSON is a part of."""
    devices: dict[str, t.Any] = {}
    for rail in rails:
        routes = []
        for route in rail.routes:
            way = {"via": str(route.via)} if route.via else {"scope": "link"}
            routes.append({"to": str(route.to), **way, "table": rail.table})
        policy = [{"from": str(a.ip), "table": rail.table, "priority": rail.table} for a in rail.addresses]
        devices[rail.netdev] = {
            **({"mtu": rail.mtu} if rail.mtu else {}),
            "optional": True,
            "addresses": [str(address) for address in rail.addresses],
            "routes": routes,
            "routing-policy": policy,
        }
    return json.dumps({"network": {"version": 2, "ethernets": devices}}, indent=2)


def connection_name(netdev: str) -> str:
    return "rdmaops-%s" % netdev


def network_manager(rail: Rail, infiniband: bool) -> str:
    """Return a keyfile (nm-settings-keyfile(5)), which is used before other connections of the device."""
    kind = "infiniband" if infiniband else "ethernet"
    name = connection_name(rail.netdev)
    lines = ["[connection]", "id=%s" % name, "uuid=%s" % uuid.uuid5(uuid.NAMESPACE_DNS, name), "type=%s" % kind]
    lines += ["interface-name=%s" % rail.netdev, "autoconnect-priority=100", "", "[%s]" % kind]
    lines += ["mtu=%d" % rail.mtu] if rail.mtu else []
    lines += ["transport-mode=datagram"] if infiniband else []
    for version, idle in ((4, "disabled"), (6, "link-local")):
        addresses = [address for address in rail.addresses if address.version == version]
        lines += ["", "[ipv%d]" % version, "method=%s" % ("manual" if addresses else idle)]
        lines += ["never-default=true"] if addresses else []
        lines += ["address%d=%s" % (number, address) for number, address in enumerate(addresses, 1)]
        routes = [route for route in rail.routes if route.to.version == version]
        for number, route in enumerate(routes, 1):
            lines.append("route%d=%s%s" % (number, route.to, ",%s" % route.via if route.via else ""))
            lines.append("route%d_options=table=%d" % (number, rail.table))
        for number, address in enumerate(addresses, 1):
            rule = "priority %d from %s table %d" % (rail.table, address.ip, rail.table)
            lines.append("routing-rule%d=%s" % (number, rule))
    return "\n".join(lines)


__all__ = (
    "FILES",
    "IFUPDOWN",
    "NETPLAN",
    "NETWORKD",
    "NETWORK_MANAGER",
    "UNREAD",
    "File",
    "Host",
    "Manager",
    "choose",
    "configuring",
    "connection_name",
    "files",
    "netplan",
    "network_manager",
    "network_manager_status",
    "networkd",
    "networkd_status",
    "own_files",
    "path",
    "reload",
    "written_for_infiniband",
)
