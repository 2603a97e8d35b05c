# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images made by hand, in archives that `ctr images import` takes (OCI image layout 1.0)."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import tarfile
import typing as t

from .tools import architecture as architecture_here

OCI = "application/vnd.oci.image."


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar_of(files: t.Mapping[str, bytes], mode: int = 0o644) -> bytes:
    """A tar archive, the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def as_json(value: t.Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


class Image:
    """An image of one layer for each dictionary of files, or tar archive."""

    def __init__(
        self,
        *layers: t.Mapping[str, bytes] | bytes,
        architecture: str = "",
        labels: t.Mapping[str, str] | None = None,
        entrypoint: t.Sequence[str] = (),
        mode: int = 0o644,
    ) -> None:
        self.layers = [files if isinstance(files, bytes) else tar_of(files, mode) for files in layers]
        self.architecture = architecture or architecture_here()
        config = {
            "architecture": self.architecture,
            "os": "linux",
            "config": {"Labels": dict(labels or {}), "Entrypoint": list(entrypoint)},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in self.layers]},
        }
        self.config = as_json(config)
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI + "manifest.v1+json",
            "config": self.described(self.config, OCI + "config.v1+json"),
            "layers": [self.described(layer, OCI + "layer.v1.tar") for layer in self.layers],
        }
        self.manifest = as_json(manifest)

    @staticmethod
    def described(data: bytes, kind: str) -> dict[str, t.Any]:
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def entry(self) -> dict[str, t.Any]:
        return self.described(self.manifest, OCI + "manifest.v1+json")

    @property
    def blobs(self) -> dict[str, bytes]:
        return {digest_of(data): data for data in (self.manifest, self.config, *self.layers)}


class Index:
    """Images for several machines under one digest."""

    def __init__(self, *images: Image) -> None:
        entries = [{**image.entry, "platform": {"os": "linux", "architecture": image.architecture}} for image in images]
        kind = OCI + "index.v1+json"
        self.manifest = as_json({"schemaVersion": 2, "mediaType": kind, "manifests": entries})
        self.entry = Image.described(self.manifest, kind)
        self.digest = digest_of(self.manifest)
        self.blobs = {self.digest: self.manifest}
        for image in images:
            self.blobs.update(image.blobs)


def oci_archive(
    path: pathlib.Path, *images: Image | Index, names: t.Sequence[str] = (), without: t.Container[str] = ()
) -> pathlib.Path:
    """Write an archive of images; ``names`` are annotated where containerd looks for them, blobs ``without`` left out."""
    entries = [dict(image.entry) for image in images]
    for entry, name in zip(entries, names):  # noqa: B905  of Python 3.10; tests of module code run on 3.8, too
        entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"})}
    files["index.json"] = as_json({"schemaVersion": 2, "manifests": entries})
    for image in images:
        files.update({"blobs/sha256/" + key[7:]: data for key, data in image.blobs.items() if key not in without})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_of(files))
    return path


__all__ = ["Image", "Index", "digest_of", "oci_archive", "tar_of"]
