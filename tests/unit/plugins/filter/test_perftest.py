# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What perftest measured. fixtures/SOURCES.md says where the outputs are from."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.perftest import perftest
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.perftest import PerftestError, latency
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read

LATENCY = "this is the output of a latency test; only bandwidth tests (ib_write_bw and the like) are read"


def rows_of(*rows: tuple[float, ...]) -> list[dict[str, Any]]:
    names = ("bytes", "iterations", "peak_gbps", "average_gbps", "mpps")
    return [dict(zip(names, row, strict=True)) for row in rows]


def result(run: str, gid: int | None, mtu: int, *rows: tuple[float, ...]) -> dict[str, Any]:
    """Return the result of a run that is given by its test, its device and the type of its link."""
    about = dict(zip(("test", "device", "link_type"), run.split(), strict=True))
    flags = {"bidirectional": False, "below_limit": False}
    return {**about, **flags, "gid_index": gid, "mtu_bytes": mtu, "rows": rows_of(*rows)}


# the result, or the error's words
OUTPUTS: dict[str, dict[str, Any] | str] = {
    "perftest_irdma_write_bw_gbits_client.txt": result(
        "ib_write_bw irdma0 Ethernet", 1, 1024, (65536, 1324156, 0.0, 23.14, 0.044138)
    ),
    "perftest_irdma_write_bw_gbits_server.txt": result(
        "ib_write_bw irdma0 Ethernet", 1, 1024, (65536, 1324156, 0.0, 23.14, 0.044138)
    ),
    "perftest_read_bw_mb.txt": result(
        "ib_read_bw mlx5_1 IB",
        None,
        4096,
        (2, 1000, 0.040769, 0.039175, 2.450225),
        (4, 1000, 0.081537, 0.081453, 2.546339),
        (8, 1000, 0.163662, 0.163578, 2.556366),
    ),
    "perftest_write_bw_post-list.txt": result("ib_write_bw ib0 Ethernet", 2, 4096, (8, 224958464, 0.0, 0.48, 7.498617)),
    "perftest_atomic_bw_mb.txt": result("ib_atomic_bw pib_1 IB", None, 4096, (8, 1000, 0.014261, 0.014009, 0.219031)),
    "perftest_4.4+0.37_from-source_write_bw_gbits.txt": result(
        "ib_write_bw mlx5_1 Ethernet", 3, 4096, (65536, 1074000, 0.0, 187.7, 0.35801)
    ),
    "perftest_4.4+0.37_no-json.txt": (
        "the test failed: ib_write_bw: unrecognized option '--out_json'; Invalid Command or flag."
    ),
    "perftest_4.5+0.17_from-source_write_bw.json": result(
        "ib_write_bw rxe0 Ethernet", 1, 1024, (65536, 5000, 0.0, 34.846445, 0.066464)
    ),
    "perftest_25.01_from-source_write_bw_gbits.json": result(
        "ib_write_bw mlx5_0 Ethernet", 3, 4096, (65536, 5000, 0.0, 23.14, 0.044138)
    ),
    "perftest_2023-06_write_lat.json": LATENCY,
    "perftest_25.01_send_lat_rxe.json": LATENCY,
    "perftest_25.01_send_lat_rxe.txt": LATENCY,
    "perftest_4.5+0.17_no-device.txt": "the test failed: Unable to find the Infiniband/RoCE device",
    "perftest_write_bw_connect-refused.txt": (
        "the test failed: Couldn't connect to 10.0.0.211:18515; Unable to open file descriptor for socket connection"
        " Unable to init the socket connection"
    ),
    "perftest_write_lat_no-qp.txt": (
        "the test failed: Unable to create QP.; Failed to create QP.; Couldn't create IB resources"
    ),
}
GOOD = [name for name, expected in OUTPUTS.items() if isinstance(expected, dict)]
CLIENT = "perftest_irdma_write_bw_gbits_client.txt"
GBITS_JSON = "perftest_25.01_from-source_write_bw_gbits.json"
OLD_JSON = "perftest_4.5+0.17_from-source_write_bw.json"


