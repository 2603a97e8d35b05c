# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node modules with nothing to change, and the check-mode run of gpu_node, in pings."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Played, Sample, play

# What was read from an unchanged initramfs is kept here.
CACHE = "/run/rdmaops"
ROLE = "rdmaops.gpu_fabric.gpu_node"
MODE_FILE = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"

# Pings and module calls of each kind that count, and those before that do not.
RUNS = 20
WARM_UP = 2
# How many of them a slow thing is worth.
FIRST_LOOKS = 5
ROLE_RUNS = 7
# What the whole look at a node may take, in pings.
GOAL = 3.0


# What the host has worked: steadier than the wall clock of a machine that others use.
CPU = ", CPU"


class Place(t.NamedTuple):
    """Where to measure, and how often."""

    inventory: Path
    host: str
    workplace: Path
    # The process on this machine that is the host, where the host is a virtual machine or a namespace.
    pid: int | None = None
    runs: int = RUNS
    # What stands before a command that is to reach the host, and what is in its environment.
    enter: tuple[str, ...] = ()
    env: t.Mapping[str, str] = {}

    def play(self, plays: t.Sequence[t.Mapping[str, t.Any]], name: str, *, check: bool = False) -> Played:
        return play(
            plays,
            inventory=self.inventory,
            host=self.host,
            workplace=self.workplace / name,
            pid=self.pid,
            check=check,
            enter=self.enter,
            env=self.env,
        )


def task(title: str, module: str, arguments: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    return {"name": title, module: dict(arguments or {})}


def a_play(name: str, tasks: t.Sequence[t.Mapping[str, t.Any]], **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "hosts": "all", "gather_facts": False, "become": True, "tasks": list(tasks), **more}


def there_and_back(first: t.Any, second: t.Any, number: int) -> list[t.Any]:
    """Repeat two tasks in the order a b b a, so that neither always follows the other."""
    order: list[t.Any] = []
    for index in range(number):
        order += [first, second] if index % 2 == 0 else [second, first]
    return order


def compare_with_ping(place: Place, name: str, module: str, arguments: t.Mapping[str, t.Any]) -> list[Case]:
    """Measure a module that has nothing to change, warm and at its first look, against ping."""
    ping = task("ping", "ansible.builtin.ping")
    plays = [
        a_play("prepare", [task("bring in sync", module, arguments)]),
        a_play(
            "warm up",
            there_and_back(task("ping first", "ansible.builtin.ping"), task("warm", module, arguments), WARM_UP),
        ),
        a_play("measure", there_and_back(ping, task(name, module, arguments), place.runs)),
        a_play(
            "first looks",
            [
                task("forget", "ansible.builtin.file", {"path": CACHE, "state": "absent"}),
                task("first look", module, arguments),
            ]
            * min(FIRST_LOOKS, place.runs),
        ),
    ]
    played = place.play(plays, name)
    changed = [task for label in (name, "first look") for task in played.named(label) if task.changed]
    if changed:
        raise BenchmarkError(f"{name} has changed something in {len(changed)} runs that had nothing to change")
    cases = []
    for label, title in (("in sync", name), ("first look", "first look")):
        cases.append(Case(f"{name}, {label}", "s", played.sample(title), "ping", played.sample("ping")))
        cpu = played.cpu_sample(title)
        if cpu:
            cases.append(Case(f"{name}, {label}{CPU}", "s", cpu, "ping", played.cpu_sample("ping")))
    return cases


def once(place: Place, task: t.Mapping[str, t.Any], check: bool = False) -> t.Mapping[str, t.Any]:
    """Run one task and return its result."""
    played = place.play([a_play("once", [task])], "once", check=check)
    return played.tasks[-1].result


def tidy(place: Place, task: t.Mapping[str, t.Any]) -> None:
    """Run a task that cleans up; where it cannot, what went wrong before is the better news."""
    try:
        once(place, task)
    except BenchmarkError as error:
        print(f"cleaning up on {place.host}: {error}", file=sys.stderr)


def bring_in_sync(place: Place, variables: t.Mapping[str, t.Any]) -> None:
    """Apply the role, and leave what it does; it reboots nothing."""
    print(f"bringing {place.host} in sync with role gpu_node", flush=True)
    place.play([a_play("bring in sync", [], roles=[ROLE], vars=variables)], "sync")


def modprobe_options(place: Place) -> list[Case]:
    module = "rdmaops.gpu_fabric.modprobe_options"
    name = "rdmaops_bench"
    try:
        return compare_with_ping(
            place, "modprobe_options", module, {"name": name, "options": {"answer": 42, "depth": 7}}
        )
    finally:
        tidy(place, task("remove", module, {"name": name, "state": "absent"}))


def rdma_system(place: Place) -> list[Case]:
    module = "rdmaops.gpu_fabric.rdma_system"
    asked = once(place, task("ask", module, {"netns_mode": "exclusive"}), check=True)
    mode = asked["mode"]["live"]
    if mode is None:
        raise BenchmarkError(f"{place.host} has no RDMA: a mode that is not there cannot be in sync")
    ours = once(place, task("look", "ansible.builtin.stat", {"path": MODE_FILE}))["stat"]["exists"]
    try:
        return compare_with_ping(place, "rdma_system", module, {"netns_mode": mode})
    finally:
        if not ours:
            tidy(place, task("remove", "ansible.builtin.file", {"path": MODE_FILE, "state": "absent"}))


def gpu_node_in_check_mode(place: Place) -> list[Case]:
    """Measure the role's whole check-mode play on a host in sync, and say how many pings it equals."""
    bring_in_sync(place, {})
    ping = task("ping", "ansible.builtin.ping")
    role = a_play("role", [], roles=[ROLE])
    plays = [a_play("warm up", [ping]), {**role, "name": "first role"}]
    for _number in range(min(ROLE_RUNS, place.runs)):
        plays += [a_play("pings", [ping] * 3), role]
    return in_pings(place.play(plays, "role", check=True))


def in_pings(played: Played) -> list[Case]:
    """Return the rows of the plays named role against the tasks of those named pings."""
    roles = [play for play in played.plays if play.name == "role"]
    pings = [task for task in played.tasks if task.play == "pings"]
    title = "gpu_node, check mode"
    wall = Sample([play.seconds for play in roles])
    cases = [Case(title, "s", wall, "ping", Sample([task.seconds for task in pings]), GOAL, describe(played))]
    worked = [play.cpu for play in roles if play.cpu is not None]
    if worked:
        peer = Sample([task.cpu for task in pings if task.cpu is not None])
        cases.append(Case(f"{title}{CPU}", "s", Sample(worked), "ping", peer, GOAL))
    return cases


def describe(played: Played, name: str = "role") -> str:
    """Describe a run of the role, or of another play."""
    runs = sum(play.name == name for play in played.plays)
    done = [task for task in played.tasks if task.play == name]
    count = {status: sum(task.status == status for task in done) // runs for status in ("ok", "skipped")}
    changes = sum(task.changed for task in done) // runs
    return f"{count['ok']} tasks done, {count['skipped']} skipped, {changes} would change"


CASES: dict[str, t.Callable[[Place], list[Case]]] = {
    "modprobe_options": modprobe_options,
    "rdma_system": rdma_system,
    "gpu_node": gpu_node_in_check_mode,
}

__all__ = ["CASES", "Place"]
