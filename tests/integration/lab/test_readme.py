# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the README says to type leads to a verdict on two hosts, for a person who has nothing but the README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, lab_ssh, skip_or_fail

pytestmark = pytest.mark.lab

# Soft-RoCE reports 2.5 Gb/s on any machine, and an emulated one reaches a hundredth of it (tests/lab/inventory.py).
EMULATED = {"fabric_check_min_share": 0.0001, "fabric_check_seconds": 6}


def typed() -> list[str]:
    """Return the five lines of the README."""
    text = (COLLECTION / "README.md").read_text(encoding="utf-8")
    return t.cast("list[str]", re.findall(r"^ {4}(\S.*)$", text, re.M)[:5])


def for_the_lab(line: str, hosts: dict[str, t.Any], report: Path) -> str:
    """Return a line with the lab's hosts and user, the checkout as its source, and a report of its own."""
    for number, (name, host) in enumerate(sorted(hosts.items())[:2], 1):
        place = f"ansible_host={host['ansible_host']} ansible_port={host['ansible_port']}"
        line = line.replace(f"gpu-0{number} ansible_host=192.0.2.1{number}", f"{name} {place}")
    line = line.replace("git+https://github.com/rdmaops/gpu_fabric.git", str(COLLECTION))
    return line.replace("-u ops", "-u root").replace("/tmp/fabric.html", str(report))


def test_five_lines_lead_to_a_verdict(tmp_path: Path) -> None:
    if not lab_ssh.INVENTORY.exists():
        skip_or_fail("needs a running lab (make lab-up)")
    hosts = yaml.safe_load(lab_ssh.INVENTORY.read_text(encoding="utf-8"))["gpu_nodes"]["hosts"]
    first = min(hosts.values(), key=lambda host: host["ansible_port"])
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "gpu_nodes.yml").write_text(json.dumps(EMULATED))
    environment = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        # What the person's own ssh configuration would say.
        "ANSIBLE_PRIVATE_KEY_FILE": first["ansible_ssh_private_key_file"],
        "ANSIBLE_SSH_COMMON_ARGS": first["ansible_ssh_common_args"],
        "ANSIBLE_TIMEOUT": "60",
        # Not the checkout that .venv links.
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "home/.ansible/collections"),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
    }
    report = tmp_path / "fabric.html"
    for line in typed():
        command = for_the_lab(line, hosts, report)
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    # verify ends with 0 if the verdict is pass, and not otherwise.
    assert "gpu-1" in report.read_text(encoding="utf-8")
