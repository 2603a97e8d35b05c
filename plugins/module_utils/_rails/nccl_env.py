# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""NCCL's environment variables from what rdma_info saw, on one host or on several that run one job."""

from __future__ import annotations

import functools
import re
import typing as t

from .ports import (
    ACTIVE,
    FAMILIES,
    ROCE,
    Port,
    RailsError,
    RailsTypeError,
    Selection,
    brief,
    choice,
    describe,
    gid,
    gids,
    ports,
)

GID_INDEX = ("pin", "auto")
DEBUG = ("VERSION", "WARN", "INFO", "TRACE")
_ADDR_FAMILY = {"ipv4": "AF_INET", "ipv6": "AF_INET6"}
_IN_WORDS = {"ipv4": "IPv4", "ipv6": "IPv6"}

# MAX_IB_DEVS in net_ib/common.h: NCCL reads no more of the list, without a message.
MAX_PORTS = 32
# char prefix[64] in struct netIf (include/utils.h)
MAX_NAME = 63
# MAX_THREADS and MAX_SOCKETS in transport/net_socket.cc, the limits that NCCL documents. It lowers what is above them.
MAX_THREADS = 16
MAX_SOCKETS = 64
# The fields of ibv_ah_attr: four bits of an InfiniBand header, and eight of the GRH.
MAX_SL = 15
MAX_TC = 255
# What parseStringList() in misc/utils.cc splits at, the prefixes of a list, and what an environment cannot carry well.
_UNUSABLE = re.compile(r"[,:^=\s\x00-\x1f\x7f]")


class NcclEnvError(RailsError):
    """No environment makes NCCL use these ports."""


class _Host(t.NamedTuple):
    name: str  # "": the only one, without a name
    ports: list[Port]
    unreadable: dict[str, str]

    @property
    def prefix(self) -> str:
        return self.name + ": " if self.name else ""


def nccl_env(
    data: t.Any,
    include: t.Any = None,
    exclude: t.Any = None,
    socket_ifname: t.Any = None,
    family: t.Any = "ipv4",
    gid_index: t.Any = "pin",
    debug: t.Any = "INFO",
    socket_family: t.Any = None,
    socket_nthreads: t.Any = None,
    nsocks_perthread: t.Any = None,
    service_level: t.Any = None,
    traffic_class: t.Any = None,
) -> dict[str, str]:
    """Return variable names to values, or refuse: NCCL falls back to sockets without an error."""
    family = choice(family, "Could not build the NCCL environment: family", FAMILIES)
    gid_index = choice(gid_index, "Could not build the NCCL environment: gid_index", GID_INDEX)
    debug = choice(debug, "Could not build the NCCL environment: debug", DEBUG)
    sockets = socket_variables(socket_ifname, socket_family, socket_nthreads, nsocks_perthread)
    classes = class_variables(service_level, traffic_class)
    selection = Selection(include, exclude, "build the NCCL environment")
    hosts = _hosts(data)
    selection.check(
        [selection.names(port) for host in hosts for port in host.ports],
        [host.prefix + describe(port) for host in hosts for port in host.ports],
    )
    chosen = [host._replace(ports=_chosen(host, selection)) for host in hosts]
    result = {"NCCL_IB_HCA": _hca(chosen)}
    if _fabric(chosen) == ROCE:
        result.update(_gid(chosen, family, gid_index))
    result.update({**classes, **sockets})
    result["NCCL_DEBUG"] = str(debug)
    return result


