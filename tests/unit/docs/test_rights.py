# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/rights.md has every module and every role, and docs/rbac is what its roles need."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

Json = dict[str, t.Any]
PAGE = (COLLECTION / "docs/rights.md").read_text(encoding="utf-8")
FILES = sorted((COLLECTION / "docs/rbac").glob("*.yml"))


def rows(heading: str) -> list[str]:
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", part, re.M)


def documents(name: str) -> list[Json]:
    return [item for item in yaml.safe_load((COLLECTION / "docs/rbac" / name).read_text())["items"] if item]


class Right(t.NamedTuple):
    """A namespace (all: empty), a group, a resource, a verb and a name (all: empty)."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


def granted(objects: t.Sequence[Json]) -> set[Right]:
    """What roles give."""
    return {
        Right(item["metadata"].get("namespace", ""), group, resource, verb, name)
        for item in objects
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def holds(held: set[Right], right: Right) -> bool:
    """Whether a right is given, be it for all namespaces or names."""
    wider = ({"namespace": space, "name": name} for space in ("", right.namespace) for name in ("", right.name))
    return any(right._replace(**change) in held for change in wider)


def test_every_module_is_in_one_table() -> None:
    modules = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py"))
    nodes = [name for name in rows("On the nodes") if name in modules]
    assert sorted(nodes + rows("On the controller") + rows("In the cluster")) == modules


def test_every_role_is_in_the_table() -> None:
    roles = sorted(path.name for path in (COLLECTION / "roles").iterdir())
    assert rows("Roles, and manifests for their accounts") == roles


def test_modules_that_say_that_they_need_root_are_told_so() -> None:
    message = dict(re.findall(r"^\| `([a-z_]+)` \| (yes|no|to change|for more) \|", PAGE, re.M))
    assert len(message) > 10
    for name, root in message.items():
        text = (COLLECTION / "plugins/modules" / (name + ".py")).read_text(encoding="utf-8")
        assert ("  - rdmaops.gpu_fabric._attributes.root\n" in text) == (root == "yes"), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_manifest_binds_what_it_makes(path: t.Any) -> None:
    objects = documents(path.name)
    accounts = {item["metadata"]["name"] for item in objects if item["kind"] == "ServiceAccount"}
    created = {(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")) for item in objects}
    assert len(created) == len(objects)
    for item in objects:
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            kind = item["kind"].removesuffix("Binding")
            assert (kind, item["roleRef"]["name"], item["metadata"].get("namespace")) in created
            assert {subject["name"] for subject in item["subjects"]} == accounts
        if item["kind"] in ("Role", "ClusterRole"):
            assert not any("*" in rule[key] for rule in item["rules"] for key in ("verbs", "resources", "apiGroups"))


# What is not bound to names beside create, list and watch, which cannot be, and why.
NO_NAMES = {
    ("condition", "nodes/status"): "any node may be the one; the manifest says what it amounts to",
    ("drift_report", "configmaps"): "named after runs; nothing else is in that namespace",
    ("gpu_info", "pods/exec"): "of the operator's DaemonSets, named after nodes; the page says what it amounts to",
    ("maintenance", "nodes"): "any node may be the one",
    ("measure", "pods"): "named by the site, in the namespace of the measurement",
    ("measure", "pods/exec"): "likewise; the page says what it amounts to",
    ("network", "nodes"): "labels of any node",
    ("network", "pods"): "of Multus: any pod may have attachments",
    ("network", "pods/status"): "of Multus; multus.yml binds it to the node of a token",
    ("network", "events"): "of Multus",
    ("network", "resourceclaims"): "of Multus: any pod may have claims",
    ("network", "network-attachment-definitions"): "named by the site",
    ("network", "ippools"): "named after ranges, in a namespace that is whereabouts' own",
    ("network", "overlappingrangeipreservations"): "named after addresses, likewise",
    ("network", "nodeslicepools"): "named after ranges, likewise",
    ("network", "leases"): "named after pools, likewise",
    ("network_daemonsets", "nodes"): "of whereabouts' control loop",
    ("network_daemonsets", "ippools"): "of whereabouts' control loop",
    ("network_daemonsets", "resourceslices"): "of dranet: named after nodes",
    ("network_daemonsets", "resourceclaims/status"): "of dranet: any pod may have claims",
    ("network_daemonsets", "resourceclaimtemplates"): "named after rails",
    **{
        ("training", resource): "named after jobs, in their namespace"
        for resource in (
            *("pods", "pods/log", "services", "configmaps", "secrets", "network-attachment-definitions"),
            *("mpijobs", "pytorchjobs", "jobs", "podgroups", "jobsets", "trainjobs"),
        )
    },
    **{
        ("training", resource): "named by the site"
        for resource in ("clusterqueues", "localqueues", "clustertrainingruntimes", "trainingruntimes")
    },
    ("training", "persistentvolumeclaims"): "named by the site, in the namespace of its jobs",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_right_is_bound_to_names_or_there_is_a_reason(path: t.Any) -> None:
    wide = {
        (path.stem, right.resource)
        for right in granted(documents(path.name))
        if not right.name and right.verb not in ("create", "list", "watch")
    }
    assert wide == {key for key in NO_NAMES if key[0] == path.stem}


def test_no_account_lists_secrets_or_has_a_right_in_kube_system() -> None:
    for path in FILES:
        for right in granted(documents(path.name)):
            assert right.namespace != "kube-system", (path.stem, right)
            assert (right.resource, right.verb) not in {("secrets", "list"), ("secrets", "watch")}, (path.stem, right)
            assert right.resource != "secrets" or right.namespace, (path.stem, right)


CHOICES: list[Json] = [
    {},
    {"secondary_network_multus": "thick", "secondary_network_multus_image": "x@sha256:" + "0" * 64},
    {"secondary_network_source": "manifest", "secondary_network_whereabouts_image": "x@sha256:" + "0" * 64},
    {"secondary_network_rdma_attachment": "dra", "secondary_network_dranet_image": "x@sha256:" + "0" * 64},
    {"secondary_network_device_plugin": "shared", "secondary_network_device_plugin_image": "x@sha256:" + "0" * 64},
]


def may_make(held: set[Right], objects: t.Sequence[Json], prunes: bool = True) -> None:
    """Module cluster_objects reads, compares by a dry run, applies, removes, and looks for what is to be pruned."""
    for item in objects:
        group, _slash, _version = item["apiVersion"].rpartition("/")
        plural = item["kind"].lower() + ("es" if item["kind"].endswith("s") else "s")
        space, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        removes = ["delete"] if item["kind"] != "CustomResourceDefinition" else []
        for verb in ("get", "patch", *removes):
            assert holds(held, Right(space, group, plural, verb, name)), (plural, verb, name)
        for verb in ("create", *(["list"] if prunes else [])):
            assert holds(held, Right(space, group, plural, verb)), (plural, verb)


def test_the_account_of_the_exporter_may_make_the_objects() -> None:
    objects = values(COLLECTION / "roles/rdma_exporter").value(
        "__rdma_exporter_objects", rdma_exporter_image="x", rdma_exporter_web_config={"basic_auth_users": {"a": "b"}}
    )
    assert {"Secret", "DaemonSet"} <= {item["kind"] for item in objects}
    may_make(granted(documents("exporter.yml")), objects, prunes=False)


def test_the_account_of_monitoring_may_make_the_objects() -> None:
    objects = values(COLLECTION / "roles/monitoring").value("__monitoring_objects", groups={})
    objects += values(COLLECTION / "roles/monitoring").value("__monitoring_config_maps")
    assert {"ConfigMap", "Service", "ServiceMonitor", "PrometheusRule"} == {item["kind"] for item in objects}
    may_make(granted(documents("monitoring.yml")), objects)


@pytest.mark.parametrize("options", CHOICES, ids=lambda options: "-".join(map(str, options)) or "default")
def test_the_account_of_the_network_has_what_it_gives_and_may_make_the_objects(options: Json) -> None:
    held = granted(documents("network.yml") + (documents("network_daemonsets.yml") if options else []))
    objects = values(COLLECTION / "roles/secondary_network").value("__secondary_network_objects", **options)
    for right in granted(objects):
        assert holds(held, right), right
    may_make(held, objects)
