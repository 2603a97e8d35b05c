# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What is asked of certificates on a node: whose, until when, and the hash by which kubeadm pins an authority.

Nodes have no library for certificates, so DER is walked as far as needed (RFC 5280, 4.1). Nothing is verified here.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hashlib
import re
import time
import typing as t

from .._errors import FabricError

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_SEQUENCE, _SET, _OID, _UTC, _GENERALIZED, _VERSION = 0x30, 0x31, 0x06, 0x17, 0x18, 0xA0
# 2.5.4.3, commonName
_COMMON_NAME = b"\x55\x04\x03"


class CertificateError(FabricError):
    """Something is not a certificate."""


class Certificate(t.NamedTuple):
    """What counts of a certificate."""

    common_name: str
    not_after: int
    # SHA-256 of all of it, and of its SubjectPublicKeyInfo.
    fingerprint: str
    public_key: str


class _Value(t.NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def _take(data: bytes) -> tuple[_Value, bytes]:
    """Return the first value of DER, and what follows it."""
    if len(data) < 2:
        raise ValueError("ends too early")
    tag, length, at = data[0], data[1], 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(data) < 2 + count:
            raise ValueError("has an invalid length")
        length, at = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if len(data) < at + length:
        raise ValueError("ends too early")
    return _Value(tag, data[at : at + length], data[: at + length]), data[at + length :]


def _values(data: bytes) -> list[_Value]:
    found = []
    while data:
        one, data = _take(data)
        found.append(one)
    return found


def _expect(value: _Value, tag: int) -> _Value:
    if value.tag != tag:
        raise ValueError("has tag 0x%02x where 0x%02x belongs" % (value.tag, tag))
    return value


def _moment(value: _Value) -> int:
    """Return the seconds since 1970 of a UTCTime or GeneralizedTime (RFC 5280, 4.1.2.5)."""
    text = value.content.decode("ascii")
    if value.tag == _UTC:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif value.tag != _GENERALIZED:
        raise ValueError("has a time with tag 0x%02x" % value.tag)
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))


def _common_name(name: _Value) -> str:
    found = ""
    for part in _values(_expect(name, _SEQUENCE).content):
        for pair in _values(_expect(part, _SET).content):
            oid, value = _values(_expect(pair, _SEQUENCE).content)[:2]
            if _expect(oid, _OID).content == _COMMON_NAME:
                found = value.content.decode("utf-8", "replace")
    return found


def parse(der: bytes) -> Certificate:
    """Return what counts of one certificate in DER."""
    try:
        outer, _rest = _take(der)
        fields = _values(_expect(_values(_expect(outer, _SEQUENCE).content)[0], _SEQUENCE).content)
        if fields[0].tag == _VERSION:
            fields = fields[1:]
        # serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo
        validity, subject, key = fields[3], fields[4], fields[5]
        return Certificate(
            _common_name(subject),
            _moment(_values(_expect(validity, _SEQUENCE).content)[1]),
            hashlib.sha256(outer.whole).hexdigest(),
            hashlib.sha256(_expect(key, _SEQUENCE).whole).hexdigest(),
        )
    except (ValueError, IndexError) as exc:
        raise CertificateError("Reading a certificate: invalid DER: %s" % exc) from exc


def in_pem(text: str) -> list[Certificate]:
    """Return the certificates in a PEM file, keys and other blocks passed over."""
    found = []
    for body in _PEM.findall(text):
        try:
            der = base64.b64decode("".join(body.split()), validate=True)
        except (binascii.Error, ValueError) as exc:
            raise CertificateError("Reading a certificate: invalid base64: %s" % exc) from exc
        found.append(parse(der))
    return found


__all__ = ("Certificate", "CertificateError", "in_pem", "parse")
