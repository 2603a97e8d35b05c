# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The network namespace mode of the RDMA subsystem: four sources, one verdict."""

from __future__ import annotations

import hashlib
import os
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._kmod import config
from .._kmod import plan as kmod_plan
from .._kmod.plan_model import Plan
from .._module_params import prediction
from . import explain, switch
from .model import DEFAULT, MODULE, PARAMETER, Host, ModeError, mode_of

ARGUMENTS: dict[str, t.Any] = {
    "netns_mode": {"type": "str", "choices": ["exclusive", "shared"], "required": True},
    "persistent": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "runtime": {"type": "str", "choices": ["auto", "never", "require"], "default": "auto"},
    "initramfs": {"type": "str", "choices": ["report", "rebuild"], "default": "report"},
    "on_conflict": {"type": "str", "choices": ["fail", "warn", "take_over"], "default": "fail"},
    "on_absent": {"type": "str", "choices": ["fail", "ignore"], "default": "fail"},
}


def _expected(expected: prediction.Prediction) -> tuple[str | None, str | None]:
    """Return the mode after the next boot and why it is that, or why it is not known."""
    if not expected.known:
        return None, expected.reason
    if expected.value is None:
        return DEFAULT, expected.reason or "nothing sets ib_core's netns_mode, and the kernel's default is shared"
    mode = mode_of(expected.value)
    if mode is None and config.kernel_bool(expected.value, newest=True) is not None:
        text = (
            'whether ib_core takes netns_mode="%s" depends on its kernel: kstrtobool() knows t and f since Linux 5.17, '
            "e and d later. Write 0 or 1"
        )
        return None, text % expected.value
    if mode is None:
        return None, 'ib_core does not load with netns_mode="%s", which is not a boolean' % expected.value
    return mode, expected.reason


def _value(tree: config.Tree) -> str | None:
    """Return what a configuration sets the parameter to."""
    assignment = config.settings(tree, MODULE).get(PARAMETER)
    return assignment and assignment.value


def _parameter_state(src: prediction.Sources, tree: config.Tree, rebuilt: bool = False) -> prediction.ParameterState:
    uncertainty = "; ".join("%s: %s" % item for item in tree.unreadable) or kmod_plan.install_command(tree, MODULE)
    return prediction.parameter_state(src, MODULE, PARAMETER, _value(tree), uncertainty=uncertainty, rebuilt=rebuilt)


def cause(desired: str, configured: str | None, src: prediction.Sources) -> str:
    """Return a hash of what a reboot is expected to act on; the same cause is not worth a second reboot."""
    parts: list[t.Any] = [desired, configured, None if src.entry is None else src.entry.cmdline]
    for image in [] if src.entry is None else src.entry.initrd:
        try:
            known = os.stat(image)
            parts.append((image, known.st_size, known.st_mtime_ns))
        except OSError as exc:
            parts.append((image, exc.errno))
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()


class State(t.NamedTuple):
    """What was found. ``planned`` is the configuration with what ``plan`` writes; users are None if not known."""

    live: str | None
    src: prediction.Sources
    plan: Plan | None
    configured: config.Tree
    planned: config.Tree
    blockers: list[dict[str, t.Any]]
    users: list[dict[str, t.Any]] | None
    problems: list[str]


class Intent(t.NamedTuple):
    """What follows from a state: what is to be done, and what the next boot gives without and with it."""

    rebuild: bool
    switch: bool
    now: prediction.ParameterState
    then: prediction.ParameterState
    conflicts: list[dict[str, t.Any]]


def observe(params: t.Mapping[str, t.Any], live: str | None, host: Host) -> State:
    """Look at the host; nothing is changed."""
    desired = params["netns_mode"]
    src = host.sources()
    plan = host.plan(desired, params["on_conflict"], params["state"]) if params["persistent"] else None
    tree = plan.before if plan else host.tree()
    problems = list(src.problems)
    differs = live not in (None, desired)
    blocking_namespaces = explain.blockers(host, problems) if differs else []
    users = explain.users(host, problems) if differs else []
    return State(live, src, plan, tree, plan.after if plan else tree, blocking_namespaces, users, problems)


def decide(params: t.Mapping[str, t.Any], state: State) -> Intent:
    """Plan the changes. Raises ModeError if a switch is required and other namespaces prevent it."""
    desired = params["netns_mode"]
    now, then = _parameter_state(state.src, state.configured), _parameter_state(state.src, state.planned)
    rebuild = params["initramfs"] == "rebuild" and bool(then.stale)
    if rebuild:
        then = _parameter_state(state.src, state.planned, rebuilt=True)
    if state.plan and params["state"] == "present":
        conflicts = state.plan.conflicts
    else:
        conflicts = explain.contradictions(state.planned, desired)
    if mode_of(now.cmdline["next_boot"]) not in (None, desired):
        conflicts = conflicts + explain.boot_conflicts(state.src)
    may_switch = state.live not in (None, desired) and params["runtime"] != "never"
    if may_switch and state.blockers and params["runtime"] == "require":
        raise ModeError(
            "Switching the RDMA subsystem from %s to %s: the kernel refuses while other network namespaces exist: %s. "
            "Stop their holders, or set runtime to auto and reboot"
            % (state.live, desired, explain.format_blockers(state.blockers))
        )
    return Intent(rebuild, may_switch and not state.blockers, now, then, conflicts)


