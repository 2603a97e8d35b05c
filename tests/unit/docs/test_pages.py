# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages that list something list all of it: pictures, checksums, alerts."""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.pod import JOB
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job.status import progress
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._kubernetes.kubeadm_config import OLDEST_MINOR
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

CHECKSUMS = (COLLECTION / "docs/checksums.md").read_text(encoding="utf-8")
# What a role downloads by a URL that has a default, and needs a digest for.
DOWNLOADS = [
    ("secondary_network", "secondary_network_multus_url"),
    ("secondary_network", "secondary_network_whereabouts_url"),
    ("secondary_network", "secondary_network_cni_plugins_url"),
    ("switch_telemetry", "switch_telemetry_url"),
    ("training_image", "training_image_nccl_tests_url"),
]


def test_every_picture_is_on_a_page() -> None:
    pages = [COLLECTION / "README.md", *(COLLECTION / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"!\[[^]]*\]\([^)]*images/([\w.-]+)\)", page.read_text())}
    assert shown == {path.name for path in (COLLECTION / "docs/images").iterdir() if path.suffix != ".license"}


def test_every_checksum_has_its_command() -> None:
    options = {
        name
        for path in COLLECTION.glob("roles/*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        for name in entry.get("options") or {}
        if name.endswith(("_checksum", "_checksums"))
    }
    assert len(options) > 5
    rows = re.findall(r"^\| `(\w+)`", CHECKSUMS.split("\n## What you see\n")[0], re.M)
    assert sorted(rows) == sorted(options)


@pytest.mark.parametrize(("role", "url"), DOWNLOADS)
def test_commands_have_the_addresses_of_default_versions(role: str, url: str) -> None:
    address = values(COLLECTION / "roles" / role).value(url)
    assert f"`curl -fsSL {address} \\| sha256sum`" in CHECKSUMS


def test_every_alert_is_on_the_page_with_its_severity() -> None:
    text = (COLLECTION / "docs/monitoring.md").read_text(encoding="utf-8")
    rules = (COLLECTION / "roles/monitoring/templates/rules.yml.j2").read_text(encoding="utf-8")
    names = re.findall(r"- alert: (\w+)", rules)
    severities = re.findall(r"labels\('(critical|warning)'\)", rules)
    assert len(names) == len(severities)
    assert re.findall(r"^\| `(\w+)` \| (critical|warning) \|", text, re.M) == list(zip(names, severities, strict=True))


@pytest.mark.parametrize("name", ["ack-topology", "runai"])
def test_the_page_has_kubectl_commands_for_what_a_job_does_not_show(name: str) -> None:
    """Progress shows the phases of the pods and the last line of a log, but neither GPUs nor whole logs."""
    text = (COLLECTION / "docs" / f"{name}.md").read_text(encoding="utf-8")
    commands = re.findall(r"`(kubectl (?:logs -f|describe pods) [^`]*)`", text)
    assert [command.split()[1] for command in commands] == ["describe", "logs"]
    assert [command.split()[-1] for command in commands] == [f"{JOB}=NAME"] * 2
    rows = [{"name": f"train-{rank}", "phase": "Running", "reason": None} for rank in (0, 1)]
    assert progress("running", None, rows) == "running, pods: 2 Running"


@pytest.mark.parametrize("name", ["support", "roce-e810"])
def test_pages_name_the_oldest_kubernetes(name: str) -> None:
    text = (COLLECTION / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert f"Role `kubernetes` installs Kubernetes 1.{OLDEST_MINOR} and newer" in " ".join(text.split())
    assert "Kubernetes 1.28 on RHEL 8" in text
