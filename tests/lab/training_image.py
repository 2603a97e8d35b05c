# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image that the lab's pods train with: Debian with PyTorch for CPUs, made into an image by role training_image."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import typing as t

from . import aptsource, config
from .progress import LabError, run_logged, say, step

NAME = "lab.invalid/training:1"
ROLE = config.REPOSITORY / "roles" / "training_image"
# The index of Python packages has no build for CPUs alone.
BASE = ("python3-torch", "python3-torchvision")
# What the role installs for the fabric's tests, less headers and what wants Perl; and mpirun.
PACKAGES = (
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "iputils-ping",
    "openmpi-bin",
    "openssh-client",
    "openssh-server",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
)
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Files that are not read there, and large files that training on a CPU never opens: UCX's way to AMD's GPUs with its
# compiler, and PyTorch's tests.
EXCLUDED = (
    *(f"/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
    *(f"{LIBRARIES}/{name}.so*" for name in ("libLLVM-*", "libamd_comgr", "libamdhip64")),
    f"{LIBRARIES}/ucx/*_rocm.so*",
    "/usr/lib/python3/dist-packages/torch/bin/test_*",
)
PROGRAMS = {"mmdebstrap": "mmdebstrap", "buildah": "buildah", "unshare": "util-linux"}


class Image(t.NamedTuple):
    archive: pathlib.Path
    digest: str

    @property
    def reference(self) -> str:
        """The image by its digest, as a pod names it."""
        return f"{NAME.rpartition(':')[0]}@{self.digest}"


def key(role: pathlib.Path = ROLE) -> str:
    """What the image is made of, but for the packages' versions."""
    whole = hashlib.sha256(f"{base_key()} {NAME} {PACKAGES}".encode())
    for part in ("defaults", "files", "tasks/build.yml", "templates", "vars"):
        place = role / part
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                whole.update(f"{path.relative_to(role)} ".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def base_key() -> str:
    return hashlib.sha256(f"{config.versions()['debian']['suite']} {BASE} {EXCLUDED}".encode()).hexdigest()[:16]


def base_archive(places: config.Places) -> pathlib.Path:
    """Where image() keeps the root file system that it builds on."""
    return places.cache / "training-image" / f"base-{base_key()}.tar"


def image(places: config.Places, settings: t.Mapping[str, t.Any]) -> Image:
    """The image of today's inputs, made where the cache has none."""
    kept = places.cache / "training-image"
    place = kept / key()
    with config.lock(places.cache / "training-image.lock", "another command makes the training image", wait=True):
        if not place.exists():
            need_programs()
            kept.mkdir(parents=True, exist_ok=True)
            log = kept / "build.log"
            log.unlink(missing_ok=True)
            for stale in kept.glob(".build-*"):
                shutil.rmtree(stale)
            with tempfile.TemporaryDirectory(prefix=".build-", dir=kept) as work:
                # Another role makes another image of the same packages.
                base = base_archive(places)
                if not base.exists():
                    install(pathlib.Path(work), settings, log).rename(base)
                build(pathlib.Path(work), settings, base, log).rename(place)
    (archive,) = place.glob("*.tar")
    return Image(archive, (place / "digest").read_text().strip())


def need_programs() -> None:
    if os.geteuid() != 0:
        raise LabError("making the training image needs root: it holds files of many owners")
    missing = sorted({package for command, package in PROGRAMS.items() if shutil.which(command) is None})
    if missing:
        raise LabError(f"making the training image needs: apt-get install --no-install-recommends {' '.join(missing)}")


def install(work: pathlib.Path, settings: t.Mapping[str, t.Any], log: pathlib.Path) -> pathlib.Path:
    base = work / "base.tar"
    with step(f"installing Debian with PyTorch (log: {log})"):
        argv = root_archive(work, settings, base, BASE)
        run_logged(argv, log, "installing Debian with PyTorch", float(settings["limits"]["build"]))
    return base


def build(work: pathlib.Path, settings: t.Mapping[str, t.Any], base: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """Make the archive and its digest in a directory, which is returned."""
    limit = float(settings["limits"]["build"])
    made = work / "made"
    made.mkdir()
    with step("building the training image by the role training_image"):
        run_logged(play(work, base, made), log, "building the training image", limit, environment(work))
    (archive,) = made.glob("*.tar")
    (made / "digest").write_text(digest_of(archive) + "\n")
    say(f"{archive.name}: {archive.stat().st_size >> 20} MiB")
    return made


def root_archive(
    work: pathlib.Path, settings: t.Mapping[str, t.Any], target: pathlib.Path, packages: t.Sequence[str] = ()
) -> list[str]:
    """The command that makes the root file system of a Debian with apt; what it mounts goes with it."""
    settings = {**settings, "kernel": {**settings["kernel"], "suite": settings["debian"]["suite"]}}
    sources = aptsource.of_this_machine(settings)
    listed = work / "sources.list"
    listed.write_text(aptsource.one_line(settings, sources))
    return [
        *("unshare", "--mount", "--fork", "--kill-child", "mmdebstrap", "--mode=root", "--format=tar"),
        *("--variant=apt", '--aptopt=APT::Install-Recommends "false"'),
        *([f"--include={','.join(packages)}"] if packages else []),
        *(f'--aptopt={name} "{value}"' for name, value in sorted(sources.options.items())),
        *(f"--dpkgopt=path-exclude={path}" for path in EXCLUDED),
        "--dpkgopt=force-unsafe-io",
        *(settings["debian"]["suite"], str(target), str(listed)),
    ]


def play(work: pathlib.Path, base: pathlib.Path, target: pathlib.Path) -> list[str]:
    """The command that has the role build; bringing the image to nodes is not its matter here."""
    name = "rdmaops.gpu_fabric.training_image"
    options = {
        "ansible_python_interpreter": sys.executable,
        "training_image_name": NAME,
        "training_image_base_archive": str(base),
        "training_image_packages": list(PACKAGES),
        "training_image_build_packages": [],
        "training_image_directory": str(target),
    }
    task = {"name": "Build", "ansible.builtin.include_role": {"name": name, "tasks_from": "build"}, "vars": options}
    playbook = work / "play.json"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    beside = pathlib.Path(sys.executable).parent / "ansible-playbook"
    program = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if program is None:
        raise LabError("making the training image needs ansible-playbook: 'make dev' installs it into .venv")
    # What buildah mounts, and buildah itself, end with the command, whatever ends that.
    alone = ["unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]
    return [*alone, program, "--connection", "local", "--inventory", "localhost,", str(playbook)]


def environment(work: pathlib.Path) -> dict[str, str]:
    """With a storage for buildah that goes with the work."""
    storage = work / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{work}/graph"\nrunroot = "{work}/run"\n')
    return {**os.environ, "ANSIBLE_NOCOLOR": "1", "CONTAINERS_STORAGE_CONF": str(storage)}


def digest_of(archive: pathlib.Path) -> str:
    """The digest of the one image in an archive (OCI image layout 1.0)."""
    with tarfile.open(archive) as whole:
        index = whole.extractfile("index.json")
        assert index
        (entry,) = json.load(index)["manifests"]
    return str(entry["digest"])


__all__ = ["BASE", "EXCLUDED", "NAME", "PACKAGES", "Image", "digest_of", "image", "key", "root_archive"]
