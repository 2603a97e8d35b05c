# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which way NCCL took between nodes, from what it logged with NCCL_DEBUG=INFO.

Only lines that begin as NCCL begins its own count: ``host:pid:tid [gpu] NCCL INFO ...``. A launcher's tag, a time or a
pod's name may stand before that.
"""

from __future__ import annotations

import re
import typing as t

# What may stand before NCCL's own words: a launcher's or a logger's tag ([1,0]<stdout>:, [default0]:, "3:", "pod:",
# "pod |", (RayWorker pid=1)), a time, and up to two names of a pod and its container, which have a digit, - or /.
_TAGS = re.compile(
    r"\s*(?:\[[^\]\n]{0,200}\](?:<\w{1,20}>)?:?|<[^<>\s]{1,40}>:?|\([^()\n]{0,200}\)|\d[\dTZ:.,+-]{3,40}(?=\s|\Z)"
    r"|[\w./-]{1,253}:|[\w./-]{0,253}\s?\||\Z)"
)
_NAME = re.compile(r"\s*(?=[^\s\d/-]*[\d/-])[\w./-]{1,253}(?=\s)")
# host:pid:tid [gpu] NCCL INFO message; WARN has the place in the source before NCCL, TRACE the time too. Two threads
# may write into each other's line, so that it has this twice.
_OWN = re.compile(
    r"(?P<host>[^\s:\[\]()\"'`]{1,253}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<gpu>-?\d{1,4})\] "
    r"(?:[\w./+-]{1,253}:\d{1,7} |\d+\.\d+ \S{1,253}:\d{1,7} )?NCCL (?P<level>INFO|WARN|TRACE|ABORT|CALL|VERSION) ?"
)
_VERSION = re.compile(r"(?:NCCL|RCCL) version (\d+(?:\.\d+)+\S*)\s*\Z")
_CHANNEL = re.compile(
    r"(?:(?:Channel|Ring|Tree|Coll[Nn]et|NVLS \w+) \d+(?:/\d+)? : |)"
    r"(?P<from>\d{1,7})?(?:\[\w*\])?(?: -> (?P<to>\d{1,7})?(?:\[\w*\])?)? ?\[(?P<way>send|receive)\] "
    r"via (?P<kind>NET|COLLNET)/(?P<net>[^/]{1,60})/-?\d+(?:\(-?\d+\))?(?P<flags>(?:/\w+(?:\(\w+\))?)*)\s*\Z"
)
_NETWORK = re.compile(r"(?:Using (?:internal )?[Nn]etwork|Assigned NET plugin) (\S.*?)(?: to comm)?\s*\Z")
_USING_IB = re.compile(r"NET/IB ?: (?:Using )?(?=\[\d+\])")
_DEVICE = re.compile(r"(?:\[\d+\] ?=?|[{+, ])(?P<name>[A-Za-z][\w.-]{0,63}):(?P<port>\d{1,3})/(?P<link>IB|RoCE)\b")
_OOB = re.compile(r"OOB ([^\s:]{1,64}):")
_USING_SOCKET = re.compile(r"NET/Socket ?: Using \[\d+\]([^\s:]{1,64}):")
_BOOTSTRAP = re.compile(r"(?:Bootstrap ?: Using (?:\[\d+\])?|NET ?: Using interface )([^\s:]{1,64}):")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;.-]+)")
_GPU_DIRECT = re.compile(r"(?:NET/[\w ]{1,60}: )?GPU Direct RDMA (?:\([\w-]+\) )?(Enabled|Disabled)\b", re.I)
_RANK = re.compile(r"(?:\w*[Cc]omm\w* 0x\w+ |ncclCommInitRank\w* comm 0x\w+ |)rank (\d{1,7}) n[rR]anks \d+\b")
# What NCCL's callers say of its failures; the words of NCCL's own lines at level INFO are its way back up the stack.
_CALLERS = re.compile(
    r"\bunhandled (?:system|cuda) error\b"
    r"|\bnccl(?:SystemError|InternalError|RemoteError|UnhandledCudaError|InvalidUsage)\b"
    r"|\bTest NCCL failure\b|\bNCCL error in\b",
    re.I,
)
_FAILED = re.compile(r"\bGot completion from peer\b|\bibv_\w+ failed\b|\bCall to \w+ failed\b", re.I)

# NCCL writes no more than 1024 characters at once. What goes on for longer must not cost time.
_LONGEST = 8000


class _Process:
    """What one process said: the networks of its channels, of its start, and its ranks."""

    def __init__(self) -> None:
        self.channels: list[str] = []
        self.named: list[str] = []
        self.found: list[str] = []
        self.ranks: list[int] = []


def parse(text: str) -> dict[str, t.Any]:
    """Return the transport, what it is told by, and what else NCCL said of its network."""
    processes: dict[tuple[str, str], _Process] = {}
    devices: list[dict[str, t.Any]] = []
    interfaces: dict[str, str] = {}
    direct: list[bool] = []
    channels_direct: list[bool] = []
    errors: list[str] = []
    ranks: set[int] = set()
    socket_ranks: set[int] = set()
    kinds: dict[str, str] = {}
    version = None
    for raw in re.split(r"\r?\n|\r", text):
        line = _plain(raw[:_LONGEST])
        own = list(_messages(line))
        if not own:
            version = version or _bare_version(line)
            if _CALLERS.search(line):
                _once(errors, line.strip())
            continue
        for host, pid, level, message in own:
            process = processes.setdefault((host, pid), _Process())
            if level == "WARN" or _FAILED.search(message) or _CALLERS.search(message):
                _once(errors, message.strip())
            if level == "WARN":
                continue
            told = _VERSION.match(message)
            version = version or (told.group(1) if told else None)
            channel = _CHANNEL.match(message)
            if channel:
                network = "SHARP" if channel.group("kind") == "COLLNET" else channel.group("net")
                flags = channel.group("flags")
                gdr = "/GDRDMA" in flags
                _once(process.channels, network)
                channels_direct.append(gdr and network != "Socket")
                if gdr and network != "Socket":
                    kinds.setdefault(network, "rdma")
                rank = channel.group("from" if channel.group("way") == "send" else "to") or channel.group("from")
                if rank is not None:
                    ranks.add(int(rank))
                    _once(process.ranks, int(rank))
                    if network == "Socket":
                        socket_ranks.add(int(rank))
                continue
            _start(message, process, devices, interfaces, direct, kinds)
            rank_told = _RANK.match(message)
            if rank_told:
                ranks.add(int(rank_told.group(1)))
                _once(process.ranks, int(rank_told.group(1)))
    transport, evidence, networks = _judge(processes.values(), kinds)
    for process in processes.values():
        if not process.channels and _networks(process) == ["Socket"]:
            socket_ranks.update(process.ranks)
    gpudirect: bool | None = None
    if evidence == "channels":
        gpudirect = all(channels_direct) and transport != "mixed"
    elif transport == "mixed" or (transport == "socket" and direct):
        gpudirect = False
    elif transport == "rdma" and len(set(direct)) == 1:
        gpudirect = direct[0]
    names = ("socket", "bootstrap", "oob") if transport == "socket" else ("bootstrap", "oob", "socket")
    return {
        "transport": transport,
        "evidence": evidence,
        "network": ", ".join(networks) or None,
        "devices": devices,
        "interface": next((interfaces[name] for name in names if name in interfaces), None),
        "gpudirect": gpudirect,
        "version": version,
        "ranks": sorted(ranks),
        "socket_ranks": sorted(socket_ranks),
        "errors": errors,
    }


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) if "\x1b" in line else line


def _messages(line: str) -> t.Iterator[tuple[str, str, str, str]]:
    """Yield host, process, level and message of what NCCL itself wrote on a line."""
    if "NCCL " not in line:
        return
    first = _OWN.search(line)
    if first is None or not _is_prefix(line[: first.start()]):
        return
    own: t.Match[str] | None = first
    while own is not None:
        following = _OWN.search(line, own.end())
        end = following.start() if following else len(line)
        yield own.group("host"), own.group("pid"), own.group("level"), line[own.end() : end]
        own = following


def _is_prefix(before: str) -> bool:
    """Tell whether text is what launchers and loggers put before a line, rather than somebody's sentence."""
    at, names = 0, 0
    for _turn in range(12):
        if not before[at:].strip():
            return True
        tag = _TAGS.match(before, at)
        if tag is None:
            tag = _NAME.match(before, at)
            names += 1
            if tag is None or names > 2:
                return False
        at = tag.end()
    return False


