# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles secondary_network and node_labels with a real API server. The node is this machine, in directories of the
test's own; the nodes with rails are invented, as their modules would report them.

The programs are stand-ins: nothing here starts a pod. What the accounts may do is asked of the API server.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import tarfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.install import node_of
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import (
    AS_A_USER,
    HERE,
    Run,
    ansible_playbook,
    book,
    rescued,
    role,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = t.Any
FILES = ["host-device", "macvlan", "tuning"]
RAILS = ["gpu-1", "gpu-2"]
DIGEST = "@sha256:" + "0" * 64
OBJECTS = "Apply accounts, rights and resources to the cluster"
INSTALL = "Install plugins and their configuration"
ATTACH = "Apply the rails' attachments to the cluster"
LABEL = "Apply the labels"
# What the node changes in check mode is reported by the comparison, and in a real run by the installation.
COMPARE = "Compare plugins and their configuration"


def include(only: str = "main", **variables: Json) -> Json:
    return role("secondary_network", only, **variables)


def refused(**variables: Json) -> Json:
    return rescued(include(**variables))


def play(name: str, *tasks: Json, hosts: str = "node") -> Json:
    return {"name": name, "hosts": hosts, "gather_facts": False, "tasks": list(tasks)}


@dataclasses.dataclass
class Play:
    """What ansible-playbook said about one play."""

    text: str
    changed: list[str] = dataclasses.field(default_factory=list)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def read(output: str) -> dict[str, Play]:
    plays = {}
    for part in re.split(r"^PLAY (?=\[)", output, flags=re.M)[1:]:
        text = part.split("\nPLAY RECAP")[0]
        play = plays[text[1 : text.index("]")]] = Play(text)
        for task in re.split(r"^TASK (?=\[)", text, flags=re.M)[1:]:
            if re.search(r"^changed: \[", task, re.M):
                play.changed.append(task[1 : task.index("]")].rpartition(" : ")[2])
    return plays


def rail(node: str, number: int) -> Json:
    """Return an RDMA device as rdma_info has it."""
    return {
        "name": f"mlx5_{number}",
        "protocol": "roce",
        "pci_address": f"0000:{0x10 + number:02x}:00.0",
        "numa_node": 0,
        "node_guid": f"0c42:a103:{int(node[-1]):04x}:{number:04x}",
        "netns": {"inode": 4026531840, "name": None, "initial": True},
        "pod": None,
        "ports": [{"port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": f"rail{number}"}],
    }


def card(name: str, *uses: str) -> Json:
    """Return a network device as network_info has it."""
    row = {"name": name, "mtu": 9000, "state": "UP", "kind": None, "pci_address": None, "numa_node": 0}
    return {**row, "mac": None, "master": None, "link": None, "addresses": [], "rdma": [], "uses": list(uses)}


class Site:
    """An inventory of this machine as node and as the host with the kubeconfig, and of two invented nodes."""

    def __init__(self, plane: Cluster, root: Path, space: str) -> None:
        self.plane, self.root, self.space = plane, root, space
        self.bin, self.conf, self.mirror = root / "bin", root / "net.d", root / "mirror"
        self.conf.mkdir()
        self.mirror.mkdir()
        (self.conf / "10-pods.conflist").write_text(
            '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0"}]}'
        )
        plugins = self._archive("cni-plugins-linux-amd64-v1.9.1.tgz", *FILES)
        multus = self._archive("multus-cni_4.3.0_linux_amd64.tar.gz", "multus")
        (self.mirror / "whereabouts-amd64").write_bytes(b"whereabouts")
        variables = {
            **HERE,
            "kubernetes_api_host": "api",
            "kubernetes_api_kubeconfig": str(plane.kubeconfig),
            "secondary_network_namespace": space,
            "secondary_network_mirror": str(self.mirror),
            "secondary_network_bin_dir": str(self.bin),
            "secondary_network_conf_dir": str(self.conf),
            "secondary_network_cni_plugins": FILES,
            "secondary_network_cni_plugins_checksum": plugins,
            "secondary_network_multus_checksum": multus,
            "secondary_network_whereabouts_checksum": "sha256:" + hashlib.sha256(b"whereabouts").hexdigest(),
            "secondary_network_rails_network": "",
            "secondary_network_rails_namespace": space,
        }
        hosts: Json = {name: {} for name in ("node", "api", *RAILS)}
        for name in RAILS:
            hosts[name] = {
                "__secondary_network_rdma": {"devices": [rail(name, number) for number in (0, 1)]},
                "__secondary_network_host_state": {
                    "interfaces": [card("rail0"), card("rail1"), card("eth0", "default_route")],
                    "cni": {"plugins": ["loopback"], "configs": []},
                },
            }
        self.inventory = {"all": {"hosts": hosts, "vars": variables}}

    def _archive(self, name: str, *files: str) -> str:
        with tarfile.open(self.mirror / name, "w:gz") as archive:
            for file in files:
                member = tarfile.TarInfo(f"release/{file}")
                member.size = len(file)
                archive.addfile(member, io.BytesIO(file.encode()))
        return "sha256:" + hashlib.sha256((self.mirror / name).read_bytes()).hexdigest()

    def playbook(self, plays: t.Iterable[Json], *arguments: str, **environment: str) -> Run:
        # A role's own variable gives way to nothing less than this.
        record = {"__secondary_network_record": str(self.root / "cni.json")}
        argv = book(self.root, *plays, inventory=self.inventory, variables=record)
        return ansible_playbook(*argv, "--diff", *arguments, cwd=COLLECTION, limit=1200, **environment)

    def run(self, *plays: Json, check: bool = False) -> dict[str, Play]:
        environment = {**AS_A_USER, "ANSIBLE_FORKS": "2", "ANSIBLE_PIPELINING": "1"}
        run = self.playbook(plays, *(["--check"] if check else []), **environment)
        assert run.rc == 0, run.output
        return read(run.output)

    def may(self, account: str, verb: str, resource: str, namespace: str = "") -> bool:
        # kubectl takes pods/status for a pod of that name.
        resource, _slash, part = resource.partition("/")
        argv = ["auth", "can-i", verb, resource, f"--as=system:serviceaccount:{self.space}:{account}"]
        argv += ["-n", namespace or self.space]
        argv += [f"--subresource={part}"] if part else []
        return self.plane.kubectl(*argv, check=False).strip() == "yes"

    def names(self, *kinds: str) -> list[str]:
        return self.plane.kubectl("get", ",".join(kinds), "-n", self.space, "-o", "name").split()

    def labels(self) -> list[str | None]:
        return [self.plane.json("get", "node", name)["metadata"].get("labels", {}).get("schedule") for name in RAILS]


def make_nodes(plane: Cluster) -> None:
    """Make the Node objects of a site's hosts."""
    plane.apply(*(manifest("v1", "Node", name) for name in ("node", *RAILS)))


@pytest.fixture(scope="module")
def plane(own_cluster: Cluster) -> Cluster:
    """A cluster without any of the definitions, with the invented nodes."""
    need_root()
    make_nodes(own_cluster)
    return own_cluster


@pytest.fixture
def site(plane: Cluster, tmp_path: Path) -> Iterator[Site]:
    with plane.namespace() as space:
        plane.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", space, "--timeout=30s")
        yield Site(plane, tmp_path, space)
        plane.kubectl("delete", "clusterrole,clusterrolebinding", "multus", "whereabouts", "--ignore-not-found")
        plane.kubectl("delete", "crd", "--all")
        wait_for(lambda: "cni.cncf.io" not in plane.kubectl("get", "--raw", "/apis"))


def rails() -> Json:
    network = {"secondary_network_rails_network": "10.100.0.0/16"}
    return play("rails", *(include(only=tasks, **network) for tasks in ("plan", "rails")), hosts="gpu-*")


def labels(state: str = "present") -> Json:
    desired = {"node_labels_labels": {"schedule": "topology"}, "node_labels_state": state}
    return play("labels", role("node_labels", **desired), hosts="gpu-*")


def test_the_four_step_drill_and_removal(site: Site) -> None:
    planned = site.run(play("node", include()), rails(), labels(), check=True)
    todo = {"node": [COMPARE, OBJECTS], "rails": [ATTACH], "labels": [LABEL]}
    assert {name: part.changed for name, part in planned.items()} == todo
    assert not site.bin.exists()
    assert site.names("serviceaccounts") == ["serviceaccount/default"]
    assert site.labels() == [None, None]
    assert "2 rails on 2 nodes out of 10.100.0.0/16" in planned["rails"].text

    done = installed_and_repaired(site)
    kubeconfig = site.conf / "multus.d" / "multus.kubeconfig"
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    assert node_of(token) == site.plane.json("get", "node", "node")["metadata"]["uid"]
    assert not any(token in part.text for part in (*planned.values(), *done.values()))

    checked = site.run(
        *(play("node", include()), rails(), labels()),
        play("moved", refused(secondary_network_namespace="default")),
        check=True,
    )
    # In another namespace whereabouts would begin with empty pools. The node is compared before that is refused.
    assert [part.changed for part in checked.values()] == [[], [], [], [COMPARE]]
    assert f"is there already and belongs to secondary-network.{site.space}." in checked["moved"].words

    rights_are_what_is_needed(site, kubeconfig)
    removed(site)


def installed_and_repaired(site: Site) -> dict[str, Play]:
    spoil = {"name": "Spoil", "ansible.builtin.copy": {"dest": str(site.bin / "multus"), "content": "other"}}
    plays = (play("node", include()), rails(), labels())
    done = site.run(
        *plays,
        *({**part, "name": f"{part['name']} again"} for part in plays),
        # A plugin that was changed by hand is replaced, and nothing else is touched.
        play("spoil", {**spoil, "diff": False}),
        play("repair", include()),
    )
    assert {name: part.changed for name, part in done.items()} == {
        "node": [OBJECTS, INSTALL],
        "rails": [ATTACH],
        "labels": [LABEL],
        "node again": [],
        "rails again": [],
        "labels again": [],
        "spoil": ["Spoil"],
        "repair": [INSTALL],
    }
    assert sorted(os.listdir(site.bin)) == ["host-device", "macvlan", "multus", "tuning", "whereabouts"]
    assert (site.bin / "multus").read_bytes() == b"multus"
    multus = json.loads((site.conf / "00-multus.conf").read_text())
    assert multus["delegates"] == [json.loads((site.conf / "10-pods.conflist").read_text())]
    attached = site.plane.json("get", "network-attachment-definitions", "-n", site.space)["items"]
    chains = {item["metadata"]["name"]: json.loads(item["spec"]["config"])["plugins"] for item in attached}
    assert {plugin["type"] for chain in chains.values() for plugin in chain[1:]} == {"tuning"}
    configs = {name: chain[0] for name, chain in chains.items()}
    assert {name: (config["type"], config["device"], config["ipam"]["range"]) for name, config in configs.items()} == {
        "rail0": ("host-device", "rail0", "10.100.0.0/29"),
        "rail1": ("host-device", "rail1", "10.100.0.8/29"),
    }
    assert site.labels() == ["topology", "topology"]
    return done


def removed(site: Site) -> None:
    absent = {"secondary_network_state": "absent"}
    done = site.run(play("node", include(**absent)), labels("restored"), play("again", include(**absent)))
    assert {name: part.changed for name, part in done.items()} == {
        "node": [
            "Remove the rails' attachments from the cluster",
            "Remove plugins and their configuration from the node",
            "Remove accounts, rights and DaemonSets from the cluster",
        ],
        "labels": [LABEL],
        "again": [],
    }
    assert os.listdir(site.bin) == []
    assert [name for name in os.listdir(site.conf) if name.endswith((".conf", ".conflist"))] == ["10-pods.conflist"]
    assert not site.may("multus", "update", "pods/status")
    assert site.labels() == [None, None]
    site.plane.kubectl("get", "crd", "network-attachment-definitions.k8s.cni.cncf.io")


def rights_are_what_is_needed(site: Site, kubeconfig: Path) -> None:
    """With its own kubeconfig Multus may read attachments, and no account may do what it does not need."""
    assert "device" in site.plane.kubectl("get", "net-attach-def", "rail0", "-o", "yaml", kubeconfig=kubeconfig)
    assert site.plane.kubectl("get", "secrets", "-A", kubeconfig=kubeconfig, check=False) == ""
    for account, verb, resource, expected in (
        ("multus", "update", "pods/status", True),
        ("multus", "delete", "pods", False),
        ("multus", "create", "network-attachment-definitions.k8s.cni.cncf.io", False),
        ("whereabouts", "patch", "ippools.whereabouts.cni.cncf.io", True),
        ("whereabouts", "update", "leases.coordination.k8s.io", True),
        ("whereabouts", "delete", "ippools.whereabouts.cni.cncf.io", False),
        ("whereabouts", "list", "pods", False),
    ):
        assert site.may(account, verb, resource) is expected, (account, verb, resource)
    assert not site.may("whereabouts", "patch", "ippools.whereabouts.cni.cncf.io", "default")


# variables, part of the message
REFUSED: list[tuple[Json, str]] = [
    (
        {"secondary_network_whereabouts_checksum": ""},
        "Installing whereabouts: the collection has no digest of this release, and does not accept one from the download "
        "site. Set secondary_network_whereabouts_checksum to sha256: and what `curl -fsSL https://github.com/",
    ),
    (
        {"secondary_network_multus": "thick", "secondary_network_multus_image": "multus:latest"},
        "secondary_network_multus_image is 'multus:latest'",
    ),
    (
        {"secondary_network_source": "manifest"},
        "thin is a program on the nodes, and secondary_network_source is manifest",
    ),
    ({"secondary_network_node_name": "elsewhere"}, "the cluster has no Node elsewhere to bind it to"),
    ({"secondary_network_conf_dir": "/nowhere"}, "/nowhere has no configuration of the cluster's own network yet"),
]


def test_what_is_refused_changes_nothing(site: Site) -> None:
    result = site.run(
        *(play(text, refused(**variables)) for variables, text in REFUSED),
        play("no cluster", include(secondary_network_api_host="")),
    )
    for _variables, text in REFUSED:
        assert text in result[text].words.partition("FAILED! =>")[2]
    assert "the group kubernetes_api has no host" in result["no cluster"].words
    assert [play.changed for play in result.values()] == [[]] * (len(REFUSED) + 1)
    assert not site.bin.exists()
    assert site.names("serviceaccounts") == ["serviceaccount/default"]


def test_what_stands_in_the_way_on_a_node(site: Site) -> None:
    (site.conf / "00-multus.conf").write_text("{}")
    result = site.run(
        play("foreign", refused()),
        play("packages", refused(secondary_network_source="package", secondary_network_multus="none")),
    )
    assert [play.changed for play in result.values()] == [[], []]
    assert "the file exists and was not written by this collection" in result["foreign"].text
    missing = f"{site.bin} has no host-device, macvlan, tuning, whereabouts, and with secondary_network_source=package"
    assert missing in result["packages"].words
    assert (site.conf / "00-multus.conf").read_text() == "{}"
    assert not site.bin.exists()
    assert sorted(os.listdir(site.conf)) == ["00-multus.conf", "10-pods.conflist"]
    assert site.names("serviceaccounts") == ["serviceaccount/default"]


def test_daemon_sets_are_what_the_api_server_takes(site: Site) -> None:
    variables = {
        "secondary_network_source": "manifest",
        "secondary_network_multus": "thick",
        "secondary_network_multus_image": "registry.test/multus" + DIGEST,
        "secondary_network_whereabouts_image": "registry.test/whereabouts" + DIGEST,
        "secondary_network_device_plugin": "sriov",
        "secondary_network_device_plugin_image": "registry.test/sriov" + DIGEST,
        "secondary_network_device_plugin_config": {"resourceList": []},
        "secondary_network_cni_plugins": [],
    }
    result = site.run(play("do", include(**variables)), play("again", include(**variables)))
    assert {name: play.changed for name, play in result.items()} == {"do": [OBJECTS], "again": []}
    sets = [f"daemonset.apps/{name}" for name in ("multus", "rdma-device-plugin", "whereabouts")]
    assert site.names("daemonsets") == sets
