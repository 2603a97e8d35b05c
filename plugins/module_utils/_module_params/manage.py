# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the module modprobe_options does, without Ansible."""

from __future__ import annotations

import os
import re
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._errors import FabricError
from .._files import read_text
from .._initramfs.contents import kernel_image
from .._kmod.config import Assignment, parse, same_value, settings, underscored
from .._kmod.plan import add_to, check_path, install_command, plan
from .._kmod.plan_model import Plan, real_path
from . import refusal
from .host import RDMA_DROP_IN, RDMA_OPTION, InitramfsHost
from .prediction import ParameterState, Sources, initramfs_stale, initramfs_state, parameter_state, sources

SYS_MODULE = "/sys/module"

ARGUMENTS: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "options": {"type": "dict"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "path": {"type": "path"},
    "root": {"type": "path", "default": "/"},
    "on_conflict": {"type": "str", "choices": ["fail", "warn", "take_over"], "default": "fail"},
    "initramfs": {"type": "str", "choices": ["report", "rebuild"], "default": "report"},
}

_UNWRITABLE = re.compile('[\x00-\x1f\x7f"]')


class Task(t.NamedTuple):
    """The task's options, checked."""

    module: str
    options: dict[str, str]
    state: str
    path: str
    root: str
    on_conflict: str
    rebuild: bool


class Host(InitramfsHost):
    """The edges: what is read from the host in addition to modprobe.d, and what is done to its initramfs."""

    def live(self, module: str, name: str) -> str | None:
        """Return what sysfs has of a parameter; None: the module is not loaded, or does not show it."""
        if os.path.abspath(self.root) != "/":
            return None
        try:
            with open("%s/%s/parameters/%s" % (SYS_MODULE, module, name), encoding="utf-8", errors="replace") as stream:
                return stream.read().rstrip("\n")
        except OSError:
            return None

    def loaded(self, module: str) -> bool:
        return os.path.abspath(self.root) == "/" and os.path.isdir("%s/%s" % (SYS_MODULE, module))

    def sources(self, module: str) -> Sources:
        return sources(self.root, module)


class _Recorded(Decision):
    """A decision that writes down what has been done, for a failure halfway."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self.done = done

    def add(self, action: str, step: t.Callable[[], t.Any], diff: tuple[str, str, str] | None = None) -> None:
        def recorded() -> None:
            step()
            self.done.append(action)

        super().add(action, recorded, diff)


def check(params: t.Mapping[str, t.Any]) -> Task:
    """Check the task's options and return them in the form that kmod has them."""
    name = params["name"]
    if not re.fullmatch("[A-Za-z0-9_-]+", name):
        refusal.refuse_name(name)
    module = underscored(name)
    options: dict[str, str] = {}
    for key, value in (params["options"] or {}).items():
        option = underscored(str(key))
        if option in options or not re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_.-]*", str(key)):
            refusal.refuse_option(module, str(key), option in options)
        options[option] = str(value)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or _UNWRITABLE.search(options[option]):
            refusal.refuse_value(str(key), value)
    if params["state"] == "present" and not options:
        refusal.refuse_nothing()
    path = params["path"] or "/etc/modprobe.d/zz-rdmaops-%s.conf" % module
    if (module == RDMA_OPTION[0] and RDMA_OPTION[1] in options) or path == RDMA_DROP_IN:
        refusal.refuse_rdma(*RDMA_OPTION)
    check_path(path)
    root = "/" + os.path.abspath(params["root"]).lstrip("/")
    if not os.path.isdir(root):
        refusal.refuse_root(root)
    rebuild = params["initramfs"] == "rebuild"
    return Task(module, options, params["state"], path, root, params["on_conflict"], rebuild)


def failure(exc: Exception, done: list[str]) -> dict[str, t.Any]:
    """Return what a module that fails returns beside the message: what had been done until then."""
    result: dict[str, t.Any] = {"changed": bool(done), "actions": done}
    if hasattr(exc, "conflicts"):
        result["conflicts"] = exc.conflicts
    return result


