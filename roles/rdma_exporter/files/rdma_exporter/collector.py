# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads every RDMA device of the node, in all network namespaces, and reports what could not be read."""

from __future__ import annotations

import errno
import os
import re
import time
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import pods
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import quick_survey as namespaces
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import (
    devices,
    nldev,
    sysfs,
    sysfs_devices,
    traffic,
)

from . import walk
from .command_line import TIMEOUT
from .kept import KeptFiles

GATHER = frozenset({"counters", "hw_counters"})
HOST, POD, OTHER = "host", "pod", "other"
KINDS = (HOST, POD, OTHER)

# If a namespace's sysfs cannot be mounted, that of another namespace must not be read.
_NO_SYSFS = "/nonexistent"

# Of the namespace that the thread has entered.
_NETDEVS = "/proc/thread-self/net/dev"

# Attributes that no metric has.
_UNUSED = frozenset({"lid", "numa_node", "sm_lid", "sys_image_guid"})

_ERRNO = re.compile(r"\b(E[A-Z0-9]{2,}) \(")

Device = t.Dict[str, t.Any]


class Settings(t.NamedTuple):
    """The options of the command line; times in seconds."""

    sysfs: str = "/sys"
    procfs: str = "/proc"
    netlink: bool = True
    netns: bool = True
    limit: float = 2.0
    total: float = TIMEOUT
    expected: tuple[str, ...] = ()
    pod_logs: str = pods.LOGS
    claims: str = pods.CLAIMS
    open_files: int = 512


class Place(t.NamedTuple):
    """A network namespace as labels show it."""

    kind: str
    name: str = ""
    pod_namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    claims: str = ""


class Problem(t.NamedTuple):
    """Something that exists but could not be read; ``error`` is for a label, ``text`` for the log."""

    place: Place
    device: str
    part: str
    error: str
    text: str


class Snapshot(t.NamedTuple):
    """The result of one scrape. ``mode`` is None if the kernel has no RDMA, or does not report the mode."""

    loaded: bool
    mode: str | None
    devices: list[tuple[Place, Device]]
    # Network devices of pods that have RDMA devices: bytes received and sent.
    netdevs: list[tuple[Place, str, tuple[int, int]]]
    problems: list[Problem]
    kinds: dict[str, int]
    # Whether every namespace and every list of devices was read: otherwise a missing device may be anywhere.
    complete: bool
    present: dict[str, bool | None]
    # The names of the devices that are expected, as ``present`` has them.
    expected: tuple[str, ...]
    seconds: float


class DeviceLook(devices.Look):
    """Adds the counters of the whole device, which netlink does not report, and how often ports had no carrier."""

    def _device(self, row: nldev.Device, ports: t.Sequence[nldev.Port], sysfs: bool) -> Device:
        device = super()._device(row, ports, sysfs)
        device["hw_counters"] = self._counters(row.name, "hw_counters") if sysfs else {}
        return device

    def _port(self, row: nldev.Device, port: nldev.Port, sysfs: bool) -> Device:
        answer = super()._port(row, port, sysfs)
        netdev = answer["netdev"]
        answer["carrier_down"] = self._netdev_number(row.name, netdev, "carrier_down_count") if netdev else None
        return answer

    def _counters(self, device: str, path: str) -> dict[str, int]:
        if not isinstance(self.files, KeptFiles):
            return super()._counters(device, path)
        try:
            values, others = self.files.numbers("%s/class/infiniband/%s/%s" % (self.sys, device, path))
        except FileNotFoundError:
            return {}
        except OSError as exc:
            self.failed(device, path, exc)
            return {}
        for name in devices.KNOBS:
            values.pop(name, None)
        self._counted(device, path, others, values)
        return values

    def _origin(self, device: str) -> tuple[str | None, str | None, str | None]:
        if not isinstance(self.files, KeptFiles):
            return super()._origin(device)
        # A device's driver and PCI address do not change while it exists.
        place = "%s/class/infiniband/%s" % (self.sys, device)
        return t.cast(
            "tuple[str | None, str | None, str | None]",
            self.files.once(place, lambda: DeviceLook._read_origin(self, device)),
        )

    def _read_origin(self, device: str) -> tuple[str | None, str | None, str | None]:
        return super()._origin(device)

    def _text(self, device: str, path: str, *, needed: bool = False) -> str | None:
        return None if path.rpartition("/")[2] in _UNUSED else super()._text(device, path, needed=needed)


