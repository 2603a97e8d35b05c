# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in a real container, run by containerd and runc: with its rights, in time, bounded, and without a trace.

Containers that attack whoever measures in them are in test_pod_exec_attacks.py, the API server's way in
cluster/test_pod_exec.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import pod as fabric_pod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.measure import Quiet, listen, measure
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec import run
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, runc
from ansible_collections.rdmaops.gpu_fabric.tests.support.runc import Container, Runtime
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

SLEEPS = ["sleep 1000"]
# Has children in sessions of their own, and does not care for SIGTERM.
STUBBORN = "trap '' TERM; setsid sleep 333 & sleep 444 & echo here; while true; do sleep 1; done"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Runtime]:
    with runc.runtime(tmp_path_factory.mktemp("containerd")) as made:
        yield made


@pytest.fixture
def container(runtime: Runtime) -> t.Iterator[Container]:
    with runtime.container() as made:
        yield made


@pytest.mark.parametrize("user", [0, pytest.param(1000, marks=pytest.mark.long)])
def test_a_program_is_as_if_the_container_ran_it(runtime: Runtime, user: int) -> None:
    with runtime.container(user=user) as container:
        pod = Pod(container)
        script = (
            "id; ulimit -l; cat /proc/self/status; cat /proc/sys/kernel/hostname; cat /proc/self/cgroup; echo $NAME"
        )
        status, output = pod.run(["sh", "-c", script], 20)
        assert status == 0
        assert output.startswith(f"uid={user} gid={user} groups=44\n{runc.MEMLOCK // 1024}\n")
        fields = dict(line.split(":\t", 1) for line in output.split("\n") if ":\t" in line)
        assert int(fields["CapBnd"], 16) == runc.MASK
        assert int(fields["CapEff"], 16) == (0 if user else runc.MASK)
        assert (fields["NoNewPrivs"], fields["CapAmb"], fields["Seccomp"]) == ("1", "0" * 16, "2")
        assert "\ntrain-0\n" in output
        assert output.endswith("\nvalue\n")
        assert container.ident in output
        assert pod.memlock() == (str(runc.MEMLOCK), user == 0)
        assert {"PATH", "NAME"} <= set(pod.variables())
        # The document is for every user of the container to write.
        written = pod.run_for_document(lambda path: ["sh", "-c", f"echo written > {path}"], "x", 20)
        assert written == (0, "", "written\n")
        assert (pod.which("sleep"), pod.which("containerd")) == ("sleep", None)


def test_its_seccomp_filter_applies(container: Container) -> None:
    status, output = Pod(container).run(["mkdir", "/tmp/made"], 20)
    assert (status, "Operation not permitted" in output) == (1, True)


def test_exit_status_text_and_document(container: Container) -> None:
    pod = Pod(container)
    script = "echo out; echo error >&2; echo '{}' > %s; exit 3"
    assert pod.run_for_document(lambda path: ["sh", "-c", script % path], "x", 20) == (3, "out\nerror\n", "{}\n")
    assert pod.run_for_document(lambda _path: ["true"], "x", 20) == (0, "", "")
    assert pod.run(["sh", "-c", "kill -9 $$"], 20)[0] == 137
    status, output = pod.run(["nothing"], 20)
    assert (status, "nothing" in output) == (127, True)


def test_a_time_limit_ends_whatever_came_of_it(container: Container) -> None:
    pod = Pod(container)
    began = time.monotonic()
    status, output = pod.run(["sh", "-c", STUBBORN], 1)
    assert (status, output.split("\n")[0]) == (None, "here")
    assert time.monotonic() - began < 30
    assert container.processes() == SLEEPS


@pytest.mark.long
def test_a_child_that_is_left_behind_holds_nothing_up(container: Container) -> None:
    pod = Pod(container)
    began = time.monotonic()
    assert pod.run(["sh", "-c", "setsid sleep 333 & exit 0"], 60) == (0, "")
    assert time.monotonic() - began < 30
    pod.close()
    assert container.processes() == SLEEPS


def test_what_is_printed_without_end_is_bounded(container: Container) -> None:
    pod = Pod(container)
    status, output = pod.run(["yes"], 2)
    assert status is None
    assert 0 < len(output) <= run.KEPT
    server = pod.start(["yes"], 1, "")
    wait_for(lambda: server.status() is not None)
    assert (server.status(), len(server.output())) == (124, 1000)
    wait_for(lambda: container.processes() == SLEEPS)


def test_a_server_goes_on_and_is_stopped(container: Container) -> None:
    pod = Pod(container)
    server = pod.start(["sh", "-c", "setsid sleep 333 & sleep 444"], 100, "")
    wait_for(lambda: {"sleep 333", "sleep 444"} <= set(container.processes()))
    assert server.status() is None
    # What ends with its client is another mark's.
    pod.close()
    assert "sleep 444" in container.processes()
    server.stop()
    wait_for(lambda: container.processes() == SLEEPS)
    short = pod.start(["sh", "-c", "echo words; exit 7"], 10, "")
    wait_for(lambda: short.status() is not None)
    assert (short.status(), short.output()) == (7, "words\n")


TASK = """
import sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.pod import Pod
from ansible_collections.rdmaops.gpu_fabric.tests.support.runc import Container
pod = Pod(Container(sys.argv[2], sys.argv[3].split()))
if sys.argv[1] == "start":
    pod.start(["sleep", "555"], 4, "")
    pod.close()
else:
    print("ready", flush=True)
    pod.run(["sleep", "666"], 4)
"""


