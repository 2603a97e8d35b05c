# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's variables and tasks as Ansible would template them, for the variables of a site.

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
# Keywords of a task that are true or false.
CONDITIONS = ("that", "until", "when")
# A shell that starts a program in the background, with the shell's standard input, and exits.
APART = 'exec 3<&0; "$0" "$@" <&3 &'


class Values:
    """A child that answers one line for each line: `[ROLE, PATH, VARIABLES]`, and `[VALUE, ERROR]`."""

    def __init__(self) -> None:
        # Not a child of this process, because some tests count or reap their children.
        argv = ["sh", "-c", APART, sys.executable, str(Path(__file__).resolve())]
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.child.wait(LIMIT_S)

    def ask(self, role: Path, path: t.Sequence[str], site: t.Mapping[str, t.Any]) -> t.Any:
        if self.child.stdin is None or self.child.stdout is None:
            raise AssertionError("a child without pipes")
        self.child.stdin.write(json.dumps([str(role), path, site]) + "\n")
        self.child.stdin.flush()
        value, error = json.loads(self.child.stdout.readline())
        if error:
            raise AssertionError(error)
        return value


# It ends when this process closes its standard input.
# Python 3.8 has no functools.cache.
_child = functools.lru_cache(None)(Values)


class Role(t.NamedTuple):
    """A role, for variables of a site and facts of a run."""

    directory: Path

    def value(self, name: str, **site: t.Any) -> t.Any:
        return _child().ask(self.directory, [name], site)

    def task(self, file: str, name: str, key: str, **site: t.Any) -> t.Any:
        """Return a keyword of a task, or an argument of its module; whether a condition is true."""
        return _child().ask(self.directory, [file, name, key], site)


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


class Answers:
    """What the child does: Ansible's loader and templates, in a process of their own."""

    def __init__(self) -> None:
        from ansible.parsing.dataloader import DataLoader
        from ansible.plugins.loader import init_plugin_loader

        init_plugin_loader()
        self.loader = DataLoader()
        self.variables = functools.lru_cache(None)(self._variables)
        self.tasks = functools.lru_cache(None)(self._tasks)

    def _variables(self, role: Path) -> dict[str, t.Any]:
        variables: dict[str, t.Any] = {"inventory_hostname": "here", "role_path": str(role)}
        variables["ansible_search_path"] = [str(role)]
        for part in ("defaults", "vars"):
            if (role / part / "main.yml").exists():
                variables.update(with_templates(self.loader, role / part / "main.yml"))
        return variables

    def _tasks(self, path: Path) -> list[t.Any]:
        return list(tasks_of(with_templates(self.loader, path)))

    def template(self, variables: dict[str, t.Any], value: t.Any) -> t.Any:
        from ansible.template import Templar

        return Templar(self.loader, variables=variables).template(value)

    def answer(self, role: Path, path: list[str], site: dict[str, t.Any]) -> t.Any:
        variables = {**self.variables(role), **site}
        if len(path) == 1:
            return self.template(variables, variables[path[0]])
        file, name, key = path
        (entry,) = [entry for entry in self.tasks(role / "tasks" / file) if entry.get("name") == name]
        variables.update(entry.get("vars", {}))
        part = part_of(entry, key)
        if key not in CONDITIONS:
            return self.template(variables, part)
        texts = part if isinstance(part, list) else [part]
        results = [self.template(variables, trusted(f"{{{{ {text} }}}}")) for text in texts]
        if not all(isinstance(result, bool) for result in results):
            raise TypeError(f"conditions of {name} are neither true nor false: {results}")
        return all(results)


def main() -> None:
    answers = Answers()
    for line in sys.stdin:
        role, path, site = json.loads(line)
        try:
            reply = [answers.answer(Path(role), path, site), None]
        except Exception as exc:  # the parent raises it
            reply = [None, f"{type(exc).__name__}: {exc}"]
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
