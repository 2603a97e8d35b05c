# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories that the documentation shows: every variable is a role's, and has a value that the role takes."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.action.experiment_report import validate
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.fabric_tests import FilterModule as FabricTests
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_env import nccl_env
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rails import rails
from ansible_collections.rdmaops.gpu_fabric.plugins.filter.training_job import FilterModule as TrainingJob
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.readiness import CHECKS
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = t.Any

# The lab writes its own.
SITES = sorted(path.parent for path in COLLECTION.glob("inventories/*/hosts.yml") if path.parent.name != "lab")
SPECS: dict[str, Json] = {
    path.parents[1].name: yaml.safe_load(path.read_text())["argument_specs"]
    for path in sorted(COLLECTION.glob("roles/*/meta/argument_specs.yml"))
}
VARIABLES = {name for spec in SPECS.values() for entry in spec.values() for name in entry.get("options") or {}}
# What a play needs that runs a job; an inventory has no job.
GIVEN = {"training_job_name": "resnet"}

# In a process of its own: Ansible's loader of plugins takes over how collections are imported.
VALIDATE = """
import json, sys
from pathlib import Path
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

init_plugin_loader()
specs, given = json.loads(sys.argv[2]), json.loads(sys.argv[3])
loader = DataLoader()
inventory = InventoryManager(loader, [sys.argv[1]])
manager = VariableManager(loader, inventory)
errors, checked = [], []
for host in inventory.get_hosts():
    variables = {**manager.get_vars(host=host), **given}
    templar = Templar(loader, variables)
    for role, options in specs.items():
        names = [name for name in options if name in variables]
        if any(name not in given for name in names):
            validator = ArgumentSpecValidator(options)
            result = validator.validate({name: templar.template(variables[name]) for name in names})
            errors += ["%s, %s: %s" % (host, role, text) for text in result.error_messages]
            checked += names
print(json.dumps([errors, sorted(set(checked))]))
"""
# The groups of an inventory, and the variables of its hosts that are those of roles.
HOSTS = """
import json, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

init_plugin_loader()
names = json.loads(sys.argv[2])
loader = DataLoader()
inventory = InventoryManager(loader, [sys.argv[1]])
manager = VariableManager(loader, inventory)
hosts = {}
for host in inventory.get_hosts():
    variables = manager.get_vars(host=host)
    templar = Templar(loader, variables)
    hosts[host.name] = {name: templar.template(variables[name]) for name in names if name in variables}
groups = {name: [host.name for host in group.get_hosts()] for name, group in inventory.groups.items()}
print(json.dumps([groups, hosts]))
"""


def group_names(group: Json) -> set[str]:
    """The names that a group, its hosts and its children set."""
    names = set(group.get("vars") or {}).union(*((host or {}) for host in (group.get("hosts") or {}).values()))
    return names.union(*map(group_names, (group.get("children") or {}).values()))


def variables(site: Path) -> dict[str, set[str]]:
    """The names that an inventory sets, by file."""
    files = {path: yaml.safe_load(path.read_text()) for path in sorted(site.rglob("*.yml"))}
    return {
        path.name: set(document) if path.parent.name == "group_vars" else group_names({"children": document})
        for path, document in files.items()
    }


@pytest.mark.parametrize("site", SITES, ids=lambda path: path.name)
def test_every_variable_is_one_that_a_role_has(site: Path) -> None:
    for name, names in variables(site).items():
        unknown = {name for name in names if not name.startswith("ansible_") and name != "rails"} - VARIABLES
        assert not unknown, f"{site.name}/{name}"


def validated(site: Path) -> tuple[list[str], set[str]]:
    """What the roles have against the values of a site, and the names of those."""
    specs = {role: spec["main"].get("options") or {} for role, spec in SPECS.items()}
    errors, checked = run(VALIDATE, str(site), json.dumps(specs), json.dumps(GIVEN))
    return errors, set(checked)


