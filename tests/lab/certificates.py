# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and certificates of the lab's cluster. The library is one that ansible-core brings."""

from __future__ import annotations

import datetime
import ipaddress
import os
import pathlib
import typing as t

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A guest's clock may be behind this machine's.
EARLIER = datetime.timedelta(days=1)
LIFETIME = datetime.timedelta(days=3650)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def write(path: pathlib.Path, data: bytes) -> None:
    """Write a file that only its owner reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_pair(directory: pathlib.Path, name: str) -> None:
    """A pair of keys without a certificate, unless it is there."""
    if (directory / f"{name}.pub").exists():
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    write(directory / f"{name}.key", pem(key))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write(directory / f"{name}.pub", public)


class Authority:
    """A certificate authority, kept in a directory as NAME.key and NAME.crt; created if there is none."""

    def __init__(self, directory: pathlib.Path, name: str) -> None:
        self.directory = directory
        self.key_file = directory / f"{name}.key"
        self.file = directory / f"{name}.crt"
        if not self.file.exists():
            self.make(name)
        key = serialization.load_pem_private_key(self.key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self.key = key
        self.certificate = x509.load_pem_x509_certificate(self.file.read_bytes())

    def make(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"rdmaops lab {name}")])
        built = (
            begin(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write(self.key_file, pem(key))
        write(self.file, built.public_bytes(serialization.Encoding.PEM))

    def client(self, user: str, groups: t.Sequence[str] = ()) -> tuple[bytes, bytes]:
        """A key and a certificate by which Kubernetes knows a user and its groups."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self.issue([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)], [ExtendedKeyUsageOID.CLIENT_AUTH])

    def server(self, name: str, hosts: t.Sequence[str], client_too: bool = False) -> tuple[bytes, bytes]:
        """A key and a certificate for a server under these names and addresses."""
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client_too else [])]
        return self.issue([x509.NameAttribute(NameOID.COMMON_NAME, name)], purposes, hosts)

    def issue(
        self, names: list[x509.NameAttribute[str]], purposes: list[x509.ObjectIdentifier], hosts: t.Sequence[str] = ()
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            begin(x509.Name(names), self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([host_name(host) for host in hosts]), False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return pem(key), certificate.public_bytes(serialization.Encoding.PEM)

    def keep(self, name: str, pair: tuple[bytes, bytes]) -> None:
        for suffix, data in zip((".key", ".crt"), pair, strict=True):
            write(self.directory / (name + suffix), data)


def begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + LIFETIME)
        # Both key identifiers are obligatory where a client verifies strictly, as Python does from 3.13 on.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def usage(digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def host_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
