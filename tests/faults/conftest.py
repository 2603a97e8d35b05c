# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One fresh node for all tests of this directory."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.faults.machine import NODE, Machine
from ansible_collections.rdmaops.gpu_fabric.tests.lab.nodes import Lab


@pytest.fixture(scope="session")
def node() -> t.Iterator[Machine]:
    lab = Lab()
    if os.environ.get("FAULTS_KEEP_NODE"):
        lab.up([NODE])
        yield Machine(lab)
        return
    lab.fresh([NODE])
    try:
        yield Machine(lab)
    finally:
        lab.down()
