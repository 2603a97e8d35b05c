# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates by the real openssl, against what the library that made them has; and recorded output."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import x509 as kubeadm_x509
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

FIXTURES = Path(__file__).parents[1] / "fixtures/openssl"
RECORDED = (FIXTURES / "openssl_3.0.19_x509.txt").read_text(encoding="utf-8")
KEY = ec.generate_private_key(ec.SECP256R1())
KEY_PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()


def make(
    name: str = "kubernetes",
    until: datetime.datetime = datetime.datetime(2027, 11, 22, 1, 2, 3),
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = KEY,
    since: datetime.datetime = datetime.datetime(2001, 1, 1),
) -> x509.Certificate:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .sign(KEY, hashes.SHA256())
    )


def pem(*certificates: x509.Certificate) -> str:
    return "".join(certificate.public_bytes(serialization.Encoding.PEM).decode() for certificate in certificates)


def read(text: str) -> kubeadm_x509.Certificate | None:
    need_tool("openssl")
    return kubeadm_x509.read(text)


# Expired; a UTCTime, or a GeneralizedTime from 2050 on
@pytest.mark.parametrize(
    "until",
    ["2002-02-01T00:00:00", "2027-11-22T01:02:03", "2027-12-01T00:00:00", "2049-12-31T23:59:59", "2050-01-01T00:00:00"],
)
@pytest.mark.parametrize("key", [KEY, rsa.generate_private_key(65537, 2048)], ids=["ec", "rsa"])
def test_what_counts(until: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    moment = datetime.datetime.fromisoformat(until)
    made = make("system:node:gpu-1", moment, key)
    certificate = read(pem(made))
    assert certificate is not None
    assert certificate.common_name == "system:node:gpu-1"
    assert certificate.not_after == moment.replace(tzinfo=datetime.timezone.utc).timestamp()
    assert certificate.fingerprint == made.fingerprint(hashes.SHA256()).hex()
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert certificate.public_key == hashlib.sha256(public).hexdigest()


def test_one_that_is_not_valid_yet() -> None:
    made = make(since=datetime.datetime(2090, 1, 1), until=datetime.datetime(2091, 1, 1))
    certificate = read(pem(made))
    assert certificate is not None
    assert certificate.not_after == datetime.datetime(2091, 1, 1, tzinfo=datetime.timezone.utc).timestamp()


def test_the_first_of_several_counts() -> None:
    certificate = read(KEY_PEM + pem(make("first"), make("second")))
    assert certificate is not None
    assert certificate.common_name == "first"


@pytest.mark.parametrize("name", ["knoten-é", "a,b+c", "x\n    commonName = system:node:gpu-1"])
def test_names(name: str) -> None:
    certificate = read(pem(make(name)))
    assert certificate is not None
    assert certificate.common_name == name.replace("\n", "\\0A")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        KEY_PEM,
        make().public_bytes(serialization.Encoding.DER).decode("utf-8", "surrogateescape"),
        pem(make())[:200],
        pem(make()).replace("M", "N"),
        *(
            f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
            for body in ("AAAA", "MAA=", "MIIB", "A")
        ),
        "-----BEGIN CERTIFICATE-----" + "\n" * 65536,
    ],
    ids=["empty", "text", "key", "DER", "part", "changed", "zeros", "sequence", "header", "base64", "white space"],
)
def test_no_certificate(text: str) -> None:
    assert read(text) is None


# "SHA256 Fingerprint=" is the spelling of OpenSSL 1.1.1 (OBJ_nid2sn() in apps/x509.c).
@pytest.mark.parametrize("output", [RECORDED, RECORDED.replace("sha256 F", "SHA256 F")], ids=["3", "1.1.1"])
def test_recorded_output(output: str) -> None:
    certificate = kubeadm_x509.parse(output)
    made = x509.load_pem_x509_certificate((FIXTURES / "openssl_3.0.19_ca.pem").read_bytes())
    public = made.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert certificate == (
        "kubernetes",
        datetime.datetime(2036, 11, 22, 2, 11, 11, tzinfo=datetime.timezone.utc).timestamp(),
        made.fingerprint(hashes.SHA256()).hex(),
        hashlib.sha256(public).hexdigest(),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("notAfter=Nov", "notAfter=Foo"), ("2036 GMT", ""), ("END PUBLIC KEY", ""), ("sha256 ", "md5 ")],
)
def test_output_that_lacks_something(old: str, new: str) -> None:
    assert old in RECORDED
    assert kubeadm_x509.parse(RECORDED.replace(old, new)) is None


def stand_in(place: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Make openssl a script, or take it away."""
    if text is not None:
        (place / "openssl").write_text("#!/bin/sh\n" + text)
        (place / "openssl").chmod(0o755)
    monkeypatch.setenv("PATH", str(place) + (":/usr/bin:/bin" if text else ""))
    kubeadm_x509.read.cache_clear()


def test_a_host_without_openssl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, None)
    assert message_of(kubeadm_x509.CertificateError, kubeadm_x509.read, "x") == (
        "Reading a certificate: openssl could not be started: No such file or directory. Install the package openssl"
    )
    assert kubeadm_x509.read("") is None


def test_an_openssl_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of the certificate then, which is not the same as a broken one."""
    stand_in(tmp_path, monkeypatch, "echo 'libcrypto.so.3: cannot open shared object file' >&2; exit 127\n")
    with pytest.raises(kubeadm_x509.CertificateError, match="exited with status 127. Output: libcrypto.so.3: cannot"):
        kubeadm_x509.read("x")


def test_an_openssl_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "sleep 60\n")
    monkeypatch.setattr(kubeadm_x509, "_LIMIT_S", 0.2)
    with pytest.raises(kubeadm_x509.CertificateError, match="openssl x509 timed out"):
        kubeadm_x509.read("x")


def test_a_certificate_in_several_files_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"echo once >>{tmp_path}/calls; cat {FIXTURES}/openssl_3.0.19_x509.txt\n")
    assert kubeadm_x509.read("x") == kubeadm_x509.read("x") == kubeadm_x509.parse(RECORDED)
    assert (tmp_path / "calls").read_text() == "once\n"
    kubeadm_x509.read.cache_clear()
