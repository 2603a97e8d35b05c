# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unsafe_words
short_description: Describe values that are not plain enough to be copied into a file
version_added: 0.1.0
description:
  - Compares values with the patterns that they must match before a role copies them, unquoted, into a unit, a manifest
    or a shell script, where other characters could have a special meaning.
  - A word of more than 4000 characters is never plain.
author:
  - rdmaops contributors (@rdmaops)
positional: patterns
options:
  _input:
    description:
      - The values, in the order of O(patterns). Every word of a list has to match. A value that is not a string is
        compared as text. Null is skipped.
    type: list
    elements: raw
    required: true
  patterns:
    description: A regular expression for the whole word, by the name of the variable that has the value.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse values that are not safe in the unit
  ansible.builtin.assert:
    that: unsafe | length == 0
    fail_msg: "{{ unsafe | join(' ') }} This has characters with a special meaning in a unit."
  vars:
    patterns:
      exporter_python: '/[A-Za-z0-9/._+-]*'
      exporter_devices: '[A-Za-z0-9][A-Za-z0-9_.-]{0,62}'
    unsafe: "{{ query('ansible.builtin.vars', *patterns) | rdmaops.gpu_fabric.unsafe_words(patterns) }}"
"""

RETURN = r"""
_value:
  description: A sentence for each word that does not match, with the variable and the first 200 characters of the word.
  type: list
  elements: str
  sample: ['exporter_python is "/usr/bin/python3 -c".']
"""

import json
import re
import typing as t

from ansible.errors import AnsibleFilterError

LONGEST = 4000
SHOWN = 200


def _words(value: t.Any) -> t.Iterator[str]:
    """Yield the words of a value, those of nested lists included."""
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _words(element)
    elif value is not None:
        yield str(value)


def _shown(word: str) -> str:
    """Return a word as a message quotes it."""
    return json.dumps(word if len(word) <= SHOWN else word[: SHOWN - 3] + "...")


def unsafe_words(values: t.Sequence[t.Any], patterns: t.Mapping[str, str]) -> list[str]:
    """Return a sentence for each word that does not match its pattern."""
    if len(values) != len(patterns):
        raise AnsibleFilterError("unsafe_words: there are %d values for %d patterns" % (len(values), len(patterns)))
    return [
        "%s is %s." % (name, _shown(word))
        for (name, pattern), value in zip(patterns.items(), values)
        for word in _words(value)
        if len(word) > LONGEST or not re.fullmatch(pattern, word)
    ]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"unsafe_words": unsafe_words}
