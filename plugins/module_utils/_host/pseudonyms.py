# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Other addresses, GUIDs and names for those of a host, with the same relations between them.

Equal identifiers get equal pseudonyms, and no pseudonym is an identifier of the host. The GID and the name that are
made of an Ethernet address are made of its pseudonym, and two IP addresses have as many leading bits in common as
before. Pseudonyms are numbers in the order of the identifiers: the hash of an Ethernet address could be found by trying
all of them.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from .._errors import FabricError

# In the order in which they are tried: an Ethernet address of eight octets would be an IPv6 address too.
_IDENTIFIER = re.compile(
    "|".join(
        (
            r"(?P<uuid>(?<![\w-])(?:X{8}-(?:X{4}-){3}X{12})(?![\w-]))",
            # Of Ethernet, EUI-64, and IPoIB.
            r"(?P<octets>(?<![\w:])(?:XX:){5}(?:(?:XX:){2}(?:(?:XX:){12})?)?XX(?![\w:]))",
            r"(?P<guid>(?<![\w:])(?:X{4}:){3}X{4}(?![\w:]|\.\d))",
            r"(?P<ipv6>(?<![\w:.])(?:X{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|X{0,4})(?![\w:]|\.\d))",
            r"(?P<ipv4>(?<![\w:.])\d{1,3}(?:\.\d{1,3}){3}(?![\w:]|\.\d))",
            # enxb8599f010203 (systemd.net-naming-scheme(7)), rocexb8599f0300010203 (kernel-boot/rdma_rename.c of
            # rdma-core, which prints no leading zeros).
            r"(?P<hex>(?<=x)[0-9a-f]{9,16}(?![0-9A-Za-z])|(?<![0-9A-Za-z])(?:X{12}|X{16}|X{32}|X{40}|X{64})(?![0-9A-Za-z]))",
        )
    ).replace("X", "[0-9A-Fa-f]")
)  # fmt: skip

Assign = t.Callable[[str, int], int]

_HALF = (1 << 64) - 1
_BROADCAST = (1 << 48) - 1
_LINK_LOCAL_V6 = 0xFE80 >> 6  # ten bits
_ATTEMPTS = 1000


class _Class(t.NamedTuple):
    """Addresses of one kind: their first one, of what the pseudonyms are made, and how many bits of it are free."""

    first: int
    fixed: int
    base: int
    free: int


# Of IPv4, and of the first half of IPv6 addresses: what has these leading bits keeps them; the last class is the rest.
_V4 = (_Class(0xA9FE0000, 16, 0xA9FE3211, 16), _Class(0, 0, 0x0A585001, 32))
_V6 = (_Class(0xFC << 56, 7, 0xFD58 << 48, 57), _Class(0, 0, 0x20010DB800005800, 60))


def _special_v4(number: int) -> bool:
    """Whether it does not belong to a host: of this network, loopback, multicast, reserved (RFC 6890)."""
    return number >> 24 in (0, 127) or number >> 24 >= 224


def _special_v6(half: int) -> bool:
    """Whether an address with this first half is loopback, multicast or nothing."""
    return half == 0 or half >> 56 == 0xFF


def _mac_of(identifier: int) -> int | None:
    """The Ethernet address that an interface identifier is made of (RFC 4291, appendix A)."""
    if identifier >> 24 & 0xFFFF != 0xFFFE:
        return None
    identifier ^= 1 << 57
    return identifier >> 40 << 24 | identifier & 0xFFFFFF


def _eui64(mac: int) -> int:
    return (mac >> 24 << 40 | 0xFFFE << 24 | mac & 0xFFFFFF) ^ 1 << 57


def _identifier(assign: Assign, number: int) -> int:
    mac = _mac_of(number)
    return assign("identifier", number) if mac is None else _eui64(assign("mac", mac))


def _ipv6(assign: Assign, address: ipaddress.IPv6Address) -> ipaddress.IPv6Address:
    mapped = address.ipv4_mapped
    if mapped is not None:
        return ipaddress.IPv6Address(0xFFFF << 32 | assign("ipv4", int(mapped)))
    half = int(address) >> 64
    if _special_v6(half):
        return address
    return ipaddress.IPv6Address(assign("half", half) << 64 | _identifier(assign, int(address) & _HALF))


def _octets(assign: Assign, text: str) -> str:
    octets = bytes.fromhex(text.replace(":", ""))
    if len(octets) == 6:
        new = assign("mac", int.from_bytes(octets, "big")).to_bytes(6, "big")
    else:
        new = _identifier(assign, int.from_bytes(octets[-8:], "big")).to_bytes(8, "big")
        if len(octets) == 20:
            # IPoIB: what is before the GUID is the rest of a GID (struct ipoib_pseudo_header in ipoib.h).
            new = octets[:4] + assign("half", int.from_bytes(octets[4:12], "big")).to_bytes(8, "big") + new
    return ":".join("%02x" % octet for octet in new)


