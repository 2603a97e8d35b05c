# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests measured. fixtures/SOURCES.md says where the outputs are from."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.nccl_tests import nccl_tests
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.filter.recorded import read

NOTHING: tuple[Any, ...] = (None, None, None)


def half(time_us: float, algbw: float, busbw: float, wrong: int | None = None, error: float | None = None) -> Any:
    return {"time_us": time_us, "algbw": algbw, "busbw": busbw, "wrong": wrong, "error": error}


def row(columns: tuple[Any, ...], out_of_place: tuple[Any, ...], in_place: tuple[Any, ...]) -> dict[str, Any]:
    names = ("size_bytes", "count", "type", "redop", "root")
    halves = {"out_of_place": half(*out_of_place), "in_place": half(*in_place)}
    return {**dict(zip(names, columns, strict=True)), **halves}


# rows, avg_busbw, out_of_bounds
OUTPUTS: dict[str, tuple[list[Any], float | None, int | None]] = {
    "nccl-2.18.5_ibext_roce_all-reduce.txt": (
        [row((10737418240, 2684354560, "float", "sum", -1), (3825027.0, 2.81, 2.81, 0), (3825795.0, 2.81, 2.81, 0))],
        2.80687,
        0,
    ),
    "nccl-tests_all-reduce_error-column.txt": (
        [
            row((8, 2, "float", "sum", None), (40.17, 0, 0, None, 1e-07), (62.08, 0, 0, None, 0.0)),
            row((16, 4, "float", "sum", None), (32.28, 0, 0, None, 3e-08), (33.14, 0, 0, None, 3e-08)),
        ],
        None,
        None,
    ),
    "nccl-tests_broadcast_unchecked.txt": ([row((8, 2, "float", None, 0), (45.82, 0, 0), (38.17, 0, 0))], None, None),
    "nccl-tests_sendrecv.txt": (
        [
            row(
                (37748744, 37748744, "uint8", None, None),
                (11732, 3.22, 3.22, None, 0.0),
                (11698, 3.23, 3.23, None, 300.0),
            )
        ],
        None,
        None,
    ),
    "nccl-tests_sendrecv_wrong-not-told.txt": (
        [
            row((256, 64, "float", "sum", -1), (34.24, 0.01, 0.01, 0), (33.65, 0.01, 0.01)),
            row((2048, 512, "float", "sum", -1), (31.58, 0.06, 0.06, 0), (31.33, 0.07, 0.07)),
        ],
        None,
        None,
    ),
    "nccl-tests-2.13.6_all-gather_one-gpu.txt": (
        [row((33554432, 8388608, "float", None, -1), (18.48, 1816.16, 0, 0), (0.05, 619657.1, 0, 0))],
        None,
        0,
    ),
    "nccl-tests_all-reduce_tagged.txt": (
        [
            row((8, 2, "float", "sum", -1), (12.9, 0, 0, 0), (12.87, 0, 0, 0)),
            row((16, 4, "float", "sum", -1), (12.88, 0, 0, 0), (12.83, 0, 0, 0)),
        ],
        92.3405,
        0,
    ),
    "nccl-tests_all-reduce_nvl72.txt": (
        [
            row((536870912, 134217728, "float", "sum", -1), (1806.7, 297.16, 586.06, 0), (1835.9, 292.43, 576.74, 0)),
            row((8589934592, 2147483648, "float", "sum", -1), (20299, 423.16, 834.57, 0), (20006, 429.37, 846.82, 0)),
        ],
        745.53,
        0,
    ),
    "nccl-tests-2.20.0_all-reduce_started.txt": (
        [
            row((8192, 2048, "float", "sum", -1), (35.15, 0.23, 0.23, 0), (30.33, 0.27, 0.27, 0)),
            row((16384, 4096, "float", "sum", -1), (31.67, 0.52, 0.52, 0), (30.75, 0.53, 0.53, 0)),
        ],
        None,
        None,
    ),
}
HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n"


@pytest.mark.parametrize(("name", "expected"), OUTPUTS.items(), ids=OUTPUTS)
def test_recorded_outputs(name: str, expected: tuple[list[Any], float | None, int | None]) -> None:
    rows, average, bounds = expected
    assert nccl_tests(read(name)) == {"rows": rows, "avg_busbw": average, "out_of_bounds": bounds, "errors": []}


def test_processes_that_did_not_find_each_other_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="2 tables and 0 results.*without MPI=1"):
        nccl_tests(read("nccl-tests_not-mpi_interleaved.txt"))
    whole = read("nccl-tests_all-reduce_nvl72.txt")
    with pytest.raises(AnsibleFilterError, match="give one run at a time"):
        nccl_tests(whole + whole)
    with pytest.raises(AnsibleFilterError, match="1 tables and 2 results"):
        nccl_tests(whole + "# Avg bus bandwidth    : 0 \n")


