# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror that serves changed programs, each beside a file with the checksum of the change: none of them is installed.

What a mirror says about its own files proves nothing. A digest comes with the collection or from the site.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.install import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = t.Any
CHANGED = b"#!/bin/sh\necho changed\n"


class Mirror(Server):
    """Serves, for any name, a changed program or archive, and beside it the checksum that fits."""

    def __init__(self, programs: list[str]) -> None:
        super().__init__()
        self.programs = programs
        self.asked: list[str] = []

    def answer(self, request: Request) -> Answer:
        name = request.path.rpartition("/")[2]
        self.asked.append(name)
        return Answer(body=self.file(name))

    def file(self, name: str) -> bytes:
        """An archive with every program, or a program; of a file of checksums, the right ones."""
        if name == "checksums.txt":
            names = ["multus-cni_4.3.0_linux_amd64.tar.gz", "gnmic_0.45.0_Linux_x86_64.tar.gz"]
            return "".join(f"{hashlib.sha256(self.file(name)).hexdigest()}  {name}\n" for name in names).encode()
        if name.endswith(".sha256"):
            return f"{hashlib.sha256(self.file(name[:-7])).hexdigest()}\n".encode()
        if not name.endswith((".tgz", ".tar.gz")):
            return CHANGED
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for program in self.programs:
                member = tarfile.TarInfo(program)
                member.size = len(CHANGED)
                archive.addfile(member, io.BytesIO(CHANGED))
        return packed.getvalue()


PROGRAMS = [
    "bridge", "host-device", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "sbr", "static", "tuning",
    "multus", "gnmic",
]  # fmt: skip


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror(PROGRAMS) as server:
        yield server


# role, its variable with what it downloads
SOURCES = [
    ("kubernetes", "__kubernetes_program_sources"),
    ("kubernetes", "__kubernetes_cni_sources"),
    ("secondary_network", "__secondary_network_sources"),
    ("switch_telemetry", "__switch_telemetry_sources"),
]


@pytest.mark.parametrize(("role", "variable"), SOURCES)
def test_no_changed_program_of_a_mirror_is_installed(role: str, variable: str, mirror: Mirror, tmp_path: Path) -> None:
    sources = values(COLLECTION / "roles" / role).value(variable)
    assert sources
    for source in sources:
        text = message_of(FabricError, manage, options(tmp_path, [source], mirror.url), False, 0.0)
        assert ", expected " in text or "| sha256sum" in text, text
        assert list((tmp_path / "bin").glob("[!.]*")) == []
    # Files of checksums are not so much as asked for.
    assert not any("sha256" in name or "checksums" in name for name in mirror.asked)


def options(place: Path, sources: Json, mirror: str) -> Json:
    known = {"configs": [], "kubeconfigs": [], "tokens": {}, "state": "present", "on_foreign": "keep", "timeout": 10}
    places = {"bin_dir": str(place / "bin"), "record": str(place / "record")}
    return {**known, **places, "sources": sources, "mirror": mirror}


def play(place: Path, tasks: Json, **variables: Json) -> site.Run:
    """Run tasks on this machine, which is the only host of every group."""
    groups = ("kubernetes_control_plane", "gpu_nodes", "switch_telemetry")
    inventory = {"all": {"children": {name: {"hosts": {"here": site.HERE}} for name in groups}}}
    # A role's own variable gives way to nothing less than these.
    keywords = {"inventory": inventory, "variables": variables, "cwd": COLLECTION, "limit": 120}
    return site.run_tasks(place, tasks, **keywords, **site.AS_A_USER)


def role(name: str, file: str = "main.yml") -> Json:
    return [{"ansible.builtin.include_role": {"name": f"rdmaops.gpu_fabric.{name}", "tasks_from": file}}]


def test_a_changed_kubelet_is_not_installed(mirror: Mirror, tmp_path: Path) -> None:
    """The whole way, by Ansible: the role's tasks, the module, a mirror by plain http."""
    # The plugins' own directory is this machine's: nothing has that digest, so that they are not installed in any case.
    given = {"kubernetes_mirror": mirror.url, "kubernetes_cni_plugins_checksum": "sha256:" + "0" * 64}
    place = {"kubernetes_directory": str(tmp_path / "bin"), "__kubernetes_record": str(tmp_path / "record")}
    done = play(tmp_path, role("kubernetes", "programs_archive.yml"), **given, **place)
    assert done.rc == 2, done.output
    words = " ".join(done.output.split())
    assert f"Verifying {mirror.url}/kubeadm: its SHA-256 is {hashlib.sha256(CHANGED).hexdigest()}, expected " in words
    assert mirror.asked == ["kubeadm"]
    assert list((tmp_path / "bin").glob("[!.]*")) == []


# role, its file of tasks, what a site says, what is said of it
ASKED: list[tuple[str, str, Json, list[str]]] = [
    (
        "kubernetes",
        "main.yml",
        {"kubernetes_source": "archive", "kubernetes_version": "1.99.0", "kubernetes_pod_network": "bridge"},
        [
            "Creating a cluster of these hosts: nothing was changed. kubernetes_checksums.kubeadm must be sha256: and the digest"
        ],
    ),
    (
        "secondary_network",
        "check.yml",
        {"secondary_network_multus_checksum": "sha256:{mirror}/checksums.txt"},
        [
            "Installing multus, whereabouts: the collection has no digest of this release, and does not accept one from the download",
            "Set secondary_network_multus_checksum to sha256: and what `curl -fsSL https://github.com/k8snetworkplumbingwg/"
            "multus-cni/releases/download/v4.3.0/multus-cni_4.3.0_linux_amd64.tar.gz | sha256sum` prints on a machine and",
            "Set secondary_network_whereabouts_checksum to sha256: and what `curl -fsSL https://github.com/",
        ],
    ),
    (
        "switch_telemetry",
        "main.yml",
        {"switch_telemetry_targets": [{"name": "leaf-1", "address": "192.0.2.1", "ports": ["Ethernet1/1"]}]},
        [
            "switch_telemetry_checksum must be sha256: and the digest of gNMIc 0.45.0: `curl -fsSL https://github.com/openconfig"
        ],
    ),
    (
        "training_image",
        "main.yml",
        {
            "training_image_name": "registry.example.org/x:1",
            "training_image_nccl_tests": True,
            "training_image_nccl_tests_url": "{mirror}/nccl-tests.tgz",
        },
        [
            "Set training_image_nccl_tests_checksum to sha256: and what `curl -fsSL {mirror}/nccl-tests.tgz | sha256sum` prints"
        ],
    ),
]


@pytest.mark.parametrize(("name", "file", "given", "said"), ASKED, ids=[role for role, *_rest in ASKED])
def test_a_role_asks_for_what_it_has_no_digest_of(
    name: str, file: str, given: Json, said: list[str], mirror: Mirror, tmp_path: Path
) -> None:
    """Before it looks at a host, and before anything is downloaded."""
    here = json.loads(json.dumps({f"{name}_mirror": mirror.url, **given}).replace("{mirror}", mirror.url))
    done = play(tmp_path, role(name, file), **here)
    assert done.rc == 2, done.output
    words = " ".join(done.output.split())
    assert [text for text in said if text.replace("{mirror}", mirror.url) not in words] == [], words
    assert mirror.asked == []
