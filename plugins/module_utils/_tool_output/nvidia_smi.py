# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What nvidia-smi prints: a row of properties for each GPU, and the version of CUDA in its summary."""

from __future__ import annotations

import re
import typing as t

# "nvidia-smi --help-query-gpu" describes them.
_FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "temperature.gpu",
    "mig.mode.current",
)
QUERY = ("--query-gpu=" + ",".join(_FIELDS), "--format=csv,noheader")

# What a GPU or a driver does not have: [N/A], [Not Supported], [Unknown Error], [GPU requires reset].
_MISSING = re.compile(r"\[.*\]\Z|N/A\Z|\Z")
_NUMBER = re.compile(r"([0-9]{1,18})(?: MiB)?\Z")
_CUDA = re.compile(r"CUDA Version *: *([0-9]{1,4}\.[0-9]{1,4})")


def parse(text: str) -> tuple[list[dict[str, t.Any]], list[str]]:
    """Return the GPUs of QUERY's output, and the lines that are none, such as those about a GPU that does not answer.

    What a GPU does not report is None.
    """
    gpus, others = [], []
    for line in text.split("\n"):
        values = [value.strip() for value in line.split(", ")]
        if len(values) == len(_FIELDS) and values[0].isascii() and values[0].isdigit() and len(values[0]) < 7:
            gpus.append(_gpu(values))
        elif line.strip():
            others.append(line.strip())
    return gpus, others


def _gpu(values: t.Sequence[str]) -> dict[str, t.Any]:
    words = [None if _MISSING.match(value) else value for value in values]
    numbers = [_number(word) for word in words]
    return {
        "index": numbers[0],
        "name": words[1],
        "driver": words[2],
        "memory_mib": numbers[3],
        "ecc_mode": words[4],
        "uncorrected_ecc_errors": numbers[5],
        "temperature_celsius": numbers[6],
        "mig_mode": words[7],
    }


def _number(word: str | None) -> int | None:
    match = _NUMBER.match(word or "")
    return int(match.group(1)) if match else None


def cuda(text: str) -> str | None:
    """Return the newest version of CUDA that the driver supports, of what nvidia-smi prints without options."""
    match = _CUDA.search(text)
    return match.group(1) if match else None


__all__ = ("QUERY", "cuda", "parse")
