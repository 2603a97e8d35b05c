# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role secondary_network with a real API server. The node is this machine, in directories of the test's own.

The programs are stand-ins: nothing here starts a pod. What the accounts may do is asked of the API server.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, cluster

Json = t.Any
FILES = ["host-device", "macvlan"]


class Site:
    """An inventory of this machine as node and as the host with the kubeconfig."""

    def __init__(self, plane: Cluster, root: Path, namespace: str) -> None:
        self.plane, self.root = plane, root
        self.bin, self.conf, self.mirror = root / "bin", root / "net.d", root / "mirror"
        self.conf.mkdir()
        self.mirror.mkdir()
        (self.conf / "10-pods.conflist").write_text('{"cniVersion": "1.0.0", "name": "pods", "plugins": []}')
        self._archive("cni-plugins-linux-amd64-v1.9.1.tgz", "cni-plugins-linux-amd64-v1.9.1.tgz.sha256", *FILES)
        self._archive("multus-cni_4.3.0_linux_amd64.tar.gz", "checksums.txt", "multus")
        (self.mirror / "whereabouts-amd64").write_bytes(b"whereabouts")
        self.variables: Json = {
            "ansible_python_interpreter": sys.executable,
            "ansible_connection": "local",
            "secondary_network_api_host": "api",
            "secondary_network_kubeconfig": str(plane.kubeconfig),
            "secondary_network_namespace": namespace,
            "secondary_network_on_foreign": "take_over",
            "secondary_network_mirror": str(self.mirror),
            "secondary_network_bin_dir": str(self.bin),
            "secondary_network_conf_dir": str(self.conf),
            "secondary_network_cni_plugins": FILES,
            "secondary_network_whereabouts_checksum": "sha256:" + hashlib.sha256(b"whereabouts").hexdigest(),
            "__secondary_network_record": str(root / "cni.json"),
            # The definitions are one for all tests of a cluster.
            "__secondary_network_owner": "secondary-network",
        }

    def _archive(self, name: str, sums: str, *files: str) -> None:
        with tarfile.open(self.mirror / name, "w:gz") as archive:
            for one in files:
                member = tarfile.TarInfo(f"release/{one}")
                member.size = len(one)
                archive.addfile(member, io.BytesIO(one.encode()))
        digest = hashlib.sha256((self.mirror / name).read_bytes()).hexdigest()
        (self.mirror / sums).write_text(f"{digest}  {name}\n")

    def run(self, *arguments: str, good: bool = True, **variables: Json) -> str:
        book, inventory, given = self.root / "book.yml", self.root / "hosts", self.root / "vars.json"
        role = {"name": "rdmaops.gpu_fabric.secondary_network"}
        task = {"name": "Role", "ansible.builtin.include_role": role}
        book.write_text(json.dumps([{"hosts": "node", "gather_facts": False, "tasks": [task]}]))
        inventory.write_text("node\napi\n")
        given.write_text(json.dumps({**self.variables, **variables}))
        argv = [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            str(inventory),
            "-e",
            f"@{given}",
            "--diff",
        ]
        environment = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORKS": "2",
            "ANSIBLE_HOST_PATTERN_MISMATCH": "ignore",
        }
        done = subprocess.run(
            [*argv, *arguments, str(book)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=COLLECTION,
            env=environment,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode == 0) is good, output
        return output

    def may(self, account: str, verb: str, what: str, namespace: str = "") -> bool:
        own = self.variables["secondary_network_namespace"]
        # kubectl takes pods/status for a pod of that name.
        what, _slash, part = what.partition("/")
        argv = ["auth", "can-i", verb, what, f"--as=system:serviceaccount:{own}:{account}", "-n", namespace or own]
        argv += [f"--subresource={part}"] if part else []
        return self.plane.kubectl(*argv, check=False).strip() == "yes"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    need_root()
    plane = cluster()
    with plane.namespace() as namespace:
        yield Site(plane, tmp_path, namespace)
        plane.kubectl("delete", "clusterrole,clusterrolebinding", "multus", check=False)


def recap(output: str) -> Json:
    line = next(one for one in output.splitlines() if one.startswith("node ") and "changed=" in one)
    return {key: int(value) for key, _sign, value in (word.partition("=") for word in line.split()) if value.isdigit()}


def test_the_four_step_drill(site: Site) -> None:
    virgin = site.run("--check")
    assert recap(virgin)["changed"] == 2
    assert not site.bin.exists()
    assert site.plane.kubectl(
        "get", "serviceaccounts", "-n", site.variables["secondary_network_namespace"], "-o", "name"
    ).split() == ["serviceaccount/default"]
    first = site.run()
    assert recap(first)["changed"] == 2
    assert sorted(os.listdir(site.bin)) == ["host-device", "macvlan", "multus", "whereabouts"]
    multus = json.loads((site.conf / "00-multus.conf").read_text())
    assert multus["clusterNetwork"] == f"{site.conf}/10-pods.conflist"
    for _again in ((), ("--check",)):
        assert recap(site.run(*_again))["changed"] == 0

    # A plugin that was changed by hand is mended, and nothing else is touched.
    (site.bin / "multus").write_bytes(b"other")
    assert recap(site.run())["changed"] == 1
    assert (site.bin / "multus").read_bytes() == b"multus"
    token = json.loads((site.conf / "multus.d" / "multus.kubeconfig").read_text())["users"][0]["user"]["token"]
    assert token not in virgin + first


def test_rights_that_suffice_and_away_again(site: Site) -> None:
    site.run()
    # What the files say works: with its own kubeconfig, Multus may do what it needs and no more.
    kubeconfig = site.conf / "multus.d" / "multus.kubeconfig"
    site.plane.kubectl("get", "network-attachment-definitions", "nobody", "--ignore-not-found", kubeconfig=kubeconfig)
    denied = site.plane.kubectl("get", "secrets", "-A", kubeconfig=kubeconfig, check=False)
    assert denied == ""
    for account, verb, what, wanted in (
        ("multus", "update", "pods/status", True),
        ("multus", "delete", "pods", False),
        ("multus", "create", "network-attachment-definitions.k8s.cni.cncf.io", False),
        ("whereabouts", "patch", "ippools.whereabouts.cni.cncf.io", True),
        ("whereabouts", "update", "leases.coordination.k8s.io", True),
        ("whereabouts", "delete", "ippools.whereabouts.cni.cncf.io", False),
        ("whereabouts", "list", "pods", False),
    ):
        assert site.may(account, verb, what) is wanted, (account, verb, what)
    assert not site.may("whereabouts", "patch", "ippools.whereabouts.cni.cncf.io", "default")

    gone = site.run(secondary_network_state="absent")
    assert recap(gone)["changed"] == 2
    assert os.listdir(site.bin) == []
    assert [name for name in os.listdir(site.conf) if name.endswith((".conf", ".conflist"))] == ["10-pods.conflist"]
    assert not site.may("multus", "update", "pods/status")
    site.plane.kubectl("get", "crd", "network-attachment-definitions.k8s.cni.cncf.io")
    assert recap(site.run(secondary_network_state="absent"))["changed"] == 0


def test_a_configuration_of_somebody_else_stops_the_role(site: Site) -> None:
    (site.conf / "00-multus.conf").write_text("{}")
    output = site.run(good=False)
    assert "the file is there and was not written by this collection" in output
    assert (site.conf / "00-multus.conf").read_text() == "{}"
    assert not site.bin.exists()


# variables, part of the message
REFUSED: list[tuple[Json, str]] = [
    (
        {"secondary_network_whereabouts_checksum": ""},
        "Installing whereabouts: no checksum is known, because the project publishes none beside its release.",
    ),
    (
        {"secondary_network_multus": "thick", "secondary_network_multus_image": "multus:latest"},
        "secondary_network_multus_image is 'multus:latest'",
    ),
    (
        {"secondary_network_source": "manifest"},
        "thin is a program on the nodes, and secondary_network_source is manifest",
    ),
]


@pytest.mark.parametrize(("variables", "text"), REFUSED)
def test_what_is_refused_changes_nothing(site: Site, variables: Json, text: str) -> None:
    output = " ".join(site.run(good=False, **variables).split())
    assert text in output
    assert not site.bin.exists()
    assert "multus" not in site.plane.kubectl(
        "get", "sa", "-n", site.variables["secondary_network_namespace"], "-o", "name"
    )


def test_multus_needs_a_network_before_it(site: Site) -> None:
    (site.conf / "10-pods.conflist").unlink()
    output = " ".join(site.run(good=False).split())
    assert "has no configuration of the cluster's own network yet" in output


def test_without_a_cluster_nothing_is_done_and_that_is_said(site: Site) -> None:
    output = site.run(secondary_network_api_host="")
    assert "the group kubernetes_api is empty" in output
    assert recap(output)["changed"] == 0


def test_daemon_sets_are_what_the_api_server_takes(site: Site) -> None:
    digest = "@sha256:" + "0" * 64
    variables = {
        "secondary_network_source": "manifest",
        "secondary_network_multus": "thick",
        "secondary_network_multus_image": "registry.test/multus" + digest,
        "secondary_network_whereabouts_image": "registry.test/whereabouts" + digest,
        "secondary_network_device_plugin": "sriov",
        "secondary_network_device_plugin_image": "registry.test/sriov" + digest,
        "secondary_network_device_plugin_config": {"resourceList": []},
    }
    site.run(**variables)
    found = site.plane.kubectl("get", "daemonsets", "-n", site.variables["secondary_network_namespace"], "-o", "name")
    assert found.split() == [f"daemonset.apps/{name}" for name in ("multus", "rdma-device-plugin", "whereabouts")]
    assert recap(site.run(**variables))["changed"] == 0
    site.run(secondary_network_state="absent", **variables)
