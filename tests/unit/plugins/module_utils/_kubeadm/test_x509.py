# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates, against what the library that made them says of them."""

from __future__ import annotations

import datetime
import hashlib
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import x509 as kubeadm_x509

KEY = ec.generate_private_key(ec.SECP256R1())


def made(
    name: str = "kubernetes",
    until: datetime.datetime | None = None,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = KEY,
) -> x509.Certificate:
    until = until or datetime.datetime(2027, 11, 22, 1, 2, 3)
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2001, 1, 1))
        .not_valid_after(until)
        .sign(KEY, hashes.SHA256())
    )


def pem(*certificates: x509.Certificate) -> str:
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in certificates)


# until, a UTCTime or (from 2050 on) a GeneralizedTime
@pytest.mark.parametrize("until", ["2027-11-22T01:02:03", "2049-12-31T23:59:59", "2050-01-01T00:00:00"])
@pytest.mark.parametrize("key", [KEY, rsa.generate_private_key(65537, 2048)], ids=["ec", "rsa"])
def test_what_counts(until: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    moment = datetime.datetime.fromisoformat(until)
    one = made("system:node:gpu-1", moment, key)
    (found,) = kubeadm_x509.in_pem(pem(one))
    assert found.common_name == "system:node:gpu-1"
    assert found.not_after == moment.replace(tzinfo=datetime.timezone.utc).timestamp()
    assert found.fingerprint == one.fingerprint(hashes.SHA256()).hex()
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert found.public_key == hashlib.sha256(public).hexdigest()


def test_several_and_what_is_none() -> None:
    key = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    found = kubeadm_x509.in_pem(pem(made("one")) + key + pem(made("two")))
    assert [one.common_name for one in found] == ["one", "two"]
    assert kubeadm_x509.in_pem(key) == []
    assert kubeadm_x509.in_pem("") == []


@pytest.mark.parametrize("text", ["AAAA", "MAA=", "MIIB", "A"])
def test_no_certificate(text: str) -> None:
    with pytest.raises(kubeadm_x509.CertificateError, match="Reading a certificate: invalid"):
        kubeadm_x509.in_pem(f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")


WHOLE = made().public_bytes(serialization.Encoding.DER)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_part_of_one_is_none(length: int) -> None:
    with pytest.raises(kubeadm_x509.CertificateError):
        kubeadm_x509.parse(WHOLE[:length])


@given(st.binary(max_size=200))
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(kubeadm_x509.CertificateError):
        kubeadm_x509.parse(data)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_no_crash(at: int, value: int) -> None:
    data = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
    try:
        kubeadm_x509.parse(data)
    except kubeadm_x509.CertificateError:
        pass


def test_much_white_space_costs_no_time() -> None:
    began = time.process_time()
    assert kubeadm_x509.in_pem("-----BEGIN CERTIFICATE-----" + "\n" * 65536) == []
    assert time.process_time() - began < 1
