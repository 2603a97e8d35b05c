# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of a control plane that kubeadm makes, of the lab's own programs.

Nodes have them from the start (containers.py), under names of a registry that there is not: nothing is pulled.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import tempfile
import typing as t

from . import aptsource, config, oci, tools
from .progress import LabError, run_logged, step

REPOSITORY = "lab.invalid"
# What kubeadm's manifests and Corefile run, and by which tag kubeadm asks for it: `kubeadm config images list` has the
# names; etcd and CoreDNS get their own version by kubernetes_etcd_image_tag and kubernetes_dns_image_tag.
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
PAUSE_TAG = "3.10.2"
# kube-proxy calls nft (proxy mode nftables); base-files has the links of a merged /usr.
PROXY_PACKAGES = ("base-files", "nftables", "kmod")


def names(settings: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The images by what is in them."""
    version = settings["tools"]["kubernetes"]["version"]
    images = {name: f"{REPOSITORY}/{name}:{version}" for name in (*CONTROL_PLANE, "kube-proxy")}
    images["etcd"] = f"{REPOSITORY}/etcd:{etcd_tag(settings)}"
    images["coredns"] = f"{REPOSITORY}/coredns:{dns_tag(settings)}"
    images["pause"] = f"{REPOSITORY}/pause:{PAUSE_TAG}"
    return images


def etcd_tag(settings: t.Mapping[str, t.Any]) -> str:
    return str(settings["tools"]["etcd"]["version"]).removeprefix("v") + "-0"


def dns_tag(settings: t.Mapping[str, t.Any]) -> str:
    return str(settings["tools"]["coredns"]["version"])


def programs(settings: t.Mapping[str, t.Any]) -> dict[str, tuple[str, str]]:
    """The program of the lab in each image, and its path there."""
    files = {name: (name, f"usr/local/bin/{name}") for name in (*CONTROL_PLANE, "kube-proxy")}
    return {
        **files,
        "etcd": ("etcd-static", "usr/local/bin/etcd"),
        "coredns": ("coredns-cluster", "coredns"),
        "pause": ("pause", "pause"),
    }


def archive(places: config.Places, settings: dict[str, t.Any]) -> pathlib.Path:
    """The archive with all of them, created if the cache has none of these programs."""
    paths = {name: tools.get(program, places, settings) for name, (program, _) in programs(settings).items()}
    kept = places.cache / "kubernetes-images"
    made_of = f"{sorted(names(settings).items())} {sorted(map(str, paths.values()))} {PROXY_PACKAGES} {settings['debian']['suite']}"
    target = kept / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.tar"
    with config.lock(
        places.cache / "kubernetes-images.lock", "another command makes the control plane's images", wait=True
    ):
        if not target.exists():
            kept.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".build-", dir=kept) as work:
                root = proxy_root(pathlib.Path(work), settings, kept / "build.log")
                with step("packing the control plane's images"):
                    new = write(pathlib.Path(work) / "images.tar", settings, paths, root)
                new.replace(target)
    return target


def write(
    target: pathlib.Path, settings: t.Mapping[str, t.Any], paths: t.Mapping[str, pathlib.Path], proxy_root: bytes
) -> pathlib.Path:
    images, called = [], []
    for name, (_program, inside) in programs(settings).items():
        layers: list[t.Mapping[str, bytes] | bytes] = [proxy_root] if name == "kube-proxy" else []
        layers.append({inside: paths[name].read_bytes()})
        images.append(oci.Image(*layers, entrypoint=[f"/{inside}"], mode=0o755))
        called.append(names(settings)[name])
    return oci.oci_archive(target, *images, names=called)


def proxy_root(work: pathlib.Path, settings: t.Mapping[str, t.Any], log: pathlib.Path) -> bytes:
    """The files that kube-proxy needs around it, as a layer: packages unpacked, and nothing of them run."""
    if os.geteuid() != 0:
        raise LabError("making the control plane's images needs root: they hold files of many owners")
    for program in ("mmdebstrap", "unshare"):
        if shutil.which(program) is None:
            raise LabError(f"making the control plane's images needs {program}: apt-get install mmdebstrap util-linux")
    root = work / "root.tar"
    with step(f"unpacking Debian's nftables (log: {log})"):
        run_logged(root_archive(work, settings, root), log, "unpacking nftables", float(settings["limits"]["build"]))
    return root.read_bytes()


def root_archive(work: pathlib.Path, settings: t.Mapping[str, t.Any], target: pathlib.Path) -> list[str]:
    settings = {**settings, "kernel": {**settings["kernel"], "suite": settings["debian"]["suite"]}}
    sources = aptsource.of_this_machine(settings)
    listed = work / "sources.list"
    listed.write_text(aptsource.one_line(settings, sources))
    return [
        *("unshare", "--mount", "--fork", "--kill-child", "mmdebstrap", "--mode=root", "--format=tar"),
        *("--variant=extract", f"--include={','.join(PROXY_PACKAGES)}"),
        *(f'--aptopt={name} "{value}"' for name, value in sorted(sources.options.items())),
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
        # Where the package lists and their cache would be.
        "--customize-hook=rm -rf $1/var/lib/apt/lists $1/var/cache/apt",
        *(settings["debian"]["suite"], str(target), str(listed)),
    ]


__all__ = ["REPOSITORY", "archive", "dns_tag", "etcd_tag", "names", "programs", "root_archive", "write"]
