# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Testinfra's `host` for the tests of all scenarios, and `nodes` for tests that choose their nodes."""

from __future__ import annotations

import pytest
import testinfra
from testinfra.backend import BACKENDS
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import hosts

BACKENDS["ansible"] = f"{hosts.__name__}.{hosts.Backend.__name__}"


@pytest.fixture(scope="session")
def nodes(pytestconfig: pytest.Config) -> dict[str, Host]:
    """The machines of the lab by name."""
    inventory = pytestconfig.getoption("ansible_inventory")
    machines = testinfra.get_hosts(["ansible://gpu-*"], ansible_inventory=inventory)
    return {machine.backend.get_hostname(): machine for machine in machines}
