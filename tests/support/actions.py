# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run an action plugin as a task does."""

from __future__ import annotations

import typing as t
from types import ModuleType, SimpleNamespace

from ansible.parsing.dataloader import DataLoader

if t.TYPE_CHECKING:
    from pathlib import Path


def run_action(plugin: ModuleType, arguments: t.Any, directory: Path | None = None, **more: bool) -> t.Any:
    """Return the result of a task with these arguments; more is its check_mode, diff and no_log."""
    loader = DataLoader()
    if directory:
        loader.set_basedir(str(directory))
    name = plugin.__name__.rpartition(".")[2]
    keywords = {"check_mode": False, "diff": False, "no_log": False, "async_val": 0, "environment": None, **more}
    task = SimpleNamespace(
        args=arguments, action="rdmaops.gpu_fabric." + name, delegate_to=None, collections=[], **keywords
    )
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    action = plugin.ActionModule(task, connection, SimpleNamespace(), loader, None, None)
    # The loader of plugins says so.
    action._load_name = name
    return action.run(task_vars={})
