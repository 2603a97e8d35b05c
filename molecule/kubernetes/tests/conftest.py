# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests of this scenario ask as those of pods do, of the cluster that kubeadm has made."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "pods/tests"))
os.environ["LAB_CLUSTER"] = "kubeadm"

import podlab


@pytest.fixture(scope="session")
def lab() -> podlab.PodLab:
    return podlab.PodLab()
