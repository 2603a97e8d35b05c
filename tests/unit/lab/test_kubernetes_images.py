# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of kubeadm's control plane, and the node that gets it."""

from __future__ import annotations

import json
import tarfile
import types
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, kubernetes_images, mirror, nodes, oci, qemu, tools

SETTINGS = config.versions()


def test_names_and_programs_go_together() -> None:
    names, programs = kubernetes_images.names(SETTINGS), kubernetes_images.programs(SETTINGS)
    assert set(names) == set(programs)
    version = SETTINGS["tools"]["kubernetes"]["version"]
    assert names["kube-apiserver"] == f"lab.invalid/kube-apiserver:{version}"
    assert names["etcd"].endswith("-0")
    known = {name for build in tools.builds(SETTINGS).values() for name in build.programs}
    assert {program for program, _ in programs.values()} <= known


def test_the_version_is_the_same_for_all_of_kubernetes() -> None:
    result = tools.builds(SETTINGS)
    versions = {result[name].version for name in ("kubernetes", "kubelet", "kubeadm", "kube-proxy")}
    assert versions == {SETTINGS["tools"]["kubernetes"]["version"]}
    # An etcd of the machine may need the machine's libraries.
    assert result["etcd-static"].on_path == ()
    assert result["etcd-static"].version == result["etcd"].version


def test_an_archive(tmp_path: Path) -> None:
    paths = {}
    for name in kubernetes_images.programs(SETTINGS):
        paths[name] = tmp_path / name
        paths[name].write_bytes(name.encode())
    root = oci.tar_of({"usr/sbin/nft": b"nft"}, 0o755)
    made = kubernetes_images.write(tmp_path / "images.tar", SETTINGS, paths, root)
    with tarfile.open(made) as archive:
        files = {member.name: t.cast("t.IO[bytes]", archive.extractfile(member)).read() for member in archive}
    entries = json.loads(files["index.json"])["manifests"]
    called = [entry["annotations"]["io.containerd.image.name"] for entry in entries]
    assert sorted(called) == sorted(kubernetes_images.names(SETTINGS).values())
    (entry,) = [entry for entry in entries if "kube-proxy" in entry["annotations"]["io.containerd.image.name"]]
    manifest = json.loads(files["blobs/sha256/" + entry["digest"][7:]])
    first, second = [files["blobs/sha256/" + layer["digest"][7:]] for layer in manifest["layers"]]
    assert first == root
    assert b"usr/local/bin/kube-proxy" in second
    about = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
    assert about["config"]["Entrypoint"] == ["/usr/local/bin/kube-proxy"]
    assert about["rootfs"]["diff_ids"][0] == oci.digest_of(root)


def test_what_a_node_downloads() -> None:
    assert [release.file for release in mirror.kubernetes_releases()] == ["kubeadm", "kubelet", "kubectl"]


def test_a_mirror_has_files_and_their_digests_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an inventory gives to the roles; nothing in the mirror is named as a project's file of checksums."""

    def program(name: str, *_unused: t.Any) -> Path:
        made = tmp_path / "programs" / name
        made.parent.mkdir(exist_ok=True)
        made.write_text(name)
        return made

    monkeypatch.setattr(tools, "get", program)
    places = t.cast("t.Any", types.SimpleNamespace(cache=tmp_path))
    place = mirror.make(places, SETTINGS, kubernetes=True)
    releases = [*mirror.releases(SETTINGS), *mirror.kubernetes_releases()]
    digests = json.loads((place / mirror.DIGESTS).read_text())
    assert digests == {release.name: oci.digest_of((place / release.file).read_bytes()) for release in releases}
    assert {path.name for path in place.iterdir()} == {
        mirror.DIGESTS,
        "made-of",
        *(release.file for release in releases),
    }


def define_nodes(lab: nodes.Lab, tmp_path: Path, plane: qemu.Size) -> None:
    """Define a worker, and a control-plane node of the given size."""
    image = t.cast("t.Any", types.SimpleNamespace(key="0123", disk=tmp_path / "disk"))
    for name in ("gpu-1", "gpu-3"):
        lab.define(name, image, nodes.Pods(qemu.Size(1536), None, ("gpu-3",), plane))


def test_a_control_plane_node_has_memory_and_a_way_to_its_api_server(lab: nodes.Lab, tmp_path: Path) -> None:
    define_nodes(lab, tmp_path, qemu.Size(2304, 2, 1024))
    first, plane = lab.node("gpu-1"), lab.node("gpu-3")
    assert (first.size, first.api_port) == (qemu.Size(1536), 0)
    assert plane.size == qemu.Size(2304, 2, 1024)
    assert plane.api_port > 0
    argv = qemu.machine(SETTINGS, plane, kvm=False)
    forwarded = f"hostfwd=tcp:127.0.0.1:{plane.ssh_port}-:22,hostfwd=tcp:127.0.0.1:{plane.api_port}-:6443"
    assert f"user,id=outside,{forwarded}" in argv

    lab.write_inventory()
    groups = yaml.safe_load((tmp_path / "inventory/hosts.yml").read_text())
    assert list(groups["gpu_nodes"]["hosts"]) == ["gpu-1"]
    assert groups["kubernetes_control_plane"]["hosts"]["gpu-3"]["rails"][-1]["address"] == "10.90.1.3"
    assert groups["all"]["vars"] == {"kubernetes_kubeconfig_server": f"https://127.0.0.1:{plane.api_port}"}


def test_it_is_gone_when_the_scenario_is(lab: nodes.Lab, tmp_path: Path) -> None:
    define_nodes(lab, tmp_path, qemu.Size(2304))
    lab.forget_planes()
    assert lab.names() == ["gpu-1"]
    assert not lab.places.node("gpu-3").exists()
    assert lab.places.node("gpu-1").exists()
    lab.forget_planes()
    assert lab.names() == ["gpu-1"]
