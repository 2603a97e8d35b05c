# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter fabric_rounds; what it does is tested with the util below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import fabric_rounds as plugin
from ansible_collections.rdmaops.gpu_fabric.tests.support.templates import templated


def test_errors_are_those_of_a_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="these are in the list twice: 'a'"):
        plugin.fabric_rounds(["a", "a"])


def test_in_a_template(tmp_path: Path) -> None:
    expression = "groups['all'] | rdmaops.gpu_fabric.fabric_rounds(topology='ring')"
    assert templated(expression, {}, tmp_path, hosts="a,b,c,d") == [
        [{"client": "a", "server": "b"}, {"client": "c", "server": "d"}],
        [{"client": "b", "server": "c"}, {"client": "d", "server": "a"}],
    ]
