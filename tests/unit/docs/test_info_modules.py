# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that only read are called NOUN_info, and their former names lead to them."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.unit.docs.test_recorded_names import documentation

NAME = "rdmaops.gpu_fabric"
MODULES = {path.stem: path for path in sorted((COLLECTION / "plugins/modules").glob("*.py"))}
ROUTING: dict[str, t.Any] = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text(encoding="utf-8"))[
    "plugin_routing"
]["modules"]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_only_reads_is_called_info(name: str) -> None:
    document = documentation(MODULES[name]) or {}
    if f"{NAME}._attributes.info_module" in document["extends_documentation_fragment"]:
        assert name.endswith("_info")


@pytest.mark.parametrize("former", ROUTING)
def test_a_former_name_is_no_module_and_leads_to_one(former: str) -> None:
    assert former not in MODULES
    assert ROUTING[former]["redirect"].removeprefix(NAME + ".") in MODULES


def test_ansible_finds_modules_by_their_former_names() -> None:
    program = Path(sys.executable).with_name("ansible-doc")
    argv = [program, "--json", "--type", "module", *(f"{NAME}.{former}" for former in ROUTING)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = {entry["doc"]["module"] for entry in json.loads(done.stdout).values()}
    assert {f"{NAME}.{name}" for name in shown} == {entry["redirect"] for entry in ROUTING.values()}
