# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that look into other network namespaces may make the system calls that this takes (SystemCallFilter)."""

from __future__ import annotations

import functools
import re
import subprocess

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_tool

ENTER = COLLECTION / "plugins/module_utils/_netns/enter.py"
UNITS = (
    "rdma_attachment/templates/rdma_attachment.service.j2",
    "rdma_exporter/templates/rdma_exporter-look.service.j2",
)


@functools.cache
def allowed(word: str) -> frozenset[str]:
    """The system calls of a word of SystemCallFilter, as systemd has them."""
    if not word.startswith("@"):
        return frozenset([word])
    argv = [need_tool("systemd-analyze"), "syscall-filter", word]
    text = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    members = [line.strip() for line in text.splitlines()[1:] if not line.strip().startswith("#")]
    return frozenset().union(*(allowed(member) for member in members if member))


@pytest.mark.parametrize("unit", UNITS)
def test_calls_that_enter_a_namespace_are_allowed(unit: str) -> None:
    calls = set(re.findall(r"\blibc\.(\w+)\(", ENTER.read_text(encoding="utf-8")))
    assert {"setns", "unshare", "mount"} <= calls
    (words,) = re.findall(r"(?m)^SystemCallFilter=(.*)$", (COLLECTION / "roles" / unit).read_text(encoding="utf-8"))
    assert calls - frozenset().union(*map(allowed, words.split())) == set()
