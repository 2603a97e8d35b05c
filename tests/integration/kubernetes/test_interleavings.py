# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the role kubernetes side by side, at named points: none of them takes away what another has made.

kubeadm and kubectl are stand-ins that stop at these points, the hosts are directories, and the processes are real ones
(tests/support/kubeadm_hosts.py).
"""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm import work
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults
from ansible_collections.rdmaops.gpu_fabric.tests.support.kubeadm_hosts import INIT, PLANE, Hosts
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, wait_for

AT_WORK = "kubeadm %s is still at work since"
KILLED = "kill -9"
# Does something at a point, and returns the hosts on which the next run has to clean up.
Check = t.Callable[[Hosts], list[str] | None]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: has_ended(pid))


def finished(hosts: Hosts) -> None:
    """A run without another beside it brings what is left, and one more finds nothing to do."""
    assert hosts.run().ended() == ""


# --- site and site ---


def before_the_mark(hosts: Hosts) -> None:
    """Both have planned an init; the second comes to it when the first has made the whole cluster."""
    hosts.hold("planned")
    second = hosts.run()
    hosts.reached("planned")
    assert hosts.run(waits=False).ended() == ""
    hosts.release("planned")
    output = second.ended()
    assert "it has kubelet.conf, admin.conf, pki/ca.crt, manifests, data of etcd by now" in output, output
    assert "Run again" in output


def after_the_mark(hosts: Hosts) -> None:
    """The second has planned an init as well, and comes to it while the first one's kubeadm begins."""
    hosts.hold("planned")
    hosts.hold("init.begin", PLANE)
    first, second = hosts.run(), hosts.run()
    hosts.reached("planned")
    hosts.release("planned")
    hosts.reached("init.begin", PLANE)
    loser = second if _ends(second.pid, first.pid) == second.pid else first
    assert AT_WORK % "init" in loser.result.read_text()
    hosts.release("init.begin", PLANE)
    assert (first if loser is second else second).ended() == ""


def _ends(*pids: int) -> int:
    """The first of these children that ends."""
    ended: list[int] = []
    wait_for(lambda: [ended.append(pid) for pid in pids if os.waitpid(pid, os.WNOHANG)[0]] or ended)
    return ended[0]


def during(point: str, action: str, name: str, *others: str) -> Check:
    """The second looks while the first one's kubeadm is at a point: it refuses before anything is changed."""

    def check(hosts: Hosts) -> None:
        hosts.hold(point, name)
        first = hosts.run()
        hosts.reached(point, name)
        before = (hosts.place / "events").read_text()
        output = hosts.run(*others).ended()
        assert output.startswith(f"{name}: " + AT_WORK % action), output
        assert (hosts.place / "events").read_text() == before
        hosts.release(point, name)
        assert first.ended() == ""

    return check


# --- site, and site with --limit another node ---


def limited_while_another_joins(hosts: Hosts) -> None:
    """gpu-1 joins in one run, and gpu-2 in another: neither is in the other's way."""
    hosts.hold("join.bootstrap", "gpu-1")
    first = hosts.run(PLANE, "gpu-1")
    hosts.reached("join.bootstrap", "gpu-1")
    assert hosts.run(PLANE, "gpu-2").ended() == ""
    hosts.release("join.bootstrap", "gpu-1")
    assert first.ended() == ""


def limited_before_the_join(hosts: Hosts) -> None:
    """A run of all has its token, and one of gpu-2 alone makes that node in the meantime."""
    hosts.hold("token")
    first = hosts.run()
    hosts.reached("token")
    assert hosts.run(PLANE, "gpu-2", waits=False).ended() == ""
    hosts.release("token")
    assert "Joining the cluster: nothing was changed, because this host is not what it was" in first.ended()


def reset_during_init(hosts: Hosts) -> None:
    """The module refuses a reset, with the consent given, of what another run makes."""
    hosts.hold("init.data", PLANE)
    first = hosts.run()
    hosts.reached("init.data", PLANE)
    output = hosts.begin(lambda: hosts.do(PLANE, "reset")).ended()
    assert output.startswith("Taking this host out of its cluster: nothing was changed, because " + AT_WORK % "init"), (
        output
    )
    hosts.release("init.data", PLANE)
    assert first.ended() == ""


# --- a run, and one that was cut off ---


def module_killed(point: str, action: str, name: str) -> Check:
    """kill -9 of the module: its kubeadm goes on, and is not taken for one that was broken off."""

    def check(hosts: Hosts) -> None:
        hosts.hold(point, name)
        first = hosts.run()
        hosts.reached(point, name)
        kubeadm = hosts.kubeadm(name)
        first.kill()
        assert not has_ended(kubeadm)
        output = hosts.run().ended()
        assert f"PID {kubeadm}. Wait until it has ended (ps -fp {kubeadm} shows it)" in output, output
        for again in ("init", "join", "reset"):
            output = hosts.begin(lambda again=again: hosts.do(name, again, documents=INIT, clean=True)).ended()  # type: ignore[misc]
            assert AT_WORK % action in output, output
        hosts.release(point, name)
        wait_for(lambda: has_ended(kubeadm))
        # It is a node, and its mark is out of date.
        assert hosts.mark(name).exists()

    return check


def kubeadm_killed(point: str, name: str) -> Check:
    """kill -9 of kubeadm before anything of worth is there: the next run cleans up and does it again."""

    def check(hosts: Hosts) -> list[str]:
        hosts.hold(point, name)
        first = hosts.run()
        hosts.reached(point, name)
        kill(hosts.kubeadm(name))
        hosts.release(point, name)
        assert "kubeadm" in first.ended()
        return [name]

    return check


