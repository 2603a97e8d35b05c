# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The RDMA ports of a host in an order, each with the GID index that NCCL would use."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from .._errors import FabricError

FAMILIES = ("ipv4", "ipv6")
ACTIVE = "ACTIVE"

INFINIBAND = "InfiniBand"
ROCE = "RoCE"
IWARP = "iWARP"

_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])")
_GUID = re.compile(r"(?:0x)?([0-9a-f]{16})")
_LINK_LOCAL = ipaddress.IPv6Network("fe80::/10")


class RailsError(FabricError):
    """What was requested does not exist, or contradicts itself."""


class RailsTypeError(RailsError):
    """A value has another type than the one that is needed."""


class Gid(t.NamedTuple):
    """An entry of a port's GID table that was chosen."""

    index: int  # type: ignore[assignment]  # hides tuple.index()
    gid: str
    address: ipaddress.IPv6Address

    @property
    def ipv4(self) -> str | None:
        """Return the address that is in an IPv4-mapped GID."""
        return str(self.address.ipv4_mapped) if self.address.ipv4_mapped else None

    @property
    def ipv6(self) -> str | None:
        """Return the address of a GID that is not IPv4-mapped, and not link-local: that needs an interface too."""
        return None if self.address.ipv4_mapped or self.link_local else str(self.address)

    @property
    def link_local(self) -> bool:
        """Return whether no router forwards this address."""
        return self.address in _LINK_LOCAL


class Port(t.NamedTuple):
    """A port as rdma_info reports it. A device whose ports are not known has one without a number."""

    name: str
    number: int | None
    netdev: str | None
    state: str | None
    guid: str | None
    fabric: str | None  # InfiniBand, RoCE, iWARP; None: none of these
    device: t.Mapping[str, t.Any]
    port: t.Mapping[str, t.Any]
    gids: list[t.Mapping[str, t.Any]] | None  # None: not gathered
    above: bool = False  # whether the network device is a VLAN, bridge or bond on the port's own one

    @property
    def label(self) -> str:
        """Return how messages call it."""
        return self.name if self.number is None else "%s port %d" % (self.name, self.number)


class Selection:
    """A selection of devices and ports: by device name, node GUID or network device."""

    def __init__(self, include: t.Any, exclude: t.Any, doing: str) -> None:
        self.doing = doing
        self.include = self._names(include, "include")
        self.exclude = self._names(exclude, "exclude")

    def _names(self, value: t.Any, option: str) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name for name in value):
            raise RailsTypeError(
                "Could not %s: %s must be a list of names, for example ['mlx5_0'], not %s"
                % (self.doing, option, brief(value))
            )
        return list(value)

    def excluded(self, names: t.Collection[str]) -> str | None:
        """Return why a port of these names is excluded, None if it is not."""
        return next(("it is excluded by %r" % text for text in self.exclude if normalized(text) in names), None)

    def left_out(self, names: t.Collection[str]) -> str | None:
        """Return why a port of these names is not selected, None if it is."""
        why = self.excluded(names)
        if why is not None:
            return why
        if self.include and not any(normalized(text) in names for text in self.include):
            return "include does not name it"
        return None

    def applied(self, port: Port) -> Port:
        """Return a port with the network device that include names: its own one, or a VLAN or bridge on that."""
        own = netdevs(port) if self.include else set()
        wanted = sorted({text for text in self.include if text in own})
        if len(wanted) > 1:
            raise RailsError(
                "Could not %s: include has %s, which all have GIDs of %s, and a port is used with one GID. Name one of "
                "them" % (self.doing, " and ".join(wanted), port.label)
            )
        return above(port, set(wanted))

    def names(self, port: Port) -> set[str]:
        """Return what include and exclude may call a port, also by the network device that include names."""
        return names(port) | names(self.applied(port))

    def unmet(self, named: t.Iterable[t.Collection[str]]) -> int:
        """Count what include has and nothing of these names is."""
        every = {name for names in named for name in names}
        return sum(normalized(text) not in every for text in self.include)

    def check(self, named: t.Iterable[t.Collection[str]], known: t.Iterable[str]) -> None:
        """Refuse an include that names nothing. An exclude may: storage adapters differ from host to host."""
        every = {name for names in named for name in names}
        missing = [text for text in self.include if normalized(text) not in every]
        if missing:
            raise RailsError(
                "Could not %s: include has %s, which is not an RDMA device, node GUID or network device here. "
                "There are: %s. Correct include, or remove the entry"
                % (self.doing, ", ".join(repr(text) for text in missing), "; ".join(known) or "none")
            )


def normalized(text: str) -> str:
    """Return a name for comparison; GUIDs are equal with and without colons, in capitals or not."""
    match = _GUID.fullmatch(text.replace(":", "").lower())
    return "guid " + match.group(1) if match else text


