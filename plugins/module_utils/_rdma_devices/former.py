# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a network device in a pod's namespace had as its name on the host, and whether the kernel lets it go back."""

from __future__ import annotations

import json
import os
import re
import typing as t

from .. import _command
from .._formats import from_json

if t.TYPE_CHECKING:  # pragma: no cover
    from .._rdma.pci_netdevs import Netdev

SRIOV_CACHE = "/var/lib/cni/sriov"
LIMIT_S = 10

# dev_valid_name() in net/core/dev.c refuses more; a name of other characters is not one that a plugin has recorded.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}\Z", re.ASCII)
# The order of NamePolicy= in 99-default.link of systemd, after "keep" and "kernel".
_POLICY = ("DATABASE", "ONBOARD", "SLOT", "PATH")


def inside(name: str, sys: str = "/sys") -> dict[str, t.Any]:
    """What the device's own namespace shows: its alias, its alternative names, whether the kernel keeps it in there
    (netns-immutable, since Linux and iproute2 6.15), and what udev makes of its place in the machine.
    """
    with open("%s/class/net/%s/ifalias" % (sys, name), encoding="utf-8", errors="replace") as stream:
        alias = stream.read().strip()
    link = _link(_output(["ip", "-json", "-details", "link", "show", "dev", name]))
    return {
        "alias": alias,
        "altnames": [str(altname) for altname in link.get("altnames") or []],
        "immutable": bool(link.get("netns-immutable")),
        "net_id": _output(["udevadm", "test-builtin", "net_id", "%s/class/net/%s" % (sys, name)]),
    }


def _output(argv: t.Sequence[str]) -> str:
    try:
        return _command.run(argv, LIMIT_S).out
    except (OSError, _command.TimedOut):
        return ""


def _link(text: str) -> dict[str, t.Any]:
    try:
        (row,) = from_json(text)
    except (TypeError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def names(netdev: Netdev, inside: t.Mapping[str, t.Any], cache: str = SRIOV_CACHE) -> list[str]:
    """Possible former names, the surest first: what a network plugin has recorded, the alternative name, then what udev
    would choose.

    The plugin sriov keeps its configuration of the pod in a file, with DeviceID and OrigVfState.HostIFName (pkg/types
    of sriov-cni), and host-device keeps the name in the device's alias (moveLinkIn() in host-device.go).
    """
    udev = _udev(inside["net_id"])
    candidates = [
        *(_recorded(netdev.pci_address, cache) if netdev.auxiliary is None else []),
        inside["alias"],
        *_alternative(inside["altnames"], udev),
        *(udev[key] for key in map("ID_NET_NAME_%s".__mod__, _POLICY) if key in udev),
    ]
    return [name for name in candidates if _NAME.match(name) and name not in (".", "..")]


def _recorded(pci_address: str, cache: str) -> list[str]:
    """Names of a PCI function in the records of pods; nothing if they contradict each other."""
    try:
        files = sorted(os.listdir(cache))
    except OSError:
        return []
    recorded = set()
    for file in files:
        try:
            with open(os.path.join(cache, file), "rb") as stream:
                record = json.load(stream)
            if record.get("deviceID") == pci_address:
                recorded.add(str(record["OrigVfState"]["HostIFName"]))
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue
    return list(recorded) if len(recorded) == 1 else []


def _alternative(altnames: t.Sequence[str], udev: t.Mapping[str, str]) -> list[str]:
    """The alternative name; nothing if there are several.

    Those that udev has given are the names that the device did not get (AlternativeNamesPolicy= in systemd.link(5)).
    Without an answer of udev, these are not known.
    """
    others = [name for name in altnames if name not in udev.values()]
    return others if udev and len(others) == 1 else []


def _udev(text: str) -> dict[str, str]:
    """The names in what `udevadm test-builtin net_id` prints."""
    return dict(line.partition("=")[::2] for line in text.splitlines() if line.startswith("ID_NET_NAME_"))


__all__ = ("inside", "names")
