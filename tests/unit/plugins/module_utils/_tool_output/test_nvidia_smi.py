# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.nvidia_smi import QUERY, cuda, parse

FIXTURES = Path(__file__).parents[1] / "fixtures/nvidia_smi"
A100 = {"name": "NVIDIA A100 80GB PCIe", "driver": "550.54.15", "memory_mib": 81920}


def text(name: str) -> str:
    return (FIXTURES / f"nvidia-smi-{name}.txt").read_text()


def gpu(index: int, ecc: str | None, errors: int | None, celsius: int | None, mig: str | None, **more: t.Any) -> t.Any:
    rest = {"ecc_mode": ecc, "uncorrected_ecc_errors": errors, "temperature_celsius": celsius, "mig_mode": mig}
    return {"index": index, **A100, **rest, **more}


H100 = {"name": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "memory_mib": 81559}
LOST = "Unable to determine the device handle for GPU0000:15:00.0: Unknown Error"
OUTPUTS: dict[str, tuple[list[t.Any], list[str]]] = {
    "580.159.04_query": ([gpu(0, "Enabled", 0, 35, "Disabled", **H100)], []),
    "550.54.15_from-source_query": ([gpu(0, "Enabled", 0, 38, "Disabled"), gpu(1, "Enabled", 2, 41, "Enabled")], []),
    # Without ECC there is no number of errors: null, not zero.
    "550.54.15_from-source_query-without-ecc": (
        [
            gpu(0, "Disabled", None, 37, "Disabled"),
            gpu(1, None, None, None, None, name="NVIDIA L4", memory_mib=23034),
        ],
        [],
    ),
    "550.54.15_from-source_query-lost-gpu": ([gpu(0, "Enabled", 0, 38, "Disabled")], [LOST]),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_rows_of_a_query(name: str) -> None:
    assert parse(text(name)) == OUTPUTS[name]


@pytest.mark.parametrize("line", ["No devices were found", "x, A, 1, 2 MiB, a, 0, 1, b", "0, A, 1, 2 MiB, a, 0, 1"])
def test_what_is_no_gpu(line: str) -> None:
    assert parse(line + "\n") == ([], [line])
    assert parse("") == ([], [])


def test_it_asks_for_what_it_reads() -> None:
    assert QUERY[0].count(",") == text("580.159.04_query").split("\n")[0].count(",")


def test_cuda() -> None:
    assert cuda(text("580.159.04_summary")) == "13.0"
    assert cuda(text("550.54.15_from-source_summary")) == "12.4"
    assert cuda("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: N/A  |") is None
    assert cuda("") is None
