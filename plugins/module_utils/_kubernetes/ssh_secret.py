# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Keys with which the pods of one deployment reach each other by ssh, in a Secret. No result and no message has one."""

from __future__ import annotations

import base64
import binascii
import functools
import os
import shutil
import struct
import tempfile
import typing as t

from .. import _command
from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from . import client as kubernetes
from .client import OWNER, Client, Object

# What the entry point of role training_image reads.
HOST_KEY = "ssh_host_ed25519_key"
LOGIN_KEY = "id_ed25519"
AUTHORIZED = "authorized_keys"
FILES = (HOST_KEY, AUTHORIZED, LOGIN_KEY)

_LIMIT = 60
# PROTOCOL.key in OpenSSH: this, the names of cipher and KDF, the KDF's options, the number of keys, the public key.
_MAGIC = b"openssh-key-v1\0"
_BEGIN, _END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"


class KeysError(FabricError):
    """Keys could not be made, or their place is taken."""


def public_part(text: str) -> bytes:
    """Return the public key that a private key file has in the clear. Raises ValueError if it is not one."""
    lines = text.split("\n")
    if lines[0] != _BEGIN or _END not in lines:
        raise ValueError("it is not an OpenSSH private key")
    raw = base64.b64decode("".join(lines[1 : lines.index(_END)]), validate=True)
    if not raw.startswith(_MAGIC):
        raise ValueError("it is not an OpenSSH private key")
    cipher, rest = _string(raw[len(_MAGIC) :])
    if cipher != b"none":
        raise ValueError("it has a passphrase")
    for _part in ("KDF", "options"):
        rest = _string(rest)[1]
    public = _string(rest[4:])[0]
    if _string(public)[0] != b"ssh-ed25519":
        raise ValueError("it is not an ed25519 key")
    return public


def _string(raw: bytes) -> tuple[bytes, bytes]:
    """Take a string with its length before it (RFC 4251, section 5), and return what follows too."""
    try:
        (length,) = struct.unpack(">I", raw[:4])
    except struct.error as exc:
        raise ValueError("it is cut short") from exc
    if len(raw) < 4 + length:
        raise ValueError("it is cut short")
    return raw[4 : 4 + length], raw[4 + length :]


def wrong(data: t.Mapping[str, t.Any]) -> str | None:
    """Return what is wrong with the keys in a Secret's data, None if they are whole and fit together."""
    missing = [name for name in FILES if not data.get(name)]
    if missing:
        return "%s missing" % ", ".join(missing)
    texts, public = {}, {}
    for name in FILES:
        try:
            texts[name] = base64.b64decode(data[name], validate=True).decode("ascii")
            if name != AUTHORIZED:
                public[name] = public_part(texts[name])
        except (binascii.Error, UnicodeError):
            return "%s: it is not readable" % name
        except ValueError as exc:
            return "%s: %s" % (name, exc)
    words = texts[AUTHORIZED].split()
    if len(words) < 2 or words[1] != base64.b64encode(public[LOGIN_KEY]).decode():
        return "%s does not let %s in" % (AUTHORIZED, LOGIN_KEY)
    return None


def find() -> str:
    """Return the path of ssh-keygen."""
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        raise KeysError(
            "Making keys: ssh-keygen is not installed here. Install openssh-client (Debian) or openssh (Red Hat)"
        )
    return keygen


def make(keygen: str, comment: str) -> dict[str, str]:
    """Return new keys as a Secret's data has them; they are on disk for a moment, in a directory of one's own."""
    with tempfile.TemporaryDirectory(prefix="rdmaops-ssh-") as place:
        for name in (HOST_KEY, LOGIN_KEY):
            argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", os.path.join(place, name)]
            try:
                done = _command.run(argv, _LIMIT)
            except OSError as exc:
                raise KeysError("Making keys: %s cannot be run: %s" % (keygen, exc)) from exc
            except _command.TimedOut as exc:
                raise KeysError("Making keys: %s timed out after %d s and was killed" % (keygen, _LIMIT)) from exc
            if done.status != 0:
                output = " ".join(done.err.split())
                raise KeysError("Making keys: %s exited with status %d. Output: %s" % (keygen, done.status, output))
        os.rename(os.path.join(place, LOGIN_KEY + ".pub"), os.path.join(place, AUTHORIZED))
        keys = {}
        for name in FILES:
            with open(os.path.join(place, name), "rb") as stream:
                keys[name] = base64.b64encode(stream.read()).decode()
    return keys


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module ssh_secret returns."""
    name, namespace, owner = params["name"], params["namespace"], params["owner"]
    text = "Secret %s/%s" % (namespace, name)
    where = kubernetes.path("v1", "secrets", namespace, name)
    live = client.get(where, "Reading %s" % text)
    if live is not None and (live["metadata"].get("labels") or {}).get(OWNER) != owner:
        raise KeysError(
            "Keeping keys in %s: it is there already and was not made for this deployment. Nothing was changed: "
            "remove it, or choose another name" % text
        )
    why = wrong(live.get("data") or {}) if live else None
    decision = Decision()
    if live is None or why:
        keygen = find()
        body: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": {**params["labels"], OWNER: owner}},
            "type": "Opaque",
        }
        if live is None:
            _create(client, body, "Trying to make %s" % text, dry_run=True)
        decision.add(
            "%s %s" % ("Replace the keys in" if live else "Make", text),
            functools.partial(_write, client, where, body, live, keygen, text),
        )
        decision.show(text, "" if live is None else "%s\n" % why, "".join("%s: (hidden)\n" % name for name in FILES))
    if not check_mode:
        decision.carry_out()
    state = "absent" if live is None else why or "keys"
    status = DRIFT if decision.changed else IN_SYNC
    row = resource("Secret", "%s/%s" % (namespace, name), desired="keys", live=state, status=status)
    return {**decision.result(), "resources": [row]}


def _create(client: Client, body: Object, doing: str, *, dry_run: bool = False) -> None:
    client.create(kubernetes.path("v1", "secrets", body["metadata"]["namespace"]), body, doing, dry_run=dry_run)


def _write(client: Client, where: str, body: Object, live: Object | None, keygen: str, text: str) -> None:
    body = {**body, "data": make(keygen, body["metadata"]["name"])}
    if live is None:
        _create(client, body, "Making %s" % text)
        return
    version = live["metadata"]["resourceVersion"]
    body["metadata"] = {**body["metadata"], "resourceVersion": version}
    client.replace(where, body, "Replacing the keys in %s" % text)


__all__ = ("AUTHORIZED", "FILES", "HOST_KEY", "LOGIN_KEY", "KeysError", "make", "manage", "public_part", "wrong")
