# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode changes nothing on a fresh host."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.molecule.default.tests import node


def test_the_mode_is_the_kernels_default(host: Host) -> None:
    assert node.mode(host) == "shared"
    assert node.effective_options(host) == []


@pytest.mark.parametrize("directory", ["/etc", "/var/lib", "/boot"])
def test_nothing_of_ours_is_there(host: Host, directory: str) -> None:
    assert host.check_output("find %s -name '*rdmaops*'", directory) == ""


def test_no_package_was_installed(host: Host) -> None:
    assert not host.package("perftest").is_installed
