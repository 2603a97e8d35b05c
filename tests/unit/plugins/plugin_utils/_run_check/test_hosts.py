# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups, limits and tags that leave nothing to do, or less than was meant."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.hosts import (
    Inventory,
    file_mistakes,
    group_mistakes,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_check.tags import tag_mistakes

NODES = ["gpu-1", "gpu-2"]


def found(wanted: t.Sequence[str], limit: str = "", other: t.Sequence[str] = (), **groups: list[str]) -> list[str]:
    """Return what is said of an inventory; the limit is a list of hosts."""
    hosts = sorted({host for members in groups.values() for host in members})
    under = limit.split(",") if limit else hosts
    inventory = Inventory({"all": hosts, **groups}, ["/etc/hosts.yml"], under, limit)
    return group_mistakes(inventory, wanted, other, ["gpu_nodez"])


def test_groups_that_are_there() -> None:
    assert found(["gpu_nodes"], gpu_nodes=NODES) == []
    assert found(["gpu_nodes:image_build"], image_build=["a"]) == []
    assert found([], gpu_nodes=[]) == []
    # Racks are groups of their own, and a name may be declared.
    assert found(["gpu_nodes"], gpu_nodes=NODES, gpu_nodes_1=NODES, gpu_node=NODES) == []
    assert found(["monitoring"], monitoring=["a"], gpu_nodez=["b"], cpu_nodes=["c"], aws=["d"]) == []


def test_groups_without_hosts() -> None:
    assert found(["gpu_nodes"], gpu_nodes=[]) == ["The inventory /etc/hosts.yml does not exist."]
    assert found(["gpu_nodes", "experiments"], gpu_node=NODES, rack=["a"]) == [
        "No host is in the group gpu_nodes of /etc/hosts.yml (groups there: gpu_node and rack). Did you mean gpu_node?",
        "No host is in the group experiments of /etc/hosts.yml (groups there: gpu_node and rack).",
    ]
    (sentence,) = found(["gpu_nodes"], **{f"rack_{number}": ["a"] for number in range(9)})
    assert "(groups there: rack_0, rack_1, rack_2 and 6 more)" in sentence


@pytest.mark.parametrize(
    ("wanted", "limit", "other", "said"),
    [
        (["gpu_nodes"], "gpu-1", (), []),
        (["gpu_nodes"], "cp-1", ("kubernetes_api",), []),
        (["gpu_nodes"], "cp-1", (), ["--limit cp-1 leaves no host of gpu_nodes (gpu-1 and gpu-2)."]),
        (["kubernetes_api[0]"], "cp-2", (), ["--limit cp-2 leaves no host of kubernetes_api[0] (cp-1)."]),
        (["gpu_nodes", "kubernetes_api"], "cp-2", (), []),
        (
            ["gpu_nodes:monitoring"],
            "cp-2",
            (),
            ["--limit cp-2 leaves no host of gpu_nodes or monitoring (gpu-1 and gpu-2)."],
        ),
        ([], "cp-2", (), []),
    ],
)
def test_limits(wanted: list[str], limit: str, other: t.Sequence[str], said: list[str]) -> None:
    assert found(wanted, limit, other, gpu_nodes=NODES, kubernetes_api=["cp-1", "cp-2"]) == said


def test_files_of_group_vars(tmp_path: Path) -> None:
    directory = tmp_path / "group_vars"
    directory.mkdir()
    (tmp_path / "hosts.yml").touch()
    for name in ("gpu_nodes.yml", "gpu_node.yml", "all.yml", "kubernetes_apis.yml", "storage.yml"):
        (directory / name).touch()
    groups = {"all": NODES, "gpu_nodes": NODES}
    for source in (tmp_path, tmp_path / "hosts.yml"):
        inventory = Inventory(groups, [str(source), "gpu-1,"], NODES, "")
        assert file_mistakes(inventory, []) == [
            f"{directory}/gpu_node.yml is for no group of the inventory. Did you mean gpu_nodes?"
        ]
        assert file_mistakes(inventory, ["gpu_node"]) == []


@pytest.mark.parametrize(
    ("tags", "run", "skip", "count"),
    [
        ([], ["all"], [], 0),
        ([], ["untagged"], [], 0),
        ([], ["tagged"], [], 1),
        ([], ["nodes"], ["nodes"], 2),
        ([], ["always"], [], 1),
        (["nodes", "cluster"], ["nodes"], ["cluster"], 0),
        (["nodes", "cluster"], ["tagged"], [], 0),
        (["nodes", "cluster"], ["nodes", "clutser"], [], 1),
        (["nodes", "cluster"], ["all"], ["all"], 1),
    ],
)
def test_tags(tags: list[str], run: list[str], skip: list[str], count: int) -> None:
    assert len(tag_mistakes("site", tags, run, skip)) == count
