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
# may write into each other's line, so that it has this twice. The host's name is what stands before (_owns): a pattern
# that begins with it would be tried at each of its characters.
_OWN = re.compile(
    r":(?P<pid>\d{1,10}):\d{1,10} \[-?\d{1,4}\] "
    r"(?:[\w./+-]{1,253}:\d{1,7} |\d+\.\d+ \S{1,253}:\d{1,7} )?NCCL (?P<level>INFO|WARN|TRACE|ABORT|CALL|VERSION) ?"
)
_NO_HOST = re.compile(r"[\s:\[\]()\"'`]")
_VERSION = re.compile(r"(?:NCCL|RCCL) version (\d+\.\d\S{0,100})\s*\Z")
_CHANNEL = re.compile(
    r"(?:(?:Channel|Ring|Tree|Coll[Nn]et|NVLS \w+) \d+(?:/\d+)? : |)"
    r"(?P<from>\d{1,7})?(?:\[\w*\])?(?: -> (?P<to>\d{1,7})?(?:\[\w*\])?)? ?\[(?P<way>send|receive)\] "
    r"via (?P<kind>NET|COLLNET)/(?P<net>[^/]{1,60})/-?\d+(?:\(-?\d+\))?(?P<flags>(?:/\w+(?:\(\w+\))?)*)\s*\Z"
)
_NETWORK = re.compile(r"(?:Using (?:internal )?[Nn]etwork|Assigned NET plugin) (?=\S)")
_USING_IB = re.compile(r"NET/IB ?: (?:Using )?(?=\[\d+\])")
_DEVICE = re.compile(r"(?:\[\d+\] ?=?|[{+, ])(?P<name>[A-Za-z][\w.-]{0,63}):(?P<port>\d{1,3})/(?P<link>IB|RoCE)\b")
_OOB = re.compile(r"OOB ([^\s:]{1,64}):")
_USING_SOCKET = re.compile(r"NET/Socket ?: Using \[\d+\]([^\s:]{1,64}):")
_BOOTSTRAP = re.compile(r"(?:Bootstrap ?: Using (?:\[\d+\])?|NET ?: Using interface )([^\s:]{1,64}):")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;.-]+)")
_GPU_DIRECT = re.compile(r"(?:NET/[\w ]{1,60}: )?GPU Direct RDMA (?:\([\w-]+\) )?(Enabled|Disabled)\b", re.I)
_RANK = re.compile(r"(?:(?=\w*[Cc]omm)\w+ 0x\w+ |ncclCommInitRank\w* comm 0x\w+ |)rank (\d{1,7}) n[rR]anks \d+\b")
# What NCCL's callers print about its failures; NCCL's own lines at level INFO are its way back up the stack.
_CALLERS = re.compile(
    r"\bunhandled (?:system|cuda) error\b"
    r"|\bnccl(?:SystemError|InternalError|RemoteError|UnhandledCudaError|InvalidUsage)\b"
    r"|\bTest NCCL failure\b|\bNCCL error in\b",
    re.I,
)
_FAILED = re.compile(r"\bGot completion from peer\b|\bibv_\w+ failed\b|\bCall to \w+ failed\b", re.I)

# NCCL writes no more than 1024 characters at once. What goes on for longer must not cost time.
_LONGEST = 8000
# What a caller can read; a log may have been written to be in the way.
_MOST_ERRORS, _MOST_DEVICES, _MOST_NETWORKS, _MOST_RANKS = 100, 1000, 10, 100_000
_LONGEST_ERROR, _LONGEST_NETWORK, _LONGEST_HOST = 1024, 200, 253

# Host, process and level of a message, and where on the line it begins and ends.
_Message = t.Tuple[str, str, str, int, int]
# Sets that keep their order.
_Names = t.Dict[str, None]
_Ranks = t.Dict[int, None]


class _Process:
    """What one process printed: the networks of its channels, of its start, and its ranks."""

    def __init__(self) -> None:
        self.channels: _Names = {}
        self.named: _Names = {}
        self.offered: _Names = {}
        self.ranks: _Ranks = {}


