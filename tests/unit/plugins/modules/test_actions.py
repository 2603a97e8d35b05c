# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that are the documentation of an action say so if they are run as modules."""

from __future__ import annotations

import importlib
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

NAMES = sorted(
    path.stem for path in (COLLECTION / "plugins/modules").glob("*.py") if "as an action, and this" in path.read_text()
)


@pytest.mark.parametrize("name", NAMES)
def test_the_module_says_what_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    documentation = importlib.import_module(f"ansible_collections.rdmaops.gpu_fabric.plugins.modules.{name}")

    class Module:
        def __init__(self, **given: t.Any) -> None:
            assert given["argument_spec"] is documentation.ARGUMENT_SPEC

        def fail_json(self, msg: str) -> None:
            raise SystemExit(msg)

    monkeypatch.setattr(documentation, "AnsibleModule", Module)
    with pytest.raises(SystemExit, match=f"^{name} runs on the controller as an action"):
        documentation.main()


def test_there_are_such_modules() -> None:
    assert {"drift_verdict", "fabric_verdict", "run_summary"} <= set(NAMES)
