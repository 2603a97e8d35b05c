# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way NCCL took. fixtures/SOURCES.md says where the logs are from."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_log import FilterModule, nccl_log

FIXTURES = Path(__file__).parent / "fixtures"
UNKNOWN: dict[str, Any] = {
    "transport": "unknown",
    "evidence": None,
    "network": None,
    "devices": [],
    "interface": None,
    "gpudirect": None,
    "version": None,
    "ranks": [],
    "socket_ranks": [],
    "errors": [],
    "left_out": {"devices": 0, "ranks": 0, "socket_ranks": 0, "errors": 0},
}


def log(transport: str, evidence: str | None, network: str | None, **others: Any) -> dict[str, Any]:
    return {**UNKNOWN, "transport": transport, "evidence": evidence, "network": network, **others}


def devices(link_layer: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "port": 1, "link_layer": link_layer} for name in names]


LOGS = [
    (
        "nccl-2.18.5_ibext_roce_all-reduce.txt",
        log(
            "rdma",
            "channels",
            "IBext",
            devices=devices("Ethernet", "irdma0"),
            interface="net1",
            gpudirect=False,
            version="2.18.5+cuda12.2",
            ranks=[0],
        ),
    ),
    (
        "nccl-2.21.5_ibext-v8_irdma_init.txt",
        log(
            "rdma",
            "init",
            "IBext_v8",
            devices=devices("Ethernet", "irdma0", "irdma3"),
            interface="eth0",
            version="2.21.5+cuda12.4",
            ranks=[1],
        ),
    ),
    ("nccl-2.21.5_ray-prefix_no-transport.txt", {**UNKNOWN, "interface": "ib0.0065", "version": "2.21.5+cuda12.4"}),
    ("nccl-2.27.6_start.txt", {**UNKNOWN, "interface": "enp9s0np0", "version": "2.27.6+cuda13.0"}),
    (
        "nccl-2.27.7_ofi_no-device.txt",
        {**UNKNOWN, "errors": ["NET/OFI OFI fi_getinfo() call failed: No data available"]},
    ),
    (
        "nccl-2.3.7_ib_init.txt",
        log(
            "rdma",
            "init",
            "IB",
            devices=devices("InfiniBand", "mlx5_1", "mlx5_3", "mlx5_0", "mlx5_2"),
            interface="enp1s0f0",
            version="2.3.7+cuda9.0",
            ranks=[0],
        ),
    ),
    # It names the socket's interface before it finds a device.
    (
        "nccl-2.4.7_ib_init.txt",
        log(
            "rdma",
            "init",
            "IB",
            devices=devices("InfiniBand", "mlx5_0"),
            interface="ib0",
            version="2.4.7+cuda10.0",
        ),
    ),
    (
        "nccl-2.5.6_ib_init_numbered.txt",
        log(
            "rdma",
            "init",
            "IB",
            devices=[
                *devices("InfiniBand", "mlx5_1", "mlx5_3", "mlx5_0"),
                *devices("Ethernet", "mlx5_2"),
                *devices("InfiniBand", "mlx5_4"),
            ],
            interface="eth0",
        ),
    ),
    ("nccl-2.5.6_socket_init_tagged.txt", log("socket", "init", "Socket", interface="lo", version="2.5.6+cuda10.2")),
    (
        "nccl-2.8.3_ibext_failed-qp.txt",
        log(
            "rdma",
            "init",
            "IBext",
            version="2.8.3+cudaCUDA_MAJOR.CUDA_MINOR",
            errors=["Call to ibv_create_qp failed"],
        ),
    ),
    (
        "nccl_from-source_mixed.txt",
        log(
            "mixed",
            "channels",
            "IB, SHARP, Socket",
            devices=devices("Ethernet", "mlx5_0"),
            interface="eth0",
            gpudirect=False,
            ranks=[0, 1],
            socket_ranks=[1],
            errors=[
                "NET/IB : Got completion from peer 10.0.0.1<55921> with status=12 opcode=1 len=0 vendor err 129 (Send)",
                "Call to ibv_modify_qp failed with error Connection timed out",
                "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8",
            ],
        ),
    ),
    ("nccl_ib_gdrdma.txt", log("rdma", "channels", "IB", gpudirect=True, ranks=[0, 1, 2, 3])),
    (
        "nccl_ib_interleaved.txt",
        log("rdma", "init", "IB", devices=devices("InfiniBand", "mlx5_2"), ranks=[6]),
    ),
    ("nccl_ib_no-gdr.txt", log("rdma", "channels", "IB", gpudirect=False, ranks=[0, 1])),
    ("nccl_ibext-v8_channels.txt", log("rdma", "channels", "IBext_v8", gpudirect=False, ranks=[38, 39])),
    (
        "nccl_ibext_sharp_pod-prefix.txt",
        log("rdma", "init", "IBext", devices=devices("InfiniBand", "mlx5_9"), interface="eth0"),
    ),
    (
        "nccl_ofi_channels_tagged.txt",
        log(
            "unknown",
            "channels",
            "AWS Libfabric",
            gpudirect=False,
            ranks=[7, 15, 23],
            errors=["NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument"],
        ),
    ),
    (
        "nccl_ofi_gdrdma_failed.txt",
        log(
            "rdma",
            "channels",
            "AWS Libfabric",
            gpudirect=True,
            ranks=[1],
            errors=[
                "NET/OFI Operation with NULL context completed with error",
                "NET/OFI Unable to free request of listen communicator.",
            ],
        ),
    ),
    (
        "nccl_roce_gdr-disabled_init.txt",
        log(
            "rdma",
            "init",
            "IB",
            devices=devices("Ethernet", "mlx5_0", "mlx5_1"),
            interface="primaryip",
            gpudirect=False,
            ranks=[0],
        ),
    ),
    ("nccl_roce_init.txt", log("rdma", "init", "IB", devices=devices("Ethernet", "rocep26s0"), interface="eth0")),
    (
        "nccl_socket_channels.txt",
        log("socket", "channels", "Socket", gpudirect=False, ranks=[15], socket_ranks=[15]),
    ),
    ("nccl_socket_init.txt", log("socket", "init", "Socket", interface="lo", gpudirect=False)),
]
NAMES = [name for name, _expected in LOGS]
RDMA = [name for name, expected in LOGS if expected["transport"] == "rdma"]
SOCKET_CHANNEL = "other:1:2 [0] NCCL INFO Channel 00/0 : 5[0] -> 6[0] [send] via NET/Socket/0\n"
OWN = "node1:1:2 [0] NCCL INFO "
# What alone may make a log one of RDMA.
EVIDENCE = re.compile(
    r":\d+ \[\d+\] NCCL INFO .*(?:via (?:NET|COLLNET)/(?:IB|SHARP|.*/GDRDMA)|[Nn]etwork IB|NET/IB ?: (?:Using )?\[)"
)


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize(("name", "expected"), LOGS, ids=NAMES)
def test_recorded_logs(name: str, expected: dict[str, Any]) -> None:
    assert nccl_log(read(name)) == expected


