# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""JSON and YAML that others have written: whatever is wrong with it is a ValueError.

The libraries have errors of other kinds too: both run into Python's limit of recursion on text that nests deeply, which
fits into an annotation; YAML's errors are no ValueError, and its numbers and dates can be ones that Python has not.
"""

from __future__ import annotations

import json
import typing as t

_DEEP = "it nests too deeply"


def from_json(text: str | bytes) -> t.Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_DEEP) from None


def from_yaml(text: str | bytes) -> t.Any:
    """Return the value of a YAML document."""
    import yaml

    # Where libyaml is built in: the loader in Python takes minutes for some thousands of brackets.
    return _yaml(lambda: yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def all_yaml(text: str | bytes, loader: t.Any) -> list[t.Any]:
    """Return the values of all documents in a YAML text, by a loader of one's own."""
    import yaml

    return t.cast("t.List[t.Any]", _yaml(lambda: list(yaml.load_all(text, Loader=loader))))


def _yaml(load: t.Callable[[], t.Any]) -> t.Any:
    import yaml

    try:
        return load()
    except RecursionError:
        raise ValueError(_DEEP) from None
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from exc
    except (ArithmeticError, AttributeError, KeyError, TypeError) as exc:
        # Scalars that look like a number or a date, and a tag on a node of another kind.
        raise ValueError("%s: %s" % (type(exc).__name__, exc)) from exc


__all__ = ("all_yaml", "from_json", "from_yaml")
