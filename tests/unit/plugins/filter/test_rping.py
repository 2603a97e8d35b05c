# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rping said of a connection. fixtures/SOURCES.md says where the outputs are from."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.rping import rping
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read

NO_PING = "no ping was seen in the output (rping shows pings only when it is run with -v)"

# pings, errors
OUTPUTS: dict[str, tuple[int, list[str]]] = {
    "rping_debug-client_pings-3.txt": (3, []),
    "rping_debug-server_pings-3.txt": (3, []),
    "rping_rdmacm-utils-44.0_no-device.txt": (0, ["No RDMA devices were detected", NO_PING]),
    "rping_rdmacm-utils-44.0_no-address.txt": (
        0,
        ["getaddrinfo failed (Name or service not known) - invalid hostname or IP address", NO_PING],
    ),
    "rping_from-source_unreachable.txt": (
        0,
        ["cma event RDMA_CM_EVENT_UNREACHABLE, error -110", "wait for CONNECTED state 4", "connect error -1", NO_PING],
    ),
    # rping itself ends with 0 here.
    "rping_from-source_disconnected.txt": (1, ["wait for RDMA_WRITE_ADV state 10"]),
}


def ping(number: int, size: int = 64) -> str:
    """Write a ping as rping_test_client() does."""
    title = f"rdma-ping-{number}: "
    data = "".join(chr(65 + (number + at) % 58) for at in range(size - 1 - len(title)))
    return f"ping data: {title}{data}\n"


@pytest.mark.parametrize(("name", "expected"), OUTPUTS.items(), ids=OUTPUTS)
def test_recorded_outputs(name: str, expected: tuple[int, list[str]]) -> None:
    pings, errors = expected
    assert rping(read(name)) == {"ok": not errors, "pings": pings, "errors": errors}


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "client DISCONNECT EVENT...\n"])
def test_silence_is_not_success(text: str) -> None:
    assert rping(text) == {"ok": False, "pings": 0, "errors": [NO_PING]}


@pytest.mark.parametrize(("count", "errors"), [(None, []), (1, []), (3, []), (4, ["3 of 4 pings were seen"])])
def test_fewer_pings_than_wanted(count: int | None, errors: list[str]) -> None:
    result = rping(read("rping_debug-client_pings-3.txt"), count=count)
    assert result == {"ok": not errors, "pings": 3, "errors": errors}


@pytest.mark.parametrize(
    "line",
    [
        "cma event RDMA_CM_EVENT_REJECTED, error 28",
        "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19",
        "waiting for addr/route resolution state 1",
        "wait for CONNECTED state 10",
        "cq completion failed status 12",
        "data mismatch!",
        "rdma_resolve_addr: Cannot assign requested address",
        "rdma_listen: Address already in use",
        "rdma_bind_addr: Cannot assign requested address",
        "rdma_create_qp: Cannot allocate memory",
        "rdma_connect: Invalid argument",
        "rdma_buf reg_mr failed",
        "cma detected device removal!!!!",
        "rping client failed: -1",
        "bash: rping: command not found",
    ],
)
def test_an_error_beats_pings(line: str) -> None:
    assert rping(ping(0) + line + "\n") == {"ok": False, "pings": 1, "errors": [line]}


def test_a_server_that_its_client_left_is_no_error_only_after_a_ping() -> None:
    left = "server DISCONNECT EVENT...\nwait for RDMA_READ_ADV state 10\n"
    assert rping("server " + ping(0) + left)["ok"]
    assert rping(left)["errors"] == ["wait for RDMA_READ_ADV state 10", NO_PING]
    assert not rping("server " + ping(0) + "wait for RDMA_READ_ADV state 11\n")["ok"]
    assert not rping("server " + ping(0) + "wait for RDMA_READ_ADV state 10\n")["ok"]


@pytest.mark.parametrize(
    "line",
    [
        "ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqx",
        "ping data: rdma-ping-1: ABCDEFGH",
        "ping data: rdma-ping-0:",
        "ping data: ",
        "ping data: \x00\x01",
    ],
)
def test_other_data_than_the_client_sent(line: str) -> None:
    result = rping(line + "\n")
    assert (result["ok"], result["pings"]) == (False, 0)
    assert result["errors"][0].startswith("unexpected ping data: ")


def test_a_ping_that_is_missing_or_comes_twice() -> None:
    assert rping(ping(0) + ping(2))["errors"] == ["pings are missing: 2 were seen, the last is number 2"]
    assert rping(ping(0) + ping(0), count=2)["errors"] == ["1 of 2 pings were seen"]


@pytest.mark.parametrize("value", [None, 3, b"ping data", ["x"], {"stdout": ""}])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match=f"rping needs the text .* type {type(value).__name__}"):
        rping(value)


@pytest.mark.parametrize("count", [0, -1, "2", True, 1.5])
def test_what_is_no_count_is_refused(count: object) -> None:
    with pytest.raises(AnsibleFilterError, match="rping needs a whole number of pings"):
        rping("", count=count)


@given(st.text())
def test_arbitrary_text_is_never_a_success(text: str) -> None:
    result = rping(text)
    assert result["ok"] is False
    assert result["errors"]


@given(st.integers(min_value=1, max_value=200), st.integers(min_value=26, max_value=2000), st.data())
def test_all_pings_or_not_ok(count: int, size: int, data: Any) -> None:
    pings = [ping(number, size) for number in range(count)]
    assert rping("".join(pings), count=count) == {"ok": True, "pings": count, "errors": []}
    del pings[data.draw(st.integers(min_value=0, max_value=count - 1))]
    assert not rping("".join(pings), count=count)["ok"]
