# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The network devices of a host, what the host uses them for, and its CNI plugins."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import typing as t

from .. import _command
from .._errors import FabricError
from .._files import refuse_nul, unescape_mount
from .._formats import from_json
from .._rdma import pci_netdevs

COMMAND_LIMIT_S = 30
PLUGIN_LIMIT_S = 10
# Of these the server stands in the source of the mount (nfs(5), mount.cifs(8), mount.lustre(8), ceph(8)).
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "beegfs", "9p")
# The kernel does not move them to another network namespace (netns_immutable in bond_setup(), br_dev_setup() and
# team_setup(); before Linux 6.12 NETIF_F_NETNS_LOCAL).
KEPT = ("bond", "bridge", "team")


class NetworkError(FabricError):
    """A source could not be read."""


def servers(source: str) -> list[str]:
    """Return the hosts in the source of a remote mount; Lustre and CephFS name several."""
    head = source[2:].split("/", 1)[0] if source.startswith("//") else source.split(":/", 1)[0]
    # Lustre: ADDRESS@NETWORK, with ':' or ',' between the servers.
    lustre = re.search(r"@(tcp|o2ib|kfi|gni)[0-9]*", head) is not None
    head = re.sub(r"@(tcp|o2ib|kfi|gni)[0-9]*", "", head)
    hosts = []
    for part in re.split(r"[,;:]" if lustre else r"[,;]", head):
        text = part.rsplit("@", 1)[-1].strip("[]")  # sshfs: USER@HOST
        text = re.sub(r"^([^:]+):[0-9]+$", r"\1", text)
        if text:
            hosts.append(text)
    return hosts


def mounts(text: str) -> list[tuple[str, str, str]]:
    """Return source, directory and type of the remote file systems in a /proc/self/mounts (proc(5))."""
    remote = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and fields[2] in REMOTE:
            remote.append((unescape_mount(fields[0]), unescape_mount(fields[1]), fields[2]))
    return remote


class Host:
    """The edges: sysfs, procfs, ip(8) and the plugins themselves."""

    def __init__(self, sys: str = "/sys", proc: str = "/proc") -> None:
        self.sys, self.proc = sys, proc

    def ip(self, *arguments: str) -> t.Any:
        """Return what ip(8) printed as JSON."""
        argv = ["ip", "-json", *arguments]
        # sudo's and cron's search path may be without it.
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
        try:
            done = _command.run(argv, COMMAND_LIMIT_S, env={**os.environ, "PATH": path})
        except FileNotFoundError as exc:
            raise NetworkError(
                "Running %s: ip(8) is not installed on this host; install iproute2" % " ".join(argv)
            ) from exc
        except _command.TimedOut as exc:
            raise NetworkError("Running %s: no answer within %d s" % (" ".join(argv), COMMAND_LIMIT_S)) from exc
        if done.status != 0:
            text = done.err.strip()
            raise NetworkError("Running %s: exit status %d: %s" % (" ".join(argv), done.status, text))
        return from_json(done.out or "[]")

    def read(self, path: str) -> str | None:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def resolve(self, name: str) -> list[str]:
        try:
            return sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
        except OSError:
            return []

    def hardware(self, name: str) -> tuple[str | None, str | None, int | None]:
        """Return PCI address, auxiliary device (of a sub-function) and NUMA node of a network device."""
        device = os.path.realpath(os.path.join(self.sys, "class/net", name, "device"))
        function = pci_netdevs.function_of(device)
        if function is None:
            return None, None, None
        place = device[: device.rindex(function.pci_address)] + function.pci_address
        text = (self.read(os.path.join(place, "numa_node")) or "").strip()
        # -1: the firmware reports none.
        return (*function, int(text) if text.isdigit() else None)

    def rdma(self, name: str) -> list[str]:
        """Return the RDMA devices whose hardware is that of a network device."""
        try:
            return sorted(os.listdir(os.path.join(self.sys, "class/net", name, "device/infiniband")))
        except OSError:
            return []

    def plugin_version(self, path: str) -> tuple[list[str] | None, str | None]:
        """Return the CNI versions that a plugin speaks, asked by CNI_COMMAND=VERSION (CNI specification, section 2)."""
        try:
            environment = {"CNI_COMMAND": "VERSION", "PATH": os.environ.get("PATH", os.defpath)}
            done = _command.run([path], PLUGIN_LIMIT_S, env=environment, stdin=b'{"cniVersion": "1.0.0"}')
            reply = from_json(done.out)
            versions = reply.get("supportedVersions") if isinstance(reply, dict) else None
        except (OSError, ValueError) as exc:
            return None, " ".join(str(exc).split())[:200]
        except _command.TimedOut:
            return None, "timed out after %d seconds" % PLUGIN_LIMIT_S
        if done.status != 0 or not isinstance(versions, list):
            return None, "exit status %d, and no supportedVersions" % done.status
        return [str(version) for version in versions], None


