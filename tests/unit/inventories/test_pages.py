# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of a page, as typed on it, have from its inventory what playbooks and roles require."""

from __future__ import annotations

import re
import shlex
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values
from ansible_collections.rdmaops.gpu_fabric.tests.unit.docs.test_commands import names, parser, typed
from ansible_collections.rdmaops.gpu_fabric.tests.unit.docs.test_names import PAGES
from ansible_collections.rdmaops.gpu_fabric.tests.unit.inventories.test_inventories import JOBS, hosts_of, job_value

Json = t.Any

# The inventory of a page.
SITES = {
    page: match[1]
    for page in PAGES
    if (match := re.search(r"The inventory is \[`inventories/(\w+)`\]", page.read_text(encoding="utf-8")))
}


def test_inventories_with_experiments_have_a_page() -> None:
    assert {row[0] for row in JOBS} <= set(SITES.values())


def required(playbook: str, groups: dict[str, list[str]]) -> tuple[list[str], set[str]]:
    """The variables that a playbook requires, and the hosts that have to have them."""
    given = yaml.safe_load((COLLECTION / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))[0]["vars"]
    parts = [name.partition("[")[0] for pattern in given["__check_groups"] for name in pattern.split(":")]
    return given.get("__check_required", []), {host for part in parts for host in groups.get(part, [])}


def image_problems(hosts: dict[str, Json], members: set[str], commands: list[Json]) -> list[str]:
    """What role training_image refuses, and what its image lacks for experiments."""
    problems = []
    for host in sorted(members):
        image = values(COLLECTION / "roles/training_image")
        if not image.task("main.yml", "Refuse a download without a digest", "that", **hosts[host]):
            problems.append(f"{host}: nccl-tests without a digest")
        needed = any(command[0].startswith("/usr/local/bin/") and command[0].endswith("_perf") for command in commands)
        if needed and not image.value("training_image_nccl_tests", **hosts[host]):
            problems.append(f"{host}: an image without nccl-tests")
    return problems


def job_problems(hosts: dict[str, Json], jobs: list[str], delivered: set[str]) -> list[str]:
    """What role training_job refuses: an experiment without an image, or with one that is on no node."""
    problems = []
    for name in jobs:
        problems += [f"{name}: {variable}" for variable in job_value("__training_job_unset", name, hosts[name])]
        image = job_value("training_job_image", name, hosts[name])
        if "@" not in image and image not in delivered:
            problems.append(f"{name}: nothing on the page delivers the image {image!r}")
    return problems


@pytest.mark.parametrize("page", SITES, ids=lambda page: page.stem)
def test_the_inventory_has_what_the_commands_require(page: t.Any) -> None:
    groups, hosts = hosts_of(SITES[page])
    jobs = [name for name in groups.get("experiments", []) if hosts[name].get("experiment_kind") != "fabric"]
    problems: list[str] = []
    delivered: set[str] = set()
    lines = typed(page)
    assert lines
    for line in lines:
        arguments = parser().parse_args(shlex.split(line)[1:])
        playbook = arguments.playbook.removeprefix("rdmaops.gpu_fabric.")
        extra = {name for text in arguments.extra for name in names(text)}
        variables, members = required(playbook, groups)
        problems += [
            f"{line}: {name} of {host}" for name in variables for host in members if name not in {*hosts[host], *extra}
        ]
        if playbook == "image":
            problems += image_problems(hosts, members, [hosts[name]["experiment_command"] for name in jobs])
            delivered |= {str(hosts[host].get("training_image_name")) for host in members}
        if playbook == "experiment":
            problems += job_problems(hosts, jobs, delivered)
    assert problems == []


@pytest.mark.parametrize("page", SITES, ids=lambda page: page.stem)
def test_the_page_says_where_the_data_has_to_be(page: t.Any) -> None:
    groups, hosts = hosts_of(SITES[page])
    text = page.read_text(encoding="utf-8")
    for name in groups.get("experiments", []):
        words = hosts[name].get("experiment_command", [])
        needed = [word for word in words if word == "--pre-trained"]
        if any(word.startswith("--data-dir") for word in words):
            needed += ["--data-url", "--data-checksum", "(training.md#the-data)"]
            needed += [volume["host_path"] for volume in hosts[name]["training_job_volumes"]]
        assert [word for word in needed if word not in text] == [], name
