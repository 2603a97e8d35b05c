# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys are whole. Files of private keys are written here after PROTOCOL.key, with nothing private in them."""

from __future__ import annotations

import base64
import struct
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import ssh_secret as keys


def string(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def public(byte: bytes, kind: bytes = b"ssh-ed25519") -> bytes:
    return string(kind) + string(byte * 32)


def private(blob: bytes, cipher: bytes = b"none", magic: bytes = b"openssh-key-v1\0") -> str:
    raw = magic + string(cipher) + string(b"none") + string(b"") + struct.pack(">I", 1) + string(blob) + string(b"")
    text = base64.encodebytes(raw).decode()
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n"


HOST, LOGIN = public(b"h"), public(b"l")
WHOLE = {
    "ssh_host_ed25519_key": private(HOST),
    "id_ed25519": private(LOGIN),
    "authorized_keys": f"ssh-ed25519 {base64.b64encode(LOGIN).decode()} train\n",
}


def data(**other: str) -> dict[str, str]:
    return {name: base64.b64encode(text.encode()).decode() for name, text in {**WHOLE, **other}.items()}


def test_whole_keys() -> None:
    assert keys.wrong(data()) is None
    assert keys.public_part(WHOLE["id_ed25519"]) == LOGIN


# name, content, what is said
DAMAGED = [
    ("id_ed25519", "", "id_ed25519 missing"),
    ("id_ed25519", "nothing", "id_ed25519: it is not an OpenSSH private key"),
    ("id_ed25519", private(LOGIN)[:80], "id_ed25519: it is not an OpenSSH private key"),
    ("id_ed25519", private(LOGIN, magic=b"other"), "id_ed25519: it is not an OpenSSH private key"),
    ("id_ed25519", private(LOGIN, cipher=b"aes256-ctr"), "id_ed25519: it has a passphrase"),
    ("id_ed25519", private(public(b"l", b"ssh-rsa")), "id_ed25519: it is not an ed25519 key"),
    ("ssh_host_ed25519_key", private(b"\0\0\1\0short"), "ssh_host_ed25519_key: it is cut short"),
    ("ssh_host_ed25519_key", private(b"\0"), "ssh_host_ed25519_key: it is cut short"),
    ("ssh_host_ed25519_key", private(HOST).replace("AAAA", "AA!A", 1), "ssh_host_ed25519_key: it is not readable"),
    ("id_ed25519", private(HOST), "authorized_keys does not let id_ed25519 in"),
    ("authorized_keys", "ssh-ed25519", "authorized_keys does not let id_ed25519 in"),
    ("authorized_keys", "schl\u00fcssel", "authorized_keys: it is not readable"),
]


@pytest.mark.parametrize(("name", "content", "said"), DAMAGED)
def test_keys_that_are_not_whole(name: str, content: str, said: str) -> None:
    assert keys.wrong(data(**{name: content})) == said


def test_nothing_at_all_and_no_base64() -> None:
    assert keys.wrong({}) == "ssh_host_ed25519_key, authorized_keys, id_ed25519 missing"
    assert keys.wrong({**data(), "id_ed25519": "%%%"}) == "id_ed25519: it is not readable"


class Server:
    """An API server with one Secret."""

    def __init__(self, owner: str | None) -> None:
        labels = {keys.OWNER: owner} if owner else {}
        self.secret = {"metadata": {"name": "train-ssh", "labels": labels, "resourceVersion": "7"}, "data": {}}
        self.written: list[str] = []

    def get(self, path: str, doing: str) -> t.Any:
        return self.secret

    def replace(self, path: str, body: t.Any, doing: str) -> None:
        self.written.append(doing)


@pytest.mark.parametrize("owner", ["them", None])
@pytest.mark.parametrize("check", [True, False])
def test_a_secret_of_others_is_left_alone(owner: str | None, check: bool) -> None:
    server = Server(owner)
    params = {"name": "train-ssh", "namespace": "ml", "owner": "us", "labels": {}}
    with pytest.raises(keys.KeysError, match="it is there already and was not made for this deployment"):
        keys.manage(params, check, t.cast("t.Any", server))
    assert server.written == []


def test_damaged_keys_of_ours_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "find", lambda: "ssh-keygen")
    monkeypatch.setattr(keys, "make", lambda keygen, comment: data())
    server = Server("us")
    params = {"name": "train-ssh", "namespace": "ml", "owner": "us", "labels": {}}
    assert keys.manage(params, False, t.cast("t.Any", server))["actions"] == ["Replace the keys in Secret ml/train-ssh"]
    assert server.written == ["Replacing the keys in Secret ml/train-ssh"]
