# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's control plane, started for real beside any other: what survives, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import processes
from ansible_collections.rdmaops.gpu_fabric.tests.lab.control_plane import PROGRAMS
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster, private
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import definition, manifest

LAB = [sys.executable, str(COLLECTION / "tests/lab/lab.py")]
GROUP = "test.rdmaops.example"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    with private(tmp_path_factory.mktemp("lab-state")) as made:
        yield made


@pytest.fixture
def plane(shared: Cluster) -> Cluster:
    """The control plane that the tests share, started again if the test before has ended it."""
    shared.plane.up()
    return shared


def pids(plane: Cluster) -> dict[str, int | None]:
    return {row.program: row.pid for row in plane.plane.status()}


def lab(plane: Cluster, *words: str) -> str:
    """Run a command of lab.py on this control plane; it must not wait for what it has started."""
    state = plane.plane.places.state
    environment = {**os.environ, "LAB_STATE": str(state), "LAB_INVENTORY": str(state / "inventory")}
    done = subprocess.run([*LAB, *words], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_of_it_is_healthy(plane: Cluster) -> None:
    rows = plane.plane.status()
    assert [(row.program, row.healthy) for row in rows] == [(program, True) for program in PROGRAMS]
    version = plane.plane.settings["tools"]["kubernetes"]["version"]
    assert plane.json("version")["serverVersion"]["gitVersion"] == version
    assert plane.kubeconfig.stat().st_mode & 0o777 == 0o600
    ours = json.loads(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    theirs = json.loads(Path(lab(plane, "cluster", "kubeconfig", "--nodes")).read_text())
    assert theirs["clusters"][0]["cluster"]["server"] == ours.replace("127.0.0.1", "10.0.2.2")


def test_up_again_changes_nothing(plane: Cluster) -> None:
    before = pids(plane), plane.kubeconfig.read_bytes()
    assert lab(plane, "cluster", "up") == str(plane.kubeconfig)
    assert (pids(plane), plane.kubeconfig.read_bytes()) == before


def test_pods_are_scheduled_by_nobody_but_accepted(plane: Cluster) -> None:
    with plane.namespace() as namespace:
        plane.kubectl("run", "one", "-n", namespace, "--image=none.example/none")
        plane.kubectl("wait", "--for=condition=PodScheduled=False", "pod/one", "-n", namespace, "--timeout=30s")


def test_users_may_do_what_they_are_allowed_to(plane: Cluster) -> None:
    someone = plane.user("someone", ["some-group"])
    asked = ("auth", "can-i", "list", "pods", "-n", "default")
    assert plane.kubectl(*asked, kubeconfig=someone, check=False).strip() == "no"
    plane.kubectl("create", "clusterrolebinding", "some-group", "--clusterrole=view", "--group=some-group")
    assert plane.kubectl(*asked, kubeconfig=someone).strip() == "yes"
    assert plane.kubectl(*asked, kubeconfig=plane.user("someone"), check=False).strip() == "no"
    assert plane.kubectl("auth", "can-i", "*", "*", kubeconfig=plane.token_kubeconfig()).strip() == "yes"


def test_an_api_server_that_is_gone_or_hangs(plane: Cluster) -> None:
    server = pids(plane)["kube-apiserver"]
    plane.freeze()
    assert not plane.plane.healthy("kube-apiserver", 1)
    assert pids(plane)["kube-apiserver"] == server
    plane.thaw()
    assert plane.plane.healthy("kube-apiserver", 30)
    plane.stop()
    assert pids(plane)["kube-apiserver"] is None
    assert plane.plane.answer("kube-apiserver", "/readyz")[0] == 0
    plane.start()
    plane.kubectl("get", "namespaces")


def test_what_is_half_dead_is_started_anew(plane: Cluster) -> None:
    before = pids(plane)
    for program, number in (("kube-scheduler", signal.SIGKILL), ("kube-apiserver", signal.SIGSTOP)):
        pid = before[program]
        assert pid
        os.kill(pid, number)
    plane.plane.up()
    after = pids(plane)
    assert all(row.healthy for row in plane.plane.status())
    assert [name for name in PROGRAMS if after[name] != before[name]] == ["kube-scheduler"]


def test_data_outlives_everything_and_nothing_else_is_left(plane: Cluster, tmp_path: Path) -> None:
    plane.apply(definition(GROUP, "v1", "rails", "Rail", "Namespaced", {"mtu": {"type": "integer"}}))
    plane.established(f"crd/rails.{GROUP}")
    with plane.namespace() as namespace:
        plane.apply(manifest(f"{GROUP}/v1", "Rail", "rail0", namespace, spec={"mtu": 4200}))
        before = pids(plane)

        # Neither the name of a program nor a file of ours makes a process ours: it takes both.
        (plane.plane.place / "etcd.pid").write_text(f"{os.getpid()}\n")
        log = str(plane.plane.log("kube-apiserver"))
        (tmp_path / "etcd").symlink_to("/bin/sleep")
        strangers = [
            subprocess.Popen(["tail", "-f", log], stdout=subprocess.DEVNULL),
            subprocess.Popen([str(tmp_path / "etcd"), "300"]),
        ]
        try:
            lab(plane, "cluster", "down")
            assert [stranger.poll() for stranger in strangers] == [None, None]
        finally:
            for stranger in strangers:
                stranger.kill()
                stranger.wait()
        assert set(pids(plane).values()) == {None}
        assert not any(processes.state(pid) not in ("", "Z") for pid in before.values() if pid)
        lab(plane, "cluster", "down")

        lab(plane, "cluster", "up")
        assert plane.json("get", "rail", "rail0", "-n", namespace)["spec"] == {"mtu": 4200}
    lab(plane, "down", "--all")
    assert set(pids(plane).values()) == {None}
    assert not plane.plane.place.exists()
