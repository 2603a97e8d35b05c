# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the pods of a job have room together, and what is said where they have not."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import room
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.manage import objects, templates

Json = t.Any
IMAGE = "registry.example/train@sha256:" + "0" * 64


def node(name: str, *, gpus: int = 8, rdma: int = 8, **more: Json) -> Json:
    there = {"nvidia.com/gpu": str(gpus), "rdma/rdma": str(rdma), "cpu": "64", "memory": "512Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **more.get("labels", {})}},
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {key: value for key, value in there.items() if value != "0"},
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
            "images": [{"names": [name]} for name in more.get("images", [])],
        },
    }


def pod(name: str, where: str, resources: Json, phase: str = "Running") -> Json:
    container = {"name": "c", "resources": resources}
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": {"nodeName": where, "containers": [container]}, "status": {"phase": phase}}


def wanted(**more: Json) -> list[tuple[int, Json]]:
    options = {"kind": "pods", "name": "train", "image": IMAGE, "command": ["x"], "workers": 2, "gpus": 8}
    return templates(objects({**options, "resources": {"rdma/rdma": 1}, **more}))


def test_two_free_nodes_take_two_pods() -> None:
    placement = room.place(room.survey([node("gpu-1"), node("gpu-2"), node("gpu-3")], []), wanted())
    assert placement == {"placed": {"gpu-1": 1, "gpu-2": 1}, "missing": 0, "beside": [], "short": {}}


GPU = "nvidia.com/gpu"


def tainted(**taint: str) -> Json:
    return node("gpu-2", spec={"taints": [taint]})


# the second node, what it lacks
SHORT = [
    (node("gpu-2", gpus=7), "nvidia.com/gpu: 8 wanted, 7 free of 7"),
    (node("gpu-2", gpus=0), "no nvidia.com/gpu"),
    (node("gpu-2", rdma=0), "no rdma/rdma"),
    (node("gpu-2", spec={"unschedulable": True}), "cordoned"),
    (node("gpu-2", ready="Unknown"), "not ready"),
    (tainted(key=GPU, value="present", effect="NoSchedule"), f"taint {GPU}=present:NoSchedule is not tolerated"),
    (tainted(key="repair", effect="NoExecute"), "taint repair:NoExecute is not tolerated"),
]


def test_a_taint_that_is_only_a_preference_keeps_nothing_away() -> None:
    preferred = tainted(key="repair", effect="PreferNoSchedule")
    assert room.place(room.survey([node("gpu-1"), preferred], []), wanted())["missing"] == 0


@pytest.mark.parametrize(("second", "lack"), SHORT)
def test_the_node_that_is_short_is_named(second: Json, lack: str) -> None:
    placement = room.place(room.survey([node("gpu-1"), second], []), wanted())
    assert (placement["missing"], placement["placed"]) == (1, {"gpu-1": 1})
    assert lack in placement["short"]["gpu-2"]


def test_a_launcher_that_fits_hides_no_node_that_is_short() -> None:
    nodes = [node("gpu-1", gpus=0), node("gpu-2", gpus=0)]
    placement = room.place(room.survey(nodes, []), wanted(kind="mpijob"))
    assert placement["placed"] == {"gpu-1": 1}
    assert (placement["missing"], placement["beside"]) == (2, [])
    assert placement["short"] == {"gpu-1": ["no nvidia.com/gpu"], "gpu-2": ["no nvidia.com/gpu"]}


def test_pods_that_are_listed_one_by_one_do_not_fit_beside_their_like() -> None:
    placement = room.place(room.survey([node("gpu-1"), node("gpu-2")], []), wanted(kind="pods", workers=3))
    assert (placement["missing"], placement["beside"], placement["short"]) == (1, ["gpu-1", "gpu-2"], {})


def test_who_uses_the_gpus_is_named_and_who_has_ended_uses_none() -> None:
    two = {"limits": {"nvidia.com/gpu": 2}}
    pods = [pod("notebook", "gpu-2", two), pod("old", "gpu-2", two, "Succeeded"), pod("elsewhere", "gone", two)]
    placement = room.place(room.survey([node("gpu-1"), node("gpu-2")], pods), wanted())
    assert placement["short"] == {"gpu-2": ["nvidia.com/gpu: 8 wanted, 6 free of 8, used by default/notebook"]}
    assert room.place(room.survey([node("gpu-1"), node("gpu-2")], pods), wanted(gpus=6))["missing"] == 0


def test_pods_share_a_node_only_where_they_may() -> None:
    assert room.place(room.survey([node("gpu-1")], []), wanted(gpus=4))["missing"] == 1
    assert room.place(room.survey([node("gpu-1")], []), wanted(gpus=4, spread=False))["placed"] == {"gpu-1": 2}
    assert room.place(room.survey([node("gpu-1")], []), wanted(gpus=5, spread=False))["missing"] == 1


def test_labels_that_are_asked_for() -> None:
    candidate = room.survey([node("gpu-1", labels={"rack": "a"})], [])[0]
    ((_count, asks), *_rest) = wanted(node_selector={"rack": "b"})
    assert room.obstacles(candidate, asks) == ["label rack is a, but must be b"]


def test_a_launcher_needs_no_gpu() -> None:
    placement = room.place(room.survey([node("gpu-1"), node("gpu-2")], []), wanted(kind="mpijob"))
    assert (placement["missing"], sum(placement["placed"].values())) == (0, 3)


TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "a"}, True),
        ({"operator": "Exists", "key": "c"}, False),
        ({"key": "a", "value": "b"}, True),
        ({"key": "a", "operator": "Equal", "value": "c"}, False),
        ({"key": "a", "value": "b", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: Json, expected: bool) -> None:
    assert room.tolerated(TAINT, [toleration]) is expected


def test_what_a_pod_asks_for() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
            {"resources": {"requests": {"cpu": "1"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "4"}}}],
    }
    assert {name: float(amount) for name, amount in room.requests(spec).items()} == {
        "pods": 1.0,
        "cpu": 4.0,
        "nvidia.com/gpu": 1.0,
    }


def test_words_for_what_is_wanted() -> None:
    assert room.describe(wanted()) == "2 with nvidia.com/gpu=8, rdma/rdma=1"
    assert room.describe(wanted(kind="mpijob")) == "1 with no resources and 2 with nvidia.com/gpu=8, rdma/rdma=1"


DIGEST = IMAGE.partition("@")[2]


@pytest.mark.parametrize(
    ("images", "present"),
    [
        ([IMAGE], True),
        # A node of Docker's registry completes names.
        ([f"docker.io/library/train@{DIGEST}"], True),
        ([], False),
        (["registry.example/train:1"], False),
        # A kubelet lists 50 images: what is not listed may be there.
        ([f"image-{number}" for number in range(50)], None),
    ],
)
def test_the_image_may_have_to_be_on_the_node(images: list[str], present: bool | None) -> None:
    (row,) = room.survey([node("gpu-1", images=images)], [])
    assert row.has_image(IMAGE) is present
    ((_count, train), *_rest) = wanted()
    assert room.obstacles(row, train) == []
    missing = [f"the image {IMAGE} is not there"] if present is False else []
    assert room.obstacles(row, train, image_present=True) == missing
