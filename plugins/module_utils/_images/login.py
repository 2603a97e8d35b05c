# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The login to a registry: from options, or from a file as written by Docker, Podman and Kubernetes."""

from __future__ import annotations

import base64
import typing as t

from .._files import read_text
from .._formats import from_json
from .containerd import Login
from .oci import ImageError, Name

# What `docker login` writes for docker.io.
_HUB = "index.docker.io"


def _place(key: str) -> str:
    """Return a key of `auths` as host and path, without a scheme and the version of the API."""
    place = key.split("://", 1)[-1].rstrip("/")
    for end in ("/v1", "/v2"):
        place = place[: -len(end)] if place.endswith(end) else place
    host, slash, rest = place.partition("/")
    return ("docker.io" if host == _HUB else host) + slash + rest


def from_file(path: str, name: Name) -> Login:
    """Return the login for an image; the longest path wins, as in Kubernetes' credential provider."""
    doing = "Looking for a login to %s in %s" % (name.host, path)
    text = read_text(path)
    if text is None:
        raise ImageError("%s: no such file. Correct auth_file" % doing)
    try:
        auths = from_json(text)["auths"]
        entries = {_place(key): value for key, value in auths.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        # Not the error itself: it may contain the secret.
        raise ImageError(
            "%s: it is not a JSON object with auths, as written by docker login or in a pull secret" % doing
        ) from None
    places = [place for place in entries if (name.repository + "/").startswith(place + "/")]
    if not places:
        raise ImageError("%s: it is only for %s" % (doing, ", ".join(sorted(entries)) or "no registry"))
    entry = entries[max(places, key=len)]
    try:
        if entry.get("auth"):
            username, _colon, password = base64.b64decode(entry["auth"], validate=True).decode("utf-8").partition(":")
        else:
            username, password = entry.get("username") or "", entry.get("password") or ""
    except (ValueError, AttributeError):
        raise ImageError(
            "%s: auth of %s is not the Base64 of USERNAME:PASSWORD" % (doing, max(places, key=len))
        ) from None
    if not username or not password:
        raise ImageError(
            "%s: the entry has no user name and password (tokens and credential helpers are not supported)" % doing
        )
    return Login(username, password)


def login(params: t.Mapping[str, t.Any], name: Name) -> Login | None:
    """Return the login, None if there is none."""
    if params["auth_file"]:
        return from_file(params["auth_file"], name)
    if not params["username"]:
        return None
    if ":" in params["username"]:
        raise ImageError("Logging in to %s: a user name cannot contain a colon (RFC 7617)" % name.host)
    return Login(params["username"], params["password"])


__all__ = ("from_file", "login")
