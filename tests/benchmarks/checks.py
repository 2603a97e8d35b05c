# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check-mode run of role gpu_node, against the same looks as one task each (peer/gpu_node.yml)."""

from __future__ import annotations

import shutil
import subprocess
import typing as t
import zipfile
from pathlib import Path

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks import hosts
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.library import BenchmarkError, Case, Play, Played, Sample
from ansible_collections.rdmaops.gpu_fabric.tests.benchmarks.nodes import (
    CPU,
    ROLE,
    ROLE_RUNS,
    Place,
    a_play,
    bring_in_sync,
    describe,
    once,
    task,
    there_and_back,
    tidy,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

GOAL = 0.15
PEER = Path(__file__).resolve().parent / "peer" / "gpu_node.yml"
MEMLOCK = "/etc/systemd/system/containerd.service.d/50-rdmaops-memlock.conf"
RULES = ("/etc/udev/rules.d/60-rdma-persistent-naming.rules", "/etc/udev/rules.d/70-rdmaops-e810-protocol.rules")
OPTIONS = {"mlx5_core": {"prof_sel": 2}}
OPTIONS_MODULE = "rdmaops.gpu_fabric.modprobe_options"
# A host that differs takes a minute.
FOUND_RUNS = 2


def others(workplace: Path) -> Path:
    """Return a directory with community.general, out of the wheel that `make dev` takes collections from."""
    target, lock = workplace / "collections", COLLECTION / "requirements/collections.lock"
    stamp = target / "lock"
    if stamp.is_file() and stamp.read_text() == lock.read_text():
        return target
    shutil.rmtree(target, ignore_errors=True)
    print("fetching community.general", flush=True)
    argv = [str(COLLECTION / ".deps/uv/bin/python"), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    argv += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(target), "-r", str(lock)]
    try:
        subprocess.run(argv, check=True, timeout=900, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchmarkError(f"community.general, which the peer uses, cannot be had: {error}") from error
    (wheel,) = target.glob("ansible-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith("ansible_collections/community/general/")]
        archive.extractall(target, members)
    wheel.unlink()
    stamp.write_text(lock.read_text())
    return target


def memlock() -> str:
    """Return the drop-in as the role writes it: the header that is every file's, and the template without comments of Jinja."""
    text = (COLLECTION / "roles/gpu_node/templates/memlock.conf.j2").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("{#")]
    return "# Managed by Ansible (rdmaops.gpu_fabric). Local changes will be overwritten.\n" + "\n".join(lines) + "\n"


def variables(kernel: str) -> dict[str, t.Any]:
    """Return what the peer is told: the same wishes as the role has by its defaults."""
    known = yaml.safe_load((COLLECTION / "roles/gpu_node/vars/main.yml").read_text())
    files = [{"path": path, "content": ""} for path in RULES]
    return {
        "peer_query": ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n"],
        "peer_packages": known["__gpu_node_packages"]["debian"],
        "peer_image": f"/boot/initrd.img-{kernel}",
        "peer_files": [{"path": MEMLOCK, "content": memlock()}, *files],
        "peer_options": OPTIONS,
    }


def compare(place: Place, where: str, goal: float | None = GOAL) -> list[Case]:
    """Measure both in turn in one ansible-playbook; both look with what they have learnt on the way, and at first."""
    image = once(
        place, task("The image", "ansible.builtin.command", {"argv": ["sh", "-c", "ls -t /boot/initrd.img-*"]})
    )
    kernel = image["stdout"].split()[0].partition("-")[2]
    role = a_play("ours", [], roles=[ROLE], vars={"gpu_node_module_options": OPTIONS})
    tasks = [{"name": "Look", "ansible.builtin.import_tasks": str(PEER)}]
    peer = a_play("theirs", tasks, vars=variables(kernel))
    plays = [{**role, "name": "warm up"}, {**peer, "name": "warm up"}]
    plays += there_and_back(role, peer, min(ROLE_RUNS, place.runs))
    measured = place._replace(env={**place.env, "ANSIBLE_COLLECTIONS_PATH": str(others(place.workplace))})
    played = measured.play(plays, "checks", check=True)
    changes = sorted({task.name for task in played.tasks if task.changed and task.play == "ours"})
    note = f"{description_of(played, 'ours')}; {description_of(played, 'theirs')}"
    if changes:
        note += f"; would change: {', '.join(changes)}"
    title = f"gpu_node, check mode, on {where}"
    wall = {name: Sample([run.seconds for run in named(played, name)]) for name in ("ours", "theirs")}
    cases = [Case(title, "s", wall["ours"], "tasks", wall["theirs"], goal, note)]
    worked = {name: [total(run) for run in named(played, name)] for name in ("ours", "theirs")}
    if all(worked.values()) and not any(None in values for values in worked.values()):
        cpu = {name: Sample([value for value in values if value is not None]) for name, values in worked.items()}
        cases.append(Case(title + CPU, "s", cpu["ours"], "tasks", cpu["theirs"], goal, where_it_goes(played)))
    return cases


def named(played: Played, name: str) -> list[Play]:
    return [run for run in played.plays if run.name == name]


def total(run: Play) -> float | None:
    """Return the processor seconds of host and controller."""
    return None if run.cpu is None or run.controller is None else run.cpu + run.controller


def description_of(played: Played, name: str) -> str:
    return f"{name}: {describe(played, name)}"


def where_it_goes(played: Played) -> str:
    """Say what host and controller have worked, by their medians."""
    parts = []
    for name in ("ours", "theirs"):
        host = Sample([run.cpu for run in named(played, name) if run.cpu is not None]).median
        controller = Sample([run.controller for run in named(played, name) if run.controller is not None]).median
        parts.append(f"{name}: host {host:.2f} s, controller {controller:.2f} s")
    return "; ".join(parts)


def in_the_lab(place: Place) -> list[Case]:
    """Measure on a host of the lab as it is found, and in sync, which is what a drift run finds on most days.

    What the role brings to the host stays there, but for the option that only this wishes for. The goal is for looks:
    where something differs, the role also has apt try what it would install, and the peer has not.
    """
    name, options = next(iter(OPTIONS.items()))
    once(place, task("set", OPTIONS_MODULE, {"name": name, "options": options}))
    try:
        few = place._replace(runs=min(FOUND_RUNS, place.runs))
        cases = compare(few, f"{place.host} as found", goal=None)
        bring_in_sync(place, {"gpu_node_module_options": OPTIONS})
        return [*cases, *compare(place, place.host)]
    finally:
        tidy(place, task("remove", OPTIONS_MODULE, {"name": name, "state": "absent"}))


def layer(workplace: Path) -> Path:
    """Return a layer of files over Debian's that has hosts in sync with the role: what the role has written itself."""
    place = workplace / "hosts" / hosts.root().name
    place.mkdir(parents=True, exist_ok=True)
    # No systemd runs there: a changed unit could not be reloaded.
    wish = {"gpu_node_module_options": OPTIONS, "gpu_node_container_runtime": "none"}
    files = {"files": [{"path": MEMLOCK, "content": memlock().partition("\n")[2]}]}
    drop_in = task("The limit of locked memory", "rdmaops.gpu_fabric.owned_files", files)
    with hosts.running(1, layer=place) as up:
        here(up, workplace).play([a_play("bring in sync", [drop_in], roles=[ROLE], vars=wish)], "layer")
    return place


def here(up: hosts.Hosts, workplace: Path, runs: int = ROLE_RUNS) -> Place:
    """Return the first of the hosts as a place to measure on."""
    first = up.names[0]
    return Place(up.inventory, first, workplace, up.pids[first], runs, tuple(up.enter), up.environment)


def in_a_namespace(place: Place) -> list[Case]:
    below = layer(place.workplace)
    with hosts.running(1, below=below) as up:
        return compare(here(up, place.workplace, place.runs), "a namespace")


LAB: dict[str, t.Callable[[Place], list[Case]]] = {"checks_lab": in_the_lab}
CASES: dict[str, t.Callable[[Place], list[Case]]] = {"checks": in_a_namespace}

__all__ = ["CASES", "LAB", "here", "layer"]
