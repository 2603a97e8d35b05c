# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA device a rule of the role gpu_node names."""

from __future__ import annotations

import fnmatch
import re

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

FUNCTION = "/devices/pci0000:00/0000:00:03.0/0000:a7:00.1"


def named(address: str, device: str) -> bool:
    """Return whether the first rule applies to the event of a device.

    udev(7): a pattern of shell globs, and letters count. DEVPATH is the device's own, KERNELS any of its parents'.
    """
    files = values(COLLECTION / "roles/gpu_node").value("__gpu_node_udev_files", gpu_node_rdma_names={address: "rail0"})
    (rule,) = [line for line in files[0]["content"].splitlines() if "NAME_FIXED rail0" in line]
    matches = dict(re.findall(r'(\w+)=="([^"]*)"', rule))
    assert (matches.pop("ACTION"), matches.pop("SUBSYSTEM")) == ("add", "infiniband")
    parents = device.split("/")
    return all(
        fnmatch.fnmatchcase(device, pattern)
        if key == "DEVPATH"
        else any(fnmatch.fnmatchcase(parent, pattern) for parent in parents)
        for key, pattern in matches.items()
    )


@pytest.mark.parametrize("address", ["0000:a7:00.1", "0000:A7:00.1"])
def test_a_name_is_for_the_function_of_the_address(address: str) -> None:
    assert named(address, FUNCTION + "/infiniband/mlx5_1")
    assert not named(address, FUNCTION[:-1] + "0/infiniband/mlx5_0")


def test_a_sub_function_does_not_get_the_name_of_its_function() -> None:
    assert not named("0000:a7:00.1", FUNCTION + "/mlx5_core.sf.4/infiniband/mlx5_2")
