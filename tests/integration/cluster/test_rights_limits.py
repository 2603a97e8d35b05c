# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each account can not do, on a real API server; docs/rights.md has the table that this prints.

Every cell is made of real requests, writes as dry runs of the server, which authorizes and admits them like any other. The
administrator sends them too: what even he is refused would say nothing.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError, Client, path
from ansible_collections.rdmaops.gpu_fabric.plugins.modules.service_account_token import ask
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import client, manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

Json = t.Any
RBAC = "rbac.authorization.k8s.io/v1"
ADMIN = "administrator"
METHODS = {"get": "GET", "list": "GET", "patch": "PATCH", "create": "POST", "update": "PUT", "delete": "DELETE"}
FIRST, SECOND = "limits-1", "limits-2"
# Pods that are root on a node are refused to everybody in rdmaops-reports, by its level of Pod Security.
SPACES = ("rdmaops-system", "rdmaops-network", "rdmaops-reports", "gpu-operator", "ml", "default")


class Attempt(t.NamedTuple):
    """One request; a write is a dry run."""

    verb: str
    api: str
    plural: str
    namespace: str | None
    name: str | None = None
    body: Json = None
    part: str | None = None

    def send(self, client: Client) -> bool:
        """Whether the API server would do it. What comes after authorization and admission is no refusal."""
        method = METHODS[self.verb]
        at = [self.name] if self.name and (self.verb != "create" or self.part) else []
        where = path(self.api, self.plural, self.namespace, *at, *([self.part] if self.part else []))
        writes = method != "GET" and self.part is None
        query = {"dryRun": "All"} if writes else {"command": "id"} if self.part == "exec" else {}
        content = "application/merge-patch+json" if self.verb == "patch" else "application/json"
        try:
            client.request(method, where, str(self), query=query, body=self.body, content_type=content)
        except ApiError as exc:
            if exc.status == 0:
                raise
            return exc.status != 403
        return True

    def allowed(self, client: Client) -> bool:
        """What a SelfSubjectAccessReview says."""
        group = self.api.rpartition("/")[0]
        asked = {"verb": self.verb, "group": group, "resource": self.plural, "subresource": self.part}
        asked |= {"namespace": self.namespace, "name": None if self.verb == "create" and not self.part else self.name}
        api, spec = "authorization.k8s.io/v1", {"resourceAttributes": {key: asked[key] for key in asked if asked[key]}}
        body = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": spec}
        answer = client.create(path(api, "selfsubjectaccessreviews"), body, "Asking")
        return bool(answer["status"]["allowed"])


def changes(
    api: str, kind: str, plural: str, name: str, namespace: str | None = None, **content: Json
) -> list[Attempt]:
    """Return every way to change an object."""
    at = (api, plural, namespace, name)
    whole = manifest(api, kind, name, namespace, **content)
    return [Attempt("patch", *at, content), Attempt("update", *at, whole), Attempt("delete", *at)]


def rooted(name: str, namespace: str, kind: str) -> Json:
    """Return pods that are root on their node."""
    container = {"name": "c", "image": "none", "securityContext": {"privileged": True}}
    spec = {"hostPID": True, "containers": [container], "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}
    if kind == "Pod":
        return manifest("v1", kind, name, namespace, spec=spec)
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return manifest("apps/v1", kind, name, namespace, spec={"selector": {"matchLabels": labels}, "template": template})


THINGS = {
    "group": "example.org",
    "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"},
    "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ],
}
READS_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
CLUSTER_ADMIN = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
OTHERS = {**CLUSTER_ADMIN, "name": "others"}
ANYONE = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]
TOKEN = manifest("authentication.k8s.io/v1", "TokenRequest", "", spec={"expirationSeconds": 600})