class SysfsDeviceLook(DeviceLook, sysfs_devices.SysfsLook):
    """The same from sysfs alone."""


def look(netlink: bool, path: str, files: t.Any = sysfs) -> dict[str, t.Any]:
    """Return the devices of the calling thread's namespace, and what could not be read."""
    reader = (DeviceLook if netlink else SysfsDeviceLook)(GATHER, path, files)
    return {"devices": reader.devices(), "unreadable": reader.unreadable}


def look_inside(has_sysfs: bool) -> dict[str, t.Any]:
    """Return the devices of a namespace that was entered and, if it has any, what its network devices have carried."""
    answer = look(True, "/sys" if has_sysfs else _NO_SYSFS)
    answer["netdevs"] = {}
    if answer["devices"]:
        try:
            with open(_NETDEVS, encoding="ascii", errors="replace") as stream:
                answer["netdevs"] = traffic.netdevs(stream.read())
        except (OSError, ValueError) as exc:
            answer["unreadable"].append({"device": "", "what": "network_devices", "error": str(exc)})
    return answer


class Collector:
    """Scrapes the devices, and remembers which there were."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._guard = walk.Guard()
        self._files = KeptFiles(settings.open_files)
        self._walker = walk.walker(look_inside)
        # name -> identity that survives a rename by udev: the index, or the GUID if only sysfs is read
        self._identities: dict[str, t.Any] = {}
        self._last: set[str] = set()
        # What is expected -> the name that the device had last
        self._names: dict[str, str] = {}

    def collect(self) -> Snapshot:
        began = time.monotonic()
        deadline = began + self.settings.total
        snapshot = self._scrape(deadline)
        names = {device["name"] for _place, device in snapshot.devices}
        if self._last - names and snapshot.complete and time.monotonic() + self.settings.limit < deadline:
            # A device that moves between two namespaces can be missed in both: scrape again before reporting it gone.
            snapshot = self._scrape(deadline)
            names = {device["name"] for _place, device in snapshot.devices}
        self._last = names
        self._remember(snapshot.devices)
        expected = self._expected(snapshot.devices, names)
        present = {
            name: True if name in names else (False if snapshot.complete else None)
            for name in sorted({*self._identities, *expected})
        }
        return snapshot._replace(present=present, expected=expected, seconds=time.monotonic() - began)

    def _expected(self, entries: t.Sequence[tuple[Place, Device]], names: t.Container[str]) -> tuple[str, ...]:
        """Return what is expected by the names that the devices have, or had, if no other device has that by now."""
        result = {}
        for text in self.settings.expected:
            name = next((device["name"] for _place, device in entries if text.lower() in _keys(device)), None)
            if name is None and self._names.get(text) in names:
                del self._names[text]
            name = self._names[text] = name or self._names.get(text, text)
            result[name] = True
        return tuple(result)

    def _look_here(self, netlink: bool) -> dict[str, t.Any]:
        """Read the process's own namespace, which needs no child and lets files stay open."""

        def look_and_sweep() -> dict[str, t.Any]:
            answer = look(netlink, self.settings.sysfs, self._files)
            self._files.sweep()
            return answer

        return t.cast("dict[str, t.Any]", self._guard.call(look_and_sweep, self.settings.limit))

    def _remember(self, entries: t.Sequence[tuple[Place, Device]]) -> None:
        for _place, device in entries:
            identity = _identity(device)
            for name in [name for name, other in self._identities.items() if other == identity]:
                del self._identities[name]
            self._identities[device["name"]] = identity

    def _scrape(self, deadline: float) -> Snapshot:
        scrape = _Scrape(self.settings, self._look_here, self._walker, deadline)
        scrape.run()
        entries, clashes = _distinct(scrape.devices)
        problems = [*scrape.problems, *clashes]
        return Snapshot(
            scrape.loaded, scrape.mode, entries, scrape.netdevs, problems, scrape.kinds, scrape.complete, {}, (), 0.0
        )