def _hex(assign: Assign, text: str) -> str:
    number = int(text, 16)
    if len(text) == 12:
        return "%012x" % assign("mac", number)
    if len(text) <= 16:
        return "%x" % _identifier(assign, number)
    return "%0*x" % (len(text), assign("hash", number))


def _replaced(assign: Assign, kind: str, text: str) -> str:
    """The pseudonym of an identifier. What only looks like one is left as it is."""
    if kind == "octets":
        return _octets(assign, text)
    if kind == "guid":
        return _identifier(assign, int(text.replace(":", ""), 16)).to_bytes(8, "big").hex(":", 2)
    if kind == "uuid":
        digits = "%032x" % assign("hash", int(text.replace("-", ""), 16))
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if kind == "hex":
        return _hex(assign, text)
    try:
        if kind == "ipv4":
            return str(ipaddress.IPv4Address(assign("ipv4", int(ipaddress.IPv4Address(text)))))
        address = _ipv6(assign, ipaddress.IPv6Address(text))
    except ValueError:
        return text
    # IPv6Address.exploded of one that maps an IPv4 address has that with dots since Python 3.13.
    return address.packed.hex(":", 2) if len(text) == 39 else str(address)


def _numbers(taken: t.AbstractSet[int], start: int, special: t.Collection[int] = (0,)) -> dict[int, int]:
    """Count through numbers, leaving out those that are taken."""
    result, last = {}, start
    for number in sorted(taken):
        if number in special:
            result[number] = number
            continue
        last += 1
        while last in taken:
            last += 1
        result[number] = last
    return result


def _with_prefixes(numbers: t.AbstractSet[int], bits: int, base: int) -> dict[int, int]:
    """Map numbers so that two have as many leading bits in common as before. The first one becomes ``base``."""
    result = {}
    first: dict[tuple[int, int], int] = {}
    for number in sorted(numbers):
        made = 0
        for depth in reversed(range(bits)):
            bit, before = number >> depth & 1, number >> depth >> 1
            made = made << 1 | bit ^ first.setdefault((depth, before), bit) ^ base >> depth & 1
        result[number] = made
    return result


def _addresses(
    taken: t.AbstractSet[int], bits: int, classes: t.Sequence[_Class], special: t.Callable[[int], bool]
) -> dict[int, int]:
    result = {number: number for number in taken if special(number)}
    for kind in classes:
        own = {
            number for number in taken - set(result) if number >> bits - kind.fixed == kind.first >> bits - kind.fixed
        }
        for attempt in range(_ATTEMPTS):
            made = _with_prefixes(own, bits, kind.base ^ attempt * 0x1000193 % (1 << kind.free))
            if not taken & set(made.values()) and not any(special(number) for number in made.values()):
                break
        else:
            raise FabricError("Replacing the IP addresses of this host: no others were found for %d of them" % len(own))
        result.update(made)
    return result


class Pseudonyms:
    """The pseudonyms of a document (JSON).

    ``kept`` are texts in which something may look like an identifier and is none, such as the version of a firmware.
    ``names`` are words to replace: the host's own names.
    """

    def __init__(self, document: t.Any, kept: t.Iterable[str] = (), names: t.Iterable[str] = ()) -> None:
        self._kept = {match.group() for text in kept for match in _IDENTIFIER.finditer(text)}
        words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        self._names = re.compile("(?<![0-9A-Za-z])(?:%s)(?![0-9A-Za-z])" % words, re.I) if words else None
        known: dict[str, set[int]] = {kind: set() for kind in ("mac", "identifier", "ipv4", "half", "hash")}

        def collect(kind: str, number: int) -> int:
            known[kind].add(number)
            return number

        self._rewrite(document, collect)
        link_local = {half for half in known["half"] if half >> 54 == _LINK_LOCAL_V6}
        self._new = {
            "mac": _numbers(known["mac"], 2 << 40, (0, _BROADCAST)),
            "identifier": _numbers(known["identifier"], 10 << 56),
            "hash": _numbers(known["hash"], 0),
            "ipv4": _addresses(known["ipv4"], 32, _V4, _special_v4),
            "half": _addresses(known["half"], 64, _V6, lambda half: _special_v6(half) or half in link_local),
        }

    def apply(self, document: t.Any) -> t.Any:
        """Return a document of the same identifiers with their pseudonyms."""
        return self._rewrite(document, lambda kind, number: self._new[kind][number])

    def _rewrite(self, value: t.Any, assign: Assign) -> t.Any:
        if isinstance(value, str):
            return self._text(value, assign)
        if isinstance(value, dict):
            return {self._text(key, assign): self._rewrite(entry, assign) for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._rewrite(entry, assign) for entry in value]
        return value

    def _text(self, text: str, assign: Assign) -> str:
        def replaced(match: t.Match[str]) -> str:
            identifier = match.group()
            if identifier in self._kept:
                return identifier
            return _replaced(assign, t.cast(str, match.lastgroup), identifier)

        text = _IDENTIFIER.sub(replaced, text)
        return text if self._names is None else self._names.sub("host", text)


__all__ = ("Pseudonyms",)