def refusal(value: object, **arguments: Any) -> str:
    return message_of(AnsibleFilterError, perftest, value, **arguments)


@pytest.mark.parametrize(("name", "expected"), OUTPUTS.items(), ids=OUTPUTS)
def test_recorded_outputs(name: str, expected: dict[str, Any] | str) -> None:
    if isinstance(expected, str):
        assert refusal(read(name)) == "perftest: " + expected
    else:
        assert perftest(read(name)) == expected


# The median and the 99th percentile in microseconds, or the error's words.
LATENCIES: dict[str, tuple[float, float] | str] = {
    "perftest_2023-06_write_lat.json": (2.42, 2.47),
    "perftest_25.01_send_lat_rxe.json": (2002.8, 21262.3),
    "perftest_25.01_send_lat_rxe.txt": (2002.8, 21262.3),
    CLIENT: "perftest printed no latency, or several: give one run of one size, without -D",
    GBITS_JSON: "perftest printed no latency, or several: give one run of one size, without -D",
    "perftest_write_lat_no-qp.txt": OUTPUTS["perftest_write_lat_no-qp.txt"],
}  # fmt: skip


@pytest.mark.parametrize("name", LATENCIES)
def test_recorded_latencies(name: str) -> None:
    expected = LATENCIES[name]
    if isinstance(expected, str):
        assert message_of(PerftestError, latency, read(name)) == expected
    else:
        assert latency(read(name)) == dict(zip(("median_us", "percentile_99_us"), expected, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2002.80", "0.00", "is not a time: 0.0 us"),
        ("21262.30", "-1", "printed no latency"),
        ("2002.80", "x", "no latency"),
    ],
)
def test_what_is_no_latency(old: str, new: str, words: str) -> None:
    text = read("perftest_25.01_send_lat_rxe.txt").replace(old, new)
    assert words in message_of(PerftestError, latency, text)


@pytest.mark.parametrize("name", GOOD)
def test_rates_agree_with_message_rates(name: str) -> None:
    """A unit that was taken for another one is 5 percent off at least."""
    for row in perftest(read(name))["rows"]:
        assert row["average_gbps"] == pytest.approx(row["mpps"] * row["bytes"] * 8e-3, rel=0.02)


@pytest.mark.parametrize("unit", ["MB", "MiB"])
def test_units_are_told_by_the_header(unit: str) -> None:
    text = read("perftest_read_bw_mb.txt").replace("[MB/sec]", f"[{unit}/sec]")
    assert perftest(text)["rows"][2]["average_gbps"] == round(19.50 * 8 * 2**20 / 1e9, 6)
    assert "an unknown unit" in refusal(text.replace(f"[{unit}/sec]", "[kB/sec]"))


@pytest.mark.parametrize(
    "line",
    [
        "Couldn't connect to 10.9.9.1:18515",
        " Unable to open file descriptor for socket connection",
        "Failed to modify QP 34 to RTR",
        "Failed to modify QP to RTS",
        " Completion with error at client",
        " Failed status 12: wr_id 0 syndrom 0x81",
        "ethernet_read_keys: Couldn't read remote address",
        "mlx5: node1: got completion with error:",
        " Port number 1 state is Down",
        "\x1b[31mUnable to Connect the HCA's through the link\x1b[0m",
        "rdma_resolve_addr failed",
        "Couldn't allocate MR",
    ],
)
def test_an_error_beats_a_result(line: str) -> None:
    text = read(CLIENT)
    words = re.sub(r"\x1b\[\d+m", "", line).strip()
    assert refusal(text + line + "\n") == f"perftest: the test failed: {words}"
    assert refusal(line + "\n" + read(GBITS_JSON)) == f"perftest: the test failed: {words}"
    assert words in refusal(read(GBITS_JSON) + line + "\n")
    assert words in refusal(read(OLD_JSON) + line + "\n")


