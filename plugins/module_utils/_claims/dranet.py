# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The parameters that dranet takes in a claim, as version 1.4.0 checks them (pkg/apis/types.go and validation.go)."""

from __future__ import annotations

import ipaddress
import typing as t

DRIVER = "dra.net"

# IFNAMSIZ without the closing zero (linux/if.h).
_NAME_MAX = 15
_MTU_MIN = 68
_KEYS: dict[str, tuple[str, ...]] = {
    "": ("profile", "interface", "routes", "rules", "neighbors", "ethtool"),
    "interface": (
        "name",
        "addresses",
        "dhcp",
        "mtu",
        "hardwareAddr",
        "gsoMaxSize",
        "groMaxSize",
        "gsoIPv4MaxSize",
        "groIPv4MaxSize",
        "disableEbpfPrograms",
        "forwarding",
        "vrf",
    ),
    "routes": ("destination", "gateway", "source", "scope", "table"),
    "rules": ("priority", "source", "destination", "table"),
}


def problems(parameters: t.Mapping[str, t.Any]) -> list[str]:
    """Return what dranet refuses: the pod then stays in ContainerCreating, with an event at its claim."""
    interface = parameters.get("interface") or {}
    found = _unknown("", parameters) + _unknown("interface", interface)
    name = str(interface.get("name") or "")
    if len(name) > _NAME_MAX:
        found.append(
            "interface.name %s has %d characters, and an interface name has %d at most" % (name, len(name), _NAME_MAX)
        )
    if interface.get("dhcp") and interface.get("addresses"):
        found.append("interface.dhcp and interface.addresses exclude each other")
    if int(interface.get("mtu") or _MTU_MIN) < _MTU_MIN:
        found.append("interface.mtu is %s, below %d" % (interface["mtu"], _MTU_MIN))
    if interface.get("vrf") and parameters.get("rules"):
        found.append("rules are not taken where interface.vrf is set")
    found += _networks("interface.addresses", interface.get("addresses") or [])
    for key in ("routes", "rules"):
        for number, row in enumerate(parameters.get(key) or []):
            found += _unknown(key, row, "[%d]" % number)
            for field in ("destination",) if key == "routes" else ("source", "destination"):
                found += _networks("%s[%d].%s" % (key, number, field), [row[field]] if row.get(field) else [])
    return found


def _unknown(where: str, values: t.Mapping[str, t.Any], at: str = "") -> list[str]:
    prefix = where + at + "." if where else ""
    return ["%s%s is not a parameter of dranet" % (prefix, key) for key in values if key not in _KEYS[where]]


def _networks(where: str, texts: t.Iterable[t.Any]) -> list[str]:
    found = []
    for text in texts:
        try:
            if "/" not in str(text):
                raise ValueError
            ipaddress.ip_interface(str(text))
        except ValueError:
            found.append("%s: '%s' is not an address with a prefix length" % (where, text))
    return found


__all__ = ("DRIVER", "problems")
