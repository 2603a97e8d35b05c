# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of an image: every blob is what its digest says, and the name is where containerd looks for it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import oci

NAME = "lab.invalid/thing:1"


def test_an_archive(tmp_path: Path) -> None:
    target = tmp_path / "place" / "thing.tar"
    image = oci.Image({"bin/thing": b"program"}, entrypoint=["/bin/thing"], mode=0o755)
    oci.oci_archive(target, image, names=[NAME])
    with tarfile.open(target) as archive:
        files = {member.name: (archive.extractfile(member) or target.open("rb")).read() for member in archive}
    blobs = {name.rpartition("/")[2]: data for name, data in files.items() if name.startswith("blobs/sha256/")}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["digest"] == image.digest
    assert described["annotations"]["io.containerd.image.name"] == NAME
    manifest = json.loads(blobs[image.digest.partition(":")[2]])
    for descriptor in [manifest["config"], *manifest["layers"]]:
        assert len(blobs[descriptor["digest"].partition(":")[2]]) == descriptor["size"]
    config = json.loads(blobs[manifest["config"]["digest"].partition(":")[2]])
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["Entrypoint"] == ["/bin/thing"]


def test_the_same_files_are_the_same_image(tmp_path: Path) -> None:
    images = [oci.Image(files) for files in ({"a": b"1"}, {"a": b"1"}, {"a": b"2"})]
    for number, image in enumerate(images):
        oci.oci_archive(tmp_path / f"{number}.tar", image, names=[NAME])
    assert images[0].digest == images[1].digest != images[2].digest
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()


def test_programs_can_be_run(tmp_path: Path) -> None:
    """A layer's files have the mode that was asked for."""
    for mode in (0o644, 0o755):
        with tarfile.open(fileobj=io.BytesIO(oci.Image({"a": b"1"}, mode=mode).layers[0])) as layer:
            assert [member.mode for member in layer] == [mode]
