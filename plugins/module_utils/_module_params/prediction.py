# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which value a module parameter will have after the next boot, from every source that can set it."""

from __future__ import annotations

import os
import typing as t

from .._errors import FabricError
from .._files import FileError, in_root, read_text
from .._initramfs.contents import forced
from .._kmod.cmdline import cmdline_settings
from .._kmod.config import from_texts, same_value, settings, words
from . import persistence

if t.TYPE_CHECKING:  # pragma: no cover
    from .._boot.entry import BootEntry
    from .._initramfs.contents import Contents

PROC_CMDLINE = "/proc/cmdline"
MODPROBE_D = "/etc/modprobe.d"


class Sources(t.NamedTuple):
    """What the next boot depends on in addition to modprobe.d, read once."""

    root: str
    entry: BootEntry | None
    running: str | None  # command line of this boot; None in an image
    contents: Contents | None  # None: unknown, or the entry has no initramfs
    has_initramfs: bool | None  # None: unknown
    unfinished: bool  # a rebuild of the initramfs was stopped halfway and must be done again
    builtin: bool  # the module is part of the kernel itself
    problems: list[str]  # sentences: what is not known, and why


class Prediction(t.NamedTuple):
    """``value`` None with ``known`` set: nothing gives the parameter a value, the kernel's default applies."""

    value: str | None
    known: bool
    reason: str | None  # why it is not known, or why it is not the configured value


class ParameterState(t.NamedTuple):
    """One parameter in the sources. ``initramfs`` and ``stale`` are None if they are not known."""

    cmdline: dict[str, str | None]
    initramfs: dict[str, t.Any] | None
    next_boot: Prediction
    stale: bool | None


def sources(root: str, module: str, kept: t.Sequence[str] = (MODPROBE_D,)) -> Sources:
    """Look at the default boot entry, its initramfs and the running command line. What cannot be read is a problem.

    Where one of the paths in ``kept`` is lost at a reboot, the boot loader's files say nothing of the next one.
    """
    problems: list[str] = []
    image = os.path.abspath(root) != "/"
    running = None if image else _running(problems)
    entry = _entry(root, () if image else kept)
    if entry.problem:
        problems.append(entry.problem)
    contents: Contents | None = None
    has_initramfs: bool | None = None
    interrupted = False
    if entry.initrd:
        from .._initramfs.inspect import inspect, unfinished

        has_initramfs = True
        try:
            contents = inspect(entry.initrd, root=root)
            interrupted = any(unfinished(image, root) for image in entry.initrd)
        except FabricError as exc:
            problems.append(str(exc))
    elif not entry.problem:
        has_initramfs = False
    kernel = entry.kernel_version or (None if image else os.uname().release)
    builtin = is_builtin(root, kernel, module)
    return Sources(root, entry, running, contents, has_initramfs, interrupted, builtin, problems)


def _entry(root: str, kept: t.Sequence[str]) -> BootEntry:
    from .._boot.default import default_entry
    from .._boot.entry import BootEntry

    lost = persistence.problem(kept)
    return default_entry(root) if lost is None else BootEntry("unknown", problem=lost)


