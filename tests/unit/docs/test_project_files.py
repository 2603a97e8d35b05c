# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for contributors and forges: licences, hooks, workflow, templates."""

from __future__ import annotations

import re
import tomllib
import typing as t

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.suite.parts import PARTS
from ansible_collections.rdmaops.gpu_fabric.tests.suite.tree import files
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

# In a line of its own, or the rest of one, as reuse reads it; not in the strings of a program.
# REUSE-IgnoreStart
LICENSE = re.compile(r"^[^\"'\n]*SPDX-License-Identifier: ([A-Za-z0-9.-]+)", re.M)
# REUSE-IgnoreEnd


def document(name: str) -> t.Any:
    return yaml.safe_load((COLLECTION / name).read_text(encoding="utf-8"))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (COLLECTION / "Makefile").read_text(encoding="utf-8"), re.M))


def test_every_license_has_its_text_and_none_is_left_over() -> None:
    used = {tomllib.loads((COLLECTION / "REUSE.toml").read_text())["annotations"][0]["SPDX-License-Identifier"]}
    for name in files():
        used |= set(LICENSE.findall((COLLECTION / name).read_bytes()[:4096].decode(errors="replace")))
    assert {path.stem for path in (COLLECTION / "LICENSES").iterdir()} == used


def test_the_license_is_that_of_the_collection() -> None:
    (name,) = document("galaxy.yml")["license"]
    assert (COLLECTION / "LICENSES" / f"{name}.txt").read_bytes() == (COLLECTION / "LICENSE").read_bytes()


def test_reuse_takes_every_file_in() -> None:
    reuse = tomllib.loads((COLLECTION / "REUSE.toml").read_text(encoding="utf-8"))
    assert reuse["version"] == 1
    assert [annotation["path"] for annotation in reuse["annotations"]] == ["**"]


def test_the_workflow_runs_what_needs_no_root() -> None:
    workflow = document(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"}
    assert job["strategy"]["matrix"]["part"] == ["lint", "sanity", "docs", "unit"]
    assert set(job["strategy"]["matrix"]["part"]) <= {part.name for part in PARTS}
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert [re.findall(r"^make ([a-z-]+)", step) for step in steps] == [["dev"], ["test"]]


def test_hooks_of_pre_commit_call_make() -> None:
    for repository in document(".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            program, target = hook["entry"].split()
            assert program == "make"
            assert target in targets()


def test_templates_of_issues_are_forms() -> None:
    for path in (COLLECTION / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "config":
            continue
        assert {"name", "description", "body"} <= set(form), path
        for item in form["body"]:
            assert item["type"] == "markdown" or item["attributes"]["label"], path
