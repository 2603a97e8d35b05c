# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose objects are changed and removed, over an API server in memory; the real one is in tests/integration/cluster."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import OWNER, ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.manifests import ObjectsError, show
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.object_set import manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of

Json = t.Any


def config_map(name: str, owner: str | None = None, namespace: str = "default") -> Json:
    labels = {OWNER: owner} if owner else {}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}


def namespace(name: str, owner: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {OWNER: owner}}}


class Server:
    """Objects by their paths; ``managed`` says that another manager has set a field."""

    def __init__(self, *objects: Json, managed: bool = False) -> None:
        self.managed = managed
        self.objects: dict[str, Json] = {}
        self.claims: list[Json] = []
        self.written: list[str] = []
        for body in objects:
            meta = body["metadata"]
            place = "/api/v1/namespaces/" + (f"{meta['namespace']}/configmaps/" if "namespace" in meta else "")
            self.objects[place + meta["name"]] = body

    def resources(self, api_version: str) -> Json:
        return [
            {"kind": "ConfigMap", "name": "configmaps", "namespaced": True},
            {"kind": "Namespace", "name": "namespaces", "namespaced": False},
        ]

    def get(self, path: str, doing: str) -> Json:
        return copy.deepcopy(self.objects.get(path))

    def items(self, path: str, doing: str, query: Json = None) -> Json:
        if query is None:
            assert path == "/apis/resource.k8s.io/v1/resourceclaims"
            return self.claims
        key, owner = query["labelSelector"].split("=")
        plural = path.split("/")[-1]
        bodies = [
            body
            for where, body in self.objects.items()
            if where.rpartition("/")[0] == path or ("/namespaces/" not in path and where.split("/")[-2] == plural)
        ]
        return copy.deepcopy([body for body in bodies if body["metadata"]["labels"].get(key) == owner])

    def apply(self, path: str, body: Json, doing: str, *, force: bool, dry_run: bool, **more: Json) -> Json:
        if self.managed and not force:
            raise ApiError(f"{doing}: conflict with helm", 409, "Conflict")
        if not dry_run:
            self.written.append(f"apply {body['metadata']['name']}")
            self.objects[path] = copy.deepcopy(body)
        return body

    def delete(self, path: str, doing: str, *, uid: str = "") -> None:
        self.written.append(f"delete {path.split('/')[-1]}")
        del self.objects[path]


def run(server: Server, *objects: Json, check: bool = False, **more: Json) -> Json:
    params = options_of("cluster_objects", objects=list(objects), owner="us", wait_timeout=1, **more)
    return manage(params, check, t.cast("t.Any", server))


@pytest.mark.parametrize(("owner", "words"), [("them", "belongs to them"), (None, "was not made by this collection")])
def test_an_object_of_others_is_taken_over_with_consent_only(owner: str | None, words: str) -> None:
    server = Server(config_map("second", owner))
    wanted = (config_map("first"), config_map("second"))
    for check in (True, False):
        with pytest.raises(
            ObjectsError, match=rf"ConfigMap default/second: it is there already and {words}\. Set adopt"
        ):
            run(server, *wanted, check=check)
    assert server.written == []
    run(server, *wanted, adopt=True)
    assert server.written == ["apply first", "apply second"]


def test_fields_of_another_manager_are_set_with_consent_only() -> None:
    server = Server(config_map("first", "us"), managed=True)
    for check in (True, False):
        with pytest.raises(ObjectsError, match="or set force_conflicts"):
            run(server, {**config_map("first"), "data": {"a": "2"}}, check=check)
    assert server.written == []
    run(server, {**config_map("first"), "data": {"a": "2"}}, force_conflicts=True)
    assert server.written == ["apply first"]


def test_what_is_not_wanted_goes_with_consent_only() -> None:
    there = [config_map("first", "us"), config_map("second", "us"), config_map("third", "them"), config_map("fourth")]
    server = Server(*there)
    assert run(server, config_map("first"))["changed"] is False
    assert run(server, config_map("first"), prune=True)["actions"] == ["Remove ConfigMap default/second"]
    assert server.written == ["delete second"]


