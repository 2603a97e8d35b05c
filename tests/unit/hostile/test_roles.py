# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of roles that go into units, rules, manifests and build files as they are: what is hostile is refused by name."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, faults, role_values

HOSTILE = (
    "a b", "a\nExecStartPre=/bin/sh", "a\n", "\n", 'a"b', "a'b", "a`id`", "$(touch /tmp/x)", "${x}", "%n", "a;b", "a|b", "a&b",
    "a\\b", "{{ x }}", "a\0", "a{b}", "a, b", "#a", "\u202ea", "e\u0301", "\U0001f9e8", "a" * 65536, "-a b", "<b>", "a\tb",
)  # fmt: skip

# Role: option, a good value, and how a hostile one is put into it.
Wrap = t.Callable[[str], t.Any]
CASES: dict[str, tuple[tuple[str, t.Any, Wrap], ...]] = {
    "rdma_exporter": (
        ("rdma_exporter_listen_address", ":9879", lambda text: f"{text}:80"),
        ("rdma_exporter_listen_address", "[fd00::1]:9879", lambda text: f"127.0.0.1:80{text}"),
        ("rdma_exporter_expected_devices", ["mlx5_0", "rocep7s0f1"], lambda text: ["mlx5_0", text]),
        ("rdma_exporter_python", "/opt/python3.11/bin/python3", lambda text: f"/usr/{text}"),
        ("rdma_exporter_directory", "/srv/rdma-exporter_1", lambda text: f"/srv/{text}"),
        ("rdma_exporter_namespace", "kube-system", str),
        ("rdma_exporter_tls_secret", "web.tls", str),
    ),
    "rdma_attachment": (
        ("rdma_attachment_include", ["mlx5_0", "mlx5_1:1"], lambda text: [text]),
        ("rdma_attachment_exclude", [], lambda text: ["x", text]),
        ("rdma_attachment_python", "/usr/bin/python3", lambda text: f"/usr/{text}"),
        ("rdma_attachment_directory", "/usr/local/lib/x", lambda text: f"/usr/{text}"),
    ),
    "gpu_node": (
        ("gpu_node_rdma_names", {"0000:07:00.0": "rail0"}, lambda text: {"0000:07:00.0": text}),
        ("gpu_node_rdma_names", {"0001:a7:1f.7": "rail-1.x_y"}, lambda text: {text: "rail0"}),
    ),
    "training_image": (
        (
            "training_image_packages",
            ["libibverbs1", "g++", "cuda-12=12.8*", "@dev", "perftest:amd64"],
            lambda text: [text],
        ),
        ("training_image_nccl_tests_cuda_home", "/usr/local/cuda-12.8", lambda text: f"/usr/{text}"),
        ("training_image_nccl_tests_mpi_home", "", lambda text: f"/usr/{text}"),
    ),
    "kubernetes": (
        ("kubernetes_sandbox_image", "registry.example.org:5000/pause:3.10@sha256:" + "ab" * 32, str),
        ("kubernetes_package_repository", "https://pkgs.k8s.io/core:/stable:/v1.37/deb/", str),
    ),
}

# What an address may have in it.
HARMLESS = {"kubernetes_package_repository": ("%n", "a&b")}


@pytest.mark.parametrize("role", CASES)
def test_hostile_options_are_refused_by_name(role: str) -> None:
    values = role_values.values(COLLECTION / "roles" / role)
    variable = f"__{role}_not_plain"
    assert values.value(variable) == [], "the defaults"
    with faults.tried("hostile values", role) as tally:
        for option, good, wrap in CASES[role]:
            assert values.value(variable, **{option: good}) == [], option
            for text in (value for value in HOSTILE if value not in HARMLESS.get(option, ())):
                with tally.one(f"{option}: {text[:40]!a}"):
                    output = values.value(variable, **{option: wrap(text)})
                    assert len(output) == 1
                    # Of a dictionary, the pairs are looked at.
                    assert output[0].startswith(f"{option} is ") or role == "gpu_node"


# Role gpu_node checks where it would write, and kubernetes together with its other options.
REFUSALS = {"gpu_node": ("bring.yml", "not_plain"), "kubernetes": ("present.yml", "problems")}


@pytest.mark.parametrize("role", CASES)
def test_the_role_checks_before_it_changes_anything(role: str) -> None:
    file, variable = REFUSALS.get(role, ("main.yml", "not_plain"))
    assert f"__{role}_{variable}" in (COLLECTION / "roles" / role / "tasks" / file).read_text()


@pytest.mark.parametrize("option", [option for option, _, _ in CASES["kubernetes"]])
def test_the_problems_of_kubernetes_include_hostile_options(option: str) -> None:
    hostile = {"kubernetes_package_key": "key.asc", "kubernetes_pod_network": "none", option: "a b"}
    (problem,) = role_values.values(COLLECTION / "roles/kubernetes").value(
        "__kubernetes_problems", groups={}, **hostile
    )
    assert problem == f'{option} is "a b". This has characters with a special meaning where it is written.'


def test_a_host_in_sync_does_not_hide_a_hostile_name() -> None:
    role = role_values.values(COLLECTION / "roles/gpu_node")
    first = "Refuse names that are not safe in a udev rule"
    host = {"__gpu_node_host": {"differs": [], "units": {}}}
    for name, plain in (("rail0", True), ('a", RUN+="/bin/sh', False)):
        given = {"gpu_node_rdma_names": {"0000:07:00.0": name}, **host}
        assert role.value("__gpu_node_in_sync", **given) is plain
        assert role.task("bring.yml", first, "that", **given) is plain
