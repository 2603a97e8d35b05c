# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which transport NCCL used, of its log."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_log import nccl_log
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.nccl_logs import (
    LOGS,
    OWN,
    RDMA,
    SOCKET_CHANNEL,
    UNKNOWN,
    log,
)
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read


@pytest.mark.parametrize(("name", "expected"), LOGS.items(), ids=LOGS)
def test_recorded_logs(name: str, expected: dict[str, Any]) -> None:
    assert nccl_log(read(name)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "training over NET/IB, using rdma\n",
        "Using network IB\n",
        "NCCL INFO Using network IB\n",
        "open('/data/NET/IB : Using [0]mlx5_0:1/IB')\n",
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n",
        "the log should say node1:1:2 [0] NCCL INFO Using network IB\n",
        "step-1 of-3 see-log node1:1:2 [0] NCCL INFO Using network IB\n",
        "expected 'node1:1:2 [0] NCCL INFO Using network IB'\n",
        "node1:1:2 [0] NCCL WARN Using network IB was not possible\n",
        OWN + "NCCL_IB_HCA set to mlx5_0\n",
        OWN + "NET/IB : No device found.\n",
        OWN + "NET/Plugin: Loaded net plugin IBext (v8)\n",
        OWN + "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
        OWN + "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n",
        OWN + "Channel 00/02 :    0   1\n",
    ],
)
def test_other_words_are_no_evidence(text: str) -> None:
    result = nccl_log(text)
    assert (result["transport"], result["evidence"], result["network"]) == ("unknown", None, None)


@pytest.mark.parametrize(
    "prefix",
    [
        "", "[1,0]<stdout>:", "[1,0]<stderr>: ", "[default0]:", "0: ", "12:", "worker-0: ", "worker-0  | ", "  ",
        "[pod/job-worker-0/pytorch] ", "job-worker-0 pytorch-1 ", "2024-05-14T02:49:30.831234567Z ",
        "2024-05-14 02:49:30,831 ", "[2025-10-16 22:16:08] ", "(RayWorkerWrapper pid=50232, ip=10.1.0.67) ",
        "2024-05-14T02:49:30Z [1,3]<stdout>:", "\x1b[36m(RayWorkerWrapper pid=5)\x1b[0m ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", LOGS)
def test_prefixes_change_nothing(name: str, prefix: str) -> None:
    lines = [line for line in read(name).splitlines(keepends=True) if "NCCL" in line and "INFO " in line]
    plain = nccl_log("".join(lines))
    assert nccl_log("".join(prefix + line for line in lines)) == plain
    assert nccl_log("".join(lines).replace("\n", "\r\n")) == plain


@pytest.mark.parametrize("name", RDMA)
def test_one_line_of_a_socket_makes_it_mixed(name: str) -> None:
    lines = read(name).splitlines(keepends=True)
    for at in range(len(lines) + 1):
        result = nccl_log("".join([*lines[:at], SOCKET_CHANNEL, *lines[at:]]))
        assert (result["transport"], result["gpudirect"], result["socket_ranks"]) == ("mixed", False, [5])


def test_channels_beat_the_start_of_the_same_process() -> None:
    start = OWN + "Using network IB\n"
    assert nccl_log(start + OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n") == log(
        "socket channels Socket", gpudirect=False, ranks=[0], socket_ranks=[0]
    )
    start = OWN + "NET/IB : No device found.\n" + OWN + "Using network Socket\n"
    channel = OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    assert nccl_log(start + channel) == log("rdma channels IB", gpudirect=True, ranks=[0])


def test_a_process_without_channels_is_judged_by_its_start() -> None:
    channel = OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    other = "node2:1:2 [0] NCCL INFO Using network Socket\nnode2:1:2 [0] NCCL INFO comm 0x55 rank 1 nranks 2 x\n"
    assert nccl_log(channel + other) == log(
        "mixed channels IB, Socket", gpudirect=False, ranks=[0, 1], socket_ranks=[1]
    )


def test_a_network_that_nobody_knows() -> None:
    start = OWN + "Using network FastTalk\n"
    assert nccl_log(start) == log("unknown init FastTalk")
    assert nccl_log(start + "node2:1:2 [0] NCCL INFO Using network IB\n")["transport"] == "unknown"
    assert nccl_log(start + "node2:1:2 [0] NCCL INFO Using network Socket\n")["transport"] == "mixed"
    channel = OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/FastTalk/0"
    assert nccl_log(channel + "\n")["transport"] == "unknown"
    assert nccl_log(channel + "/GDRDMA\n")["transport"] == "rdma"


@pytest.mark.parametrize(
    ("provider", "transport"),
    [("efa", "rdma"), ("verbs;ofi_rxm", "rdma"), ("tcp;ofi_rxm", "socket"), ("psm3", "unknown")],
)
def test_libfabric_is_what_its_provider_is(provider: str, transport: str) -> None:
    text = OWN + f"NET/OFI Selected Provider is {provider}\n" + OWN + "Using network AWS Libfabric\n"
    assert nccl_log(text)["transport"] == transport


@pytest.mark.parametrize(
    ("states", "expected"),
    [(["Enabled"], True), (["Enabled", "Enabled"], True), (["Disabled"], False), (["Enabled", "Disabled"], None)],
)
def test_gpu_direct_without_channels(states: list[str], expected: bool | None) -> None:
    text = OWN + "Using network IB\n"
    text += "".join(OWN + f"NET/IB : GPU Direct RDMA {state} for HCA 0 'mlx5_0'\n" for state in states)
    assert nccl_log(text)["gpudirect"] is expected
    assert nccl_log(text.replace("network IB", "network Socket"))["gpudirect"] is False


def test_gpu_direct_on_every_channel_or_not_at_all() -> None:
    text = read("nccl_ib_gdrdma.txt")
    assert nccl_log(text + OWN + "Channel 00/0 : 0[0] -> 9[0] [send] via NET/IB/0\n")["gpudirect"] is False
    for flags in ("/GDRDMA", "/GDRDMA/Shared", "/GDRDMA(PCI)", "/GDRDMA(PCI)/Shared"):
        line = OWN + f"Channel 00/0 : 0[0] -> 9[0] [send] via NET/IB/0(3){flags}\n"
        assert nccl_log(line) == log("rdma channels IB", gpudirect=True, ranks=[0])
    assert nccl_log(OWN + "[send] via NET/IB/0\n") == log("rdma channels IB", gpudirect=False)


@pytest.mark.parametrize("plugin", ["Using network IB", "Assigned NET plugin IB to comm", "Using internal network IB"])
def test_names_of_the_choice(plugin: str) -> None:
    assert nccl_log(OWN + plugin + "\n") == log("rdma init IB")


@pytest.mark.parametrize(
    "line",
    [
        "node1: Test NCCL failure common.cu:1279 'unhandled system error'",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, internal error",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
    ],
)
def test_errors_of_callers(line: str) -> None:
    assert nccl_log(f"  {line}\n{line}\n") == {**UNKNOWN, "errors": [line]}
