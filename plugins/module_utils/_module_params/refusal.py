# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Why options of modprobe_options are refused, and what to write instead."""

from __future__ import annotations

import typing as t

from .._errors import FabricError
from .._kmod.config import underscored


class OptionsError(FabricError):
    """The task's options cannot be right; the text says which and what to write instead."""


def refuse_name(name: str) -> t.NoReturn:
    """Refuse a name that no module has."""
    raise OptionsError(
        "name: %r is not the name of a kernel module. Write it as lsmod shows it, without directory and "
        "suffix, for example mlx5_core." % name
    )


def refuse_option(module: str, key: str, again: bool) -> t.NoReturn:
    """Refuse a parameter's name, or its second appearance."""
    if again:
        key = underscored(key)
        raise OptionsError("options: %s is given twice, with - and with _, which the kernel treats as the same." % key)
    raise OptionsError("options: %r is not the name of a parameter. modinfo -p %s lists them." % (key, module))


def refuse_value(key: str, value: t.Any) -> t.NoReturn:
    """Refuse a value."""
    if isinstance(value, str):
        raise OptionsError(
            "options: %s has a line break, another control character or a double quote in its value, which "
            "modprobe.d cannot express. Leave it out." % key
        )
    kind = {bool: "a boolean", float: "a floating point number", type(None): "null"}.get(type(value))
    raise OptionsError(
        "options: %s is %s, and only strings and integers define exactly what "
        "reaches the kernel. Quote it as the kernel should see it, for example %s: '%s'. "
        "(YAML reads on, off, yes and no as booleans.)"
        % (key, kind or "a " + type(value).__name__, key, _example(value))
    )


def _example(value: t.Any) -> str:
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value) if isinstance(value, float) else "1"


def refuse_nothing() -> t.NoReturn:
    """Refuse a task without options."""
    raise OptionsError("options: state=present needs at least one. To remove the file, set state to absent.")


def refuse_rdma(module: str, option: str) -> t.NoReturn:
    """Refuse what another module manages."""
    raise OptionsError(
        "%s of %s is managed by the module rdmaops.gpu_fabric.rdma_system, which determines when it takes "
        "effect: set its option netns_mode instead." % (option, module)
    )


def refuse_root(root: str) -> t.NoReturn:
    """Refuse a root that is not there."""
    raise OptionsError("root: %s is not a directory. Mount or unpack the image first." % root)


__all__ = (
    "OptionsError",
    "refuse_name",
    "refuse_nothing",
    "refuse_option",
    "refuse_rdma",
    "refuse_root",
    "refuse_value",
)
