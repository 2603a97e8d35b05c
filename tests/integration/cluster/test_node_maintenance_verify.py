# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is measured with others before it returns to its cluster, with a real API server and made-up measurements."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.cluster.test_node_maintenance import Site
from ansible_collections.rdmaops.gpu_fabric.tests.support import made_up_fabric
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubelet import Lab
from ansible_collections.rdmaops.gpu_fabric.tests.support.maintenance import write_interpreter

ALWAYS = 1000
VERIFY = {"node_maintenance_verify": "fabric", "fabric_check_tests": ["ib_write_bw"]}


class Fabric(t.NamedTuple):
    site: Site
    # The node that is due, and its partners
    host: str
    partners: list[str]
    fault: Path

    def run(self, slow: str = "", times: int = ALWAYS, **variables: t.Any) -> t.Any:
        """Run the playbook reboot for the node while rail 1 of a node is slow."""
        made_up_fabric.write_fault(self.fault, slow, 1, times)
        return self.site.run("--limit", f"{self.host},localhost", **VERIFY, **variables)


@pytest.fixture
def fabric(lab: Lab, tmp_path: Path) -> Fabric:
    site = Site(lab, tmp_path)
    made_up_fabric.write_modules(site.collections / "ansible_collections/rdmaops/gpu_fabric")
    host, *partners = (site.host() for _ in range(3))
    site.is_the_host(host)
    fault = tmp_path / "fault.json"
    for name in site.hosts:
        python = tmp_path / name / "python"
        write_interpreter(python, TEST_FAULT=fault, TEST_MACHINE=tmp_path / name / "machine.json")
    return Fabric(site, host, partners, fault)


@pytest.mark.long
def test_a_good_node_returns(fabric: Fabric) -> None:
    done = fabric.run()
    assert done.rc == 0, done.output
    assert "Fabric check: PASS" in done.output
    assert fabric.site.machine(fabric.host)["mode"] == "exclusive"
    assert (fabric.site.cordoned(fabric.host), fabric.site.note(fabric.host)) == (False, None)
    assert [fabric.site.machine(partner)["mode"] for partner in fabric.partners] == ["shared", "shared"]


@pytest.mark.long
def test_a_node_that_comes_back_slow_stays_cordoned_until_it_is_good(fabric: Fabric) -> None:
    host, (first, second) = fabric.host, fabric.partners
    why = f"{host} came back, and did not pass the fabric check with {first}, {second}: rail 1: node {host} ("
    done = fabric.run(slow=host)
    assert done.rc == 2, done.output
    assert why in done.messages()
    assert "all 2 measured pairs with it on this rail fail" in done.messages()
    assert f"Node {host} stays cordoned" in done.messages()
    assert fabric.site.cordoned(host)
    assert why in fabric.site.note(host)["failed"]["message"]
    # A later run measures it again, and does not reboot it.
    before = fabric.site.machine(host)
    again = fabric.run(slow=host)
    assert (again.rc, why in again.messages(), fabric.site.cordoned(host)) == (2, True, True), again.output
    good = fabric.run()
    assert good.rc == 0, good.output
    assert (fabric.site.machine(host), fabric.site.cordoned(host), fabric.site.note(host)) == (before, False, None)


@pytest.mark.long
def test_a_slow_partner_is_not_blamed_on_the_node(fabric: Fabric) -> None:
    done = fabric.run(slow=fabric.partners[0])
    assert (done.rc, fabric.site.cordoned(fabric.host)) == (0, False), done.output
    assert "Fabric check: FAIL" in done.output


@pytest.mark.long
def test_without_another_node_nothing_is_done(fabric: Fabric) -> None:
    before = fabric.site.machine(fabric.host)
    done = fabric.run(node_maintenance_verify_partners=[])
    assert done.rc == 2, done.output
    assert f"there is no node to measure {fabric.host} with. Nothing was changed." in done.messages()
    assert (fabric.site.machine(fabric.host), fabric.site.cordoned(fabric.host)) == (before, False)