@pytest.mark.parametrize(
    "line",
    [
        " WARNING: BW peak won't be measured in this run.",
        "libibverbs: Warning: couldn't load driver 'libmana-rdmav34.so': libmana-rdmav34.so: cannot open shared object file",
        "Conflicting CPU frequency values detected: 800.000000 != 3500.000000. CPU Frequency is not max.",
        "Requested mtu is higher than active mtu ",
        " Unable to validata PKey Index, changing to 0",
        "Changing to active mtu - 3",
        "",
    ],
)
def test_hints_are_no_errors(line: str) -> None:
    assert perftest(line + "\n" + read(CLIENT)) == perftest(read(CLIENT))


@pytest.mark.parametrize("message", ["BW result is below bw limit", "Msg rate  is below msg_rate limit"])
def test_a_result_below_its_limit_is_a_result(message: str) -> None:
    assert perftest(read(CLIENT) + f"Error: {message}\n") == {**perftest(read(CLIENT)), "below_limit": True}


@pytest.mark.parametrize(
    "text", ["", " \n", "* Waiting for client to connect... *\n", "65536 5000 1 2 3\n", "[]", "null"]
)
def test_without_a_row_there_is_no_result(text: str) -> None:
    assert "perftest printed no" in refusal(text)


def test_the_last_words_are_told() -> None:
    assert refusal("bash: line 1: ib_write_bw: gone\n\n") == (
        "perftest: perftest printed no result; its last output is: bash: line 1: ib_write_bw: gone"
    )


def test_latency_tests_are_refused() -> None:
    title = "                    RDMA_Write Latency Test\n"
    header = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\n"
    assert refusal(title) == refusal(header + " 2 1000 0.9 1 2 3 4\n") == "perftest: " + LATENCY
    assert refusal({"test_info": {}, "results": {"MsgSize": 2, "t_avg": 2.42}}) == "perftest: " + LATENCY


def test_both_ways() -> None:
    text = read(CLIENT).replace("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test")
    row = re.search(r"^ 65536 .*\n", text, re.M)
    assert row
    text += " Local results: \n" + row.group() + " Remote results: \n" + row.group()
    assert perftest(text) == {**perftest(read(CLIENT)), "bidirectional": True}


def test_two_runs_are_refused() -> None:
    assert "2 runs of perftest" in refusal(read(CLIENT) * 2)
    other = read(GBITS_JSON).replace("mlx5_0", "mlx5_1")
    assert "2 different runs" in refusal(read(GBITS_JSON) + other)


def test_a_rate_that_is_none() -> None:
    assert "is not a rate" in refusal(read(CLIENT).replace("23.14 ", "-23.14"))


def test_messages_without_a_rate() -> None:
    words = "messages and printed a rate of 0: it could not determine the processor's frequency"
    row = re.search(r"^ 65536 +(\d+) .*\n", read(CLIENT), re.M)
    assert row
    zero = f" 65536      {row.group(1)}             0.00               0.00   \t\t     0.000000\n"
    text = read(CLIENT).replace(row.group(), "Correlation coefficient r^2: 0.61 < 0.9\n" + zero)
    assert f"perftest counted {row.group(1)} {words}" in refusal(text)
    document = json.loads(read(GBITS_JSON))
    document["results"].update({"BW_peak": 0.0, "BW_average": 0.0, "MsgRate": 0.0})
    assert words in refusal(document)
    # Nothing was sent: that is a rate of 0.
    document["results"]["n_iterations"] = 0
    assert perftest(document)["rows"][0]["average_gbps"] == 0


def test_json_of_several_sizes_one_after_the_other() -> None:
    small = read(GBITS_JSON).replace('"MsgSize": 65536', '"MsgSize": 32768').replace("23.14", "11.57")
    assert [row["bytes"] for row in perftest(read(GBITS_JSON) + small)["rows"]] == [65536, 32768]
    small = read(OLD_JSON).replace("MsgSize: 65536", "MsgSize: 32768").replace("4154.02", "2077.01")
    assert [row["bytes"] for row in perftest(read(OLD_JSON) + small)["rows"]] == [65536, 32768]