def test_it_is_registered() -> None:
    assert FilterModule().filters() == {"nccl_log": nccl_log}


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
        "",
        "[1,0]<stdout>:",
        "[1,0]<stderr>: ",
        "[default0]:",
        "0: ",
        "12:",
        "worker-0: ",
        "worker-0  | ",
        "[pod/job-worker-0/pytorch] ",
        "job-worker-0 pytorch-1 ",
        "2024-05-14T02:49:30.831234567Z ",
        "2024-05-14 02:49:30,831 ",
        "[2025-10-16 22:16:08] ",
        "(RayWorkerWrapper pid=50232, ip=10.1.0.67) ",
        "2024-05-14T02:49:30Z [1,3]<stdout>:",
        "\x1b[36m(RayWorkerWrapper pid=5)\x1b[0m ",
        "  ",
    ],
)
@pytest.mark.parametrize("name", NAMES)
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
        "socket", "channels", "Socket", gpudirect=False, ranks=[0], socket_ranks=[0]
    )
    start = OWN + "NET/IB : No device found.\n" + OWN + "Using network Socket\n"
    channel = OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    assert nccl_log(start + channel) == log("rdma", "channels", "IB", gpudirect=True, ranks=[0])


def test_a_process_without_channels_is_judged_by_its_start() -> None:
    channel = OWN + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    other = "node2:1:2 [0] NCCL INFO Using network Socket\nnode2:1:2 [0] NCCL INFO comm 0x55 rank 1 nranks 2 x\n"
    assert nccl_log(channel + other) == log(
        "mixed", "channels", "IB, Socket", gpudirect=False, ranks=[0, 1], socket_ranks=[1]
    )


def test_a_network_that_nobody_knows() -> None:
    start = OWN + "Using network FastTalk\n"
    assert nccl_log(start) == log("unknown", "init", "FastTalk")
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
        assert nccl_log(line) == log("rdma", "channels", "IB", gpudirect=True, ranks=[0])
    assert nccl_log(OWN + "[send] via NET/IB/0\n") == log("rdma", "channels", "IB", gpudirect=False)


@pytest.mark.parametrize("plugin", ["Using network IB", "Assigned NET plugin IB to comm", "Using internal network IB"])
def test_names_of_the_choice(plugin: str) -> None:
    assert nccl_log(OWN + plugin + "\n") == log("rdma", "init", "IB")


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


