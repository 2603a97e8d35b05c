# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of pods, which a shell reads."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec import files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._pod_exec.run import ContainerError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._transport import info
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._transport.judge import Sample
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

Json = t.Any
DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1000       2    0    0    0     0          0         0       50       3    0    0    0     0       0          0
"""


def shown(tmp_path: Path, contents: dict[str, str]) -> Sample:
    """Return what a look sees, with the files of a directory in place of the system's."""
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    patterns = [f"{tmp_path}{pattern}" for pattern in info.PATTERNS]
    done = subprocess.run(files.argv("SIGN", patterns), capture_output=True, text=True, check=True, timeout=20)
    return info.parse(done.stdout.replace(str(tmp_path), ""), "SIGN", 5.0)


def test_a_shell_reads_what_is_there(tmp_path: Path) -> None:
    port = "sys/class/infiniband/%s/ports/%d/%s"
    contents = {
        "proc/self/net/dev": DEV,
        "sys/module/ib_core/parameters/netns_mode": "N\n",
        port % ("mlx5_0", 1, "counters/port_xmit_data"): "700\n",
        port % ("mlx5_0", 1, "counters/port_rcv_data"): "N/A (no PMA)\n",
        port % ("rxe0", 1, "hw_counters/sent_pkts"): "5\n",
        port % ("rxe0", 2, "hw_counters/rcvd_pkts"): "6\n",
        port % ("rxe0", 2, "hw_counters/link_downed"): "1\n",
    }
    counted = {"mlx5_0/1": {"port_xmit_data": 700}, "rxe0/1": {"sent_pkts": 5}, "rxe0/2": {"rcvd_pkts": 6}}
    assert shown(tmp_path, contents) == Sample(5.0, counted, {"lo": 200, "eth0": 1050}, False)


@pytest.mark.parametrize(("mode", "shared"), [("Y\n", True), ("N\n", False), ("?", None), (None, None)])
def test_the_mode(tmp_path: Path, mode: str | None, shared: bool | None) -> None:
    contents = {"proc/self/net/dev": DEV}
    if mode is not None:
        contents["sys/module/ib_core/parameters/netns_mode"] = mode
    assert shown(tmp_path, contents) == Sample(5.0, {}, {"lo": 200, "eth0": 1050}, shared)


def test_no_list_of_network_devices() -> None:
    assert "/proc/net/dev has no list of network devices" in message_of(ValueError, info.parse, "", "SIGN", 5.0)


def pod(name: str, phase: str = "Running", **spec: Json) -> Json:
    statuses = [{"name": "main", "state": {"running": {}}}] if phase == "Running" else []
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main"}], **spec},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


class Server:
    """Pods, by name or all of them."""

    def __init__(self, *pods: Json) -> None:
        self.pods = pods
        self.queries: list[Json] = []

    def get(self, path: str, _doing: str) -> Json:
        return next((pod for pod in self.pods if path.endswith("/" + pod["metadata"]["name"])), None)

    def items(self, _path: str, _doing: str, query: Json) -> Json:
        self.queries.append(query)
        return list(self.pods)


ASKED: Json = {"namespace": "ml", "name": None, "label_selectors": None, "container": None, "seconds": 0}


def chosen(server: Server, **params: Json) -> list[str]:
    rows = info.manifests({**ASKED, **params}, t.cast(t.Any, server))
    return [row["metadata"]["name"] for row in rows]


def test_which_pods() -> None:
    server = Server(pod("a"), pod("b", "Pending"), pod("c", "Succeeded"), pod("d", "Failed"))
    assert chosen(server, name="a") == ["a"]
    assert chosen(server, label_selectors=["job=train", "team"]) == ["a", "b"]
    assert server.queries == [{"labelSelector": "job=train,team"}]


# the pods that there are, what is asked for, what is said
NONE: list[tuple[list[Json], Json, str]] = [
    ([], {"name": "a"}, "Reading the pod ml/a: it does not exist. Check its name and namespace"),
    (
        [], {"label_selectors": ["job=x"]},
        "Listing the pods of ml with job=x: there are none. Check the labels, or ask while the pods run",
    ),
    (
        [pod("c", "Failed")], {"label_selectors": ["job=x"]},
        "Listing the pods of ml with job=x: 1 have ended. Check the labels, or ask while the pods run",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "params", "text"), NONE)
def test_no_pods(pods: list[Json], params: Json, text: str) -> None:
    assert message_of(info.TransportError, chosen, Server(*pods), **params) == text


def test_pods_between_their_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([100.0, 102.0])
    rates = {100.0: 0, 102.0: 10_000_000}

    def look(_pod_exec: Json) -> Sample:
        at = next(looks)
        return Sample(at, {}, {"eth0": rates[at]}, False)

    monkeypatch.setattr(info, "look", look)
    server = Server(pod("a"), pod("b", "Pending"))
    params = {**ASKED, "label_selectors": ["job=x"], "idle_bytes_per_second": 1000}
    result = info.manage(params, False, t.cast(t.Any, server))
    assert (result["changed"], result["transport"]) == (False, "unknown")
    first, second = result["pods"]
    assert (first["pod"], first["node"], first["transport"], first["seconds"]) == ("ml/a", "gpu-1", "tcp", 2.0)
    assert (second["transport"], second["seconds"]) == ("unknown", None)
    assert second["why"].startswith("The pod ml/b is Pending and has no container to measure in")


def test_a_pod_that_goes_away_between_its_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Json = iter([Sample(100.0, {}, {"eth0": 1}, False), ContainerError("gone")])

    def look(_pod_exec: Json) -> Sample:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return t.cast(Sample, answer)

    monkeypatch.setattr(info, "look", look)
    params = {**ASKED, "name": "a", "idle_bytes_per_second": 1000}
    (row,) = info.manage(params, False, t.cast(t.Any, Server(pod("a"))))["pods"]
    assert (row["transport"], row["why"]) == ("unknown", "gone")


def test_another_error_is_an_error() -> None:
    class Broken(Server):
        def get(self, _path: str, _doing: str) -> Json:
            raise ApiError("500")

    with pytest.raises(ApiError, match="500"):
        chosen(Broken(), name="a")