class _Log:
    """What the processes of a log printed."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str, str], _Process] = {}
        self.devices: dict[tuple[str, int, str], None] = {}
        self.interfaces: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.direct: list[bool] = []
        self.channels_direct: list[bool] = []
        self.errors: _Names = {}
        self.ranks: _Ranks = {}
        self.socket_ranks: _Ranks = {}
        self.version: str | None = None

    def read(self, line: str) -> None:
        own = _messages(line)
        for host, pid, level, start, end in own:
            message = line[start:end]
            process = self.processes.get((host, pid))
            if process is None:
                process = self.processes[(host, pid)] = _Process()
            if level == "WARN" or _FAILED.search(message) or _CALLERS.search(message):
                self._failed(message)
            if level != "WARN":
                self._message(message, process)
        if not own:
            self.version = self.version or _bare_version(line)
            if _CALLERS.search(line):
                self._failed(line)

    def _failed(self, text: str) -> None:
        self.errors[text.strip()[:_LONGEST_ERROR]] = None

    def _message(self, message: str, process: _Process) -> None:
        version = _VERSION.match(message)
        self.version = self.version or (version.group(1) if version else None)
        channel = _CHANNEL.match(message)
        if channel:
            self._channel(channel, process)
            return
        self._start(message, process)
        rank = _RANK.match(message)
        if rank:
            self.ranks[int(rank.group(1))] = process.ranks[int(rank.group(1))] = None

    def _channel(self, channel: t.Match[str], process: _Process) -> None:
        network = "SHARP" if channel.group("kind") == "COLLNET" else channel.group("net")
        direct = "/GDRDMA" in channel.group("flags") and network != "Socket"
        process.channels[network] = None
        self.channels_direct.append(direct)
        if direct:
            self.kinds.setdefault(network, "rdma")
        rank = channel.group("from" if channel.group("way") == "send" else "to") or channel.group("from")
        if rank is not None:
            self.ranks[int(rank)] = process.ranks[int(rank)] = None
            if network == "Socket":
                self.socket_ranks[int(rank)] = None

    def _start(self, message: str, process: _Process) -> None:
        """Take what a line shows about the start of the network."""
        network = _NETWORK.match(message)
        if network:
            name = message[network.end() :].rstrip()
            name = name[: -len(" to comm")] if name.endswith(" to comm") else name
            process.named[name[:_LONGEST_NETWORK]] = None
            return
        provider = _PROVIDER.match(message)
        if provider:
            name = provider.group(1)
            kind = "rdma" if name == "efa" or name.startswith("verbs") else "socket" if name.startswith("tcp") else None
            if kind:
                # The plugin has had several names: AWS Libfabric, Libfabric, OFI.
                self.kinds["Libfabric"] = kind if self.kinds.get("Libfabric", kind) == kind else "unknown"
            return
        gpu_direct = _GPU_DIRECT.match(message)
        if gpu_direct:
            self.direct.append(gpu_direct.group(1).lower() == "enabled")
            return
        if _USING_IB.match(message):
            for device in _DEVICE.finditer(message.partition("OOB ")[0]):
                layer = {"IB": "InfiniBand", "RoCE": "Ethernet"}[device.group("link")]
                self.devices[(device.group("name"), int(device.group("port")), layer)] = None
                process.offered["IB"] = None
            self._interface("oob", _OOB.search(message))
            return
        socket = _USING_SOCKET.match(message)
        if socket:
            process.offered["Socket"] = None
        self._interface("socket", socket)
        self._interface("bootstrap", _BOOTSTRAP.match(message))

    def _interface(self, name: str, named: t.Match[str] | None) -> None:
        if named:
            self.interfaces.setdefault(name, named.group(1))

    def gpudirect(self, transport: str, evidence: str | None) -> bool | None:
        if evidence == "channels":
            return all(self.channels_direct) and transport != "mixed"
        if transport == "mixed" or (transport == "socket" and self.direct):
            return False
        if transport == "rdma" and len(set(self.direct)) == 1:
            return self.direct[0]
        return None


def parse(text: str) -> dict[str, t.Any]:
    """Return the transport, what shows it, and what else NCCL printed about its network."""
    log = _Log()
    for line in re.split(r"\r?\n|\r", text):
        log.read(_plain(line[:_LONGEST]))
    transport, evidence, networks = _judge(log.processes.values(), log.kinds)
    for process in log.processes.values():
        if not process.channels and list(_networks(process)) == ["Socket"]:
            log.socket_ranks.update(process.ranks)
    names = ("socket", "bootstrap", "oob") if transport == "socket" else ("bootstrap", "oob", "socket")
    lists: dict[str, tuple[list[t.Any], int]] = {
        "devices": (list(log.devices), _MOST_DEVICES),
        "ranks": (sorted(log.ranks), _MOST_RANKS),
        "socket_ranks": (sorted(log.socket_ranks), _MOST_RANKS),
        "errors": (list(log.errors), _MOST_ERRORS),
    }
    shown = {name: whole[:most] for name, (whole, most) in lists.items()}
    more = len(networks) - _MOST_NETWORKS
    return {
        "transport": transport,
        "evidence": evidence,
        "network": ", ".join(networks[:_MOST_NETWORKS] + (["and %d more" % more] if more > 0 else [])) or None,
        "interface": next((log.interfaces[name] for name in names if name in log.interfaces), None),
        "gpudirect": log.gpudirect(transport, evidence),
        "version": log.version,
        **shown,
        "devices": [dict(zip(("name", "port", "link_layer"), device)) for device in shown["devices"]],
        "left_out": {name: len(whole) - len(shown[name]) for name, (whole, _most) in lists.items()},
    }


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) if "\x1b" in line else line


def _messages(line: str) -> list[_Message]:
    """Return what NCCL itself wrote on a line."""
    messages: list[_Message] = []
    first = 0
    for own in _OWN.finditer(line) if "NCCL " in line else ():
        end = messages[-1][3] if messages else 0
        host = _NO_HOST.split(line[max(end, own.start() - _LONGEST_HOST) : own.start()])[-1]
        if not host:
            continue
        start = own.start() - len(host)
        if messages:
            messages[-1] = (*messages[-1][:4], start)
        else:
            first = start
        messages.append((host, own.group("pid"), own.group("level"), own.end(), len(line)))
    return messages if _is_prefix(line[:first]) else []


def _is_prefix(before: str) -> bool:
    """Return whether text is what launchers and loggers put before a line, rather than a sentence."""
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
    version = _VERSION.match(line, at - 1)
    return version.group(1) if version and _is_prefix(line[: at - 1]) else None


def _networks(process: _Process) -> _Names:
    """Return what a process used: its channels beat what it printed at its start, a choice beats what there was."""
    if process.channels or process.named:
        return process.channels or process.named
    # NCCL before 2.7 does not name its choice: it looks for sockets only if it has found no device.
    return {"IB": None} if "IB" in process.offered else process.offered


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
    named: _Names = {}
    evidence = None
    for process in processes:
        for network in _networks(process):
            named[network] = None
            evidence = evidence or "init"
        if process.channels:
            evidence = "channels"
    networks = list(named)
    transports = {_kind(network, kinds) for network in networks}
    if not transports:
        return "unknown", None, []
    if transports == {"rdma"} or transports == {"socket"}:
        return transports.pop(), evidence, networks
    return "mixed" if "socket" in transports else "unknown", evidence, networks


__all__ = ("parse",)