ATTEMPTS: dict[str, list[Attempt]] = {
    "read a Secret of others": [
        Attempt("list", "v1", "secrets", None),
        *(Attempt("list", "v1", "secrets", space) for space in ("kube-system", *SPACES)),
        *(Attempt("get", "v1", "secrets", space, "others") for space in ("kube-system", "rdmaops-system", "default")),
    ],
    "make a DaemonSet in kube-system": [
        Attempt("create", "apps/v1", "daemonsets", "kube-system", "d", rooted("d", "kube-system", "DaemonSet")),
        Attempt("create", "v1", "pods", "kube-system", "p", rooted("p", "kube-system", "Pod")),
    ],
    "change a ClusterRole, or bind one": [
        *changes(RBAC, "ClusterRole", "clusterroles", "others", rules=[READS_SECRETS]),
        Attempt("patch", RBAC, "clusterroles", None, "multus", {"rules": [READS_SECRETS]}),
        Attempt("create", RBAC, "clusterroles", None, "x", manifest(RBAC, "ClusterRole", "x", rules=[READS_SECRETS])),
        *changes(RBAC, "ClusterRoleBinding", "clusterrolebindings", "others", roleRef=OTHERS, subjects=ANYONE),
        Attempt(
            *("create", RBAC, "clusterrolebindings", None, "x"),
            manifest(RBAC, "ClusterRoleBinding", "x", roleRef=CLUSTER_ADMIN, subjects=ANYONE),
        ),
        Attempt(
            *("create", RBAC, "rolebindings", "rdmaops-network", "x"),
            manifest(RBAC, "RoleBinding", "x", "rdmaops-network", roleRef=CLUSTER_ADMIN, subjects=ANYONE),
        ),
    ],
    "change a CRD of others": changes(
        *("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "things.example.org"),
        spec=THINGS,
    ),
    "take a Lease of others": [
        attempt
        for space in ("kube-system", "rdmaops-system")
        for attempt in changes(
            *("coordination.k8s.io/v1", "Lease", "leases", "others", space), spec={"holderIdentity": "me"}
        )
    ],
    "change CoreDNS": changes("v1", "ConfigMap", "configmaps", "coredns", "kube-system", data={"Corefile": "x"}),
    "exec into a pod": [
        Attempt("create", "v1", "pods", space, "others", part="exec") for space in ("kube-system", *SPACES)
    ],
    "get a token of others": [
        Attempt("create", "v1", "serviceaccounts", space, "default", TOKEN, "token")
        for space in ("kube-system", "rdmaops-system", "rdmaops-network")
    ],
    "be root on nodes by a pod": [
        Attempt("create", api, plural, space, "x", rooted("x", space, kind))
        for api, plural, kind in (("apps/v1", "daemonsets", "DaemonSet"), ("v1", "pods", "Pod"))
        for space in SPACES
        if space != "rdmaops-reports"
    ],
}


class Place:
    """A cluster with namespaces and accounts as an administrator has made them, and with things of others."""

    def __init__(self, plane: Cluster) -> None:
        self.plane, self.admin = plane, client(plane.kubeconfig)
        self.apply(COLLECTION / "docs/rbac/namespace.yml")
        for space in ("gpu-operator", "ml"):
            plane.kubectl("create", "namespace", space)
        for space in ("kube-system", *SPACES):
            plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", space, "--timeout=30s")
        spaces, lease = ("kube-system", "rdmaops-system"), ("coordination.k8s.io/v1", "Lease", "others")
        plane.apply(
            *(manifest("v1", "Node", name) for name in (FIRST, SECOND)),
            *(manifest("v1", "Secret", "others", space) for space in (*spaces, "default")),
            *(manifest(*lease, space, spec={}) for space in spaces),
            manifest("v1", "ConfigMap", "coredns", "kube-system"),
            manifest(RBAC, "ClusterRole", "others", rules=[]),
            manifest(RBAC, "ClusterRoleBinding", "others", roleRef=OTHERS, subjects=[]),
            manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.org", spec=THINGS),
            # The accounts of Multus and whereabouts, as the role makes them.
            *values(COLLECTION / "roles/secondary_network").value("__secondary_network_objects"),
        )

    def apply(self, *files: Path) -> None:
        for file in files:
            self.plane.kubectl("apply", "-f", str(file))

    def of_node(self, account: str, node: str) -> Client:
        params = {"names": [account], "namespace": "rdmaops-network", "nodes": [node], "lifetime": 3600}
        token = ask(params, False, self.admin)["nodes"][node]["tokens"][account]
        return client(self.plane.with_token(token))

    def account(self, *manifests: str) -> Client:
        files = [COLLECTION / f"docs/rbac/{name}.yml" for name in manifests]
        self.apply(*files)
        items = [item for file in files for item in yaml.safe_load(file.read_text())["items"]]
        named = [item["metadata"] for item in items if item["kind"] == "ServiceAccount"]
        (account,) = {(metadata["namespace"], metadata["name"]) for metadata in named}
        return client(self.plane.with_token(self.plane.token_of(*account)))


@pytest.fixture(scope="module")
def place(own_cluster: Cluster) -> Place:
    return Place(own_cluster)


def cells(who: str, client: Client) -> dict[str, str]:
    """Return what an account can do of each kind; a review and a request say the same, but where admission refuses."""
    answers = {}
    for title, attempts in ATTEMPTS.items():
        sent = [attempt.send(client) for attempt in attempts]
        for attempt, done in zip(attempts, sent, strict=True):
            assert attempt.allowed(client) or not done, (who, attempt)
            assert done or who != ADMIN, attempt
        answers[title] = "yes" if any(sent) else "no"
    return answers


def table(rows: dict[str, dict[str, str]]) -> list[str]:
    head = ["account", *ATTEMPTS]
    lines = [head, ["---"] * len(head), *([who, *row.values()] for who, row in rows.items())]
    return ["| %s |" % " | ".join(line) for line in lines]


def test_what_no_account_can_do_is_what_the_page_says(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {ADMIN: cells(ADMIN, place.admin)}
    manifests = sorted(
        file.stem for file in (COLLECTION / "docs/rbac").glob("*.yml") if "ServiceAccount" in file.read_text()
    )
    for name in [name for name in manifests if name != "network_daemonsets"]:
        rows[f"`{name}.yml`"] = cells(name, place.account(name))
    rows["`network.yml` and `network_daemonsets.yml`"] = cells("both", place.account("network", "network_daemonsets"))
    for name in ("multus", "whereabouts"):
        rows[f"`{name}` on a node"] = cells(name, place.of_node(name, FIRST))
    lines = table(rows)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    page = (COLLECTION / "docs/rights.md").read_text(encoding="utf-8")
    assert [part.splitlines() for part in page.split("\n\n") if part.startswith("| account |")] == [lines]


def test_multus_writes_the_status_of_pods_on_its_own_node_alone(place: Place) -> None:
    container = {"name": "c", "image": "none"}
    for node in (FIRST, SECOND):
        spec = {"nodeName": node, "containers": [container]}
        place.plane.apply(manifest("v1", "Pod", f"on-{node}", "default", spec=spec))

    def note(client: Client, node: str) -> str:
        """Write the annotation as Multus does, and return why the API server refuses that."""
        where = path("v1", "pods", "default", f"on-{node}")
        body = client.get(where, "Looking") or {}
        body["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/network-status": "[]"}
        try:
            client.replace(f"{where}/status", body, "Writing")
        except ApiError as exc:
            if exc.status != 403:
                raise
            return str(exc)
        return ""

    multus, runs = place.of_node("multus", FIRST), place.account("network")
    # RBAC alone does not tell one node's pods from another's.
    assert [note(multus, FIRST), note(multus, SECOND), note(runs, FIRST)] == ["", "", ""]
    place.apply(COLLECTION / "docs/rbac/multus.yml")
    wait_for(lambda: note(multus, SECOND))
    refused = f"this token writes the status of pods on the node it is bound to ({FIRST}), and the pod is on {SECOND}"
    assert refused in note(multus, SECOND)
    assert note(multus, FIRST) == ""
    assert "the node it is bound to (), and the pod is on" in note(runs, FIRST)
    # Others, such as a kubelet or an administrator, are none of its business.
    assert [note(place.admin, node) for node in (FIRST, SECOND)] == ["", ""]
