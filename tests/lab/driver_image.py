# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of the programs that give a node's devices to pods, of the lab's own builds."""

from __future__ import annotations

import pathlib
import typing as t

from . import config, oci, tools

# By its tool of versions.toml, the program that such an image starts, and those beside it.
PROGRAMS = {"rdma-shared-dp": ("rdma-shared-dp", "k8s-rdma-shared-dp"), "dranet": ("dranet",)}
# ghw, which lists PCI devices for both, wants a list of names, which may be empty.
NAMES_OF_DEVICES = {"usr/share/misc/pci.ids": b"# none\n"}


def image(tool: str, places: config.Places, settings: t.Mapping[str, t.Any]) -> tuple[pathlib.Path, str]:
    """Return an image's archive, created if the cache has none of these programs, and the image by its digest."""
    start, *others = (tools.get(name, places, settings) for name in PROGRAMS[tool])
    programs = {"start": start.read_bytes(), **{path.name: path.read_bytes() for path in others}}
    new = oci.Image(NAMES_OF_DEVICES, programs, entrypoint=["/start"], mode=0o755)
    archive = places.cache / "driver-images" / f"{tool}-{new.digest.removeprefix('sha256:')[:16]}.tar"
    with config.lock(places.cache / "driver-images.lock", f"another command makes the image {tool}", wait=True):
        if not archive.exists():
            name = f"lab.invalid/{tool}:{settings['tools'][tool]['version']}"
            oci.oci_archive(archive.with_suffix(".new"), new, names=[name]).replace(archive)
    return archive, f"lab.invalid/{tool}@{new.digest}"


__all__ = ["PROGRAMS", "image"]
