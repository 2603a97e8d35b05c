# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Certificates as `openssl x509` reads them: subject, expiry, and the hash by which kubeadm pins an authority.

Nothing is verified here.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import ssl
import typing as t

from .. import _command
from .._errors import FabricError

# The first certificate of a PEM file. Dates and names are printed the same by OpenSSL 1.1.1 and 3.
_ARGV = (
    *("openssl", "x509", "-inform", "PEM", "-noout", "-enddate", "-fingerprint", "-sha256", "-pubkey"),
    *("-subject", "-nameopt", "multiline,utf8,-esc_msb"),
)
_LIMIT_S = 10

_COMMON_NAME = re.compile(r"(?m)^ +commonName += (.*)$")
_NOT_AFTER = re.compile(r"(?m)^notAfter=(.+)$")
# "SHA256 Fingerprint=" before OpenSSL 3.0
_FINGERPRINT = re.compile(r"(?mi)^sha256 Fingerprint=([0-9A-F:]+)$")
_PUBLIC_KEY = re.compile(r"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----")


class CertificateError(FabricError):
    """A certificate could not be read."""


class Certificate(t.NamedTuple):
    """The relevant fields of a certificate."""

    common_name: str
    # Seconds since 1970.
    not_after: int
    # SHA-256 of all of it, and of its SubjectPublicKeyInfo.
    fingerprint: str
    public_key: str


def parse(output: str) -> Certificate | None:
    """Return the certificate that `openssl x509` has printed, or None if something of it is missing."""
    names = _COMMON_NAME.findall(output)
    not_after, fingerprint, key = (pattern.search(output) for pattern in (_NOT_AFTER, _FINGERPRINT, _PUBLIC_KEY))
    if not (not_after and fingerprint and key):
        return None
    try:
        return Certificate(
            names[-1] if names else "",
            int(ssl.cert_time_to_seconds(not_after.group(1))),
            fingerprint.group(1).replace(":", "").lower(),
            hashlib.sha256(base64.b64decode(key.group(1))).hexdigest(),
        )
    except ValueError:
        return None


# An authority is in several files.
@functools.lru_cache(maxsize=None)
def read(pem: str) -> Certificate | None:
    """Return the first certificate in a PEM file, keys and other blocks passed over; None if there is none."""
    if not pem:
        return None
    try:
        done = _command.run(_ARGV, _LIMIT_S, stdin=pem.encode("utf-8", "surrogateescape"))
    except OSError as exc:
        raise CertificateError(
            "Reading a certificate: openssl could not be started: %s. Install the package openssl" % exc.strerror
        ) from exc
    except _command.TimedOut as exc:
        raise CertificateError("Reading a certificate: openssl x509 timed out after %d s" % _LIMIT_S) from exc
    # 1: it is not a certificate (apps/x509.c). Anything else is another fault.
    if done.status not in (0, 1):
        raise CertificateError(
            "Reading a certificate: openssl x509 exited with status %d. Output: %s"
            % (done.status, done.err.strip()[-500:])
        )
    return parse(done.out) if done.status == 0 else None


__all__ = ("Certificate", "CertificateError", "parse", "read")
