# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""The variables of a run's hosts: misspelt names, wrong values, missing ones."""

from __future__ import annotations

import datetime
import re
import typing as t

from jinja2 import Undefined

from .hosts import BUILT_IN, Inventory
from .known import GROUPS, Known
from .names import closest, edits_of_variable
from .values import listed, mistake

Json = t.Dict[str, t.Any]

FOREIGN = "site_foreign_variables"
BATCH = "node_maintenance_batch"

_SIMPLE = (str, bool, int, float, datetime.date, type(None))
# May be slow, or prompt for something: evaluated once, by the role.
_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")


class Variables(t.NamedTuple):
    """The variables of hosts, without those of a play or a role."""

    # As they are written, by host.
    raw: t.Mapping[str, t.Mapping[str, t.Any]]
    # Returns a variable of a host with its templates done.
    value: t.Callable[[str, str], t.Any]
    # Those of the command line, or of a job of AWX.
    extra: t.Mapping[str, t.Any]
    # Those of the play, as an import of a playbook has them.
    play: t.Mapping[str, t.Any] = {}

    def all(self) -> t.Iterator[t.Mapping[str, t.Any]]:
        """Return what can have variables, one after the other."""
        yield from (self.play, self.extra)
        yield from self.raw.values()

    def foreign(self) -> set[str]:
        """Return the names that the site declares not to be mistakes."""
        names: set[str] = set()
        for variables in self.all():
            value = variables.get(FOREIGN) or ()
            names.update(value.split(",") if isinstance(value, str) else map(str, value))
        return names


class Judge:
    """Judge all variables of all hosts; equal ones once."""

    def __init__(self, known: Known, variables: Variables, inventory: Inventory) -> None:
        self._known = known
        self._variables = variables
        self._inventory = inventory
        # With what each begins with.
        self._own = {name: known.prefix(name) for name in sorted(known.all())}
        self._foreign = variables.foreign()
        self._meant: dict[str, str | None] = {}
        self._judged: dict[tuple[str, int], tuple[t.Any, str]] = {}
        # The hosts of each misspelt name, and of each mistake in a variable.
        self._misspelt: dict[str, list[str]] = {}
        self._wrong: dict[tuple[str, str], list[str]] = {}
        self.unknown: set[str] = set()
        for host, values in (("", {**variables.play, **variables.extra}), *variables.raw.items()):
            for name, value in values.items():
                self._judge(host, name, value)

    def _judge(self, host: str, name: str, value: t.Any) -> None:
        if name in self._known.variables:
            text = self._mistake(host, name, value)
            if text:
                self._wrong.setdefault((name, text), []).append(host)
        elif self._is_misspelt(name):
            self._misspelt.setdefault(name, []).append(host)

    def _is_misspelt(self, name: str) -> bool:
        if name not in self._meant:
            self._meant[name] = self._closest(name)
        return self._meant[name] is not None

    def _closest(self, name: str) -> str | None:
        if name in self._own or name in self._foreign or name.startswith(("_", "ansible_")):
            return None
        meant = closest(name, ((other, edits_of_variable(name, other, prefix)) for other, prefix in self._own.items()))
        if meant is None and name.startswith(self._known.prefixes):
            self.unknown.add(name)
        return meant

    def _mistake(self, host: str, name: str, value: t.Any) -> str:
        specification = self._known.variables[name]
        key = (name, id(value))
        if key in self._judged:
            return self._judged[key][1]
        leaves = list(_leaves(value))
        texts = [leaf for leaf in leaves if isinstance(leaf, str)]
        vaulted = any(not isinstance(leaf, _SIMPLE) for leaf in leaves)
        if not vaulted and not any("{{" in text or "{%" in text for text in texts):
            # With the value, which keeps its identity for itself.
            self._judged[key] = (value, mistake(name, specification, value))
            return self._judged[key][1]
        if not host or any(map(_LOOKUP.search, texts)):
            return ""
        try:
            return mistake(name, specification, _done(self._variables.value(host, name)), vaulted)
        except Exception:  # what has no value yet is judged by its role
            return ""

    def sentences(self, required: t.Sequence[str] = ()) -> list[str]:
        """Return what is wrong: names first, because a misspelt one makes others look missing."""
        sentences = []
        for name, hosts in sorted(self._misspelt.items()):
            meant = self._meant[name] or ""
            role = self._known.roles.get(meant)
            owner = "role %s" % role if role else "this collection"
            where = self._where(name, hosts)
            sentences.append("%s (%s) is not a variable of %s. Did you mean %s?" % (name, where, owner, meant))
        for (name, text), hosts in sorted(self._wrong.items()):
            sentences.append("%s (%s) %s." % (name, self._where(name, hosts), text.rstrip(".")))
        return sentences + self._without_effect() + self._missing(required)

    def _without_effect(self) -> list[str]:
        hosts = [host for host, values in self._variables.raw.items() if BATCH in values]
        if not hosts or BATCH in self._variables.extra:
            return []
        text = "%s (%s) has no effect in an inventory, because Ansible forms batches before it looks at hosts: use -e."
        return [text % (BATCH, self._where(BATCH, hosts))]

    def _missing(self, required: t.Sequence[str]) -> list[str]:
        meant = {self._meant[name] for name in self._misspelt}
        set_somewhere = {name for values in self._variables.all() for name in values}
        missing = [name for name in required if name not in set_somewhere and name not in meant]
        if not missing:
            return []
        role = self._known.roles.get(missing[0], "")
        return ["%s %s not set, and role %s needs %s." % (
            listed(missing), "are" if missing[1:] else "is", role, "them" if missing[1:] else "it",
        )]  # fmt: skip

    def _where(self, name: str, hosts: t.Sequence[str]) -> str:
        """Return where a variable is set, as briefly as possible."""
        if name in self._variables.extra:
            return "extra variable"
        if name in self._variables.play:
            return "variable of the play"
        if len(hosts) == 1:
            return "host %s" % hosts[0]
        there, everywhere = set(hosts), set(self._inventory.hosts)
        groups = sorted(group for group in self._inventory.groups if group not in BUILT_IN)
        for group in (*GROUPS, *groups):
            if set(self._inventory.groups.get(group, ())) & everywhere == there:
                return "group %s" % group
        return "all hosts" if there == everywhere else "%d hosts, such as %s" % (len(hosts), hosts[0])


def _leaves(value: t.Any) -> t.Iterator[t.Any]:
    if isinstance(value, t.Mapping):
        for key, entry in value.items():
            yield key
            yield from _leaves(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value


def _done(value: t.Any) -> t.Any:
    """Return a templated value as plain Python. Raises an exception for one that depends on what is not known yet."""
    if isinstance(value, t.Mapping):
        return {key: _done(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [_done(entry) for entry in value]
    # Before ansible-core 2.19, a template without a value is left as it is.
    if isinstance(value, Undefined) or (isinstance(value, str) and "{{" in value):
        raise ValueError("it has no value yet")
    return value


__all__ = ("FOREIGN", "Judge", "Variables")
