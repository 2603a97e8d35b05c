# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd units that get an unlimited RLIMIT_MEMLOCK from role gpu_node."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values


@pytest.mark.parametrize(
    ("runtime", "units"),
    [
        ("none", []),
        ("containerd", ["containerd"]),
        ("k3s", ["k3s", "k3s-agent"]),
        ("rke2", ["rke2-server", "rke2-agent"]),
    ],
)
def test_the_units_of_a_runtime(runtime: str, units: list[str]) -> None:
    files = values(COLLECTION / "roles/gpu_node").value("__gpu_node_files", gpu_node_container_runtime=runtime)
    limits = {file["path"]: file["content"] for file in files if "memlock" in file["path"]}
    assert list(limits) == [f"/etc/systemd/system/{unit}.service.d/50-rdmaops-memlock.conf" for unit in units]
    assert all("\n[Service]\nLimitMEMLOCK=infinity" in text for text in limits.values())
