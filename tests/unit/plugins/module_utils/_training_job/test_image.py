# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image nodes have under a name."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.image import digests, repository

Json = t.Any
ONE, OTHER = ("sha256:" + digit * 64 for digit in "12")
NAME = "registry.example:5000/ml/train"


def node(name: str, *images: list[str]) -> Json:
    return {"metadata": {"name": name}, "status": {"images": [{"names": names} for names in images]}}


@pytest.mark.parametrize(
    ("image", "expected"),
    [(f"{NAME}:1", NAME), (NAME, NAME), ("train:1", "train"), ("localhost:5000/train", "localhost:5000/train")],
)
def test_names_without_tags(image: str, expected: str) -> None:
    assert repository(image) == expected


# nodes, what they have
NODES = [
    ([node("gpu-1", [f"{NAME}@{ONE}", f"{NAME}:1"]), node("gpu-2", [f"{NAME}:1", f"{NAME}@{ONE}"])], {ONE: ["gpu-1", "gpu-2"]}),
    # A node without it is not asked for it here.
    ([node("gpu-1", [f"{NAME}@{ONE}", f"{NAME}:1"]), node("gpu-3")], {ONE: ["gpu-1"]}),
    (
        [node("gpu-1", [f"{NAME}@{ONE}", f"{NAME}:1"]), node("gpu-2", [f"{NAME}@{OTHER}", f"{NAME}:1"])],
        {ONE: ["gpu-1"], OTHER: ["gpu-2"]},
    ),
    ([node("gpu-1", [f"{NAME}:1"])], {"": ["gpu-1"]}),
    # Another tag, and another repository with the same end.
    ([node("gpu-1", [f"{NAME}@{ONE}", f"{NAME}:2"], [f"other/{NAME}@{OTHER}", f"other/{NAME}:1"])], {}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "expected"), NODES)
def test_digests_of_an_image(nodes: list[Json], expected: dict[str, list[str]]) -> None:
    assert digests(f"{NAME}:1", nodes) == expected
