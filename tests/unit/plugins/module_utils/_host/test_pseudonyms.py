# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pseudonyms: no identifier is left, and the relations between them are."""

from __future__ import annotations

import ipaddress
import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host.pseudonyms import Pseudonyms
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import addresses
from ansible_collections.rdmaops.gpu_fabric.tests.support.machines import gid_of


def applied(document: t.Any, *names: str, kept: t.Sequence[str] = ()) -> t.Any:
    return Pseudonyms(document, kept, names).apply(document)


# Values that identify nothing and are kept
PLAIN = [
    "0000:07:00.0",
    "devices/pci0000:00/0000:00:03.0/0000:08:00.0/mlx5_core.sf.4",
    "mlx5_0",
    "MT_0000000838",
    "400 Gb/sec (4X NDR)",
    "6.12.1-rdma+",
    "/boot/vmlinuz-5.14.0-503.el9.x86_64",
    "0xffff",
    "00:00:00:00:00:00",
    "ff:ff:ff:ff:ff:ff",
    "0000:0000:0000:0000",
    "::",
    "::1",
    "ff02::1",
    "127.0.0.1/8",
    "12:30:45",
    "999.1.2.3",
    "a:b::c::d",
    "net:[4026532270]",
    "/proc/304/fd/3",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_identifier_stays(text: str) -> None:
    assert applied([text]) == [text]


# text, its pseudonym in a document that has nothing else
TEXTS = [
    ("b8:59:9f:01:02:03", "02:00:00:00:00:01"),
    ("B8:59:9F:01:02:03", "02:00:00:00:00:01"),
    ("enxb8599f010203", "enx020000000001"),
    ("b859:9f03:0001:0203", "0a00:0000:0000:0001"),
    ("rocexb8599f0300010203", "rocexa00000000000001"),
    # rdma_rename prints it without the leading zero.
    ("ibxc42a10300651f2e", "ibxa00000000000001"),
    ("fe80:0000:0000:0000:ba59:9fff:fe01:0203", "fe80:0000:0000:0000:0000:00ff:fe00:0001"),
    ("fe80::ba59:9fff:fe01:203/64", "fe80::ff:fe00:1/64"),
    ("0000:0000:0000:0000:0000:ffff:0a5a:0001", "0000:0000:0000:0000:0000:ffff:0a58:5001"),
    ("10.90.0.1/24", "10.88.80.1/24"),
    ("169.254.7.9", "169.254.50.17"),
    ("2001:db8:7:1::11", "2001:db8:0:5800:a00::1"),
    ("fd12:3456::11/64", "fd58::a00:0:0:1/64"),
    # IPoIB: the number of the queue pair, a subnet prefix and a GUID.
    (
        "00:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1f:2e",
        "00:00:10:29:fe:80:00:00:00:00:00:00:0a:00:00:00:00:00:00:01",
    ),
    ("/boot/loader/entries/0b5e3a4e8f0c4b0e9a344f6f2f4a1c11-6.12.conf", f"/boot/loader/entries/{1:032x}-6.12.conf"),
    ("0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11", "00000000-0000-0000-0000-000000000001"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_an_identifier_gets_a_pseudonym(text: str, expected: str) -> None:
    assert applied({"text": text, text: 1}) == {"text": expected, expected: 1}


def test_a_version_that_looks_like_an_address_is_kept() -> None:
    assert applied(["229.2.52.0", "29.2.52.0"], kept=["229.2.52.0"]) == ["229.2.52.0", "10.88.80.1"]


def test_the_names_of_the_machine() -> None:
    names = ("gpu-01.example.com", "gpu-01")
    texts = ["/etc/modprobe.d/GPU-01.conf", "gpu-01.example.com_old", "gpu-012"]
    assert applied(texts, *names) == ["/etc/modprobe.d/host.conf", "host_old", "gpu-012"]


def test_no_pseudonym_is_an_identifier_of_the_machine() -> None:
    document = ["02:00:00:00:00:01", "10.88.80.1", "0a00:0000:0000:0001", f"{1:032x}"]
    assert not set(applied(document)) & set(document)


MACS = st.binary(min_size=6, max_size=6).map(lambda octets: octets.hex(":"))
GUIDS = st.binary(min_size=8, max_size=8).map(lambda octets: octets.hex(":", 2))
IPV4 = st.one_of(
    st.integers(1 << 24, (224 << 24) - 1).filter(lambda number: number >> 24 != 127),
    st.integers(0x0A000000, 0x0A0003FF),
    st.integers(0xA9FE0000, 0xA9FEFFFF),
).map(lambda number: str(ipaddress.IPv4Address(number)))
IPV6 = st.integers(0x2000 << 112, (0xFE00 << 112) - 1).map(lambda number: str(ipaddress.IPv6Address(number)))


def spellings(kind: str, text: str) -> set[str]:
    """Return how an identifier may be written in a record."""
    bare = text.replace(":", "")
    if kind == "mac":
        local = ipaddress.IPv6Address(addresses.default_gid(text) or "::")
        return {text, bare, str(local)[6:], local.exploded[20:]}
    if kind == "guid":
        return {text, bare, ":".join(bare[at : at + 2] for at in range(0, 16, 2))}
    return {text, gid_of(text)}


@given(st.lists(MACS, max_size=4), st.lists(GUIDS, max_size=4), st.lists(IPV4, max_size=6), st.lists(IPV6, max_size=4))
def test_no_identifier_is_left_in_any_spelling(
    macs: list[str], guids: list[str], ipv4: list[str], ipv6: list[str]
) -> None:
    known = (
        {("mac", text) for text in macs} | {("guid", text) for text in guids} | {("ip", text) for text in ipv4 + ipv6}
    )
    known -= {(kind, text) for kind, text in known if set(text) <= set("0:") or set(text) <= set("f:")}
    document = {f"a{number}": f"x {text} y" for number, text in enumerate(ipv4 + ipv6)}
    document.update(
        {f"b{number}": {"mac": text, "gid": addresses.default_gid(text)} for number, text in enumerate(macs)}
    )
    document.update({f"c{number}": [text, f"ibx{text.replace(':', '')}"] for number, text in enumerate(guids)})
    document.update({f"d{number}": gid_of(text) for number, text in enumerate(ipv4)})
    # As words: the octets of one may be part of another.
    left = json.dumps(applied(document))
    for kind, text in known:
        for spelling in spellings(kind, text):
            assert f'"{spelling}"' not in left
            assert f" {spelling} " not in left
            assert f"x{spelling}" not in left


@given(st.lists(IPV4, min_size=2, max_size=8, unique=True))
def test_addresses_have_as_many_leading_bits_in_common_as_before(ips: list[str]) -> None:
    def common(first: str, second: str) -> int:
        return 32 - (int(ipaddress.IPv4Address(first)) ^ int(ipaddress.IPv4Address(second))).bit_length()

    new = applied(ips)
    link_local = ipaddress.IPv4Network("169.254.0.0/16")
    assert len(set(new)) == len(ips)
    for first in range(len(ips)):
        for second in range(first):
            local = [ipaddress.IPv4Address(ips[at]) in link_local for at in (first, second)]
            assert local == [ipaddress.IPv4Address(new[at]) in link_local for at in (first, second)]
            if local[0] == local[1]:
                assert common(new[first], new[second]) == common(ips[first], ips[second])


@given(st.lists(MACS, min_size=1, max_size=4))
def test_the_gid_of_a_network_device_is_that_of_its_address(macs: list[str]) -> None:
    for mac, gid in applied([[mac, addresses.default_gid(mac)] for mac in macs]):
        assert addresses.default_gid(mac) == gid