def manage(task: Task, check_mode: bool, host: Host, done: list[str]) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns; ``done`` gets what has been done."""
    module = task.module
    planned = plan(task.root, module, task.options, task.path, task.state, task.on_conflict)
    src = host.sources(module)
    names = sorted(task.options) or _ours(planned, src, module)
    desired = {name: task.options[name] if task.state == "present" else None for name in names}
    before, after = settings(planned.before, module), settings(planned.after, module)

    def states(assignments: t.Mapping[str, t.Any], tree: t.Any, rebuilt: bool) -> dict[str, ParameterState]:
        uncertainty = install_command(tree, module)
        values = {name: assignments[name].value if name in assignments else None for name in names}
        return {
            name: parameter_state(src, module, name, values[name], uncertainty=uncertainty, rebuilt=rebuilt)
            for name in names
        }

    current, coming = states(before, planned.before, False), states(after, planned.after, False)
    live = {name: host.live(module, name) for name in names}

    decision = _Recorded(done)
    add_to(planned, decision)
    if task.rebuild and names and _any(state.stale for state in coming.values()) is not False:
        values = {name: after[name].value if name in after else None for name in names}
        _add_rebuild(decision, host, src, module, values)
        coming = states(after, planned.after, True)
    if not check_mode:
        decision.carry_out()

    reload_required = _reload_required(desired, after, live, host.loaded(module))
    return {
        **decision.result(),
        "name": module,
        "path": planned.path,
        "parameters": {name: _parameter(desired[name], before.get(name), live[name], current[name]) for name in names},
        "conflicts": planned.conflicts,
        "initramfs_stale": _any(state.stale for state in current.values()),
        "reload_required": reload_required,
        "after": {
            "next_boot": {name: coming[name].next_boot.value for name in names},
            "reload_required": reload_required,
            "initramfs_stale": _any(state.stale for state in coming.values()),
        },
        "resources": [
            resource(
                "modprobe_option",
                "%s.%s" % (module, name),
                desired=desired[name],
                configured=before[name].value if name in before else None,
                live=live[name],
                next_boot=current[name].next_boot.value,
                status=_status(desired[name], live[name], current[name], decision.changed),
            )
            for name in names
        ],
        "problems": src.problems,
        "warnings": planned.warnings,
    }


def _parameter(
    desired: str | None, configured: Assignment | None, live: str | None, state: ParameterState
) -> dict[str, t.Any]:
    return {
        "desired": desired,
        "configured": configured and {key: getattr(configured, key) for key in ("value", "path", "line")},
        "cmdline": state.cmdline,
        "initramfs": state.initramfs,
        "live": live,
        "next_boot": state.next_boot.value,
        "next_boot_known": state.next_boot.known,
        "next_boot_reason": state.next_boot.reason,
    }


def _add_rebuild(decision: Decision, host: Host, src: Sources, module: str, values: t.Mapping[str, str | None]) -> None:
    """Add the rebuild to a decision, after making sure that it can be done; the new image must have ``values``."""
    kernel = src.entry and src.entry.kernel_version
    if src.contents is None or kernel is None:
        known = " ".join(src.problems) or "it is not known which kernel boots next."
        raise FabricError(
            "initramfs=rebuild: it is not known what to rebuild: %s Nothing has been changed. Set "
            "initramfs to report, and rebuild it with the distribution's tools." % known
        )
    image = kernel_image(src.contents, kernel)
    host.preflight(image, kernel)

    def verify(contents: t.Any) -> str | None:
        for name, value in values.items():
            state = initramfs_state(contents, module, name)
            if initramfs_stale(state, value) is not False:
                carried = "an unknown value" if state is None else state["value"]
                return "it carries %s instead of %s for %s of %s" % (carried, value, name, module)
        return None

    decision.add("Rebuild %s" % image, lambda: host.rebuild(image, kernel, verify))
    old = {name: (initramfs_state(src.contents, module, name) or {}).get("value") for name in values}
    decision.show(image, _option_lines(module, old), _option_lines(module, values))


def _option_lines(module: str, values: t.Mapping[str, str | None]) -> str:
    return "".join("options %s %s=%s\n" % (module, name, value) for name, value in values.items() if value is not None)


def _ours(planned: Plan, src: Sources, module: str) -> list[str]:
    """Return the parameters of the file that is removed: on disk or, if that was done before, in the initramfs."""
    texts = [planned.originals.get(planned.path) or read_text(real_path(planned.root, planned.path))]
    if src.contents is not None:
        texts.append(src.contents.modprobe.get(planned.path))
    assignments = [assignment for text in texts if text for assignment in parse(planned.path, text)]
    return sorted({assignment.name for assignment in assignments if assignment.module == module})


def _any(values: t.Iterable[bool | None]) -> bool | None:
    """Return the logical or of three-valued truth."""
    truths = list(values)
    return True if True in truths else None if None in truths else False


def _reload_required(
    desired: t.Mapping[str, str | None],
    after: t.Mapping[str, t.Any],
    live: t.Mapping[str, str | None],
    loaded: bool,
) -> bool | None:
    """Return whether the loaded module has another value; None: it does not show all of them."""
    if not loaded:
        return False
    differs: list[bool | None] = []
    for name, value in desired.items():
        target = value if value is not None or name not in after else after[name].value
        if target is not None:
            differs.append(None if live[name] is None else not same_live(target, live[name]))
    return _any(differs)


def same_live(value: str, live: str | None) -> bool:
    """Return whether sysfs shows ``value``: numbers come back in decimal, a string as it was written."""
    if live is None or same_value(value, live):
        return live is not None
    try:
        # kstrtol() with base 0: a leading 0 alone is octal.
        return int(live) == int(re.sub(r"^([+-]?)0(?=\d)", r"\g<1>0o", value), 0)
    except ValueError:
        return False


def _status(desired: str | None, live: str | None, current: ParameterState, changed: bool) -> str:
    following = current.next_boot
    if changed or (desired is not None and live is not None and not same_live(desired, live)):
        return DRIFT
    if desired is None:
        return IN_SYNC
    if not following.known:
        return UNKNOWN
    return IN_SYNC if same_value(following.value, desired) else DRIFT


__all__ = ("ARGUMENTS", "Host", "Task", "check", "failure", "manage", "same_live")