def run(program: str, *arguments: str) -> Json:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    argv = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def hosts_of(site: str) -> tuple[dict[str, list[str]], dict[str, Json]]:
    """The groups of an inventory, and the roles' variables of each host."""
    groups, hosts = run(HOSTS, str(COLLECTION / "inventories" / site), json.dumps(sorted(VARIABLES)))
    return groups, hosts


@pytest.mark.parametrize("site", SITES, ids=lambda path: path.name)
def test_roles_take_the_values(site: Path) -> None:
    errors, checked = validated(site)
    assert not errors
    # All of them were looked at.
    expected = {name for names in variables(site).values() for name in names}
    assert checked - set(GIVEN) == {name for name in expected if not name.startswith("ansible_") and name != "rails"}


def test_a_wrong_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "hosts.yml").write_text("all: {children: {gpu_nodes: {hosts: {gpu-01: {}}}}}\n")
    (tmp_path / "group_vars" / "gpu_nodes.yml").write_text("gpu_node_netns_mode: \"{{ 'pri' ~ 'vate' }}\"\n")
    errors, checked = validated(tmp_path)
    assert checked == {"gpu_node_netns_mode"}
    assert errors == ["gpu-01, gpu_node: value of gpu_node_netns_mode must be one of: exclusive, shared, got: private"]


