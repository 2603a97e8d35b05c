# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file in plugins/filter gives Ansible the one filter that it is named after."""

from __future__ import annotations

import importlib

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION


@pytest.mark.parametrize("name", sorted(path.stem for path in (COLLECTION / "plugins" / "filter").glob("*.py")))
def test_a_file_gives_one_filter(name: str) -> None:
    module = importlib.import_module("ansible_collections.rdmaops.gpu_fabric.plugins.filter." + name)
    assert module.FilterModule().filters() == {name: getattr(module, name)}
