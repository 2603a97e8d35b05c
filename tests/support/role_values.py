# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's variables as Ansible would give them to a task, for what a site has set.

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
# A program in the background of a shell that ends; it goes on with the shell's standard input.
APART = 'exec 3<&0; "$0" "$@" <&3 &'


class Values:
    """A child that answers one line for each line: `[NAME, VARIABLES]`, and `[VALUE, ERROR]`."""

    def __init__(self, role: Path) -> None:
        # Nobody's child here: tests that count or reap their children are not to meet it.
        self.child = subprocess.Popen(
            ["sh", "-c", APART, sys.executable, str(Path(__file__).resolve()), str(role)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.child.wait(LIMIT_S)

    def value(self, name: str, **given: t.Any) -> t.Any:
        if self.child.stdin is None or self.child.stdout is None:
            raise AssertionError("a child without pipes")
        self.child.stdin.write(json.dumps([name, given]) + "\n")
        self.child.stdin.flush()
        found, error = json.loads(self.child.stdout.readline())
        if error:
            raise AssertionError(error)
        return found


@functools.cache
def values(role: Path) -> Values:
    """Return the child of a role; it ends with this process, when nobody asks it any more."""
    return Values(role)


def with_templates(loader: t.Any, path: Path) -> t.Any:
    """Load a file of a role; since ansible-core 2.19 its templates are to be trusted."""
    try:
        return loader.load_from_file(str(path), trusted_as_template=True)
    except TypeError:
        return loader.load_from_file(str(path))


def main(role: Path) -> None:
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import init_plugin_loader
    from ansible.template import Templar

    init_plugin_loader()
    loader = DataLoader()
    known: dict[str, t.Any] = {
        "inventory_hostname": "here",
        "role_path": str(role),
        "ansible_search_path": [str(role)],
    }
    for part in ("defaults", "vars"):
        known.update(with_templates(loader, role / part / "main.yml"))
    for line in sys.stdin:
        name, given = json.loads(line)
        try:
            answer = [Templar(loader, variables={**known, **given}).template(known[name]), None]
        except Exception as exc:  # who has asked raises it
            answer = [None, f"{type(exc).__name__}: {exc}"]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
