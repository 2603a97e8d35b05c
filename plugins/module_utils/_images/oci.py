# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Manifests and indexes of the OCI image specification, and the equal ones of Docker."""

from __future__ import annotations

import os
import re
import typing as t

from .._errors import FabricError
from .._formats import from_json

Json = t.Dict[str, t.Any]
Read = t.Callable[[str], bytes]

DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
# distribution's reference grammar: HOST[:PORT]/PATH[:TAG][@DIGEST], less what containerd takes and Kubernetes does not.
_NAME = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?)"
    r"/(?P<path>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?\Z"
)
# GOARCH by the machine of uname(2).
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class ImageError(FabricError):
    """An image that is not the requested one, or is incomplete."""


class Name(t.NamedTuple):
    """The parts of an image's name."""

    host: str
    repository: str
    tag: str
    digest: str


def parse_name(name: str) -> Name:
    match = _NAME.match(name)
    host = match.group("host") if match else ""
    if match is None or not (match.group("tag") or match.group("digest")):
        raise ImageError(
            "%r is not the full name of an image: use HOST/PATH:TAG or HOST/PATH@sha256:DIGEST. containerd does not "
            "support short names: busybox:1 is docker.io/library/busybox:1" % name
        )
    if not ("." in host or ":" in host or host == "localhost"):
        raise ImageError(
            "%r does not begin with a registry's host: what Docker calls %s is docker.io/%s" % (name, name, name)
        )
    repository = "%s/%s" % (host, match.group("path"))
    return Name(host, repository, (match.group("tag") or "")[1:], (match.group("digest") or "")[1:])


def architecture() -> str:
    """Return the architecture of this machine as Go and manifests name it."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def document(data: bytes, source: str) -> Json:
    try:
        value = from_json(data.decode("utf-8"))
    except ValueError as exc:
        raise ImageError("Reading %s: it is not JSON: %s" % (source, exc)) from exc
    if not isinstance(value, dict):
        raise ImageError("Reading %s: it is not a JSON object" % source)
    return value


def descriptors(manifest: Json, key: str, source: str) -> list[Json]:
    """Return the list of descriptors under a key of a manifest or index."""
    entries = manifest.get(key)
    entries = [entries] if isinstance(entries, dict) else entries
    good = isinstance(entries, list) and all(
        isinstance(entry, dict) and DIGEST.match(str(entry.get("digest"))) and isinstance(entry.get("size"), int)
        for entry in entries
    )
    if not good:
        raise ImageError("Reading %s: %s are not descriptors with a sha256 digest and a size" % (source, key))
    return t.cast("t.List[Json]", entries)


def required(digest: str, size: int | None, read: Read, machine: str) -> dict[str, int | None]:
    """Return the digests and sizes of all blobs of an image that this platform needs, the manifest first.

    ``read`` raises KeyError for a missing blob: then the digests up to there are returned.
    """
    needed: dict[str, int | None] = {digest: size}
    source = "blob %s" % digest
    try:
        manifest = document(read(digest), source)
        if "manifests" in manifest:
            entry = _of_platform(descriptors(manifest, "manifests", source), read, machine, source)
            return {**needed, **required(entry["digest"], entry["size"], read, machine)}
    except KeyError:
        return needed
    for entry in (*descriptors(manifest, "config", source), *descriptors(manifest, "layers", source)):
        # Layers that are only elsewhere, by licence, are fetched from there and not stored (Windows base images).
        if not entry.get("urls"):
            needed[entry["digest"]] = entry["size"]
    return needed


def _of_platform(entries: t.Sequence[Json], read: Read, machine: str, source: str) -> Json:
    platforms = []
    for entry in entries:
        # An entry without a platform has that of its configuration.
        platform = entry.get("platform") or configuration(entry["digest"], read, machine)
        if not isinstance(platform, dict):
            raise ImageError("Reading %s: the platform of %s is not a JSON object" % (source, entry["digest"]))
        name = "%s/%s" % (platform.get("os"), platform.get("architecture"))
        if name == "linux/%s" % machine:
            return entry
        platforms.append(name)
    raise ImageError(
        "Reading %s: it has no manifest for linux/%s, only for %s. Set the digest of an image for this machine"
        % (source, machine, ", ".join(sorted(set(platforms))) or "nothing")
    )


def configuration(digest: str, read: Read, machine: str) -> Json:
    """Return the configuration of an image; KeyError if a blob on the way to it is missing."""
    source = "blob %s" % digest
    manifest = document(read(digest), source)
    if "manifests" in manifest:
        entries = descriptors(manifest, "manifests", source)
        return configuration(_of_platform(entries, read, machine, source)["digest"], read, machine)
    configs = descriptors(manifest, "config", source)
    if len(configs) != 1:
        raise ImageError("Reading %s: it has %d configurations, and an image has one" % (source, len(configs)))
    return document(read(configs[0]["digest"]), "blob %s" % configs[0]["digest"])


__all__ = (
    "DIGEST",
    "ImageError",
    "Name",
    "architecture",
    "configuration",
    "descriptors",
    "document",
    "parse_name",
    "required",
)
