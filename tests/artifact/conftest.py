# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built artifact."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION


def run(argv: t.Sequence[str | Path], *, limit: int = 120, **options: t.Any) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL, **options
    )
    if done.returncode != 0:
        pytest.fail(
            f"exit status {done.returncode}: {' '.join(map(str, argv))}\n{done.stdout}{done.stderr}", pytrace=False
        )
    return done.stdout


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build in the checkout itself, with .venv, caches and the lab's inventory lying around."""
    target = tmp_path_factory.mktemp("build")
    run(
        [Path(sys.executable).parent / "ansible-galaxy", "collection", "build", "--output-path", target], cwd=COLLECTION
    )
    (built,) = target.glob("*.tar.gz")
    return built
