# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""JSON and YAML from other sources: any error is a ValueError.

The libraries have errors of other kinds too: both run into Python's limit of recursion on text that nests deeply, which
fits into an annotation; YAML's errors are not ValueErrors, and its numbers and dates can be ones that Python has not.
"""

from __future__ import annotations

import json
import typing as t

_DEEP = "it is nested too deeply"
# Levels in YAML, more than a CRD has. Between 20,000 and 30,000, on 8 MiB of stack, libyaml's loader ends the process.
_LEVELS = 250
# Values that aliases may stand for: a few lines of them can stand for more than any memory holds.
_VALUES = 1_000_000


def from_json(text: str | bytes) -> t.Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_DEEP) from None


def json_dictionary(text: str | None) -> dict[str, t.Any]:
    """Return the dictionary that a JSON text holds, an empty one for anything else."""
    try:
        value = from_json(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def from_yaml(text: str | bytes) -> t.Any:
    """Return the value of a YAML document."""
    import yaml

    # libyaml, if available: the loader in Python takes minutes for some thousands of brackets.
    return _yaml(yaml.load, text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def all_yaml(text: str | bytes, loader: t.Any) -> list[t.Any]:
    """Return the values of all documents in a YAML text, by a loader of one's own."""
    import yaml

    return t.cast("t.List[t.Any]", _yaml(lambda *arguments: list(yaml.load_all(*arguments)), text, loader))


def _bounded(loader: t.Any) -> t.Any:
    """Return a loader with a limit of levels: libyaml's recurses in C, without Python's limit.

    Both of PyYAML's loaders call these two around every node.
    """

    def descend_resolver(self: t.Any, *_where: t.Any) -> None:
        self.levels += 1
        if self.levels > _LEVELS:
            raise ValueError(_DEEP)

    def ascend_resolver(self: t.Any) -> None:
        self.levels -= 1

    members = {"levels": 0, "descend_resolver": descend_resolver, "ascend_resolver": ascend_resolver}
    return type("Loader", (loader,), members)


def _counted(text: str | bytes, value: t.Any) -> t.Any:
    """Return the value of a text; refuse aliases that contain themselves or expand to too much."""
    if "*" not in text if isinstance(text, str) else b"*" not in text:
        return value
    sizes: dict[int, int | None] = {}

    def count(item: t.Any) -> int:
        if not isinstance(item, (dict, list)):
            return 1
        if id(item) in sizes:
            size = sizes[id(item)]
            if size is None:
                raise ValueError("an alias refers to a value that contains it")
            return size
        sizes[id(item)] = None
        total = 1 + sum(map(count, item.values() if isinstance(item, dict) else item))
        sizes[id(item)] = total
        return total

    if count(value) > _VALUES:
        raise ValueError("its aliases expand to more than %d values" % _VALUES)
    return value


def _yaml(load: t.Callable[[t.Any, t.Any], t.Any], text: str | bytes, loader: t.Any) -> t.Any:
    import yaml

    try:
        return _counted(text, load(text, _bounded(loader)))
    except RecursionError:
        raise ValueError(_DEEP) from None
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from exc
    except (ArithmeticError, AttributeError, KeyError, TypeError) as exc:
        # Scalars that look like a number or a date, and a tag on a node of another kind.
        raise ValueError("%s: %s" % (type(exc).__name__, exc)) from exc


__all__ = ("all_yaml", "from_json", "from_yaml", "json_dictionary")