def names(port: Port) -> set[str]:
    """Return what include and exclude may call a port."""
    keys = {normalized(port.name)}
    if port.guid:
        keys.add(normalized(port.guid))
    if port.netdev:
        keys.add(normalized(port.netdev))
    return keys


def describe(port: Port) -> str:
    """Return a port with the names that include and exclude match."""
    details = [detail for detail in (port.netdev, port.guid) if detail]
    return port.label + (" (%s)" % ", ".join(details) if details else "")


def choice(value: t.Any, subject: str, choices: t.Sequence[str]) -> str:
    """Return a value that is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise RailsError("%s is %s; it must be one of %s" % (subject, brief(value), ", ".join(choices)))
    return value


def brief(value: t.Any) -> str:
    """Return a value for a message: short, on one line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a value of type %s that is too long to print" % type(value).__name__
    return text if len(text) <= 80 else "%s... (%s)" % (text[:80], type(value).__name__)


def natural(name: str) -> tuple[t.Any, ...]:
    """Return a sort key by which mlx5_2 comes before mlx5_10."""
    parts: list[tuple[int, int, str]] = []
    for part in re.split("([0-9]+)", name):
        digits = part.lstrip("0")
        # By length, then text: int() refuses numbers of thousands of digits.
        parts.append((0, len(digits), digits) if part[:1].isdigit() and part.isascii() else (1, 0, part))
    return (parts, name)


def pci_key(address: t.Any) -> tuple[int, ...] | None:
    """Return domain, bus, device and function as numbers; None: no PCI address, as with soft-RoCE."""
    match = _PCI.fullmatch(address.lower()) if isinstance(address, str) else None
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def _order(port: Port) -> tuple[t.Any, ...]:
    # NCCL too sorts by PCI address and puts devices without one last (ncclIbCompareDevs() in net_ib/init.cc).
    address = pci_key(port.device.get("pci_address"))
    return (address is None, address or (), -1 if port.number is None else port.number, natural(port.name))


def ports(data: t.Any, doing: str) -> list[Port]:
    """Return all ports of one host's rdma_info, by PCI address, port and name."""
    devices = data.get("devices") if isinstance(data, t.Mapping) else data
    if not isinstance(devices, (list, tuple)):
        raise RailsTypeError(
            "Could not %s: the input must be what rdma_info returns (a dictionary with 'devices'), "
            "or the list of devices, not %s" % (doing, brief(data))
        )
    result = [port for device in devices for port in _ports(device, doing)]
    known: set[tuple[t.Any, ...]] = set()
    for port in result:
        # A name is unique in its network namespace; before Linux 7.3 on the whole host (__ib_device_get_by_name() in
        # drivers/infiniband/core/device.c). The initial namespace has the same inode on all hosts.
        key = (port.name, port.number, (port.device.get("netns") or {}).get("inode"))
        if key in known:
            raise RailsError(
                "Could not %s: %s is in the input twice. Give the devices of one host; "
                "nccl_env takes several hosts as a dictionary, host name to result" % (doing, port.label)
            )
        known.add(key)
    return sorted(result, key=_order)


def _ports(device: t.Any, doing: str) -> list[Port]:
    name = device.get("name") if isinstance(device, t.Mapping) else None
    if not isinstance(name, str) or not name:
        raise RailsTypeError(
            "Could not %s: an RDMA device must be a dictionary with a 'name', as rdma_info returns it, not %s"
            % (doing, brief(device))
        )
    where = "Could not %s: of %s, " % (doing, name)
    optional_text(device, "pci_address", where)
    netns = device.get("netns") or {}
    if not isinstance(netns, t.Mapping):
        raise RailsTypeError(where + "'netns' must be a dictionary or null, not %s" % brief(netns))
    if not isinstance(netns.get("inode"), (int, type(None))):
        raise RailsTypeError(where + "'inode' of 'netns' must be a number or null, not %s" % brief(netns["inode"]))
    listed = _dictionaries(device.get("ports"), where + "'ports'") or [{}]
    result = []
    for port in listed:
        if port.get("representor"):
            continue  # in switchdev mode: a port that another function uses
        number = port.get("port")
        if number is None and port:
            raise RailsTypeError(where + "a port has no number ('port')")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 1 << 32):
            raise RailsTypeError(where + "'port' must be a number from 1, not %s" % brief(number))
        result.append(
            Port(
                name,
                number,
                optional_text(port, "netdev", where),
                optional_text(port, "state", where),
                optional_text(device, "node_guid", where),
                _fabric(optional_text(device, "protocol", where), optional_text(port, "link_layer", where)),
                device,
                port,
                _dictionaries(port.get("gids"), where + "'gids'"),
            )
        )
    return result


def optional_text(holder: t.Mapping[str, t.Any], key: str, where: str) -> str | None:
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise RailsTypeError(where + "%r must be a string or null, not %s" % (key, brief(value)))
    return value or None


