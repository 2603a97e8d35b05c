# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab without virtual machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, inventory, nodes


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nodes.Lab:
    """A lab with an image and without nodes, whose disks are empty files."""

    def make_overlay(path: Path, _base: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    monkeypatch.setattr(inventory, "DIRECTORY", tmp_path / "inventory")
    monkeypatch.setattr(nodes, "make_overlay", make_overlay)
    places = config.places({"HOME": str(tmp_path)})
    image = places.images / "0123"
    image.mkdir(parents=True)
    (image / "image.json").write_text("{}")
    (image / "host_key.pub").write_text("ssh-ed25519 AAAA lab node\n")
    return nodes.Lab(places)
