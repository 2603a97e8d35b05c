# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._kubernetes.server import Server


@pytest.fixture
def serve() -> t.Iterator[t.Callable[..., Server]]:
    with contextlib.ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(list(answers)).running())