def socket_variables(
    socket_ifname: t.Any = None,
    socket_family: t.Any = None,
    socket_nthreads: t.Any = None,
    nsocks_perthread: t.Any = None,
) -> dict[str, str]:
    """Return the variables about NCCL's own connections over IP, and about its transport over sockets."""
    family = None
    if socket_family not in (None, ""):
        choice(socket_family, "Could not build the NCCL environment: socket_family", FAMILIES)
        family = _ADDR_FAMILY[socket_family]
    threads = _count("socket_nthreads", socket_nthreads, MAX_THREADS)
    sockets = _count("nsocks_perthread", nsocks_perthread, MAX_SOCKETS)
    if threads and sockets and threads * sockets > MAX_SOCKETS:
        _refuse(
            "socket_nthreads is %d and nsocks_perthread is %d, which is %d sockets for each connection, and NCCL opens "
            "%d at most. Lower one of them" % (threads, sockets, threads * sockets, MAX_SOCKETS)
        )
    values = {
        "NCCL_SOCKET_IFNAME": _interfaces(socket_ifname),
        "NCCL_SOCKET_FAMILY": family,
        "NCCL_SOCKET_NTHREADS": threads,
        "NCCL_NSOCKS_PERTHREAD": sockets,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def class_variables(service_level: t.Any = None, traffic_class: t.Any = None) -> dict[str, str]:
    """Return the variables about how switches treat NCCL's packets."""
    values = {
        "NCCL_IB_SL": _count("service_level", service_level, MAX_SL, 0),
        "NCCL_IB_TC": _count("traffic_class", traffic_class, MAX_TC, 0),
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _count(option: str, value: t.Any, most: int, least: int = 1) -> int | None:
    if value in (None, ""):
        return None
    # Templates turn numbers into text.
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(most))
    number = int(value) if digits else value
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        _refuse("%s is %s; it must be a whole number, %d to %d" % (option, brief(value), least, most))
    return number


def _refuse(text: str) -> t.NoReturn:
    raise NcclEnvError("Could not build the NCCL environment: " + text)


def _hosts(data: t.Any) -> list[_Host]:
    """Distinguish one host's result from several: a dictionary of them by host name, or a list."""
    if isinstance(data, t.Mapping) and not isinstance(data.get("devices"), (list, tuple)):
        hosts = [_host(str(name), result) for name, result in data.items()]
        if not hosts:
            raise RailsTypeError(_WANTED % "an empty dictionary")
        return hosts
    if isinstance(data, (list, tuple)) and data and all(_is_result(item) for item in data):
        return [_host("host %d of the list" % number, result) for number, result in enumerate(data, 1)]
    return [_host("", data)]


_WANTED = (
    "Could not build the NCCL environment: the input must be what rdma_info returns (a dictionary with 'devices'), "
    "its list of devices, or several hosts' results as a dictionary (host name to result) or a list; it is %s"
)


def _is_result(data: t.Any) -> bool:
    return isinstance(data, t.Mapping) and isinstance(data.get("devices"), (list, tuple))


def _host(name: str, data: t.Any) -> _Host:
    if not _is_result(data) and not isinstance(data, (list, tuple)):
        raise RailsTypeError(_WANTED % ("%s, with %s" % (name, brief(data)) if name else brief(data)))
    doing = "build the NCCL environment" + (" (%s)" % name if name else "")
    unreadable: dict[str, str] = {}
    listed = data.get("unreadable") if isinstance(data, t.Mapping) else None
    for entry in listed if isinstance(listed, (list, tuple)) else ():
        if isinstance(entry, t.Mapping):
            problem = "%s could not be read: %s" % (entry.get("what"), entry.get("error"))
            unreadable.setdefault(str(entry.get("device")), problem)
    return _Host(name, ports(data, doing), unreadable)


def _chosen(host: _Host, selection: Selection) -> list[Port]:
    """Return the ports of a host that NCCL shall use; refuse if none is left, with the reason for each."""
    chosen, reasons = [], []
    for port in host.ports:
        reason = selection.left_out(selection.names(port)) or _unfit(port, host)
        if reason is None:
            chosen.append(selection.applied(port))
        else:
            reasons.append("%s: %s" % (describe(port), reason))
    if not chosen:
        port_names = {port.name for port in host.ports}
        reasons += ["%s: %s" % item for item in host.unreadable.items() if item[0] not in port_names]
        _refuse(
            "%sno port is left, and NCCL would fall back to sockets without an error. %s. Bring a link up "
            "('rdma link' shows the state), or change include or exclude"
            % (host.prefix, "; ".join(reasons) or "rdma_info found no RDMA device")
        )
    labels = [port.label for port in chosen]
    for port in chosen:
        if labels.count(port.label) > 1:
            _refuse(
                "%s%s is a port of several devices of that name, in different network namespaces. Choose one by its "
                "node GUID with include or exclude" % (host.prefix, port.label)
            )
        if _UNUSABLE.search(port.name) or len(port.name) > MAX_NAME:
            _refuse(
                "%sthe device name %s cannot be in NCCL_IB_HCA: it cannot contain ',', ':', '^', '=' and white space, "
                "and a name has at most %d characters. Rename the device ('rdma dev set'), or exclude it"
                % (host.prefix, brief(port.name), MAX_NAME)
            )
    if len(chosen) > MAX_PORTS:
        _refuse(
            "%s%d ports are left, and NCCL uses %d at most. Choose them with include or exclude"
            % (host.prefix, len(chosen), MAX_PORTS)
        )
    return chosen


def _unfit(port: Port, host: _Host) -> str | None:
    unreadable = host.unreadable.get(port.name)
    if port.number is None:
        return unreadable or "it has no port"
    if port.state is None:
        return "its state is not known" + (" (%s)" % unreadable if unreadable else "")
    if port.state != ACTIVE:
        return "its state is %s, not %s" % (brief(port.state).strip("'"), ACTIVE)
    if port.fabric is None:
        # ncclIbInitDevices() skips such ports; EFA's need NCCL's plugin for libfabric.
        return "its link layer is %s, and NCCL uses InfiniBand and Ethernet" % brief(port.port.get("link_layer"))
    return None


def _hca(hosts: list[_Host]) -> str:
    """Return the one list for all hosts."""
    lists: dict[str, list[str]] = {}
    for host in hosts:
        value = "=" + ",".join("%s:%s" % (port.name, port.number) for port in host.ports)
        lists.setdefault(value, []).append(host.name)
    if len(lists) > 1:
        _refuse(
            "the hosts do not have the same ports in the same order: %s. Bring missing links up, give the devices the "
            "same names, choose with include or exclude, or build each host's environment from its own result"
            % "; ".join("%s on %s" % (value, ", ".join(where)) for value, where in lists.items())
        )
    return next(iter(lists))


def _labels(hosts: list[_Host], condition: t.Callable[[Port], bool]) -> str:
    return ", ".join(host.prefix + port.label for host in hosts for port in host.ports if condition(port))


def _is(fabric: str, port: Port) -> bool:
    return port.fabric == fabric


def _fabric(hosts: list[_Host]) -> str | None:
    """Return what all ports are."""
    fabrics = sorted({str(port.fabric) for host in hosts for port in host.ports})
    if len(fabrics) > 1:
        kinds = ["%s (%s)" % (kind, _labels(hosts, functools.partial(_is, kind))) for kind in fabrics]
        _refuse(
            "the ports are of different kinds, which cannot connect to each other: %s. "
            "Choose those of one kind with include or exclude" % "; ".join(kinds)
        )
    return fabrics[0]


def _gid(hosts: list[_Host], family: str, mode: str) -> dict[str, str]:
    """Return the variables about GIDs of RoCE ports."""
    missing = [
        host.prefix + _why_no_gid(port, family) for host in hosts for port in host.ports if gid(port, family) is None
    ]
    if missing:
        other = next(name for name in FAMILIES if name != family)
        _refuse(
            "no RoCE v2 GID of an %s address: %s. Give the network device such an address, or use family=%r"
            % (_IN_WORDS[family], "; ".join(missing), other)
        )
    if mode == "auto":
        if family == "ipv6":
            _refuse_link_local(hosts)
        _refuse_another_choice(hosts, family)
        return {"NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_FAMILY": _ADDR_FAMILY[family]}
    indexes: dict[int, list[str]] = {}
    for host in hosts:
        for port in host.ports:
            entry = gid(port, family)
            if entry is not None:
                indexes.setdefault(entry.index, []).append(host.prefix + port.label)
    if len(indexes) > 1:
        _refuse(
            "the ports need different GID indexes, but NCCL_IB_GID_INDEX applies to all: %s. "
            "Use gid_index='auto', with which NCCL chooses for each port (2.26.2 and newer, or 2.21 and newer if no "
            "entry of their GID tables below these is empty)"
            % "; ".join("%d on %s" % (index, ", ".join(indexes[index])) for index in sorted(indexes))
        )
    return {"NCCL_IB_GID_INDEX": str(next(iter(indexes)))}


def _why_no_gid(port: Port, family: str) -> str:
    text = "%s, network device %s" % (port.label, port.netdev or "not known")
    if port.gids is None:
        return text + " (its GIDs are not in the input: let rdma_info gather them)"
    others = gids(port, family, any_netdev=True)
    if others:
        entries = ["%s at %d of %s" % (entry.gid, entry.index, _netdev_of(port, entry.index)) for entry in others[:3]]
        text += " (its GIDs belong to other network devices: %s; include can name one of these)" % ", ".join(entries)
    return text


def _refuse_another_choice(hosts: list[_Host], family: str) -> None:
    """Refuse a VLAN, which include names, if NCCL would choose another GID.

    It takes the first one of the address family and the version (ncclIbGetGidIndex() in net_ib/connect.cc), whatever
    its network device is.
    """
    other = []
    for host in hosts:
        for port in host.ports:
            if not port.above:
                continue
            wanted, first = gid(port, family), gids(port, family, any_netdev=True)[0]
            if wanted and wanted.index != first.index:
                other.append(
                    "%s%s at %d of %s instead of %d of %s"
                    % (host.prefix, port.label, first.index, _netdev_of(port, first.index), wanted.index, port.netdev)
                )
    if other:
        _refuse(
            "NCCL would choose the GIDs of other network devices than include names: %s. Use gid_index='pin', or set "
            "the variables without this filter, with NCCL_IB_ADDR_RANGE" % "; ".join(other)
        )


def _netdev_of(port: Port, index: int) -> str:
    return next(str(entry.get("netdev")) for entry in port.gids or () if entry.get("index") == index)


def _refuse_link_local(hosts: list[_Host]) -> None:
    def only_link_local(port: Port) -> bool:
        entry = gid(port, "ipv6")
        return entry is not None and entry.link_local

    which = _labels(hosts, only_link_local)
    if which:
        # validGid() in net_ib/connect.cc: NCCL would stay at index 0, whatever that is.
        _refuse(
            "%s: the only IPv6 addresses are link-local, which NCCL skips when it chooses. "
            "Give the network device a global IPv6 address, or use gid_index='pin'" % which
        )


def _interfaces(value: t.Any) -> str | None:
    """Return NCCL_SOCKET_IFNAME: exact names unless a prefix was given, which counts for the whole list."""
    if value is None or value == "" or value == []:
        return None
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise RailsTypeError(
            "Could not build the NCCL environment: socket_ifname must be a name or a list of names, not %s"
            % brief(value)
        )
    text = ",".join(items)
    match = re.match(r"\^=|\^|=", text)
    listed = text[match.end() :] if match else text
    for name in listed.split(","):
        if not name or _UNUSABLE.search(name):
            _refuse(
                "socket_ifname is %s, with the interface name %s. Give names without white space, ':', '=' and '^'; "
                "'=' (exact names), '^' (all but these) or '^=' may occur once, before the whole list"
                % (brief(value), brief(name))
            )
    return text if match else "=" + text


__all__ = (
    "DEBUG",
    "GID_INDEX",
    "MAX_NAME",
    "MAX_PORTS",
    "MAX_SL",
    "MAX_SOCKETS",
    "MAX_TC",
    "MAX_THREADS",
    "NcclEnvError",
    "class_variables",
    "nccl_env",
    "socket_variables",
)
