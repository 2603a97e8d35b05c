# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests of this scenario import podlab.py, from wherever Molecule starts them."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import podlab


@pytest.fixture(scope="session")
def lab() -> podlab.PodLab:
    return podlab.PodLab()
