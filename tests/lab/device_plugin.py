# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of the shared RDMA device plugin, of the lab's own programs."""

from __future__ import annotations

import pathlib
import typing as t

from . import config, oci, tools

NAME = "lab.invalid/rdma-shared-dp"
# ghw, which lists PCI devices for the plugin, wants a list of names, which may be empty.
NAMES_OF_DEVICES = {"usr/share/misc/pci.ids": b"# none\n"}


def image(places: config.Places, settings: t.Mapping[str, t.Any]) -> tuple[pathlib.Path, str]:
    """Return the image's archive, created if the cache has none of these programs, and the image by its digest."""
    plugin, start = (tools.get(name, places, settings) for name in ("k8s-rdma-shared-dp", "rdma-shared-dp"))
    programs = {"k8s-rdma-shared-dp": plugin.read_bytes(), "start": start.read_bytes()}
    new = oci.Image(NAMES_OF_DEVICES, programs, entrypoint=["/start"], mode=0o755)
    archive = places.cache / "device-plugin" / f"{new.digest.removeprefix('sha256:')[:16]}.tar"
    with config.lock(places.cache / "device-plugin.lock", "another command makes the device plugin's image", wait=True):
        if not archive.exists():
            name = f"{NAME}:{settings['tools']['rdma-shared-dp']['version']}"
            oci.oci_archive(archive.with_suffix(".new"), new, names=[name]).replace(archive)
    return archive, f"{NAME}@{new.digest}"


__all__ = ["image"]
