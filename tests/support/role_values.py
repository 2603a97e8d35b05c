# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's variables and tasks as Ansible would template them, for what a site has set.

Ansible's loader of plugins takes over how collections are imported, so templates are done in a process of their own.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import typing as t
from pathlib import Path

LIMIT_S = 60
# What of a task holds or does not.
CONDITIONS = ("that", "until", "when")
# A program in the background of a shell that ends; it goes on with the shell's standard input.
APART = 'exec 3<&0; "$0" "$@" <&3 &'


class Values:
    """A child that answers one line for each line: `[ROLE, PATH, VARIABLES]`, and `[VALUE, ERROR]`."""

    def __init__(self) -> None:
        # Nobody's child here: tests that count or reap their children are not to meet it.
        self.child = subprocess.Popen(
            ["sh", "-c", APART, sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.child.wait(LIMIT_S)

    def ask(self, role: Path, path: t.Sequence[str], given: t.Mapping[str, t.Any]) -> t.Any:
        if self.child.stdin is None or self.child.stdout is None:
            raise AssertionError("a child without pipes")
        self.child.stdin.write(json.dumps([str(role), path, given]) + "\n")
        self.child.stdin.flush()
        found, error = json.loads(self.child.stdout.readline())
        if error:
            raise AssertionError(error)
        return found


# It ends with this process, when nobody asks it any more.
_child = functools.cache(Values)


class Role(t.NamedTuple):
    """A role, for what a site has set and a run has found."""

    directory: Path

    def value(self, name: str, **given: t.Any) -> t.Any:
        return _child().ask(self.directory, [name], given)

    def task(self, file: str, name: str, key: str, **given: t.Any) -> t.Any:
        """Return a keyword of a task, or an argument of its module; of a condition, whether it holds."""
        return _child().ask(self.directory, [file, name, key], given)


def values(role: Path) -> Role:
    return Role(role)


def with_templates(loader: t.Any, path: Path) -> t.Any:
    """Load a file of a role; since ansible-core 2.19 its templates are to be trusted."""
    try:
        return loader.load_from_file(str(path), trusted_as_template=True)
    except TypeError:
        return loader.load_from_file(str(path))


def trusted(text: str) -> str:
    try:
        from ansible.template import trust_as_template
    except ImportError:  # ansible-core before 2.19
        return text
    return trust_as_template(text)


def tasks_of(entries: t.Iterable[t.Any]) -> t.Iterator[t.Any]:
    """Return the tasks of a file, the blocks and those in blocks included."""
    for entry in entries:
        yield entry
        for part in ("block", "rescue", "always"):
            yield from tasks_of(entry.get(part, ()))


def part_of(entry: t.Any, key: str) -> t.Any:
    """Return a keyword of a task, or an argument of its module."""
    if key in entry:
        return entry[key]
    (arguments,) = [value for name, value in entry.items() if "." in name and isinstance(value, dict)]
    return arguments[key]


def main() -> None:
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import init_plugin_loader
    from ansible.template import Templar

    init_plugin_loader()
    loader = DataLoader()

    @functools.cache
    def known_of(role: Path) -> dict[str, t.Any]:
        known: dict[str, t.Any] = {
            "inventory_hostname": "here",
            "role_path": str(role),
            "ansible_search_path": [str(role)],
        }
        for part in ("defaults", "vars"):
            if (role / part / "main.yml").exists():
                known.update(with_templates(loader, role / part / "main.yml"))
        return known

    @functools.cache
    def tasks_in(path: Path) -> list[t.Any]:
        return list(tasks_of(with_templates(loader, path)))

    def answer(role: Path, path: list[str], given: dict[str, t.Any]) -> t.Any:
        known = {**known_of(role), **given}
        if len(path) == 1:
            return Templar(loader, variables=known).template(known[path[0]])
        file, name, key = path
        (entry,) = [entry for entry in tasks_in(role / "tasks" / file) if entry.get("name") == name]
        part = part_of(entry, key)
        templar = Templar(loader, variables={**known, **entry.get("vars", {})})
        if key not in CONDITIONS:
            return templar.template(part)
        texts = part if isinstance(part, list) else [part]
        held = [templar.template(trusted("{{ %s }}" % text)) for text in texts]
        if not all(isinstance(one, bool) for one in held):
            raise TypeError(f"conditions of {name} are neither true nor false: {held}")
        return all(held)

    for line in sys.stdin:
        role, path, given = json.loads(line)
        try:
            found = [answer(Path(role), path, given), None]
        except Exception as exc:  # who has asked raises it
            found = [None, f"{type(exc).__name__}: {exc}"]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
