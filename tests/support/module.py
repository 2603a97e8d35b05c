# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module run in the test's own process."""

from __future__ import annotations

import contextlib
import json
import typing as t

from ansible.module_utils import basic


@contextlib.contextmanager
def module_arguments(given: t.Mapping[str, t.Any]) -> t.Iterator[None]:
    """Give the AnsibleModule that is made inside its arguments."""
    try:
        from ansible.module_utils.testing import patch_module_args
    except ImportError:  # ansible-core before 2.19
        before = basic._ANSIBLE_ARGS
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": dict(given)}).encode()
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before
        return
    with patch_module_args(dict(given)):
        yield


__all__ = ["module_arguments"]