class _Scrape:
    def __init__(
        self,
        settings: Settings,
        look_here: t.Callable[[bool], dict[str, t.Any]],
        walker: walk.Walker,
        deadline: float,
    ) -> None:
        self._settings = settings
        self._look = look_here
        self._walker = walker
        self._deadline = deadline
        self.loaded = False
        self.mode: str | None = None
        self.devices: list[tuple[Place, Device]] = []
        self.netdevs: list[tuple[Place, str, tuple[int, int]]] = []
        self.problems: list[Problem] = []
        self.kinds: dict[str, int] = {}
        self.complete = True

    def _fail(self, place: Place, part: str, error: str, text: str) -> None:
        self.complete = False
        self.problems.append(Problem(place, "", part, error, text))

    def run(self) -> None:
        host = Place(HOST)
        # Opening the socket would load the module (MODULE_ALIAS_NET_PF_PROTO in drivers/infiniband/core/netlink.c).
        self.loaded = os.path.isdir(self._settings.sysfs + "/module/ib_core")
        netlink = self._settings.netlink and self.loaded
        try:
            if netlink:
                self.mode = self._netns_mode()
            elif self.loaded:
                self.mode = sysfs.live_mode(self._settings.sysfs)
        except (FabricError, OSError) as exc:
            self._fail(host, "netns_mode", _errno_name(exc), str(exc))
        # In shared mode every namespace shows every device, and all of them are the host's.
        if self._settings.netns and self.mode == "exclusive":
            try:
                survey = namespaces.spaces(self._settings.procfs)
            except OSError as exc:
                self._fail(
                    host, "network_namespaces", _errno_name(exc), "Could not look for network namespaces: %s" % exc
                )
            else:
                for line in survey.unreadable[:1]:
                    more = len(survey.unreadable) - 1
                    text = "Could not read %s: %s%s" % (*line, " and %d more" % more if more else "")
                    self._fail(host, "network_namespaces", line.error, text)
                host = Place(HOST if survey.own == survey.initial else OTHER)
                self._look_elsewhere(survey.others, survey.initial)
        self._look_here(host, netlink)

    @staticmethod
    def _netns_mode() -> str | None:
        try:
            return nldev.sys_get().netns_mode
        except nldev.NldevError as exc:
            if exc.errno != errno.EINVAL:  # Linux before 5.1, which has no modes
                raise
            return None

    def _look_here(self, place: Place, netlink: bool) -> None:
        self.kinds[place.kind] = self.kinds.get(place.kind, 0) + 1
        try:
            answer = self._look(netlink)
        except walk.Hung as exc:
            self._fail(place, "devices", "ETIMEDOUT", "Could not look at the devices: %s" % exc)
        except Exception as exc:  # as for another namespace: it becomes an error series
            self._fail(place, "devices", _errno_name(exc), "Could not look at the devices: %s" % exc)
        else:
            self._add(place, answer)

    def _look_elsewhere(self, spaces: t.Sequence[Namespace], initial: int) -> None:
        places = self._places(spaces, initial)
        for place in places.values():
            self.kinds[place.kind] = self.kinds.get(place.kind, 0) + 1
        answers = self._walker.walk(spaces, self._settings.limit, self._deadline - self._settings.limit)
        for space in spaces:
            answer = answers[space.inode]
            place = places[space.inode]
            if "value" in answer:
                self._add(place, answer["value"])
                # Of pods whose name is not known, two would have the same labels.
                if place.pod_name:
                    rows = answer["value"]["netdevs"].items()
                    self.netdevs += [(place, name, tuple(both)) for name, both in rows if name != "lo"]
            elif answer["errno"] == errno.ENOENT:
                self.complete = False  # it has ended, and its devices are returning to the host
            else:
                name = space.name or "net:[%d]" % space.inode
                error = errno.errorcode.get(answer["errno"], "other")
                self._fail(place, "devices", error, "Could not look into %s: %s" % (name, answer["error"]))

    @staticmethod
    def _pod(space: Namespace) -> str | None:
        """Return the UID of the pod whose processes are in a namespace; one that sees its mount is not in it."""
        return next((holder.pod["uid"] for holder in space.holders if holder.kind == "process" and holder.pod), None)

    def _places(self, spaces: t.Sequence[Namespace], initial: int) -> dict[int, Place]:
        uids = {space.inode: self._pod(space) for space in spaces}
        names = pods.names(self._settings.pod_logs) if any(uids.values()) else {}
        claims = pods.claims(self._settings.claims) if any(uids.values()) else {}
        places = {}
        for space in spaces:
            uid = uids[space.inode]
            if space.inode == initial:
                places[space.inode] = Place(HOST)
            elif uid is None:
                places[space.inode] = Place(OTHER, space.name or "")
            else:
                text = ",".join(sorted(claims.get(uid, ())))
                places[space.inode] = Place(POD, space.name or "", *names.get(uid, ("", "")), uid, text)
        return places

    def _add(self, place: Place, answer: t.Mapping[str, t.Any]) -> None:
        self.devices += [(place, device) for device in answer["devices"]]
        for line in answer["unreadable"]:
            if line["device"] is None:
                self._fail(place, line["what"], _label(line["error"]), line["error"])
            else:
                text = "%s: %s: %s" % (line["device"], line["what"], line["error"])
                self.problems.append(Problem(place, line["device"], line["what"], _label(line["error"]), text))


