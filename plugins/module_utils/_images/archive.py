# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""OCI and Docker image archives: their content, whether it is complete, and one image for containerd to import."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import posixpath
import tarfile
import typing as t
import zlib

from .._files import because
from .._formats import from_json
from .oci import DIGEST, ImageError, Json, configuration, descriptors, document, required

# The OCI image specification requires registries to accept 4 MiB.
_MOST_DOCUMENT = 64 << 20
_BLOCK = 1 << 20
_TYPE = "application/vnd.docker."
# How a compressed layer begins (RFC 1952, RFC 8878), and what its media type ends in.
_COMPRESSED = ((b"\x1f\x8b", ".gzip"), (b"\x28\xb5\x2f\xfd", ".zstd"))


class Archive:
    """An archive that is open for reading."""

    def __init__(self, path: str, tar: tarfile.TarFile) -> None:
        self.path = path
        self._tar = tar
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in tar:
            self._members[posixpath.normpath(member.name)] = member
        self._manifests: dict[str, bytes] = {}
        self._blobs: dict[str, tarfile.TarInfo] = {}
        for name, member in self._members.items():
            kind, _slash, value = name.rpartition("/")
            if kind == "blobs/sha256" and DIGEST.match("sha256:" + value) and member.isreg():
                self._blobs["sha256:" + value] = member
        if "index.json" in self._members:
            index = document(self._data(self._members["index.json"]), "index.json of %s" % path)
            self._entries = descriptors(index, "manifests", "index.json of %s" % path)
        elif "manifest.json" in self._members:
            self._entries = self._docker_entries()
        else:
            raise ImageError(
                "Reading %s: it has neither index.json (OCI) nor manifest.json (Docker), so it is not an image archive "
                "or is truncated. Nothing was imported" % path
            )

    def _stream(self, member: tarfile.TarInfo) -> t.IO[bytes]:
        stream = self._tar.extractfile(member)
        if stream is None:
            raise ImageError("Reading %s: %s is not a file" % (self.path, member.name))
        return stream

    def _data(self, member: tarfile.TarInfo) -> bytes:
        if member.size > _MOST_DOCUMENT:
            raise ImageError(
                "Reading %s: %s has %d bytes and is not a manifest" % (self.path, member.name, member.size)
            )
        with contextlib.closing(self._stream(member)) as stream:
            return stream.read()

    def read(self, digest: str) -> bytes:
        """Return a small blob; KeyError if the archive has none of that digest."""
        if digest in self._manifests:
            return self._manifests[digest]
        return self._data(self._blobs[digest])

    def _sum(self, member: tarfile.TarInfo) -> str:
        hasher = hashlib.sha256()
        with contextlib.closing(self._stream(member)) as stream:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                hasher.update(block)
        return "sha256:" + hasher.hexdigest()

    def _docker_entries(self) -> list[Json]:
        """Create the manifests that an archive of `docker save` lacks, byte for byte as containerd does.

        containerd: images/archive/importer.go, ImportIndex.
        """
        text = self._data(self._members["manifest.json"])
        try:
            images = from_json(text.decode("utf-8"))
            entries = []
            for image in images:
                config = self._descriptor(image["Config"], "container.image.v1+json")
                layers = [self._descriptor(layer, None) for layer in image["Layers"]]
                manifest = {
                    "schemaVersion": 2,
                    "mediaType": _TYPE + "distribution.manifest.v2+json",
                    "config": config,
                    "layers": layers,
                }
                data = json.dumps(manifest, separators=(",", ":")).encode("utf-8")
                digest = "sha256:" + hashlib.sha256(data).hexdigest()
                self._manifests[digest] = data
                names = dict(enumerate(image.get("RepoTags") or []))
                entry = {"mediaType": manifest["mediaType"], "digest": digest, "size": len(data)}
                entries.append({**entry, "annotations": names})
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ImageError(
                "Reading %s: manifest.json is not what `docker save` writes, or something that it names is missing "
                "(%s). The archive may be truncated" % (self.path, exc)
            ) from exc
        return entries

    def _descriptor(self, name: str, kind: str | None) -> Json:
        member = self._members[posixpath.normpath(name)]
        if member.issym():
            # docker save before version 25 writes a layer that several images share once.
            target = posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname))
            member = self._members[target]
        digest = self._sum(member)
        self._blobs[digest] = member
        if kind is None:
            with contextlib.closing(self._stream(member)) as stream:
                begin = stream.read(4)
            kind = "image.rootfs.diff.tar" + "".join(end for magic, end in _COMPRESSED if begin.startswith(magic))
        return {"mediaType": _TYPE + kind, "digest": digest, "size": member.size}

    def choose(self, digest: str | None, name: str) -> str:
        """Return the digest of the selected image."""
        digests = [entry["digest"] for entry in self._entries]
        if digest:
            if digest not in digests:
                raise ImageError(
                    "Looking for %s with digest %s in %s: the archive has %s. Nothing was imported: correct digest, or "
                    "provide the matching archive" % (name, digest, self.path, ", ".join(digests) or "no image")
                )
            return digest
        if len(set(digests)) != 1:
            matching = [entry["digest"] for entry in self._entries if name in (entry.get("annotations") or {}).values()]
            digests = matching or digests
        if len(set(digests)) != 1:
            raise ImageError(
                "Looking for %s in %s: the archive has %d images (%s). Select one with digest"
                % (name, self.path, len(digests), ", ".join(digests) or "none")
            )
        return str(digests[0])

    def verified(self, digest: str, machine: str) -> list[str]:
        """Return the digests of all blobs of an image that this machine needs, after checking each."""
        entry = self._entry(digest)
        needed = required(digest, entry["size"], self.read, machine)
        for blob, size in needed.items():
            if blob in self._manifests:
                continue
            member = self._blobs.get(blob)
            if member is None:
                raise ImageError(
                    "Verifying %s: blob %s of the image is not in the archive. It is truncated, or was created without "
                    "all of its parts; nothing was imported" % (self.path, blob)
                )
            if member.size != size or self._sum(member) != blob:
                raise ImageError(
                    "Verifying %s: the content of blob %s does not match its name. The archive is damaged; nothing was "
                    "imported" % (self.path, blob)
                )
        return list(needed)

    def _entry(self, digest: str) -> Json:
        return next(entry for entry in self._entries if entry["digest"] == digest)

    def label(self, digest: str, machine: str, name: str) -> str | None:
        """Return a label of an image's configuration."""
        try:
            config = configuration(digest, self.read, machine).get("config")
        except KeyError as exc:
            raise ImageError("Reading %s: blob %s is not in it" % (self.path, exc)) from exc
        labels = config.get("Labels") if isinstance(config, dict) else None
        return str(labels[name]) if labels and name in labels else None

    def write(self, digest: str, blobs: t.Iterable[str], name: str, sink: t.BinaryIO) -> None:
        """Write an OCI archive with these blobs and only this name for the image."""
        entry = {key: value for key, value in self._entry(digest).items() if key != "annotations"}
        entry["annotations"] = {"io.containerd.image.name": name}
        index = {"schemaVersion": 2, "manifests": [entry]}
        with tarfile.open(fileobj=sink, mode="w|") as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _add(tar, "index.json", json.dumps(index).encode("utf-8"))
            for blob in blobs:
                target = "blobs/sha256/" + blob[len("sha256:") :]
                if blob in self._manifests:
                    _add(tar, target, self._manifests[blob])
                    continue
                member = self._blobs[blob]
                header = tarfile.TarInfo(target)
                header.size = member.size
                with contextlib.closing(self._stream(member)) as stream:
                    tar.addfile(header, t.cast("t.Any", stream))


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(data)
    tar.addfile(header, io.BytesIO(data))


@contextlib.contextmanager
def opened(path: str) -> t.Iterator[Archive]:
    """Open an image archive, compressed or not."""
    try:
        with tarfile.open(path) as tar:
            yield Archive(path, tar)
    except (tarfile.TarError, EOFError, zlib.error) as exc:
        raise ImageError(
            "Reading %s: it is not a tar archive, or is truncated: %s. Nothing was imported" % (path, exc)
        ) from exc
    except OSError as exc:
        if exc.errno is None:
            # From gzip and lzma: the data is damaged.
            raise ImageError("Reading %s: it is damaged: %s. Nothing was imported" % (path, exc)) from exc
        raise ImageError("Reading %s: %s" % (path, because(exc))) from exc


__all__ = ("Archive", "opened")
