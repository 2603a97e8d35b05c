# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module takes is what its documentation says: types, defaults and choices."""

from __future__ import annotations

import importlib
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import argument_spec

MODULES = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py"))
PROPERTIES = {"type": "str", "required": False, "default": None, "choices": None, "elements": None}


def compare(documented: t.Mapping[str, t.Any], spec: t.Mapping[str, t.Any]) -> None:
    for name, option in documented.items():
        taken = spec[name]
        for key, default in PROPERTIES.items():
            assert taken.get(key, default) == option.get(key, default), (name, key)
        assert set(taken.get("options", {})) == set(option.get("suboptions", {}))
        compare(option.get("suboptions", {}), taken.get("options", {}))


@pytest.mark.parametrize("name", MODULES)
def test_the_options_are_those_that_are_documented(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = importlib.import_module(f"ansible_collections.rdmaops.gpu_fabric.plugins.modules.{name}")
    documented = yaml.safe_load(module.DOCUMENTATION).get("options", {})
    compare(documented, argument_spec(name, monkeypatch))
