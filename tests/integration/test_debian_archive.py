# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Debian comes from on a machine whose own apt sources do not say it: mmdebstrap's default."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import aptsource, config
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool


def test_mmdebstrap_knows_the_archives_of_the_lab(tmp_path: Path) -> None:
    need_tool("mmdebstrap")
    sources = aptsource.of_this_machine(config.versions(), tmp_path)
    assert sources.archive.endswith("/debian")
    assert sources.security.endswith("/debian-security")
