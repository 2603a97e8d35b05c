# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode on a virgin host changes nothing."""

from __future__ import annotations

import typing as t

import node
import pytest


def test_the_mode_is_the_kernels_default(host: t.Any) -> None:
    assert node.mode(host) == "shared"
    assert node.effective_options(host) == []


@pytest.mark.parametrize("directory", ["/etc", "/var/lib", "/boot"])
def test_nothing_of_ours_is_there(host: t.Any, directory: str) -> None:
    assert host.check_output("find %s -name '*rdmaops*'", directory) == ""


def test_no_package_was_installed(host: t.Any) -> None:
    assert not host.package("perftest").is_installed
