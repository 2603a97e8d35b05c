# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service was started from, as a short hash."""

from __future__ import annotations

import hashlib
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.service_revision import service_revision

PARTS: list[t.Any] = ["code", ["--port", 1], {"url": "a", "files": ["b"]}]


def test_it_is_the_beginning_of_a_hash_of_json() -> None:
    text = '["code", ["--port", 1], {"url": "a", "files": ["b"]}]'
    assert service_revision(PARTS) == hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("parts", [PARTS[:2], PARTS[::-1], [*PARTS, ""], ["code", ["--port", 2], PARTS[2]]])
def test_every_change_changes_it(parts: t.Any) -> None:
    assert service_revision(parts) != service_revision(PARTS)
