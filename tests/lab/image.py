# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk that every node starts from: built once, kept in the cache under a key of its inputs."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import typing as t

from . import config
from .image_build import Builder
from .progress import LabError, step


class Image(t.NamedTuple):
    path: pathlib.Path
    key: str

    @property
    def disk(self) -> pathlib.Path:
        return self.path / "disk.raw"

    @property
    def identity(self) -> pathlib.Path:
        return self.path / "id_ed25519"

    @property
    def host_key(self) -> str:
        """The public key of every node, as a known_hosts file has it."""
        return " ".join((self.path / "host_key.pub").read_text().split()[:2])

    def facts(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", json.loads((self.path / "image.json").read_text()))


# Tables of versions.toml that are about the control plane.
NOT_OF_THE_IMAGE = ("cluster", "releases", "tools")


def inputs(here: pathlib.Path = config.HERE) -> list[pathlib.Path]:
    names = ["versions.toml", "image.py", "image_build.py", "aptsource.py"]
    return (
        [here / name for name in names]
        + sorted(here.glob("rxe-netns-*.patch"))
        + sorted(p for p in (here / "guest").rglob("*") if p.is_file())
    )


def image_key(here: pathlib.Path = config.HERE) -> str:
    digest = hashlib.sha256()
    for path in inputs(here):
        data = path.read_bytes()
        if path.suffix == ".py":
            # The layout and the comments of a program make no other image.
            data = ast.dump(ast.parse(data)).encode()
        elif path.suffix == ".toml":
            tables = tomllib.loads(data.decode())
            data = json.dumps({name: tables[name] for name in tables if name not in NOT_OF_THE_IMAGE}).encode()
        digest.update(f"{path.relative_to(here)} {path.stat().st_mode & 0o111:o} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def current(places: config.Places) -> Image | None:
    key = image_key()
    image = Image(places.images / key, key)
    return image if (image.path / "image.json").exists() else None


def named(places: config.Places, key: str) -> Image | None:
    image = Image(places.images / key, key)
    return image if (image.path / "image.json").exists() else None


def as_root(places: config.Places) -> None:
    """Build by way of sudo: making a root file system needs root."""
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
        raise LabError(
            "the lab's image is built as root, and sudo asks for a password: run 'sudo -v' first, or as root:\n"
            f"  LAB_CACHE={places.cache} {sys.executable} {config.HERE / 'lab.py'} image"
        )
    passed = [f"{name}={os.environ[name]}" for name in ("PATH", "http_proxy", "https_proxy") if name in os.environ]
    subprocess.run(
        ["sudo", "-n", "env", *passed, f"LAB_CACHE={places.cache}", f"LAB_STATE={places.state}"]
        + [sys.executable, str(config.HERE / "lab.py"), "image"],
        check=True,
    )


def build(places: config.Places, settings: dict[str, t.Any], rebuild: bool = False) -> Image:
    """The image of today's inputs, built if the cache has none."""
    image = current(places)
    if image and not rebuild:
        return image
    missing = config.missing_commands(settings)
    if missing:
        raise LabError(
            f"missing on this machine: {', '.join(sorted(missing))}; install them by\n"
            f"  apt-get install --no-install-recommends {' '.join(sorted(set(missing.values())))}"
        )
    if os.geteuid() != 0:
        as_root(places)
    else:
        with config.lock(places.cache / "build.lock", "the lab's image is being built by another process", wait=True):
            image = current(places)
            if image is None or rebuild:
                build_here(places, settings)
    image = current(places)
    if image is None:
        raise LabError("the image was built and is not there: have the inputs changed meanwhile?")
    return image


def build_here(places: config.Places, settings: dict[str, t.Any]) -> None:
    places.images.mkdir(parents=True, exist_ok=True)
    for stale in places.images.glob(".build-*"):
        shutil.rmtree(stale)
    key = image_key()
    log = places.cache / "build.log"
    log.unlink(missing_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=".build-", dir=places.images))
    work.chmod(0o755)
    begun = time.monotonic()
    try:
        with step(f"building the image {key} (log: {log})"):
            facts = Builder(settings, work, log).build()
        facts["seconds"] = round(time.monotonic() - begun)
        for name in ("root", "builder", "source", "apt"):
            shutil.rmtree(work / name, ignore_errors=True)
        (work / "image.json").write_text(json.dumps(facts, indent=2) + "\n")
        owner = (int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0")))
        for path in (places.cache, places.images, work, *work.iterdir(), log):
            os.chown(path, *owner)
        final = places.images / key
        if final.exists():
            shutil.rmtree(final)
        work.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
