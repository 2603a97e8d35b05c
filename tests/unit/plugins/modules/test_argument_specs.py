# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module takes is what its documentation says: types, defaults and choices."""

from __future__ import annotations

import importlib
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule

PACKAGE = "ansible_collections.rdmaops.gpu_fabric.plugins.modules"
MODULES = sorted(path.stem for path in Path(__file__).parents[4].joinpath("plugins/modules").glob("*.py"))
PROPERTIES = {"type": "str", "required": False, "default": None, "choices": None, "elements": None}


class SpecError(Exception):
    """Carries what a module calls AnsibleModule with."""


def stop(_module: AnsibleModule, **arguments: t.Any) -> t.NoReturn:
    raise SpecError(arguments["argument_spec"])


def compare(documented: dict[str, t.Any], spec: dict[str, t.Any]) -> None:
    for name, option in documented.items():
        taken = spec[name]
        for key, default in PROPERTIES.items():
            assert taken.get(key, default) == option.get(key, default), (name, key)
        assert set(taken.get("options", {})) == set(option.get("suboptions", {}))
        compare(option.get("suboptions", {}), taken.get("options", {}))


@pytest.mark.parametrize("name", MODULES)
def test_the_options_are_those_that_are_documented(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = importlib.import_module("%s.%s" % (PACKAGE, name))
    monkeypatch.setattr(AnsibleModule, "__init__", stop)
    with pytest.raises(SpecError) as caught:
        module.main()
    compare(yaml.safe_load(module.DOCUMENTATION).get("options", {}), caught.value.args[0])