def test_long_lines_take_no_time() -> None:
    """Each of these would take a pattern that goes back for ever."""
    for junk in ("1:" * 5000, "[" * 5000, "a-1 " * 5000, "(" * 5000, "1:1:1 [0] " * 3000, ":".join("1" * 5000)):
        nccl_log(junk + " NCCL INFO Using network IB\n")
        nccl_log(junk + " " + OWN + "Using network IB\n")


LINES: dict[str, Callable[[int], str]] = {
    "other warnings": lambda number: f"{OWN[:-5]}WARN w{number:07d}",
    "other processes": lambda number: f"n{number}:1:2 [0] NCCL INFO Using network N{number}",
    "other channels": lambda number: OWN + f"Channel 0/0 : {number}[0] -> 1[0] [send] via NET/N{number}/0",
    "other devices": lambda number: OWN + "NET/IB : Using" + "".join(f" [{at}]m{number}x{at}:1/IB" for at in range(60)),
    "other ranks": lambda number: OWN + f"comm 0x1 rank {number} nranks 9",
    "comm": lambda _number: OWN + "comm" * 1900,
    "spaces": lambda _number: OWN + "Using network a" + " " * 7900 + "b",
    "versions": lambda _number: OWN + "NCCL version " + "1." * 3900 + "1 x y",
    "bare versions": lambda _number: "x: NCCL version " + "1." * 3900 + "1 x y",
    "names of hosts": lambda _number: OWN + "a" * 7900 + " NCCL ",
    "beginnings": lambda _number: OWN * 300,
}


def hostile_log(name: str, size: int) -> str:
    lines: list[str] = []
    while size > 0:
        lines.append(LINES[name](len(lines)) + "\n")
        size -= len(lines[-1])
    return "".join(lines)


def seconds(text: str) -> float:
    """Return the processor time that a log takes, which other work on the machine hardly changes."""
    began = time.process_time()
    nccl_log(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", LINES)
def test_a_hostile_log_costs_no_more_than_its_length(name: str) -> None:
    """A quarter of what training_job_info reads of a pod; what grows with the square takes 5 to 300 s here."""
    assert seconds(hostile_log(name, 1 << 20)) < 2


@pytest.mark.long
@pytest.mark.parametrize("name", LINES)
def test_a_hostile_log_of_the_largest_size(name: str) -> None:
    assert seconds(hostile_log(name, 4 << 20)) < 4


def test_what_a_hostile_log_names_is_limited() -> None:
    lines = [LINES[name](number) for name in LINES if name.startswith("other") for number in range(2000)]
    result = nccl_log("\n".join(lines))
    assert [len(result[name]) for name in ("errors", "devices", "ranks")] == [100, 1000, 2000]
    assert result["errors"][::99] == ["w0000000", "w0000099"]
    assert result["left_out"] == {"devices": 119_000, "ranks": 0, "socket_ranks": 0, "errors": 1900}
    assert result["network"] == "N0, N1, N2, N3, N4, N5, N6, N7, N8, N9, and 1990 more"


def test_a_long_warning_is_cut() -> None:
    assert nccl_log(OWN[:-5] + "WARN " + "x" * 5000)["errors"] == ["x" * 1024]


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match=f"nccl_log needs the text .* type {type(value).__name__}"):
        nccl_log(value)


@given(st.text())
def test_arbitrary_text_is_unknown(text: str) -> None:
    result = nccl_log(text)
    assert (result["transport"], result["evidence"], result["gpudirect"]) == ("unknown", None, None)


@given(st.text(max_size=60))
def test_arbitrary_messages_of_nccl(text: str) -> None:
    message = text.replace("\n", " ").replace("\r", " ")
    assert nccl_log(OWN + message + "\n")["transport"] == "unknown"


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from(["noise ", "x: ", "[a] ", "'", "using rdma NET/IB ", "a b c "]),
)
def test_no_rdma_without_a_line_of_it(names: list[str], chance: random.Random, noise: str) -> None:
    lines = [line for name in names for line in read(name).splitlines()]
    kept = [line for line in lines if chance.random() < 0.5]
    chance.shuffle(kept)
    changed = []
    for line in kept:
        changed += [line] * chance.choice((1, 1, 2))
        if chance.random() < 0.2:
            changed.append(noise + line[: chance.randrange(len(line) + 1)])
    result = nccl_log("\n".join(changed))
    if not any(EVIDENCE.search(line) for line in changed):
        assert result["transport"] != "rdma"
    if any("via NET/Socket" in line for line in kept):
        assert result["transport"] in ("socket", "mixed")
    if result["transport"] == "unknown":
        assert result["gpudirect"] in (None, False)
