# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories of the documentation in check mode: this machine stands in for their nodes, and nothing is changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root, need_tool, site

BOOK = """
- ansible.builtin.import_playbook: rdmaops.gpu_fabric.nodes
- ansible.builtin.import_playbook: rdmaops.gpu_fabric.reboot
- ansible.builtin.import_playbook: rdmaops.gpu_fabric.cluster
- ansible.builtin.import_playbook: rdmaops.gpu_fabric.verify
"""
# This machine is not a node, so that its packages do not matter.
HERE = {
    "ansible_connection": "local",
    "ansible_become": False,
    "ansible_python_interpreter": "/usr/bin/python3",
    "gpu_node_packages": {"debian": []},
    "gpu_node_on_absent": "ignore",
}
NAMING = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
PROTOCOL = "/etc/udev/rules.d/70-rdmaops-e810-protocol.rules"
MEMLOCK = "/etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf"
FILES = {
    "infiniband": {NAMING, MEMLOCK},
    "roce_nvidia": {NAMING, MEMLOCK},
    "roce_e810": {NAMING, PROTOCOL, MEMLOCK},
    "erdma": {MEMLOCK},
}


# ACK has the cluster, and this machine has no kubeconfig of one.
CLOUD = {"erdma": {"kubernetes_api_host": ""}}


@pytest.mark.parametrize("name", FILES)
def test_a_site_in_check_mode_without_a_cluster(name: str, tmp_path: Path) -> None:
    need_root()
    need_tool("dpkg-query")
    book = tmp_path / "book.yml"
    book.write_text(BOOK)
    inventory = str(COLLECTION / "inventories" / name)
    arguments = ["--check", "--diff", "--limit", "gpu-01", "-e", json.dumps({**HERE, **CLOUD.get(name, {})})]
    run = site.ansible_playbook("-i", inventory, str(book), *arguments, limit=600, HOME=str(tmp_path))
    assert run.rc == 0, run.output
    written = run.result("Write the files that this role owns")
    assert {change["after_header"] for change in written["diff"] if change["before"] != change["after"]} == FILES[name]
    rules = {change["after_header"]: change["after"] for change in written["diff"]}
    if PROTOCOL in FILES[name]:
        assert re.findall(r"name (\w+) value (\w+)", rules[PROTOCOL]) == [
            ("enable_iwarp", "false"), ("enable_roce", "true"),
        ]  # fmt: skip
    assert not any(Path(path).exists() for path in FILES[name])
    assert "CNI plugins and attachments are skipped" in run.result("Report that there is no cluster to work on")["msg"]
    verdict = run.result("Give the verdict")
    # One node that has no rails: nothing can have passed.
    assert verdict["verdict"] in ("fail", "unknown")
    assert not verdict.get("failed")


SITES = sorted(path.parent.name for path in COLLECTION.glob("inventories/*/hosts.yml") if path.parent.name != "lab")


@pytest.mark.parametrize("name", SITES)
def test_ansible_takes_each_inventory(name: str) -> None:
    inventory = str(COLLECTION / "inventories" / name)
    listed = site.ansible_playbook("-i", inventory, "rdmaops.gpu_fabric.site", "--list-hosts", limit=120)
    assert listed.rc == 0, listed.output
    hosts = {"runai": "localhost", "ack_topology": "localhost"}.get(name, "gpu-01")
    assert re.search(rf"^ +{hosts}$", listed.output, re.M), listed.output
    assert "[WARNING]: Unable to parse" not in listed.output