def _decision(params: t.Mapping[str, t.Any], state: State, intent: Intent, host: Host) -> Decision:
    """Return the steps; what a rebuild needs is checked before anything is done."""
    desired, live = params["netns_mode"], state.live
    decision = Decision()
    if state.plan:
        kmod_plan.add_to(state.plan, decision)
    if intent.rebuild:
        image, kernel = switch.to_rebuild(state.src)
        host.preflight(image, kernel)
        value = _value(state.planned)
        decision.add(
            "Rebuild %s" % image,
            lambda: host.rebuild(image, kernel, lambda contents: switch.image_mismatch(contents, value)),
        )
    if intent.switch:
        decision.add(
            _switching(live, desired),
            lambda: switch.switch(host, live, desired, params["runtime"]),
            ("rdma system", "netns %s\n" % live, "netns %s\n" % desired),
        )
    return decision


def _switching(live: str | None, desired: str) -> str:
    return "Switch the RDMA subsystem from %s to %s" % (live, desired)


def report(
    params: t.Mapping[str, t.Any], state: State, intent: Intent, decision: Decision, host: Host
) -> dict[str, t.Any]:
    """Return what the module returns: what was found, and under ``after`` what is true now, or would be."""
    desired, live, src = params["netns_mode"], state.live, state.src
    boot_before, why_before = _expected(intent.now.next_boot)
    boot_after, why_after = _expected(intent.then.next_boot)
    switched = _switching(live, desired) in decision.actions
    live_after = desired if switched else live
    # The kernel has refused the switch: a namespace has appeared since the look.
    blocking_namespaces = explain.blockers(host, []) if intent.switch and not switched else state.blockers

    def reason(mode: str | None, following: str | None, why: str | None) -> str:
        if mode in (None, desired):
            return ""
        return explain.reason(
            desired, mode, following, why, blocking_namespaces, src, intent.conflicts, state.users or []
        )

    before = config.settings(state.configured, MODULE).get(PARAMETER)
    configured = before and {"value": mode_of(before.value), "path": before.path, "line": before.line}
    return {
        **decision.result(),
        "mode": {
            "desired": desired,
            "configured": configured,
            "cmdline": {when: mode_of(value) for when, value in intent.now.cmdline.items()},
            "initramfs": intent.now.initramfs and _image(intent.now.initramfs),
            "live": live,
            "next_boot": boot_before,
        },
        "reboot_required": live not in (None, desired),
        "reboot_would_help": None if boot_before is None else boot_before == desired,
        "reboot_reason": reason(live, boot_before, why_before),
        "reboot_cause": cause(desired, _value(state.planned), src),
        "initramfs_stale": intent.now.stale,
        "conflicts": intent.conflicts,
        "blockers": blocking_namespaces,
        "users": state.users,
        "boot_id": host.boot_id(),
        "boot_entry": src.entry and {key: getattr(src.entry, key) for key in ("kind", "source", "line", "title")},
        "problems": state.problems,
        "warnings": state.plan.warnings if state.plan else [],
        "after": {
            "live": live_after,
            "next_boot": boot_after,
            "reboot_required": live_after not in (None, desired),
            "reboot_would_help": None if boot_after is None else boot_after == desired,
            "initramfs_stale": intent.then.stale,
            "reason": reason(live_after, boot_after, why_after),
        },
        "resources": [
            resource(
                "rdma_system",
                PARAMETER,
                desired=desired,
                configured=configured and configured["value"],
                live=live,
                next_boot=boot_before,
                status=_status(desired, live, boot_before, decision.changed),
            )
        ],
    }


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    if not host.is_root():
        raise ModeError(
            "Reading the RDMA subsystem, the boot entry and the holders of network namespaces needs root; "
            "set become: true"
        )
    live = host.live()
    if live is None and not host.available():
        return switch.result_without_rdma(params, host)
    state = observe(params, live, host)
    intent = decide(params, state)
    decision = _decision(params, state, intent, host)
    if not check_mode:
        decision.carry_out()
    return report(params, state, intent, decision, host)


def _status(desired: str, live: str | None, next_boot: str | None, changed: bool) -> str:
    if changed or live not in (None, desired) or next_boot not in (None, desired):
        return DRIFT
    return UNKNOWN if next_boot is None else IN_SYNC


def _image(state: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    shown = {key: state[key] for key in ("image", "contains_module", "forced")}
    return {**shown, "value": mode_of(state["value"])}


__all__ = (
    "ARGUMENTS",
    "manage",
)
