# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests on a running node of the lab: collected only when this directory (or a part of it) is asked for."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import lab_ssh

HERE = Path(__file__).resolve().parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab: needs a running node of the lab (make lab-up)")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    desired = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return None if any(path == HERE or HERE in path.parents for path in desired) else True


@pytest.fixture(scope="session")
def node() -> t.Iterator[lab_ssh.Guest]:
    result = lab_ssh.guest(os.environ.get("LAB_NODE", ""))
    result.install()
    try:
        yield result
    finally:
        result.remove()
