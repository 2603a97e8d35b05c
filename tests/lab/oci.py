# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of one layer as an archive that `ctr images import` takes (OCI image layout 1.0)."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import tarfile
import typing as t

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def packed(files: t.Mapping[str, bytes], mode: int = 0o755) -> bytes:
    """A tar archive, the same bytes for the same files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def write(
    target: pathlib.Path, name: str, files: t.Mapping[str, bytes], entrypoint: t.Sequence[str], architecture: str
) -> str:
    """Write the archive of an image called `name`, and return the image's digest."""
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, t.Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def as_json(value: t.Any) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    layer = packed(files)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(CONFIG, as_json(config)),
        "layers": [blob(LAYER, layer)],
    }
    described = blob(MANIFEST, as_json(manifest))
    described["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [described]}
    target.parent.mkdir(parents=True, exist_ok=True)
    laid_out = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": as_json(index), **blobs}
    target.write_bytes(packed(laid_out, 0o644))
    return str(described["digest"])


__all__ = ["write"]
