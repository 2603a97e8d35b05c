# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: service_revision
short_description: Name what a service was started from
version_added: 0.1.0
description:
  - Hashes everything that needs a restart of a service when it changes - its code, its unit, its arguments. If the
    service reports the revision that it was started with, it can be compared with the current one.
  - Do not include passwords, because the revision is visible to others.
author:
  - rdmaops contributors (@rdmaops)
options:
  _input:
    description: Texts, and lists and dictionaries of them.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the revision
  ansible.builtin.debug:
    msg: "{{ [code, arguments] | rdmaops.gpu_fabric.service_revision }}"
"""

RETURN = r"""
_value:
  description: Twelve hexadecimal digits.
  type: str
  sample: 5f3a9c0b1d2e
"""

import hashlib
import json
import typing as t


def _plain(value: t.Any) -> t.Any:
    """Return a copy for JSON; since ansible-core 2.19, containers are templated when they are iterated over."""
    if isinstance(value, t.Mapping):
        return {str(key): _plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return value


def service_revision(parts: t.Any) -> str:
    """Return the first digits of a hash."""
    return hashlib.sha256(json.dumps(_plain(parts)).encode()).hexdigest()[:12]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"service_revision": service_revision}
