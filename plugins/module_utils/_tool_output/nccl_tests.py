# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the programs of nccl-tests measured, from the tables they print."""

from __future__ import annotations

import math
import re
import typing as t

from .._errors import FabricError

# mpirun --tag-output, torchrun, srun -l, kubectl logs --prefix and --timestamps: what may stand before a line.
_TAGS = re.compile(r"(?:(?:\[[^\]\n]*\](?:<std\w+>)?:?|\d+:|[\w./-]+\s*\||\d{4}-\d\d-\d\dT[\d:.]+Z?)\s?)+(?=[#\s])")
_HEADER = re.compile(r"#\s+size\s+count\s+type\s+(?:redop\s+)?(?:root\s+)?(?:cpu)?time\s")
_NUMBER = r"-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)"
_CELLS = re.compile(r"\s+%s(?:\s+(?:%s|N/A))*\s*\Z" % (_NUMBER, _NUMBER))
_START = re.compile(r"\s*(\d{1,18})\s+(\d{1,18})\s+([A-Za-z]\w*)(?=\s|\Z)")
_REDOP = re.compile(r"\s+([A-Za-z]\w*)(?=\s|\Z)")
_ROOT = re.compile(r"\s+(-?\d{1,9})(?![\d.])")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*(%s)(?:\s|\Z)" % _NUMBER)
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\d{1,18})(?:\s|\Z)")
_FAILURE = re.compile(
    r"(?:.*: Test (?:NCCL |CUDA )?failure .*| \.\. .* pid \d+: Test (?:NCCL |CUDA )?failure .*"
    r"|invalid .*|Test timeout.*)\Z"
)
# If the in-place half is alone, the columns of the other half are blank.
_BLANK_HALF = 24
# The tables' lines are shorter. What goes on for longer must not cost time.
_LONGEST = 4000


class NcclTestsError(FabricError):
    """The text has the results of several runs."""


class _Table(t.NamedTuple):
    redop: bool
    root: bool
    halves: list[list[str]]  # the names of the columns of each half


def parse(text: str) -> dict[str, t.Any]:
    """Return ``rows``, ``avg_busbw`` (GB/s), ``out_of_bounds`` and ``errors``.

    A run that ended early has the rows it printed and no average. Several runs in one text have no common average:
    they raise NcclTestsError.
    """
    output = _Output()
    for line in text.split("\n"):
        output.add(_untag(line[:_LONGEST].rstrip("\r")))
    if len(output.averages) > 1 or output.tables > 1:
        raise NcclTestsError(
            "the text has %s tables and %s results, of several runs or of processes"
            " that did not find each other (nccl-tests built without MPI=1 run alone on every node): give one run at a"
            " time" % (output.tables, len(output.averages))
        )
    return {
        "rows": output.rows,
        "avg_busbw": output.averages[0] if output.averages and output.rows else None,
        "out_of_bounds": output.bounds[0] if output.bounds else None,
        "errors": output.errors,
    }


class _Output:
    """What the lines so far contain."""

    def __init__(self) -> None:
        self.rows: list[dict[str, t.Any]] = []
        self.errors: list[str] = []
        self.averages: list[float | None] = []
        self.bounds: list[int] = []
        self.tables = 0
        self._table: _Table | None = None
        # The program prints a size before it runs and the times after it; NCCL's log may come between them.
        self._operation: dict[str, t.Any] | None = None

    def add(self, line: str) -> None:
        if _HEADER.match(line):
            self.tables += 1
            self._table = _table(line)
            self._operation = None
        elif line.startswith("#"):
            self._add_summary(line)
        elif _FAILURE.match(line):
            if line.strip() not in self.errors:
                self.errors.append(line.strip())
        elif self._table is not None:
            self._add_cells(line, self._table)

    def _add_summary(self, line: str) -> None:
        average, bound = _AVERAGE.match(line), _BOUNDS.match(line)
        if average:
            self.averages.append(_number(average.group(1)))
        if bound:
            self.bounds.append(int(bound.group(1)))

    def _add_cells(self, line: str, table: _Table) -> None:
        head = _head(line, table)
        if head:
            self._operation, line = head
        if self._operation is None:
            return
        row = _row(self._operation, line, table)
        if row is not None:
            self.rows.append(row)
            self._operation = None


def _untag(line: str) -> str:
    match = _TAGS.match(line)
    return line[match.end() :] if match else line


def _table(header: str) -> _Table:
    names = header.lstrip("#").split()
    halves: list[list[str]] = []
    for name in names:
        if name in ("time", "cputime"):
            halves.append([])
        if halves:
            halves[-1].append("time" if name == "cputime" else name)
    return _Table("redop" in names, "root" in names, halves)


def _head(line: str, table: _Table) -> tuple[dict[str, t.Any], str] | None:
    """Return what a row shows about the operation, and the rest of the line."""
    match = _START.match(line)
    if match is None:
        return None
    row: dict[str, t.Any] = {
        "size_bytes": int(match.group(1)),
        "count": int(match.group(2)),
        "type": match.group(3),
        "redop": None,
        "root": None,
    }
    rest = line[match.end() :]
    if table.redop:
        redop = _REDOP.match(rest)
        if redop:
            row["redop"] = None if redop.group(1) == "none" else redop.group(1)
            rest = rest[redop.end() :]
    if table.root:
        root = _ROOT.match(rest)
        if root:
            row["root"] = int(root.group(1))
            rest = rest[root.end() :]
    return row, rest


def _row(head: dict[str, t.Any], cells: str, table: _Table) -> dict[str, t.Any] | None:
    """Put the measured cells under their names; None when the line has not those of one half at least."""
    if not _CELLS.match(cells):
        return None
    words = cells.split()
    half = len(table.halves[0])
    if len(words) < half:
        return None
    row = dict(head, out_of_place=_half([], table.halves[0]), in_place=_half([], table.halves[-1]))
    if len(words) < half + 4 and len(cells) - len(cells.lstrip()) >= _BLANK_HALF:
        row["in_place"] = _half(words, table.halves[-1])
        return row
    row["out_of_place"] = _half(words[:half], table.halves[0])
    if len(table.halves) > 1 and len(words) >= half + 4:
        row["in_place"] = _half(words[half:], table.halves[1])
    return row


def _half(words: list[str], names: list[str]) -> dict[str, t.Any]:
    cells = dict(zip(names, words))
    wrong = _number(cells.get("#wrong"))
    return {
        "time_us": _number(cells.get("time")),
        "algbw": _number(cells.get("algbw")),
        "busbw": _number(cells.get("busbw")),
        "wrong": None if wrong is None else int(wrong),
        "error": _number(cells.get("error")),
    }


def _number(word: str | None) -> float | None:
    """Return a finite number, else None (N/A, nan)."""
    try:
        number = float(word or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


__all__ = ("NcclTestsError", "parse")