def _distinct(seen: t.Sequence[tuple[Place, Device]]) -> tuple[list[tuple[Place, Device]], list[Problem]]:
    """Return the devices, each of them once, in the order of their names, and those that have the labels of another."""
    # A device that moves during the walk is listed twice: the later place is the current one.
    # Without netlink there are no indexes, and only one namespace.
    devices: dict[t.Any, tuple[Place, Device]] = {}
    for place, device in seen:
        index = device["index"]
        devices[device["name"] if index == sysfs_devices.NO_INDEX else index] = (place, device)
    entries: dict[tuple[str, ...], tuple[Place, Device]] = {}
    clashes = []
    for place, device in sorted(devices.values(), key=lambda entry: (entry[1]["name"], entry[1]["index"])):
        name = device["name"]
        key = (name, place.kind, place.pod_namespace, place.pod_name)
        if key in entries:
            text = (
                "%s (index %d): another device in a network namespace of the kind %s has this name, and its metrics "
                "are shown" % (name, device["index"], place.kind)
            )
            clashes.append(Problem(place, name, "device", "clash", text))
        else:
            entries[key] = (place, device)
    return list(entries.values()), clashes


def _keys(device: t.Mapping[str, t.Any]) -> set[str]:
    """Return what a device is expected by: name, node GUID, and the PCI or auxiliary device that it is made on."""
    place = "/".join(part for part in (device["pci_address"], device["auxiliary_device"]) if part)
    return {key.lower() for key in (device["name"], device["node_guid"], place) if key}


def _identity(device: t.Mapping[str, t.Any]) -> t.Any:
    if device["index"] != sysfs_devices.NO_INDEX:
        return device["index"]
    return device["node_guid"] or device["name"]


def _errno_name(exc: BaseException) -> str:
    number = getattr(exc, "errno", None)
    return errno.errorcode.get(number, "other") if number else "other"


def _label(error: str) -> str:
    """Return a label for a text of Look.failed(): the system's error, or ``text`` if it was not a number."""
    match = _ERRNO.search(error)
    if match:
        return match.group(1)
    return "text" if error.endswith((" is not a number", " is not a rate")) else "other"


__all__ = ("KINDS", "Collector", "Place", "Problem", "Settings", "Snapshot", "look")