def _running(problems: list[str]) -> str | None:
    try:
        with open(PROC_CMDLINE, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError as exc:
        problems.append("Reading the running kernel's command line, %s: %s." % (PROC_CMDLINE, exc.strerror))
        return None


def is_builtin(root: str, kernel: str | None, module: str) -> bool:
    """Whether ``kernel`` has the module built in, by its modules.builtin (depmod(8)); false without that file."""
    if kernel is None:
        return False
    try:
        text = read_text(in_root(root, "/lib/modules/%s/modules.builtin" % kernel))
    except FileError:
        return False
    return text is not None and "/%s.ko\n" % module in (text + "\n").replace("-", "_")


def initramfs_state(
    contents: Contents | None, module: str, param: str, cmdline: str | None = None
) -> dict[str, t.Any] | None:
    """Return what the initramfs, booted with ``cmdline``, does about one parameter; None if that is not known."""
    if contents is None:
        return None
    tree = from_texts(contents.modprobe, module)
    if tree.unreadable:
        return None
    assignment = settings(tree, module).get(param)
    # Options that come with a module's name on a list of modules to load are modprobe's arguments.
    options = contents.arguments.get(module)
    argument = None if options is None else {name: value for _start, _end, name, value in words(options)}.get(param)
    return {
        "image": contents.image,
        "contains_module": module in contents.modules,
        "forced": module in forced(contents, cmdline),
        "value": argument if assignment is None or argument is not None else assignment.value,
        "argument": argument,
    }


def initramfs_stale(state: dict[str, t.Any] | None, configured: str | None) -> bool | None:
    """Whether the initramfs carries the module with a different value than modprobe.d; None if not known."""
    if state is None:
        return None
    return bool(state["contains_module"]) and not same_value(state["value"], configured)


def predict(
    configured: str | None,
    cmdline_next: str | None,
    initramfs: dict[str, t.Any] | None,
    *,
    cmdline_known: bool = True,
    initramfs_known: bool = True,
    builtin: bool = False,
    uncertainty: str | None = None,
) -> Prediction:
    """Predict one parameter. ``uncertainty`` says why ``configured`` may not be what kmod takes.

    ``initramfs`` None with ``initramfs_known``: the entry boots without one.
    """
    forced = initramfs is not None and initramfs["contains_module"] and initramfs["forced"]
    if forced and initramfs is not None and initramfs.get("argument") is not None:
        # modprobe appends its own arguments to everything else (module_options_concat() in libkmod-module.c).
        return Prediction(initramfs["argument"], True, "the initramfs loads the module with this argument")
    if not cmdline_known:
        return Prediction(None, False, "the kernel command line of the next boot is not known")
    if cmdline_next is not None:
        # kmod appends the command line's parameters to those of modprobe.d (libkmod-config.c), and the kernel's
        # parse_args() takes the last.
        return Prediction(cmdline_next, True, "the kernel command line of the next boot sets it")
    if builtin:
        return Prediction(None, True, "the module is built into the kernel, which does not read modprobe.d")
    if not initramfs_known:
        return Prediction(None, False, "the initramfs of the next boot is not known")
    if initramfs is not None and initramfs["contains_module"]:
        if forced:
            differs = not same_value(initramfs["value"], configured)
            return Prediction(initramfs["value"], True, "the initramfs loads the module itself" if differs else None)
        if uncertainty is None and not same_value(initramfs["value"], configured):
            return Prediction(
                None,
                False,
                "the initramfs contains the module with another value, and it is not known whether the module is "
                "loaded there or later",
            )
    if uncertainty is not None:
        return Prediction(None, False, uncertainty)
    return Prediction(configured, True, None)


def cmdline_value(text: str | None, module: str, param: str, builtin: bool = False) -> str | None:
    """Return the value that a kernel command line gives to one parameter of a module."""
    return None if text is None else cmdline_settings(text, module, builtin).get(param)


def parameter_state(
    src: Sources,
    module: str,
    param: str,
    configured: str | None,
    *,
    uncertainty: str | None = None,
    rebuilt: bool = False,
) -> ParameterState:
    """Put one parameter together. ``rebuilt``: as if the initramfs had been made again from ``configured``."""
    following = None if src.entry is None else src.entry.cmdline
    state = initramfs_state(src.contents, module, param, following)
    if rebuilt and state is not None:
        state["value"] = configured if state["argument"] is None else state["argument"]
    following_value = cmdline_value(following, module, param, src.builtin)
    prediction = predict(
        configured,
        following_value,
        state,
        cmdline_known=following is not None,
        initramfs_known=state is not None or src.has_initramfs is False,
        builtin=src.builtin,
        uncertainty=uncertainty,
    )
    stale = False if src.has_initramfs is False else initramfs_stale(state, configured)
    if src.unfinished and state is not None and state["contains_module"] and not rebuilt:
        stale = True
    running_value = cmdline_value(src.running, module, param, src.builtin)
    return ParameterState({"running": running_value, "next_boot": following_value}, state, prediction, stale)


__all__ = (
    "Prediction",
    "Sources",
    "ParameterState",
    "cmdline_value",
    "initramfs_stale",
    "initramfs_state",
    "is_builtin",
    "predict",
    "sources",
    "parameter_state",
)
