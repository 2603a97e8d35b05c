# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Parameters of modules on the kernel command line, as kmod and the kernel read them."""

from __future__ import annotations

import re

from .config import kmod_name, underscored, words

# kmod reads this much of /proc/cmdline (KCMD_LINE_SIZE, less the final NUL).
CMDLINE_MAX = 4095

_CMDLINE_WORD = re.compile(r'(?:[^ \t\n\v\f\r"]|"[^"]*(?:"|\Z))+')
_CMDLINE_PARAM = re.compile(r'("?)([^."= \t\n\v\f\r]*)\.([^."= \t\n\v\f\r]*)(?:=(.*))?', re.S)


def by_kernel(text: str, module: str) -> dict[str, str]:
    """Return the parameters of a module that is built in. The kernel leaves what follows ``--`` to init."""
    start = module + "."
    return {name[len(start) :]: value for _start, _end, name, value in words(text) if name.startswith(start)}


def by_kmod(text: str, module: str) -> dict[str, str]:
    """Return the parameters of a loadable module. kmod reads the command line to its end (libkmod-config.c)."""
    text = text.encode("utf-8", "surrogateescape")[:CMDLINE_MAX].decode("utf-8", "surrogateescape")
    settings: dict[str, str] = {}
    for word in _CMDLINE_WORD.findall(text):
        match = _CMDLINE_PARAM.fullmatch(word)
        # What a quote that is never closed begins in is lost.
        if match is None or kmod_name(match.group(2)) != module or word.count('"') % 2:
            continue
        quote, name, value = match.group(1, 3, 4)
        # GRUB writes module.name="a b" as "module.name=a b", which kmod turns back.
        options = name if value is None else ("%s=%s%s" % (name, quote, value)).replace("\t", " ")
        settings.update({param: setting for _start, _end, param, setting in words(options)})
    return settings


def cmdline_settings(text: str, module: str, builtin: bool = False) -> dict[str, str]:
    """Return what a kernel command line sets of a module's parameters; ``builtin``: of one that is in the kernel."""
    name = underscored(module)
    if name not in underscored(text):
        return {}
    return by_kernel(text, name) if builtin else by_kmod(text, name)


__all__ = ("by_kernel", "by_kmod", "cmdline_settings")
