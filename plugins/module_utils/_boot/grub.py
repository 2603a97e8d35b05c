# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""GRUB 2: the entry that a configuration boots by default, and its arguments.

A grub.cfg is a program: which entry is the default depends on grubenv, on tests and on functions. So it is run.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from .bls import grub_options
from .efi import uki_entry
from .entry import BootEntry, Machine
from .files import BootError, Files, finish
from .grub_shell import Item, Shell, Stop
from .grub_syntax import MAX_DEPTH, Parser


def _same(name: str | None, default: str) -> bool:
    """Compare a title or id with the first step of a path like "a>b"; ">>" stands for a ">" in a name."""
    if name is None:
        return False
    first = re.split(r"(?<!>)>(?!>)", default.replace(">>", "\0"))[0]
    return first.replace("\0", ">") == name


def _strtoul(text: str) -> int | None:
    """Return what (int) grub_strtoul(text, 0, 0) is: what a text begins with counts, 0 makes octal, 0x hexadecimal."""
    match = re.match(r"\s*(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))", text, re.ASCII)
    if not match:
        return None
    number = next(int(digits[:100], base) for digits, base in zip(match.groups(), (16, 8, 10)) if digits)
    if number >= 1 << 64:
        return -1
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def choose(menu: t.Sequence[Item], default: str | None, names_first: bool = False) -> tuple[Item, str | None]:
    """Return the entry that a value of the variable ``default`` means, and what is left of it for a submenu.

    grub-core/normal/menu.c get_entry_number(): a number from 0, else a title or id; what matches nothing is the first
    entry. ``names_first``: Fedora, RHEL and their kin look for ids and titles before they take a number, as the ids of
    their entries begin with a machine id.
    """
    if default is None:
        return menu[0], None
    rest = re.split(r"(?<!>)>(?!>)", default.replace(">>", "\0"), maxsplit=1)[1:]
    left = rest[0].replace("\0", ">>") if rest else None
    number = _strtoul(default)
    if number is None or names_first:
        named = [item for item in menu if _same(item.id, default)] if names_first else []
        named += [item for item in menu if _same(item.title, default) or (not names_first and _same(item.id, default))]
        if named:
            return named[0], left
    if number is not None and 0 <= number < len(menu):
        return menu[number], left
    return menu[0], left


def quoted(arguments: t.Iterable[str]) -> str:
    """Join arguments as grub-core/lib/cmdline.c does: blanks make quotes, quotes and backslashes are escaped."""
    line = []
    for argument in arguments:
        text = re.sub(r"(\\(?!x[0-9a-fA-F]{2})|['\"])", r"\\\1", argument)
        line.append('"%s"' % text if " " in text else text)
    return " ".join(line)


def run_entry(shell: Shell, item: Item, left: str | None) -> Item:
    """Run the default entry, down through submenus, and return the one that starts a kernel."""
    for _level in range(MAX_DEPTH):
        shell.path = item.path
        shell.menu = []
        with contextlib.suppress(Stop):
            shell.run(item.body)
        if not (item.submenu or shell.menu) or shell.linux is not None:
            return item
        if not shell.menu:
            raise BootError("%s: the default entry '%s' is an empty submenu" % (item.path, item.title))
        item, left = choose(shell.menu, left or None, shell.names_first)
    raise BootError("%s: submenus are nested too deeply" % item.path)


REGENERATE = "change GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub and run update-grub"
GRUBBY = "grubby --update-kernel=ALL --remove-args=... removes an argument from every entry"


def grub_entry(files: Files, machine: Machine, config: str) -> BootEntry:
    """Return the entry that GRUB boots by default with the configuration ``config``."""
    text = files.read(config)
    if text is None:
        raise BootError("Reading %s: no such file" % config)
    shell = Shell(files, machine, config)
    with contextlib.suppress(Stop):
        shell.run(Parser(text, config).statements())
    shell.depth = 0
    if shell.linux is None:
        if not shell.menu:
            return BootEntry("grub", source=config, problem="%s creates no menu entry" % config)
        item, left = choose(shell.menu, shell.env.get("default"), shell.names_first)
        item = run_entry(shell, item, left)
        if item.bls is not None:
            options, parts = grub_options(item.bls, shell.env, shell.origin)
            # blscfg.c hands "linux PATH OPTIONS" and "initrd PATH ..." to GRUB's own parser: quotes and variables mean
            # what they mean there ("initrd /initramfs.img $tuned_initrd" of RHEL).
            shell.path = item.path
            arguments = shell.words(options)
            entry = BootEntry(
                "bls", item.path, item.bls.line, quoted(arguments), title=item.title, parts=tuple(parts), remedy=GRUBBY
            )
            early = shell.env.get("early_initrd", "").split()
            directory = os.path.dirname(item.bls.linux)
            initrds = [directory + "/" + name for name in early] + shell.words(" ".join(item.bls.initrd))
            return finish(files, machine, entry, item.bls.linux, initrds)
        title = item.title
    else:
        title = None
    linux = shell.linux
    if linux is None and shell.chain is not None and shell.chain[0].lower().endswith(".efi"):
        place = files.locate(shell.chain[0], machine)
        if place is not None:
            return uki_entry(files, place, title)
    if linux is None:
        return BootEntry(
            "grub",
            source=item.path,
            title=title,
            problem="The default entry '%s' of %s does not itself boot a Linux kernel" % (title, item.path),
        )
    entry = BootEntry(
        "grub",
        linux.config,
        linux.line,
        quoted(linux.arguments),
        title=title,
        parts=tuple(linux.parts),
        remedy=REGENERATE if files.exists("/etc/default/grub") else "edit %s" % linux.config,
    )
    return finish(files, machine, entry, linux.path, shell.initrds)


__all__ = (
    "choose",
    "grub_entry",
    "quoted",
)