def _bare_version(line: str) -> str | None:
    """Return the version from the one line that NCCL prints without its prefix."""
    at = line.find("CCL version ")
    if at < 1:
        return None
    told = _VERSION.match(line, at - 1)
    return told.group(1) if told and _is_prefix(line[: at - 1]) else None


def _once(items: list[t.Any], item: t.Any) -> None:
    if item not in items:
        items.append(item)


def _start(
    message: str,
    process: _Process,
    devices: list[dict[str, t.Any]],
    interfaces: dict[str, str],
    direct: list[bool],
    kinds: dict[str, str],
) -> None:
    """Take what a line says of the start of the network."""
    network = _NETWORK.match(message)
    if network:
        _once(process.named, network.group(1))
        return
    provider = _PROVIDER.match(message)
    if provider:
        name = provider.group(1)
        kind = "rdma" if name == "efa" or name.startswith("verbs") else "socket" if name.startswith("tcp") else None
        if kind:
            # The plugin has had several names: AWS Libfabric, Libfabric, OFI.
            kinds["Libfabric"] = kind if kinds.get("Libfabric", kind) == kind else "unknown"
        return
    gpu_direct = _GPU_DIRECT.match(message)
    if gpu_direct:
        direct.append(gpu_direct.group(1).lower() == "enabled")
        return
    if _USING_IB.match(message):
        before_oob = message.partition("OOB ")[0]
        for device in _DEVICE.finditer(before_oob):
            entry = {
                "name": device.group("name"),
                "port": int(device.group("port")),
                "link_layer": {"IB": "InfiniBand", "RoCE": "Ethernet"}[device.group("link")],
            }
            _once(devices, entry)
            _once(process.found, "IB")
        oob = _OOB.search(message)
        if oob:
            interfaces.setdefault("oob", oob.group(1))
        return
    socket = _USING_SOCKET.match(message)
    if socket:
        interfaces.setdefault("socket", socket.group(1))
        _once(process.found, "Socket")
        return
    bootstrap = _BOOTSTRAP.match(message)
    if bootstrap:
        interfaces.setdefault("bootstrap", bootstrap.group(1))


