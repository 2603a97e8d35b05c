# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror of what nodes download: the lab's own programs, packed and named as their projects release them."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import shutil
import tarfile
import typing as t

from . import config, tools
from .progress import step

# In the mirror, for inventories: the digest of each release, which roles take literally.
DIGESTS = "digests.json"
PLUGINS = ("bridge", "host-device", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "sbr", "static", "tuning")


class Release(t.NamedTuple):
    """What a project releases: its name, the file, and the programs in it."""

    name: str
    file: str
    programs: tuple[str, ...]


def releases(settings: t.Mapping[str, t.Any]) -> list[Release]:
    number = {name: settings["tools"][name]["version"].removeprefix("v") for name in ("cni-plugins", "multus")}
    return [
        Release("cni-plugins", f"cni-plugins-linux-amd64-v{number['cni-plugins']}.tgz", PLUGINS),
        Release("multus", f"multus-cni_{number['multus']}_linux_amd64.tar.gz", ("multus",)),
        Release("whereabouts", "whereabouts-amd64", ("whereabouts",)),
    ]


def kubernetes_releases() -> list[Release]:
    """What a node that kubeadm makes downloads besides."""
    return [Release(name, name, (name,)) for name in ("kubeadm", "kubelet", "kubectl")]


def make(places: config.Places, settings: dict[str, t.Any], kubernetes: bool = False) -> pathlib.Path:
    """Return the directory of the mirror, rebuilt if a program is newer than it."""
    place = places.cache / ("mirror-kubernetes" if kubernetes else "mirror")
    selected = [*releases(settings), *(kubernetes_releases() if kubernetes else [])]
    paths = {name: tools.get(name, places, settings) for release in selected for name in release.programs}
    mark = place / "made-of"
    made_of = "".join(f"{name} {path}\n" for name, path in sorted(paths.items())) + DIGESTS + "\n"
    with config.lock(places.cache / "mirror.lock", "another command makes the mirror", wait=True):
        if mark.exists() and mark.read_text() == made_of:
            return place
        new = place.with_name(place.name + "-new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        with step("packing what nodes download"):
            digests = {release.name: pack(new, release, paths) for release in selected}
            (new / DIGESTS).write_text(json.dumps(digests, indent=1) + "\n")
        (new / mark.name).write_text(made_of)
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    return place


def pack(place: pathlib.Path, release: Release, paths: t.Mapping[str, pathlib.Path]) -> str:
    """Make the file of a release, and return its digest as roles take it."""
    target = place / release.file
    if target.suffix not in (".tgz", ".gz"):
        shutil.copyfile(paths[release.programs[0]], target)
    else:
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            for name in release.programs:
                content = paths[name].read_bytes()
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o755
                archive.addfile(member, io.BytesIO(content))
    return "sha256:" + hashlib.sha256(target.read_bytes()).hexdigest()


__all__ = ["DIGESTS", "PLUGINS", "Release", "kubernetes_releases", "make", "pack", "releases"]