@pytest.mark.parametrize(
    "text", ["", "no table here\n", "# Avg bus bandwidth    : 300 \n", "8 2 float sum -1 1 2 3 0\n"]
)
def test_without_a_table_there_is_no_result(text: str) -> None:
    assert nccl_tests(text) == {"rows": [], "avg_busbw": None, "out_of_bounds": None, "errors": []}


def test_a_run_that_ended_early_has_no_average() -> None:
    lines = read("nccl-tests_all-reduce_nvl72.txt").splitlines(keepends=True)
    text = (
        "".join(lines[:-2])
        + "node1: Test NCCL failure common.cu:1279 'unhandled system error'\n .. node1 pid 52: Test failure common.cu:1124\n"
    )
    result = nccl_tests(text)
    assert (len(result["rows"]), result["avg_busbw"], result["out_of_bounds"]) == (2, None, None)
    assert result["errors"] == [
        "node1: Test NCCL failure common.cu:1279 'unhandled system error'",
        ".. node1 pid 52: Test failure common.cu:1124",
    ]


def test_a_row_that_ended_early() -> None:
    start = "     1024           256     float     sum      -1"
    assert nccl_tests(HEADER + start)["rows"] == []
    assert nccl_tests(HEADER + start + "    10.00    1.00    2.00      0\n")["rows"] == [
        row((1024, 256, "float", "sum", -1), (10, 1, 2, 0), NOTHING)
    ]
    blank = " " * 34 + "10.00    1.00    2.00      0\n"
    assert nccl_tests(HEADER + start + blank)["rows"] == [row((1024, 256, "float", "sum", -1), NOTHING, (10, 1, 2, 0))]


def test_log_lines_between_a_size_and_its_times() -> None:
    text = (
        HEADER
        + "     1024           256     float     sum      -1node1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"
        + "node1:1:2 [0] NCCL INFO Connected all rings\n"
        + "    10.00    1.00    2.00      0    11.00    1.10    2.20      3\n"
        + END
    )
    assert nccl_tests(text) == {
        "rows": [row((1024, 256, "float", "sum", -1), (10, 1, 2, 0), (11, 1.1, 2.2, 3))],
        "avg_busbw": 1.5,
        "out_of_bounds": 0,
        "errors": [],
    }


def test_more_columns_and_other_numbers() -> None:
    columns = "cputime   algbw   busbw  #wrong     min     max  "
    header = "#       size         count      type   redop    root  " + columns * 2 + "timestamp\n"
    cells = "  1e+03  1.00  2.00  1e+06  1.0  2.0  11.00  inf  nan  N/A  1.0  2.0\n"
    result = nccl_tests(
        header + "1024 256 half none 0" + cells + "# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : nan\n"
    )
    assert result == {
        "rows": [row((1024, 256, "half", None, 0), (1000, 1, 2, 1000000), (11, None, None))],
        "avg_busbw": None,
        "out_of_bounds": 12,
        "errors": [],
    }


@pytest.mark.parametrize(
    "prefix",
    ["[1,0]<stdout>:", "[default0]:", "0: ", "worker-0 | ", "[pod/a-b/c] ", "2024-05-14T02:49:30.831234567Z ", ""],
)
def test_prefixes_change_nothing(prefix: str) -> None:
    plain = read("nccl-tests_all-reduce_nvl72.txt")
    assert nccl_tests("".join(prefix + line for line in plain.splitlines(keepends=True))) == nccl_tests(plain)
    assert nccl_tests(plain.replace("\n", "\r\n")) == nccl_tests(plain)


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match=f"nccl_tests needs the text .* type {type(value).__name__}"):
        nccl_tests(value)


@given(st.text())
def test_arbitrary_text_has_no_result(text: str) -> None:
    assert nccl_tests(text)["avg_busbw"] is None


@given(
    st.text(alphabet="#0123456789 -.eN/Afloatsumnan\t", max_size=80), st.text(alphabet="0123456789 -.eN/A", max_size=80)
)
def test_arbitrary_rows_raise_nothing(first: str, second: str) -> None:
    nccl_tests(HEADER + first + "\n" + second + "\n" + END)


@settings(max_examples=60)
@given(st.sampled_from(list(OUTPUTS)), st.randoms(use_true_random=False), st.text(max_size=30))
def test_damaged_outputs(name: str, chance: random.Random, noise: str) -> None:
    whole = nccl_tests(read(name))
    lines = read(name).splitlines(keepends=True)
    kept = [line for line in lines if chance.random() < 0.7]
    damaged = [piece for line in kept for piece in ([noise + "\n", line] if chance.random() < 0.3 else [line])]
    result = nccl_tests("".join(damaged))
    assert all(entry in whole["rows"] for entry in result["rows"])
    assert result["avg_busbw"] in (None, whole["avg_busbw"])
    try:
        doubled = nccl_tests("".join(line for line in kept for _turn in range(chance.choice((1, 2)))))
    except AnsibleFilterError:
        return
    assert all(entry in whole["rows"] for entry in doubled["rows"])