def mappings(value: Json) -> t.Iterator[Json]:
    """Yield every dictionary in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from mappings(item)


@pytest.mark.parametrize("site", SITES, ids=lambda path: path.name)
def test_this_machine_is_used_as_it_is(site: Path) -> None:
    """With the interpreter of Ansible, which has its libraries, as whoever runs it, and with ~/.kube/config."""
    for path in sorted(site.rglob("*.yml")):
        for mapping in mappings(yaml.safe_load(path.read_text())):
            if mapping.get("ansible_connection") == "local":
                assert mapping["ansible_python_interpreter"] == "{{ ansible_playbook_python }}", path
            assert not mapping.get("kubernetes_api_become"), path
            kubeconfigs = {value for name, value in mapping.items() if name.endswith("_kubeconfig")}
            assert kubeconfigs <= {"", "{{ kubernetes_kubeconfig_dest }}"}, path
        if path.stem == "kubernetes_api":
            assert "ansible_become" not in yaml.safe_load(path.read_text()), path


@pytest.mark.parametrize("name", ["roce_nvidia", "roce_e810", "infiniband"])
def test_the_cluster_is_switched_on_by_removing_comment_signs(name: str) -> None:
    text = (COLLECTION / "inventories" / name / "hosts.yml").read_text()
    assert "kubernetes_api" not in yaml.safe_load(text)["all"]["children"]
    before, _line, after = text.partition("uncomment this:\n")
    group = yaml.safe_load(before + "\n" + after.replace("# ", ""))["all"]["children"]["kubernetes_api"]
    assert group == {
        "hosts": {
            "localhost": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        }
    }


# --- what the collection makes of the hardware that an inventory is for ----------------------------------------------


def seen(name: str, number: int, host: int) -> Json:
    """What rdma_info sees of one card of a site."""
    kinds = {
        "infiniband": ("mlx5_%d", "ib", "InfiniBand", None),
        "roce_nvidia": ("mlx5_%d", "roce", "Ethernet", ("ens1f0np0", "ens2f0np0")),
        "roce_e810": ("irdma%d", "roce", "Ethernet", ("ens1f0", "ens1f1")),
        "erdma": ("iwp%ds0", "iw", "Ethernet", ("eth1", "eth2")),
    }
    pattern, protocol, layer, netdevs = kinds[name]
    netdev = netdevs[number] if netdevs else None
    gid = {"index": 0, "gid": "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb", "type": "IB", "netdev": netdev, "ipv4": None}
    if protocol == "roce":
        network, last = ("198.51.100.%d", "203.0.113.%d")[number], 11 + host
        parts = "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(map(int, (network % last).split(".")))
        gid = {"index": 3, "gid": parts, "type": "RoCE v2", "netdev": netdev, "ipv4": network % last}
    port = {"port": 1, "state": "ACTIVE", "link_layer": layer, "netdev": netdev, "rate_gbps": 200.0, "gids": [gid]}
    place = {"pci_address": "0000:0%d:00.0" % (number + 1), "node_guid": "%016x" % (number + 1)}
    return {"name": pattern % number, "protocol": protocol, **place, "ports": [port]}


def group_variables(name: str, group: str) -> Json:
    return yaml.safe_load((COLLECTION / "inventories" / name / "group_vars" / f"{group}.yml").read_text())


# How many cards a node of a site has, and which of them NCCL uses.
CARDS = {"infiniband": 3, "roce_nvidia": 2, "roce_e810": 2, "erdma": 1}
HCAS = {
    "infiniband": "=mlx5_0:1,mlx5_1:1",
    "roce_nvidia": "=mlx5_0:1,mlx5_1:1",
    "roce_e810": "=irdma0:1,irdma1:1",
    "erdma": "=iwp0s0:1",
}


@pytest.mark.parametrize(("name", "number"), CARDS.items())
def test_all_tests_that_are_asked_for_can_be_made(name: str, number: int) -> None:
    inventory = yaml.safe_load((COLLECTION / "inventories" / name / "hosts.yml").read_text())
    hosts = inventory["all"]["children"]["gpu_nodes"]["hosts"]
    group = group_variables(name, "gpu_nodes")
    desired = group["fabric_check_tests"]
    infos = {host: {"devices": [seen(name, card, n) for card in range(number)]} for n, host in enumerate(hosts)}
    nodes = {}
    for host, given in hosts.items():
        result = rails(infos[host], plan=given["rails"], exclude=group.get("fabric_check_exclude", []))
        assert [rail["state"] for rail in result] == ["ACTIVE"] * len(given["rails"])
        free = {"reachable": True, "problems": [], "busy": []}
        nodes[host] = {**free, "rails": result, "address": given["ansible_host"]}
    pairs = [{"client": "gpu-01", "server": "gpu-02"}]
    tests = FabricTests().filters()["fabric_tests"](nodes, pairs, "gpu-01", "client", desired)
    made = {(test["rail"], test["test"]) for test in tests}
    rail_numbers = range(len(hosts["gpu-01"]["rails"]))
    assert made == {(rail, test) for rail in rail_numbers for test in desired if test not in CHECKS}
    # What is made goes to the addresses of the rails; InfiniBand has none here, and so not these tests.
    more = FabricTests().filters()["fabric_tests"](nodes, pairs, "gpu-01", "client", ["rping", "ib_write_bw_cm"])
    if name == "infiniband":
        assert more == []
    else:
        assert {test["address"] for test in more} == {rail["ipv4"] for rail in nodes["gpu-02"]["rails"]}


@pytest.mark.parametrize(("name", "hcas"), HCAS.items())
def test_nccl_is_told_the_rails_and_nothing_else(name: str, hcas: str) -> None:
    info = {"devices": [seen(name, card, 0) for card in range(CARDS[name])]}
    result = nccl_env(info, **group_variables(name, "all")["training_job_nccl_env_options"])
    assert result["NCCL_IB_HCA"] == hcas
    assert ("NCCL_IB_ROCE_VERSION_NUM" in result) == name.startswith("roce")


@pytest.mark.parametrize("name", CARDS)
def test_a_job_can_be_made(name: str) -> None:
    group = group_variables(name, "all")
    given = {key: value for key, value in group.items() if key.startswith("training_job_")}
    image = "registry.example.org/train@sha256:" + "0" * 64
    given.update(training_job_name="first", training_job_image=image, training_job_command=["python", "train.py"])
    options = values(COLLECTION / "roles/training_job").value("__training_job_options", **given)
    objects = TrainingJob().filters()["training_job"](options)
    kinds = [manifest["kind"] for manifest in objects]
    assert ("MPIJob" in kinds) == (name == "erdma")
    text = json.dumps(objects)
    expected = {"infiniband": "rdma/hca_shared", "erdma": "aliyun/erdma"}
    assert expected.get(name, "default/rail0") in text


@pytest.mark.parametrize("name", ["infiniband", "roce_nvidia", "roce_e810"])
def test_the_network_is_one_that_the_role_takes(name: str) -> None:
    group = group_variables(name, "gpu_nodes")
    role = values(COLLECTION / "roles/secondary_network")
    given = {key: value for key, value in group.items() if key.startswith("secondary_network_")}
    # What roles/secondary_network/tasks/check.yml refuses.
    assert role.value("__secondary_network_unverified", **given) == []
    assert role.value("__secondary_network_unpinned_images", **given) == []
    manifests = role.value("__secondary_network_objects", **given)
    objects = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    sources = [source["name"] for source in role.value("__secondary_network_sources", **given)]
    if name == "infiniband":
        assert objects == {("ConfigMap", "rdma-device-plugin"), ("DaemonSet", "rdma-device-plugin")}
        assert sources == []
    else:
        assert {("ServiceAccount", "multus"), ("ServiceAccount", "whereabouts")} <= objects
        assert sources == ["cni-plugins", "multus", "whereabouts"]
    refused = {"secondary_network_device_plugin": "shared", "secondary_network_device_plugin_image": "plugin:latest"}
    assert role.value("__secondary_network_unpinned_images", **refused) != []


# --- the experiments -------------------------------------------------------------------------------------------------

# Sites with a cluster, whose host with the kubeconfig is this machine.
CLOUDS = ("erdma", "runai", "ack_topology")
# The options of mpirun in the guide of ack_topology, as they are in a job.
ACK = [
    '"--bind-to", "none", "--map-by", "slot", "-x", "LD_LIBRARY_PATH", "-x", "PATH"',
    *(
        f'{{"name": "OMPI_MCA_{name}", "value": "{value}"}}'
        for name, value in {
            "pml": "ob1",
            "btl": "^openib",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
            "orte_keep_fqdn_hostnames": "t",
        }.items()
    ),
]
# What a document's command requests, and where it is in the job.
JOBS: list[tuple[str, str, str, list[str]]] = [
    ("roce_e810", "all-reduce", "MPIJob", ["all_reduce_perf", "10GB", '"OMPI_MCA_pml", "value": "ob1"']),
    ("roce_e810", "cifar10", "Pod", ["--epochs=200", "--learning-rate=0.01", "--pre-trained"]),
    ("infiniband", "mnist", "Pod", ["--data-set=mnist", "--epochs=3", "--batch-size=128"]),
    ("erdma", "synthetic", "MPIJob",
     ['"aliyun/erdma": "1"', '"hostNetwork": true', '"ppr:1:node", "-np", "2"', '"16Gi"', "TRACE",
      *(f'"OMPI_MCA_{part}_tcp_if_include", "value": "bond0"' for part in ("btl", "oob"))]),
    ("runai", "distributed-job-readme", "PyTorchJob",
     ['"k8s.v1.cni.cncf.io/networks": "kube-system/roce"', '"rdma/rdma": "1"', '"nvidia.com/gpu": "4"']),
    ("ack_topology", "vgg16", "MPIJob", [*ACK, "--model=vgg16", '"-np", "4"', '"replicas": 4']),
    ("ack_topology", "vgg16-topology", "MPIJob", [*ACK, "--model=vgg16", '"gpu-topology": "vgg16-topology"', "min-available"]),
    ("ack_topology", "resnet50", "MPIJob", [*ACK, "--model=resnet50"]),
    ("ack_topology", "resnet50-topology", "MPIJob", [*ACK, "--model=resnet50", '"gpu-topology": "resnet50-topology"', "min-available"]),
]  # fmt: skip


def job_value(variable: str, name: str, given: Json) -> Json:
    """A variable of role training_job for an experiment. Of an image with a tag, the nodes know the digest."""
    role = values(COLLECTION / "roles/training_job")
    given = {**given, "training_job_name": name, "training_job_command": given["experiment_command"]}
    image = role.value("training_job_image", **given)
    digest = {} if "@" in image else {"reference": image.rpartition(":")[0] + "@sha256:" + "0" * 64}
    return role.value(variable, __training_job_node_image=digest, **given)


@pytest.mark.parametrize("site", sorted({row[0] for row in JOBS}))
def test_experiments_run_what_the_document_runs(site: str) -> None:
    groups, hosts = hosts_of(site)
    # The plays on the cluster use the first host of this group. A cloud always has a cluster; elsewhere it is switched off.
    assert groups.get("kubernetes_api", []) == (["localhost"] if site in CLOUDS else [])
    jobs = {name: hosts[name] for name in groups["experiments"] if hosts[name].get("experiment_kind") != "fabric"}
    assert set(jobs) == {row[1] for row in JOBS if row[0] == site}
    for _site, name, kind, texts in (row for row in JOBS if row[0] == site):
        options = job_value("__training_job_options", name, jobs[name])
        objects = TrainingJob().filters()["training_job"](options)
        assert kind in [manifest["kind"] for manifest in objects]
        text = json.dumps(objects)
        assert [part for part in texts if part not in text] == [], (name, text)


@pytest.mark.parametrize("site", sorted({row[0] for row in JOBS}))
def test_documents_are_ones_that_the_report_takes(site: str) -> None:
    groups, hosts = hosts_of(site)
    for name in groups["experiments"]:
        document = hosts[name].get("experiment_document")
        document = document and {"numbers": {}, "details": {}, **document}
        validate({"name": name, "job": {}, "fabric": None, "document": document, "beside": []})


# What the documents measured, by experiment.
FIGURES = {
    "roce_e810": {
        "bandwidth": {"bandwidth_cm": 23.14},
        "all-reduce": {"busbw": 2.80687},
        "cifar10": {"seconds": 897, "first_accuracy": 0.8046, "accuracy": 0.856},
    },
    "ack_topology": {
        "vgg16": {"images_per_second_per_device": 108.8, "images_per_second": 435.2},
        "vgg16-topology": {"images_per_second_per_device": 205.1, "images_per_second": 820.5},
        "resnet50": {"images_per_second_per_device": 313.0, "images_per_second": 1251.8},
        "resnet50-topology": {"images_per_second_per_device": 330.5, "images_per_second": 1321.9},
    },
}


@pytest.mark.parametrize("site", sorted({row[0] for row in JOBS}))
def test_figures_are_those_of_the_documents(site: str) -> None:
    groups, hosts = hosts_of(site)
    documents = {name: hosts[name].get("experiment_document") or {} for name in groups["experiments"]}
    figures = {name: document["numbers"] for name, document in documents.items() if document.get("numbers")}
    assert figures == FIGURES.get(site, {})
    for name, document in documents.items():
        samples = document.get("samples")
        if samples:
            mean = document["numbers"]["images_per_second_per_device"]
            assert (len(samples), statistics.fmean(samples)) == (10, pytest.approx(mean, abs=0.051)), name


def test_bandwidth_is_measured_as_in_the_document() -> None:
    """`ib_write_bw -R -D60` of roce_e810."""
    for host in hosts_of("roce_e810")[0]["gpu_nodes"]:
        given = hosts_of("roce_e810")[1][host]
        assert given["fabric_check_seconds"] == 60
        assert "ib_write_bw_cm" in given["fabric_check_tests"]