def _dictionaries(value: t.Any, subject: str) -> list[t.Mapping[str, t.Any]] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, t.Mapping) for item in value):
        raise RailsTypeError("%s must be a list of dictionaries, not %s" % (subject, brief(value)))
    return list(value)


def _fabric(protocol: str | None, link_layer: str | None) -> str | None:
    """Return what a port is.

    The link layer of iWARP is Ethernet too, so the device's protocol decides. If an old kernel names none, Ethernet
    counts as RoCE: the RoCE v2 GID that is asked for later is something that iWARP does not have.
    """
    if protocol == "iw":
        return IWARP
    if link_layer == "InfiniBand":
        return INFINIBAND
    if link_layer == "Ethernet" or (link_layer is None and protocol == "roce"):
        return ROCE
    return INFINIBAND if link_layer is None and protocol == "ib" else None


def lacks_gid(rail: t.Mapping[str, t.Any]) -> bool:
    """Return whether one of rails() is a RoCE port without a RoCE v2 GID of its own network device.

    NCCL does not use its GID 0 (link-local, or RoCE v1), which perftest would take instead.
    """
    return _fabric(rail.get("protocol"), rail.get("link_layer")) == ROCE and rail.get("gid_index") is None


def address_of(gid: t.Any) -> ipaddress.IPv6Address | None:
    """Return a GID as an address; None: an empty entry, or no GID."""
    if not isinstance(gid, str):
        return None
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return None
    return address if int(address) else None


def gids(port: Port, family: str, any_netdev: bool = False) -> list[Gid]:
    """Return the RoCE v2 entries of an address family, lowest index first, of IPv6 the link-local ones last.

    Only those of the port's own network device: a VLAN on it has entries in the same table. If the port's network
    device cannot be seen (it is in another network namespace), there is nothing to compare with.
    """
    result = []
    for entry in port.gids or ():
        # Most of a table's 256 entries are empty or not of this type.
        if entry.get("type") != "RoCE v2":
            continue
        if not any_netdev and port.netdev is not None and entry.get("netdev") != port.netdev:
            continue
        index, address = entry.get("index"), address_of(entry.get("gid"))
        if address is None or isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 1 << 31:
            continue
        mapped = address.ipv4_mapped is not None
        if (mapped and entry.get("ipv4")) if family == "ipv4" else not mapped:
            result.append(Gid(index, entry["gid"], address))
    return sorted(result, key=lambda gid: (family == "ipv6" and gid.link_local, gid.index))


def gid(port: Port, family: str) -> Gid | None:
    """Return the entry that NCCL's own choice comes to (ncclIbGetGidIndex() in net_ib/connect.cc), for RoCE.

    Unlike NCCL, this keeps to the port's network device, and takes a link-local IPv6 address before nothing.
    """
    return next(iter(gids(port, family)), None) if port.fabric == ROCE else None


def gid_index(port: Port, family: str) -> int | None:
    """Return the GID index of a port, None if there is none to set.

    On InfiniBand NCCL does not read NCCL_IB_GID_INDEX at all. An iWARP port has a table of one entry.
    """
    if port.fabric == IWARP:
        return 0
    chosen = gid(port, family)
    return chosen.index if chosen else None


def above(port: Port, wanted: t.AbstractSet[str | None]) -> Port:
    """Return a port with the network device that is wanted, if it has such a one: its own one, or what is above that.

    Devices above a port's own one have entries in its table (roce_gid_mgmt.c in drivers/infiniband/core). Their MTU is
    not known.
    """
    netdev = next(iter(wanted & netdevs(port) - {port.netdev}), None)
    if netdev is None or port.netdev in wanted:
        return port
    return port._replace(netdev=netdev, port={**port.port, "netdev": netdev, "netdev_mtu": None}, above=True)


def netdevs(port: Port) -> set[str | None]:
    return {port.netdev, *(entry["netdev"] for entry in port.gids or () if isinstance(entry.get("netdev"), str))}


def netdevs_of(port: Port, text: str) -> set[str | None]:
    """Return the network devices of the entries that have an address."""
    try:
        address = ipaddress.ip_address(text.split("/", 1)[0])
    except ValueError:
        return set()
    if isinstance(address, ipaddress.IPv4Address):
        address = ipaddress.IPv6Address((0xFFFF << 32) + int(address))
    return {entry.get("netdev") for entry in port.gids or () if address_of(entry.get("gid")) == address}


__all__ = (
    "ACTIVE",
    "FAMILIES",
    "INFINIBAND",
    "IWARP",
    "ROCE",
    "Gid",
    "Port",
    "RailsError",
    "RailsTypeError",
    "Selection",
    "above",
    "address_of",
    "brief",
    "choice",
    "describe",
    "gid",
    "gid_index",
    "gids",
    "lacks_gid",
    "names",
    "natural",
    "netdevs",
    "netdevs_of",
    "normalized",
    "optional_text",
    "pci_key",
    "ports",
)