def task(action: str, container: Container) -> list[str]:
    return [sys.executable, "-c", TASK, action, container.ident, " ".join(container.ctr)]


@pytest.mark.long
def test_a_server_outlives_the_task_until_its_limit(container: Container) -> None:
    began = time.monotonic()
    subprocess.run(task("start", container), check=True, timeout=60)
    wait_for(lambda: "sleep 555" in container.processes())
    wait_for(lambda: container.processes() == SLEEPS)
    assert time.monotonic() - began >= 4


@pytest.mark.long
def test_a_client_of_a_killed_task_ends_at_its_limit(container: Container) -> None:
    with subprocess.Popen(task("run", container), stdout=subprocess.DEVNULL) as killed:
        wait_for(lambda: "sleep 666" in container.processes())
        killed.kill()
    wait_for(lambda: container.processes() == SLEEPS)


def test_a_container_that_ends_meanwhile(container: Container) -> None:
    pod = Pod(container)
    server = pod.start(["sleep", "444"], 100, "")
    wait_for(lambda: "sleep 444" in container.processes())
    os.kill(container.pid(), signal.SIGKILL)
    with pytest.raises(ContainerError, match=r"Running sleep in the container main of the pod ml/train-0: .+"):
        wait_for(lambda: server.status() is not None)
    with pytest.raises(ContainerError, match="Measure again when the pod is Running"):
        pod.run(["sleep", "1"], 20)
    with pytest.raises(ContainerError):
        Pod(container)


@pytest.mark.long
def test_what_an_image_lacks_is_named(runtime: Runtime) -> None:
    with runtime.container(tools=("sleep",)) as container, pytest.raises(ContainerError) as caught:
        Pod(container)
    assert "Running sh in the container main of the pod ml/train-0: " in str(caught.value)
    assert '"sh": executable file not found' in str(caught.value)
    with (
        runtime.container(tools=("sleep",), programs=("dash", "env")) as container,
        pytest.raises(ContainerError) as caught,
    ):
        Pod(container)
    assert str(caught.value) == (
        "The image of the container main of the pod ml/train-0 lacks programs that are needed: sh, and env, "
        "timeout and cat (package coreutils): env: 'timeout': No such file or directory"
    )


def test_the_network_is_the_pods(container: Container) -> None:
    pod = Pod(container)
    table, nothing, counters = pod.texts(["/proc/self/net/tcp", "/nowhere", "/proc/self/net/dev"])
    assert table.strip().startswith("sl  local_address")
    assert nothing == ""
    assert [line.split(":")[0].strip() for line in counters.split("\n")[2:] if line] == ["lo"]
    assert pod.way() == (None, "192.0.2.7")
    assert not pod.listens(8000)
    server = pod.start(["nc", "-l", "-p", "8000"], 60, "")
    wait_for(lambda: pod.listens(8000))
    server.stop()
    assert not pod.listens(8000)


@pytest.mark.long
def test_a_look_that_hangs_has_a_limit(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_pod, "_LOOK_S", 1)
    pod = Pod(container)
    assert pod.run(["mkfifo", "/tmp/hangs"], 20)[0] == 0
    assert pod.texts(["/tmp/hangs", "/proc/self/limits"]) == ["", ""]
    pod.close()
    assert container.processes() == SLEEPS


# Stands in for perftest, for which this kernel would need RDMA: listens, or leaves what one has once left.
IB_WRITE_BW = """#!/bin/sh
for last; do case $last in --out_json_file=*) place=${last#*=};; esac; done
[ "$place" ] || exec nc -l -p 18599
echo "words to $last"
cat /tmp/result.json > "$place"
"""
RESULT = COLLECTION / "tests/unit/plugins/filter/fixtures/perftest_25.01_write_bw_rxe.json"


def test_a_bandwidth_from_end_to_end(runtime: Runtime, container: Container) -> None:
    root = runtime.work / container.ident
    (root / "bin/ib_write_bw").write_text(IB_WRITE_BW)
    (root / "bin/ib_write_bw").chmod(0o755)
    shutil.copy(RESULT, root / "tmp/result.json")
    names = {"id": "0-0-ib_write_bw", "client": "b", "server": "a", "rail": 0, "test": "ib_write_bw"}
    options = {
        "address": "192.0.2.7",
        "tcp_port": 18599,
        "device": "mlx5_0",
        "port": 1,
        "seconds": 1,
        "bytes": 4096,
        "queue_pairs": 1,
    }
    server = Pod(container)
    assert listen([{**names, **options}], 60, 30, server) == []
    server.close()
    client = Pod(container)
    (result,) = measure([{**names, **options}], 30, 20, client, Quiet([], 1000))
    client.close()
    assert (result["ok"], result["gbps"], result["error"]) == (True, 0.024885, None)
    assert (result["traffic"]["quiet"], result["traffic"]["why"]) == (None, "mlx5_0 counts no bytes")
    assert "nc -l -p 18599" in container.processes()
    (root / "bin/ib_write_bw").unlink()
    (failed,) = listen([{**names, **options, "tcp_port": 18600}], 60, 30, Pod(container))
    assert failed["ok"] is None
    assert failed["error"].startswith("its server exited with 127: ")
    # The server of the round before has been ended.
    assert not [line for line in container.processes() if "18599" in line]
