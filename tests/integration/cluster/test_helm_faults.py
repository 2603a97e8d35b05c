# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module gpu_operator, where the API server answers it, or its helm, badly or not at all while a release is upgraded.

The module gets through, or says what it was doing and what was answered; without the fault the next run brings the release
to what was wanted, whatever the first left of it, and the one after that changes nothing.
"""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import faults
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.fault_proxy import FAULTS, FaultProxy
from ansible_collections.rdmaops.gpu_fabric.tests.support.gpu_operator import NAMESPACE, Place

Json = t.Any
KIND = "API server"
# helm knows no limit for a single answer; the module's own is tried in test_api_faults.py.
HERE = [fault for fault in FAULTS if fault != "slow"]
# Tests beside these have helms at work on the usual name.
RELEASE = f"faults-{os.getpid()}"
OLD, NEW = "v1.17.5-ubi8", "v1.17.6-ubi8"
# What was being done, and what helm said of it, or the API server itself.
SAID = re.compile(
    r"[A-Z][a-z]+ing .+: ("
    r"helm exited with status 1. Output: .*Error: .+"
    r"|.*answered (409|429|500|503) \(.+"
    r"|.*answered with something that is not JSON"
    r"|.*could not be reached: .+"
    r")",
    re.DOTALL,
)
# In every run: refused before anything was done, and done without an answer.
OFTEN = ("500", "lost")
# So many requests of an upgrade, evenly over all of them, get each fault in the long run.
PLACES = 8


class Upgrade:
    """A release that is there, and another version of one of its values."""

    def __init__(self, place: Place, proxy: FaultProxy) -> None:
        self.place, self.proxy = place, proxy

    def run(self, version: str, **options: Json) -> Json:
        return self.place.result(self.place.start(toolkit_version=version, disrupt=True, name=RELEASE, **options))

    def done(self, version: str) -> Json:
        """Bring the release to a version, past all faults, and return the result."""
        result = self.run(version, on_pending="recover", pending_age=0)
        assert not result.get("failed"), result["msg"]
        assert self.place.policy()["spec"]["toolkit"]["version"] == version
        assert result["after"]["release"]["status"] == "deployed"
        return result

    def asked(self) -> list[str]:
        """Return what is asked of the API server while nothing goes wrong."""
        # The first time helm asks for more, and keeps it.
        for _number in range(2):
            self.done(OLD)
            self.proxy.clear()
            assert self.run(NEW, kubeconfig=str(self.proxy.kubeconfig))["changed"]
        return self.proxy.asked

    def attempt(self, fault: str, at: int) -> None:
        self.done(OLD)
        self.proxy.arm(fault, at)
        result = self.run(NEW, kubeconfig=str(self.proxy.kubeconfig))
        assert self.proxy.made, f"there were only {len(self.proxy.asked)} requests"
        self.proxy.clear()
        if result.get("failed"):
            assert SAID.match(result["msg"]), result["msg"]
        else:
            assert self.place.policy()["spec"]["toolkit"]["version"] == NEW
        self.done(NEW)
        assert self.run(NEW)["changed"] is False


@pytest.fixture(scope="module")
def place(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    own_cluster.kubectl("create", "namespace", NAMESPACE)
    return Place(own_cluster, tmp_path_factory.mktemp("charts"))


@pytest.fixture
def upgrade(place: Place, tmp_path: Path) -> t.Iterator[Upgrade]:
    with FaultProxy(place.plane, tmp_path / "proxy") as proxy:
        yield Upgrade(place, proxy)


def test_faults_at_the_end_of_an_upgrade(upgrade: Upgrade) -> None:
    asked = upgrade.asked()
    with faults.tried(KIND, "gpu_operator") as tally:
        for number, fault in enumerate(OFTEN):
            at = len(asked) - 1 - 3 * number
            with tally.one(f"{fault} at {asked[at]} ({at} of {len(asked)})"):
                upgrade.attempt(fault, at)


@pytest.mark.long
def test_each_fault_in_each_part_of_an_upgrade(upgrade: Upgrade) -> None:
    asked = upgrade.asked()
    with faults.tried(KIND, "gpu_operator, all over") as tally:
        for at in range(0, len(asked), max(1, len(asked) // PLACES)):
            for fault in HERE:
                with tally.one(f"{fault} at {asked[at]} ({at} of {len(asked)})"):
                    upgrade.attempt(fault, at)
