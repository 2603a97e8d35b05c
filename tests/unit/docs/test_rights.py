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
    part = PAGE.split("\n## %s\n" % heading)[1].split("\n## ")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", part, re.M)


def documents(name: str) -> list[Json]:
    return [one for one in yaml.safe_load((COLLECTION / "docs/rbac" / name).read_text())["items"] if one]


def granted(objects: t.Sequence[Json]) -> set[tuple[str, str, str, str]]:
    """What roles give: namespace (all: empty), group, resource and verb."""
    return {
        (one["metadata"].get("namespace", ""), group, resource, verb)
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_module_is_in_one_table() -> None:
    modules = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py"))
    nodes = [name for name in rows("On the nodes") if name in modules]
    assert sorted(nodes + rows("On the controller") + rows("In the cluster")) == modules


def test_every_role_is_in_the_table() -> None:
    roles = sorted(path.name for path in (COLLECTION / "roles").iterdir())
    assert rows("Roles, and manifests for their accounts") == roles


def test_modules_that_say_that_they_need_root_are_told_so() -> None:
    told = dict(re.findall(r"^\| `([a-z_]+)` \| (yes|no|to change|for more) \|", PAGE, re.M))
    assert len(told) > 10
    for name, root in told.items():
        text = (COLLECTION / "plugins/modules" / (name + ".py")).read_text(encoding="utf-8")
        assert ("  - rdmaops.gpu_fabric._attributes.root\n" in text) == (root == "yes"), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_manifest_binds_what_it_makes(path: t.Any) -> None:
    objects = documents(path.name)
    accounts = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    made = {(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")) for one in objects}
    assert len(made) == len(objects)
    for one in objects:
        if one["kind"].endswith("Binding"):
            kind = one["kind"].removesuffix("Binding")
            assert (kind, one["roleRef"]["name"], one["metadata"].get("namespace")) in made
            assert {subject["name"] for subject in one["subjects"]} == accounts
        if one["kind"] in ("Role", "ClusterRole"):
            assert not any("*" in rule[key] for rule in one["rules"] for key in ("verbs", "resources", "apiGroups"))


CHOICES: list[Json] = [
    {},
    {"secondary_network_multus": "thick", "secondary_network_multus_image": "x@sha256:" + "0" * 64},
    {"secondary_network_source": "manifest", "secondary_network_whereabouts_image": "x@sha256:" + "0" * 64},
    {"secondary_network_device_plugin": "shared", "secondary_network_device_plugin_image": "x@sha256:" + "0" * 64},
]


def may_make(held: set[tuple[str, str, str, str]], objects: t.Sequence[Json]) -> None:
    """Module cluster_objects reads, compares by a dry run, applies, and looks for what is to be pruned."""
    for one in objects:
        group, _slash, _version = one["apiVersion"].rpartition("/")
        plural = one["kind"].lower() + "s"
        space = one["metadata"].get("namespace", "")
        for verb in ("get", "create", "patch"):
            assert {(space, group, plural, verb), ("", group, plural, verb)} & held, (plural, verb)
        assert ("", group, plural, "list") in held, plural


def test_the_account_of_monitoring_may_make_the_objects() -> None:
    held = granted(documents("monitoring.yml"))
    objects = values(COLLECTION / "roles/rdma_exporter").value(
        "__rdma_exporter_objects", rdma_exporter_image="x", rdma_exporter_web_config={"basic_auth_users": {"a": "b"}}
    )
    objects += values(COLLECTION / "roles/monitoring").value("__monitoring_objects", groups={})
    assert {"Secret", "DaemonSet", "ServiceMonitor", "PrometheusRule"} <= {one["kind"] for one in objects}
    may_make(held, objects)


@pytest.mark.parametrize("given", CHOICES, ids=lambda given: "-".join(map(str, given)) or "default")
def test_the_account_of_the_network_has_what_it_gives_and_may_make_the_objects(given: Json) -> None:
    held = granted(documents("network.yml"))
    objects = values(COLLECTION / "roles/secondary_network").value("__secondary_network_objects", **given)
    for space, group, resource, verb in granted(objects):
        assert {(space, group, resource, verb), ("", group, resource, verb)} & held, (group, resource, verb)
    may_make(held, objects)