def both_killed_with_data(hosts: Hosts) -> None:
    """etcd has data and the manifests are complete: neither a run nor one with consent takes that away."""
    hosts.hold("init.data", PLANE)
    first = hosts.run()
    hosts.reached("init.data", PLANE)
    kubeadm = hosts.kubeadm(PLANE)
    first.kill()
    kill(kubeadm)
    hosts.release("init.data", PLANE)
    for consent in ("", "fabric"):
        output = hosts.run(reset_consent=consent).ended()
        assert "its API server (192.0.2.10:6443) does not answer" in output, output
        assert "Its kubeadm init did not finish" in output, output
    # An administrator has it run, and finishes what kubeadm had to do.
    for source, target in (("configurations.json", "configurations.json"), ("node.json", "node-cp-1.json")):
        text = (hosts.place / "made" / PLANE / source).read_text()
        (hosts.place / "cluster" / target).write_text(text)
    (hosts.place / "cluster/up").touch()


def killed_after_the_token(hosts: Hosts) -> None:
    """The token of the run that was killed is none of the next one's."""
    hosts.hold("token")
    first = hosts.run()
    hosts.reached("token")
    first.kill()
    hosts.release("token")


def killed_before_the_mark(hosts: Hosts) -> None:
    hosts.hold("planned")
    first = hosts.run()
    hosts.reached("planned")
    first.kill()
    hosts.release("planned")


def planned_to_clean_what_another_has_made(hosts: Hosts) -> list[str]:
    """Two runs have planned to clean up after a third; the one that comes later finds a control plane."""
    kubeadm_killed_alone(hosts)
    hosts.hold("planned")
    second = hosts.run()
    hosts.reached("planned")
    assert hosts.run(waits=False).ended() == ""
    hosts.release("planned")
    assert "no kubeadm init is broken off here" in second.ended()
    return [PLANE]


def kubeadm_killed_alone(hosts: Hosts) -> None:
    hosts.hold("init.keys", PLANE)
    first = hosts.run()
    hosts.reached("init.keys", PLANE)
    kill(hosts.kubeadm(PLANE))
    hosts.release("init.keys", PLANE)
    first.ended()


def planned_to_clean_what_goes_on(hosts: Hosts) -> list[str]:
    """The first cleans up and makes it; the second, which had planned the same, comes while kubeadm is at work."""
    kubeadm_killed_alone(hosts)
    hosts.hold("planned")
    second = hosts.run()
    hosts.reached("planned")
    hosts.hold("init.data", PLANE)
    first = hosts.run(waits=False)
    hosts.reached("init.data", PLANE)
    hosts.release("planned")
    assert AT_WORK % "init" in second.ended()
    hosts.release("init.data", PLANE)
    assert first.ended() == ""
    return [PLANE]


INTERLEAVINGS: dict[str, Check] = {
    "site and site: before the mark": before_the_mark,
    "site and site: after the mark": after_the_mark,
    "site and site: during init, keys": during("init.keys", "init", PLANE),
    "site and site: during init, data": during("init.data", "init", PLANE),
    "site and site: during init, it answers": during("init.up", "init", PLANE),
    "site and site: during a join": during("join.identity", "join", "gpu-1"),
    "site and site: planned to clean what another has made": planned_to_clean_what_another_has_made,
    "site and site: planned to clean what goes on": planned_to_clean_what_goes_on,
    "site and --limit: while another joins": limited_while_another_joins,
    "site and --limit: during init": during("init.data", "init", PLANE, PLANE, "gpu-2"),
    "site and --limit: during its join": during("join.registered", "join", "gpu-1", PLANE, "gpu-1"),
    "site and --limit: before the join, after the token": limited_before_the_join,
    "site and reset: during init": reset_during_init,
    f"{KILLED} of the module after the mark": module_killed("init.begin", "init", PLANE),
    f"{KILLED} of the module during init": module_killed("init.data", "init", PLANE),
    f"{KILLED} of the module during a join": module_killed("join.bootstrap", "join", "gpu-1"),
    f"{KILLED} of kubeadm during init": kubeadm_killed("init.keys", PLANE),
    f"{KILLED} of kubeadm during a join": kubeadm_killed("join.bootstrap", "gpu-1"),
    f"{KILLED} of both, with data": both_killed_with_data,
    f"{KILLED} of a run after the token": killed_after_the_token,
    f"{KILLED} of a run before the mark": killed_before_the_mark,
}


def test_interleavings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So long a module waits for another's look at the host.
    monkeypatch.setattr(work, "_LOOK_S", 0.3)
    killed = len([name for name in INTERLEAVINGS if name.startswith(KILLED)])
    try:
        with faults.tried("kubernetes", "interleavings") as tally:
            for number, (name, check) in enumerate(INTERLEAVINGS.items()):
                with tally.one(name):
                    (tmp_path / str(number)).mkdir()
                    hosts = Hosts(tmp_path / str(number))
                    try:
                        cleaned = check(hosts) or []
                        finished(hosts)
                        hosts.whole()
                        assert hosts.events("reset") == cleaned
                    finally:
                        hosts.end()
    finally:
        print(f"kubernetes: {tally.tried} interleavings, {killed} by kill -9, lost {len(tally.lost)}")