def claim(name: str, driver: str | None) -> Json:
    results = [{"driver": driver}] if driver else []
    status = {"allocation": {"devices": {"results": results}}} if driver else {}
    return {"metadata": {"namespace": "ml", "name": name}, "status": status}


@pytest.mark.parametrize("options", [{"prune": True}, {"state": "absent"}])
def test_a_driver_whose_devices_claims_have_is_not_removed(options: Json) -> None:
    driver = config_map("dranet", "us")
    driver["metadata"]["labels"]["rdmaops.gpu-fabric/dra-driver"] = "dra.net"
    server = Server(driver, config_map("other", "us"))
    server.claims = [claim("one", "dra.net"), claim("two", "gpu.nvidia.com"), claim("three", None)]
    wanted = [driver] if options.get("state") else [config_map("other")]
    for check in (True, False):
        with pytest.raises(ObjectsError) as caught:
            run(server, *wanted, check=check, **options)
        assert str(caught.value) == (
            "Removing ConfigMap default/dranet: 1 claims have devices of the driver dra.net, and their pods cannot end "
            "without it: ml/one. Delete these pods first. Nothing was removed"
        )
    assert server.written == []
    server.claims = server.claims[1:]
    assert run(server, *wanted, **options)["actions"] == ["Remove ConfigMap default/dranet"]
    assert server.written == ["delete dranet"]


def test_what_goes_is_looked_for_in_the_namespaces_of_the_set() -> None:
    """Of two installations with the same owner, none removes what the other has in its own namespace."""
    places = ("default", "work", "named", "site-b")
    server = Server(*(config_map("old", "us", place) for place in places))
    wanted = config_map("new", namespace="work")
    assert run(server, wanted, prune=True, prune_namespaces=["named"])["actions"] == [
        "Make ConfigMap work/new",
        "Remove ConfigMap default/old",
        "Remove ConfigMap named/old",
        "Remove ConfigMap work/old",
    ]
    left = sorted(f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in server.objects.values())
    assert left == ["site-b/old", "work/new"]


def test_absent_leaves_objects_of_others() -> None:
    server = Server(config_map("first", "us"), config_map("second", "them"))
    result = run(server, config_map("first"), config_map("second"), state="absent")
    assert result["kept"] == ["ConfigMap default/second: it is not this owner's"]
    assert server.written == ["delete first"]


@pytest.mark.parametrize("way", ["absent", "prune"])
def test_a_namespace_goes_with_consent_only(way: str) -> None:
    wanted, options = (), {"prune": True, "prune_kinds": ["v1/Namespace"]}
    if way == "absent":
        wanted, options = (namespace("work", "us"),), {"state": "absent"}
    server = Server(namespace("work", "us"))
    result = run(server, *wanted, **options)
    assert result["kept"] == ["Namespace work: what is in it would go too; consent by remove_definitions"]
    assert server.written == []
    run(server, *wanted, **options, remove_definitions=True)
    assert server.written == ["delete work"]


NOTE = "kubectl.kubernetes.io/last-applied-configuration"


def test_what_kubectl_apply_notes_of_a_secret_is_not_shown() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {"a": "b", NOTE: "hunter2"}},
        "data": {"x": "hunter2"},
    }
    given = copy.deepcopy(secret)
    shown = json.loads(show(secret))
    assert shown["metadata"]["annotations"] == {"a": "b", NOTE: "(hidden)"}
    assert shown["data"] == {"x": "(hidden)"}
    assert secret == given
    assert "hunter2" in show({**secret, "kind": "ConfigMap"})
    assert json.loads(show({"kind": "Secret", "metadata": {"annotations": None}})) == {
        "kind": "Secret",
        "metadata": {"annotations": None},
    }
