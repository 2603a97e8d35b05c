# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The annotations that name attachments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.uses import named, users

# annotation of a pod in the namespace default, whether it names default/old
NOTES = [
    ("old", True),
    ("other, old@net1 ,x", True),
    ("default/old", True),
    ("other/old", False),
    ("older", False),
    ('[{"name": "old"}]', True),
    ('[{"name": "old", "namespace": "other"}]', False),
    ('[{"name": "x"}, {"name": "old", "namespace": "default", "interface": "net7"}]', True),
    ('{"name": "old"}', True),
    ('["default/old@net1"]', True),
    ('[{"name": "old"', True),
    ('[{"nam": "old"}]', True),
    ("a/b/old", True),
    ("", False),
]


@pytest.mark.parametrize(("note", "hit"), NOTES)
def test_annotations(note: str, hit: bool) -> None:
    row = {
        "metadata": {"namespace": "default", "name": "p"},
        "spec": {"tasks": [{"template": {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": note}}}}]},
    }
    assert users([row], "Pod", ["default/old"]) == ({"default/old": ["Pod default/p"]} if hit else {})


@given(st.text(max_size=40))
def test_any_annotation_is_read_or_not_understood(text: str) -> None:
    keys = named(text, "default")
    assert keys is None or all("/" in key for key in keys)
