# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Values of variables, judged by their specification, in a few words."""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import ArgumentTypeError, ArgumentValueError

Json = t.Dict[str, t.Any]

# Characters of a value, and of a message of Ansible.
SHOWN = 60
MESSAGE = 160

KINDS = {
    "bool": "a boolean (true or false)",
    "dict": "a dictionary",
    "float": "a number",
    "int": "an integer",
    "list": "a list",
    "str": "a text",
}

_BATCH = re.compile(r"[1-9][0-9]*|(?:[1-9][0-9]?|100)%")


def mistake(name: str, specification: t.Mapping[str, t.Any], value: t.Any, secret: bool = False) -> str:
    """Return what is wrong with a value, as the rest of a sentence about the variable; "" if nothing is."""
    if name == "node_maintenance_batch":
        return _batch_mistake(value)
    # Whether it is required is not a matter of its value.
    judged = {key: entry for key, entry in specification.items() if key != "required"}
    errors = ArgumentSpecValidator({name: judged}).validate({name: value}).errors.errors
    if not errors:
        return ""
    kind = KINDS.get(judged.get("type", "str"), "of type %s" % judged.get("type"))
    if secret or judged.get("no_log"):
        return "is not %s" % kind if isinstance(errors[0], ArgumentTypeError) else "does not have the right content"
    choices = judged.get("choices")
    if choices and not isinstance(value, list):
        return "is %s, and must be %s" % (shown(value), listed(map(str, choices), "or"))
    if choices and isinstance(errors[0], ArgumentValueError):
        wrong = [entry for entry in value if entry not in choices]
        return "has %s, and may have %s" % (listed([shown(entry) for entry in wrong]), listed(map(str, choices)))
    if isinstance(errors[0], ArgumentTypeError) and ("argument '%s' " % name) in errors[0].msg:
        return "is %s, and must be %s" % (shown(value), kind)
    return "does not fit: %s" % cut(" ".join(errors[0].msg.split()), MESSAGE)


def _batch_mistake(value: t.Any) -> str:
    """Return why a play could not take it as serial, or would take it as all hosts at once."""
    batches = value if isinstance(value, list) and value else [value]
    if all(not isinstance(batch, bool) and _BATCH.fullmatch(str(batch)) for batch in batches):
        return ""
    return "is %s, and must be a number of nodes, at least 1, or a share such as 25%%" % shown(value)


def shown(value: t.Any) -> str:
    """Return a value as it is written in YAML, if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return cut(" ".join(str(value).split()), SHOWN) or "empty"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(words: t.Iterable[str], last: str = "and", most: int = 8) -> str:
    """Return words as a list in a sentence."""
    words = list(words)
    if len(words) > most:
        return "%s %s %d more" % (", ".join(words[: most - 1]), last, len(words) - most + 1)
    if len(words) < 2:
        return "".join(words)
    return "%s %s %s" % (", ".join(words[:-1]), last, words[-1])


__all__ = ("cut", "listed", "mistake", "shown")