def links_and_addresses(host: Host) -> tuple[list[dict[str, t.Any]], dict[str, list[dict[str, t.Any]]]]:
    """Return the network devices of the calling process's namespace, and the addresses of each by its name."""
    links = host.ip("-details", "link", "show")
    addresses = host.ip("address", "show")
    return links, {row["ifname"]: row.get("addr_info") or [] for row in addresses if row.get("ifname")}


def with_default_route(host: Host, links: t.Sequence[t.Mapping[str, t.Any]]) -> set[str]:
    """Return the devices that have the default route, and those below them."""
    return set(_uses(links, _default_routes(host)))


def interfaces(host: Host, internal: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return the network devices of the calling process's namespace, with what the host needs them for."""
    links, addresses = links_and_addresses(host)
    uses = _uses(
        links,
        (
            *_default_routes(host),
            *_stacked(links, addresses),
            *_internal_ips(addresses, internal),
            *_storage_mounts(host),
        ),
    )
    return [_interface(host, row, addresses.get(row["ifname"], []), uses) for row in links if row["ifname"] != "lo"]


def _default_routes(host: Host) -> t.Iterator[tuple[str, str]]:
    for family in ("-4", "-6"):
        for route in host.ip(family, "route", "show", "default"):
            for hop in route.get("nexthops") or [route]:
                if hop.get("dev"):
                    yield hop["dev"], "default_route"


def _stacked(
    links: t.Sequence[t.Mapping[str, t.Any]], addresses: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]
) -> t.Iterator[tuple[str, str]]:
    """Yield the devices below bonds, bridges, VLANs and their like, each with what is on top."""
    kinds = {row["ifname"]: (row.get("linkinfo") or {}).get("info_kind") for row in links}
    for row in links:
        name = row["ifname"]
        if row.get("master"):
            yield name, "%s %s" % (kinds.get(row["master"]) or "master", row["master"])
        # A VLAN's or macvlan's traffic goes through its parent, which ip shows as NAME@PARENT.
        uses_parent = row.get("link") in kinds and kinds[name] in ("vlan", "macvlan", "ipvlan", "ipoib")
        if uses_parent and any(address.get("scope") == "global" for address in addresses.get(name, [])):
            yield row["link"], "%s %s" % (kinds[name], name)


def _internal_ips(
    addresses: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], internal: t.Sequence[str]
) -> t.Iterator[tuple[str, str]]:
    for name, rows in addresses.items():
        if any(address.get("local") in internal for address in rows):
            yield name, "internal_ip"


def _storage_mounts(host: Host) -> t.Iterator[tuple[str, str]]:
    for source, place, _kind in mounts(host.read(os.path.join(host.proc, "self/mounts")) or ""):
        for server in servers(source):
            for name in _towards(host, server):
                yield name, "storage mount %s from %s" % (place, server)


