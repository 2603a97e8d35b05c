# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A containerd and a registry for the tests of a directory."""

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import images


@pytest.fixture(scope="session")
def common_containerd() -> t.Iterator[images.Containerd]:
    # A socket's path has to be short.
    with (
        tempfile.TemporaryDirectory(prefix="rdmaops-") as place,
        images.running(images.Containerd(Path(place))) as made,
    ):
        yield made


@pytest.fixture
def containerd(common_containerd: images.Containerd) -> images.Containerd:
    common_containerd.clear()
    return common_containerd


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[images.Registry]:
    with images.running(images.Registry(tmp_path_factory.mktemp("registry"))) as made:
        yield made
