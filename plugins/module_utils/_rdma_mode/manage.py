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
from .._module_params import prediction as module_params_prediction
from . import explain as obstacles
from . import switch as change
from .model import DEFAULT, MODULE, PARAMETER, Host, ModeError, mode_of

ARGUMENTS: dict[str, t.Any] = {
    "netns_mode": {"type": "str", "choices": ["exclusive", "shared"], "required": True},
    "persistent": {"type": "bool", "default": True},
    "runtime": {"type": "str", "choices": ["auto", "never", "require"], "default": "auto"},
    "initramfs": {"type": "str", "choices": ["report", "rebuild"], "default": "report"},
    "on_conflict": {"type": "str", "choices": ["fail", "warn", "take_over"], "default": "fail"},
    "on_absent": {"type": "str", "choices": ["fail", "ignore"], "default": "fail"},
}


def _expected(prediction: module_params_prediction.Prediction) -> tuple[str | None, str | None]:
    """Return the mode after the next boot and why it is that, or why it is not known."""
    if not prediction.known:
        return None, prediction.reason
    if prediction.value is None:
        return DEFAULT, prediction.reason or "nothing sets ib_core's netns_mode, and the kernel's default is shared"
    mode = mode_of(prediction.value)
    if mode is None:
        return None, 'ib_core does not load with netns_mode="%s", which is no boolean' % prediction.value
    return mode, prediction.reason


def _view(
    src: module_params_prediction.Sources, tree: config.Tree, found: config.Assignment | None, rebuilt: bool = False
) -> module_params_prediction.View:
    doubt = "; ".join("%s: %s" % item for item in tree.unreadable) or kmod_plan.install_command(tree, MODULE)
    return module_params_prediction.view(src, MODULE, PARAMETER, found and found.value, doubt=doubt, rebuilt=rebuilt)


def cause(desired: str, configured: str | None, src: module_params_prediction.Sources) -> str:
    """Return a hash of what a reboot is expected to act on; the same cause is not worth a second reboot."""
    parts: list[t.Any] = [desired, configured, None if src.entry is None else src.entry.cmdline]
    for image in [] if src.entry is None else src.entry.initrd:
        try:
            known = os.stat(image)
            parts.append((image, known.st_size, known.st_mtime_ns))
        except OSError as exc:
            parts.append((image, exc.errno))
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()


def manage(params: t.Mapping[str, t.Any], check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    desired = params["netns_mode"]
    if not host.is_root():
        raise ModeError(
            "Reading the RDMA subsystem, the boot entry and the holders of network namespaces needs root; "
            "set become: true"
        )
    live = host.live()
    if live is None and not host.available():
        return change.absent(params, host)

    src = host.sources()
    plan = host.plan(desired, params["on_conflict"]) if params["persistent"] else None
    tree = plan.before if plan else host.tree()
    tree_after = plan.after if plan else tree
    before = config.settings(tree, MODULE).get(PARAMETER)
    after = config.settings(tree_after, MODULE).get(PARAMETER)

    view_before = _view(src, tree, before)
    view_after = _view(src, tree_after, after)
    rebuild = params["initramfs"] == "rebuild" and bool(view_after.stale)
    if rebuild:
        view_after = _view(src, tree_after, after, rebuilt=True)
    boot_before, why_before = _expected(view_before.next_boot)
    boot_after, why_after = _expected(view_after.next_boot)

    conflicts = plan.conflicts if plan else obstacles.contradictions(tree, desired)
    if mode_of(view_before.cmdline["next_boot"]) not in (None, desired):
        conflicts = conflicts + obstacles.boot_conflicts(src)

    problems = list(src.problems)
    differs = live not in (None, desired)
    spaces = obstacles.blockers(host, problems) if differs else []
    users = obstacles.users(host, problems) if differs else []
    may_switch = differs and params["runtime"] != "never"
    if may_switch and spaces and params["runtime"] == "require":
        raise ModeError(
            "Switching the RDMA subsystem from %s to %s: the kernel refuses while other network namespaces exist: %s. "
            "End their holders, or set runtime to auto and reboot" % (live, desired, obstacles.told(spaces))
        )
    switch = may_switch and not spaces
    live_after = desired if switch else live

    decision = Decision()
    if plan:
        kmod_plan.add_to(plan, decision)
    if rebuild:
        image, kernel = change.to_rebuild(src)
        host.preflight(image, kernel)
        decision.add(
            "Rebuild %s" % image,
            lambda: host.rebuild(image, kernel, lambda contents: change.unlike(contents, after and after.value)),
        )
    if switch:
        decision.add("Switch the RDMA subsystem from %s to %s" % (live, desired), lambda: None)
        decision.show("rdma system", "netns %s\n" % live, "netns %s\n" % desired)

    late = None
    if not check_mode:
        decision.carry_out()
        if switch:
            late = change.switch(host, live, desired, params["runtime"])
            if late is not None:
                live_after, spaces = live, late

    def reason(mode: str | None, following: str | None, why: str | None) -> str:
        if mode in (None, desired):
            return ""
        return obstacles.reason(desired, mode, following, why, spaces, src, conflicts, users or [])

    result = decision.result()
    if late is not None:
        result["actions"].pop()
        result["diff"].pop()
        result["changed"] = bool(result["actions"])
    mode = {
        "desired": desired,
        "configured": before and {"value": mode_of(before.value), "path": before.path, "line": before.line},
        "cmdline": {when: mode_of(value) if value is not None else None for when, value in view_before.cmdline.items()},
        "initramfs": view_before.initramfs and _image(view_before.initramfs),
        "live": live,
        "next_boot": boot_before,
    }
    result.update(
        mode=mode,
        reboot_required=differs,
        reboot_would_help=None if boot_before is None else boot_before == desired,
        reboot_reason=reason(live, boot_before, why_before),
        reboot_cause=cause(desired, after and after.value, src),
        initramfs_stale=view_before.stale,
        conflicts=conflicts,
        blockers=spaces,
        users=users,
        boot_id=host.boot_id(),
        boot_entry=src.entry
        and {"kind": src.entry.kind, "source": src.entry.source, "line": src.entry.line, "title": src.entry.title},
        problems=problems,
        warnings=plan.warnings if plan else [],
        after={
            "live": live_after,
            "next_boot": boot_after,
            "reboot_required": live_after not in (None, desired),
            "reboot_would_help": None if boot_after is None else boot_after == desired,
            "initramfs_stale": view_after.stale,
            "reason": reason(live_after, boot_after, why_after),
        },
        resources=[
            resource(
                "rdma_system",
                PARAMETER,
                desired=desired,
                configured=mode["configured"] and mode["configured"]["value"],
                live=live,
                next_boot=boot_before,
                status=_status(desired, live, boot_before, result["changed"]),
            )
        ],
    )
    return result


def _status(desired: str, live: str | None, next_boot: str | None, changed: bool) -> str:
    if changed or live not in (None, desired) or next_boot not in (None, desired):
        return DRIFT
    return UNKNOWN if next_boot is None else IN_SYNC


def _image(state: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    shown = {key: state[key] for key in ("image", "contains_module", "forced")}
    shown["value"] = None if state["value"] is None else mode_of(state["value"])
    return shown


__all__ = (
    "ARGUMENTS",
    "manage",
)