def _uses(links: t.Sequence[t.Mapping[str, t.Any]], rows: t.Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the uses of each device by its name, those of what is above it included."""
    uses: dict[str, list[str]] = {}
    for name, use in rows:
        _add(uses, name, use)
    _inherit(uses, links)
    return uses


def _add(uses: dict[str, list[str]], name: str, use: str) -> None:
    if use not in uses.setdefault(name, []):
        uses[name].append(use)


def _inherit(uses: dict[str, list[str]], links: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Give the members of a bond and the parent of a VLAN the uses of these."""
    for _depth in range(4):
        for row in links:
            for below in (row["ifname"],) if row.get("master") else ():
                for use in uses.get(row["master"], []):
                    _add(uses, below, use)
            parent = row.get("link")
            for use in uses.get(row["ifname"], []) if parent else ():
                if (row.get("linkinfo") or {}).get("info_kind") == "vlan":
                    _add(uses, str(parent), use)


def _towards(host: Host, server: str) -> set[str]:
    """Return the devices by which a server is reached."""
    try:
        addresses = [str(ipaddress.ip_address(server))]
    except ValueError:
        addresses = host.resolve(server)
    devices: set[str] = set()
    for address in addresses:
        try:
            devices.update(route["dev"] for route in host.ip("route", "get", address) if route.get("dev"))
        except NetworkError:
            continue  # there is no route to it
    return devices - {"lo"}


def _interface(
    host: Host,
    row: t.Mapping[str, t.Any],
    addresses: t.Sequence[t.Mapping[str, t.Any]],
    uses: t.Mapping[str, list[str]],
) -> dict[str, t.Any]:
    name = row["ifname"]
    kind = (row.get("linkinfo") or {}).get("info_kind")
    pci, auxiliary, numa = host.hardware(name)
    return {
        "name": name,
        "mac": row.get("address"),
        "mtu": row.get("mtu"),
        "state": row.get("operstate"),
        "kind": kind,
        "pci_address": pci,
        "auxiliary_device": auxiliary,
        "numa_node": numa,
        "master": row.get("master"),
        "link": row.get("link"),
        "addresses": ["%s/%s" % (row["local"], row["prefixlen"]) for row in addresses if row.get("local")],
        "uses": uses.get(name, []),
        "rdma": host.rdma(name),
        # IFLA_NETNS_IMMUTABLE is in the kernel and in iproute2 since 6.15; ip prints nothing if it is 0.
        "can_change_netns": False if kind in KEPT or row.get("netns-immutable") else None,
    }


def cni(host: Host, bin_dir: str, conf_dir: str, versions: bool) -> dict[str, t.Any]:
    """Return the CNI plugins of a host, and its configurations in the order in which runtimes read them."""
    plugins = []
    for name in sorted(_list_dir(bin_dir, "Listing the CNI plugins in %s")):
        path = os.path.join(bin_dir, name)
        # Beside the plugins lie a licence and a README.
        if not name.startswith(".") and os.path.isfile(path) and os.access(path, os.X_OK):
            plugins.append(name)
    spoken: dict[str, list[str] | None] = {}
    unreadable = []
    for name in plugins if versions else ():
        spoken[name], error = host.plugin_version(os.path.join(bin_dir, name))
        if error:
            unreadable.append({"plugin": name, "error": error})
    # libcni's ConfFiles(): these endings, by name, and the first one wins.
    names = _list_dir(conf_dir, "Listing the CNI configurations in %s")
    return {
        "bin_dir": bin_dir,
        "conf_dir": conf_dir,
        "plugins": plugins,
        "versions": spoken if versions else None,
        "configs": sorted(name for name in names if name.endswith((".conf", ".conflist", ".json"))),
        "unreadable": unreadable,
    }


def _list_dir(path: str, doing: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise NetworkError("%s: %s. Run as root (become: true)" % (doing % path, exc.strerror)) from exc


def gather(params: t.Mapping[str, t.Any], host: Host) -> dict[str, t.Any]:
    """Return what the module network_info returns."""
    refuse_nul(bin_dir=params["bin_dir"], conf_dir=params["conf_dir"])
    subsets = params["gather"]
    return {
        "interfaces": interfaces(host, params["internal_ips"]) if "interfaces" in subsets else None,
        "cni": cni(host, params["bin_dir"], params["conf_dir"], "versions" in subsets)
        if {"cni", "versions"} & set(subsets)
        else None,
    }


__all__ = (
    "REMOTE",
    "Host",
    "NetworkError",
    "cni",
    "gather",
    "interfaces",
    "links_and_addresses",
    "mounts",
    "servers",
    "with_default_route",
)