def test_json_decoded_or_after_text() -> None:
    expected = perftest(read(GBITS_JSON))
    assert perftest(json.loads(read(GBITS_JSON))) == expected
    assert perftest(json.dumps(json.loads(read(GBITS_JSON)))) == expected
    assert perftest("Some banner\n" + read(GBITS_JSON)) == expected


def test_json_of_both_sides_is_their_sum() -> None:
    document = json.loads(read(GBITS_JSON))
    document["results_local"] = document["results_remote"] = document.pop("results")
    document["test_info"]["test"] = "RDMA_Write_Bidirectional_BW_Test"
    both = perftest(document)
    assert both["bidirectional"] is True
    assert both["rows"] == rows_of((65536, 5000, 0.0, 46.28, 0.088276))
    del document["results_remote"]
    assert "no results" in refusal(document)


@pytest.mark.parametrize("cut", ["BW_average", "MsgRate", "MsgSize", "n_iterations", "BW_peak"])
def test_json_that_lacks_a_number(cut: str) -> None:
    document = json.loads(read(GBITS_JSON))
    del document["results"][cut]
    assert f"lacks {cut}" in refusal(document)


def test_json_cut_off() -> None:
    for name in (GBITS_JSON, OLD_JSON):
        text = read(name).rstrip()
        for length in range(1, len(text) - 1):
            refusal(text[:length])


# average, mpps, report_gbits, result in Gb/s or None for "cannot be told"
UNITS = [
    (23.14, 0.044138, None, 23.14),
    (2758.5, 0.044138, None, 23.140),
    (23.14, 0.044138, True, 23.14),
    (23.14, 0.044138, False, 0.194112),
    (23.14, 1.0, None, None),
    (0.000524, 0.000001, None, 0.000524),
    (0.06, 0.000001, None, 0.000503),
    (0.3, 0.0, None, None),
    (0.3, 0.0, True, 0.3),
]


@pytest.mark.parametrize(("average", "mpps", "gbits", "expected"), UNITS)
def test_units_of_json(average: float, mpps: float, gbits: bool | None, expected: float | None) -> None:
    document = json.loads(read(GBITS_JSON))
    document["results"].update(BW_average=average, MsgRate=mpps)
    if expected is None:
        assert "set report_gbits" in refusal(document, report_gbits=gbits)
    else:
        rate = perftest(document, report_gbits=gbits)["rows"][0]["average_gbps"]
        assert rate == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
def test_what_is_no_output_is_refused(value: object) -> None:
    assert f"not a value of type {type(value).__name__}" in refusal(value)


def test_what_is_no_boolean_is_refused() -> None:
    assert "perftest needs true or false for report_gbits, not 'yes'" in refusal("x", report_gbits="yes")


@given(st.text())
def test_arbitrary_text_is_refused(text: str) -> None:
    assert refusal(text).startswith("perftest: ")


KEYS = ("results", "test_info", "test", "MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
)


@given(st.dictionaries(st.sampled_from(["results", "results_local", "test_info"]), JSON))
def test_arbitrary_json_raises_nothing_else(document: dict[str, Any]) -> None:
    for value in (document, json.dumps(document)):
        try:
            assert perftest(value)["rows"]
        except AnsibleFilterError:
            continue


@settings(max_examples=60)
@given(st.sampled_from(GOOD), st.randoms(use_true_random=False), st.text(max_size=30))
def test_damaged_outputs(name: str, chance: random.Random, noise: str) -> None:
    rows = perftest(read(name))["rows"]
    lines: list[str] = []
    for line in read(name).splitlines(keepends=True):
        lines += [line] * chance.choice((0, 1, 1, 1, 1, 2))
        if chance.random() < 0.2:
            lines.append(noise + "\n")
    try:
        damaged = perftest("".join(lines))
    except AnsibleFilterError:
        return
    assert damaged["rows"]
    assert all(row in rows for row in damaged["rows"])