def _networks(process: _Process) -> list[str]:
    """Return what a process used: its channels beat what it said at its start, a choice beats what there was."""
    if process.channels or process.named:
        return process.channels or process.named
    # NCCL before 2.7 does not name its choice: it looks for sockets only where it has found no device.
    return ["IB"] if "IB" in process.found else process.found


def _kind(network: str, kinds: t.Mapping[str, str]) -> str:
    if network == "Socket":
        return "socket"
    if network == "IB" or network == "SHARP" or re.match(r"IBext(?:_v\d+)?\Z", network):
        return "rdma"
    if "Libfabric" in network or network == "OFI":
        return kinds.get(network) or kinds.get("Libfabric") or "unknown"
    return kinds.get(network, "unknown")


def _judge(processes: t.Iterable[_Process], kinds: t.Mapping[str, str]) -> tuple[str, str | None, list[str]]:
    """Return transport, evidence and the names of the networks, over all processes."""
    networks: list[str] = []
    evidence = None
    for process in processes:
        for network in _networks(process):
            _once(networks, network)
            evidence = evidence or "init"
        if process.channels:
            evidence = "channels"
    found = {_kind(network, kinds) for network in networks}
    if not found:
        return "unknown", None, []
    if found == {"rdma"} or found == {"socket"}:
        return found.pop(), evidence, networks
    return "mixed" if "socket" in found else "unknown", evidence, networks


__all__ = ("parse",)
