# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The kernel's settings for ARP and reverse paths on rails: sysctl.d, and the live values."""

from __future__ import annotations

import functools
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._files import read_text
from .._sysctl import config
from .rail_model import Rail, RailError

FILE = "/etc/sysctl.d/zz-rdmaops-rails.conf"
# Of these the kernel uses the larger one of the device's value and that of "all" (IN_DEV_MAXCONF() in
# include/linux/inetdevice.h). Documentation/networking/ip-sysctl.rst describes them.
DEFAULTS = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}


class Setting(t.NamedTuple):
    """A setting of a device. ``live`` and ``next_boot`` are what the kernel uses; null is not known."""

    name: str
    key: str
    desired: int
    configured: config.Assignment | None
    live: int | None
    next_boot: int | None


class Host:
    """The edges: sysctl.d below a root, and /proc/sys."""

    def __init__(self, root: str = "/", proc: str = "/proc") -> None:
        self.root, self.proc = root, proc

    @functools.cached_property
    def files(self) -> tuple[dict[str, str], list[tuple[str, str]]]:
        return config.texts(self.root)

    def tree(self, instead: t.Mapping[str, str] | None = None) -> config.Tree:
        """Evaluate sysctl.d as it was at first, or would be with other texts in some files."""
        texts, unreadable = self.files
        return config.tree({**texts, **(instead or {})}, unreadable)

    def value(self, key: str) -> int | None:
        text = read_text("%s/sys/%s" % (self.proc, key))
        return None if text is None else int(text)

    def write(self, key: str, value: int) -> None:
        path = "%s/sys/%s" % (self.proc, key)
        try:
            with open(path, "w", encoding="ascii") as stream:
                stream.write("%d\n" % value)
        except OSError as exc:
            raise RailError("Writing %d to %s: %s" % (value, path, exc.strerror)) from exc


def content(rails: t.Sequence[Rail], values: t.Mapping[str, int]) -> str:
    """Return the text of our file: a line for each setting of each rail that has an IPv4 address."""
    return "\n".join("%s = %d" % (key, value) for key, _name, value in _keys(rails, values))


def _keys(rails: t.Sequence[Rail], values: t.Mapping[str, int]) -> list[tuple[str, str, int]]:
    return [
        (_key(rail.netdev, name), name, value)
        for rail in rails
        if any(address.version == 4 for address in rail.addresses)
        for name, value in sorted(values.items())
    ]


def _key(netdev: str, name: str) -> str:
    # With a slash first, dots belong to the name of the device.
    return "net/ipv4/conf/%s/%s" % (netdev, name)


def settings(rails: t.Sequence[Rail], values: t.Mapping[str, int], host: Host) -> tuple[list[Setting], list[str]]:
    """Return the settings as they are, and why our file would not have its way."""
    now, then = host.tree(), host.tree({FILE: content(rails, values)})
    result: list[Setting] = []
    conflicts: list[str] = []
    for key, name, value in _keys(rails, values):
        every = _key("all", name)
        own, least = config.winner(now.assignments, key), _number(config.winner(now.assignments, every))
        live, live_all = host.value(key), host.value(every)
        upcoming = None if own is None or least is None or now.unreadable else max(_number(own) or 0, least)
        effective = None if live is None or live_all is None else max(live, live_all)
        result.append(Setting(key.replace("/", "."), key, value, own, effective, upcoming))
        conflicts += _conflicts(key, every, value, then.assignments)
        if live_all is not None and live_all > value:
            conflicts.append("%s is %d now, and the kernel uses the larger value" % (every.replace("/", "."), live_all))
    return result, conflicts


def _number(line: config.Assignment | None) -> int | None:
    """Return an assignment's number; 0, the kernel's own, without one, and null if it is not a number."""
    try:
        return 0 if line is None else int(line.value or "")
    except ValueError:
        return None


def _conflicts(key: str, every: str, value: int, assignments: t.Sequence[config.Assignment]) -> t.Iterator[str]:
    line = config.winner(assignments, key)
    if line and line.path != FILE:
        yield "%s:%d (%s) is read after %s" % (line.path, line.line, line.text.strip(), FILE)
    larger = config.winner(assignments, every)
    if larger and (_number(larger) or 0) > value:
        yield "%s:%d (%s) is for all devices, and the kernel uses the larger value" % (
            larger.path, larger.line, larger.text.strip(),
        )  # fmt: skip


def decide(observed: t.Sequence[Setting], decision: Decision, host: Host) -> None:
    """Add the steps for live values that are not as desired."""
    for setting in observed:
        if setting.live not in (None, setting.desired):
            decision.add(
                "Set %s to %d" % (setting.name, setting.desired),
                functools.partial(host.write, setting.key, setting.desired),
                (setting.name, "%d\n" % (setting.live or 0), "%d\n" % setting.desired),
            )


def shown(setting: Setting) -> dict[str, t.Any]:
    """Return a setting's entry of ``resources``."""
    line = setting.configured
    status = IN_SYNC
    if setting.live is None or setting.next_boot is None:
        status = UNKNOWN
    if line is None or setting.live not in (None, setting.desired) or setting.next_boot not in (None, setting.desired):
        status = DRIFT
    return resource(
        "sysctl",
        setting.name,
        desired=setting.desired,
        configured=line and {"value": line.value, "path": line.path, "line": line.line},
        live=setting.live,
        next_boot=setting.next_boot,
        status=status,
    )


__all__ = ("DEFAULTS", "FILE", "Host", "Setting", "content", "decide", "settings", "shown")
