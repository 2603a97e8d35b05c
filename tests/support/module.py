# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module run in the test's own process."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import json
import typing as t

import pytest
from ansible.module_utils import basic


@contextlib.contextmanager
def module_arguments(arguments: t.Mapping[str, t.Any]) -> t.Iterator[None]:
    """Pass arguments to the AnsibleModule that is created inside."""
    try:
        from ansible.module_utils.testing import patch_module_args
    except ImportError:  # ansible-core before 2.19
        before = basic._ANSIBLE_ARGS
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": dict(arguments)}).encode()
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before
        return
    with patch_module_args(dict(arguments)):
        yield


class _Captured(Exception):
    """The argument specification that a module was made with."""


def argument_spec(name: str, monkeypatch: pytest.MonkeyPatch) -> t.Mapping[str, t.Any]:
    """Return what a module of the collection takes."""
    module = importlib.import_module(f"ansible_collections.rdmaops.gpu_fabric.plugins.modules.{name}")

    def capture(_self: object, argument_spec: t.Mapping[str, t.Any], *_args: object, **_more: object) -> None:
        raise _Captured(argument_spec)

    monkeypatch.setattr("ansible.module_utils.basic.AnsibleModule.__init__", capture)
    # A module of the collection's own class gets as far as its parent does.
    with module_arguments({}), pytest.raises(_Captured) as caught:
        module.main()
    return t.cast("t.Mapping[str, t.Any]", caught.value.args[0])


# Python 3.8 has no functools.cache.
@functools.lru_cache(maxsize=None)  # noqa: UP033
def _specification(name: str) -> t.Mapping[str, t.Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return argument_spec(name, monkeypatch)


def options_of(module: str, /, **options: t.Any) -> dict[str, t.Any]:
    """Return the options of a module of the collection: those given, and the defaults of the others."""
    defaults = {option: copy.deepcopy(entry.get("default")) for option, entry in _specification(module).items()}
    return {**defaults, **options}


__all__ = ["argument_spec", "module_arguments", "options_of"]
