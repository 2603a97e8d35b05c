# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put two results of train.py or benchmark.py side by side: how much faster is the second, and is that more than noise?

A result is the file that --result wrote, or the log of rank 0. Needs nothing but Python, and jinja2 for --html.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import typing as t

from common import MARK, SCHEMA, SPREAD, Summary, WorkloadError, summarize, write_whole

Result = t.Mapping[str, t.Any]

# Keys that must be the same, with their descriptions.
SAME = (
    ("kind", "kind of run"),
    ("model", "model"),
    ("world_size", "world size"),
    ("batch_size", "batch size"),
    ("image_size", "image size"),
    ("precision", "precision"),
    ("device_type", "kind of device"),
)
# Keys that may differ, and are reported.
DETAILS = (
    ("hosts", "hosts"),
    ("device", "device"),
    ("backend", "backend"),
    ("torch", "PyTorch"),
    ("started", "started"),
)
CONFIDENCE = 0.95
# With two iterations each, a single value decides.
FEWEST = 3


class Difference(t.NamedTuple):
    """The difference of the second result's rate from the first's, in percent of the first's mean.

    ``low`` and ``high`` bound the true difference with 95 % confidence, None if they are not known.
    """

    percent: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "unknown"
        if self.low <= 0 <= self.high:
            return "noise"
        return "faster" if self.percent > 0 else "slower"


class Comparison(t.NamedTuple):
    """Two results, with their names."""

    names: tuple[str, str]
    results: tuple[Result, Result]
    per_device: tuple[Summary, Summary]
    difference: Difference

    @property
    def device(self) -> str:
        return "GPU" if self.results[0]["device_type"] == "cuda" else "CPU"

    @property
    def title(self) -> str:
        first = self.results[0]
        return "%s of %s on %d %s(s), batch size %d, %s" % (
            first["kind"], first["model"], first["world_size"], self.device, first["batch_size"], first["precision"],
        )  # fmt: skip

    @property
    def sentence(self) -> str:
        """The verdict as a sentence."""
        first, second = self.names
        change = self.difference
        claim = "%s is %.1f %% %s than %s" % (
            second, abs(change.percent), "faster" if change.percent >= 0 else "slower", first,
        )  # fmt: skip
        if change.low is None or change.high is None:
            return "%s, but %d and %d measurements cannot tell a difference from noise: at least %d each are needed" % (
                claim, self.per_device[0].samples, self.per_device[1].samples, FEWEST,
            )  # fmt: skip
        between = "%+.1f to %+.1f %%" % (change.low, change.high)
        if change.verdict == "noise":
            return "No difference above the noise: %s, and anything from %s may be true" % (claim, between)
        return "%s (with 95 %% confidence %s)" % (claim, between)

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The rows of the table: description, both values, and the difference."""
        first, second = self.per_device
        world = self.results[0]["world_size"]
        change = self.difference
        margin = "" if change.high is None else " +-%.1f" % (change.high - change.percent)

        def line(what: str, left: float, right: float) -> tuple[str, str, str, str]:
            return (what, "%.1f" % left, "%.1f" % right, percent_text(percent(left, right)))

        return [
            (
                "images/s per %s" % self.device, spread_text(first), spread_text(second),
                percent_text(change.percent).replace(" %", margin + " %"),
            ),
            line("  slowest", first.min, second.min),
            line("  fastest", first.max, second.max),
            ("  standard deviation", deviation_text(first), deviation_text(second), ""),
            ("  measurements", str(first.samples), str(second.samples), ""),
            line("images/s of all", first.mean * world, second.mean * world),
        ]  # fmt: skip

    @property
    def differing(self) -> list[tuple[str, str, str]]:
        """Other differences: description and both values."""
        entries = []
        for key, words in DETAILS:
            left, right = (value_text(result.get(key)) for result in self.results)
            if left != right:
                entries.append((words, left, right))
        return entries


def value_text(value: t.Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not reported" if value is None else str(value)


def percent(base: float, rate: float) -> float:
    return (rate / base - 1) * 100


def percent_text(value: float) -> str:
    return "%+.1f %%" % value


def spread_text(summary: Summary) -> str:
    """Return mean and spread as the benchmark prints them."""
    return "%.1f +-%.1f" % (summary.mean, SPREAD * (summary.stdev or 0))


def deviation_text(summary: Summary) -> str:
    return "not known" if summary.stdev is None else "%.2f" % summary.stdev


# --- reading ------------------------------------------------------------------------------------------------------


def read(path: str) -> Result:
    """Return the result in a file or a log. Raises WorkloadError for anything else."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as exc:
        raise WorkloadError("Reading %s: %s" % (path, exc.strerror or exc)) from exc
    # mpirun and kubectl may prefix a process's lines with the rank or the pod.
    marked = [line.partition(MARK)[2] for line in text.splitlines() if MARK + "{" in line]
    try:
        result = json.loads(marked[-1] if marked else text)
    except ValueError as exc:
        raise WorkloadError("%s has no result, or only a part of one: %s" % (path, exc)) from exc
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise WorkloadError("%s has no result of this workload (schema %d)" % (path, SCHEMA))
    missing = [key for key, _words in SAME if key not in result and key != "image_size"]
    if missing:
        raise WorkloadError("%s has no complete result: %s missing" % (path, ", ".join(missing)))
    samples = result.get("samples")
    if not isinstance(samples, list) or not all(_is_rate(rate) for rate in samples):
        raise WorkloadError("%s has no list of rates" % path)
    if not samples:
        raise WorkloadError("%s has no rates: the run was too short to measure one" % path)
    return result


def _is_rate(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


# --- comparing ----------------------------------------------------------------------------------------------------


def refuse_unlike(results: tuple[Result, Result], names: tuple[str, str]) -> None:
    """Raises WorkloadError, naming all that differs, for results whose rates cannot be compared."""
    wrong = [
        "%s (%s: %s, %s: %s)"
        % (words, names[0], value_text(results[0].get(key)), names[1], value_text(results[1].get(key)))
        for key, words in SAME
        if results[0].get(key) != results[1].get(key)
    ]  # fmt: skip
    if wrong:
        raise WorkloadError("The results cannot be compared: they differ in %s" % "; ".join(wrong))


def student(degrees: float) -> float:
    """Return how many standard errors of a mean hold 95 % of Student's distribution.

    Exact for two degrees of freedom, else the expansion of Cornish and Fisher (Abramowitz and Stegun, 26.7.5), which is
    within one percent from three on. Degrees between whole numbers are rounded down, to the wider side.
    """
    whole = math.floor(degrees)
    part = 0.5 + CONFIDENCE / 2
    if whole < 3:
        return (2 * part - 1) / math.sqrt(2 * part * (1 - part))
    z = statistics.NormalDist().inv_cdf(part)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / whole ** (power + 1) for power, term in enumerate(terms))


def difference(first: Summary, second: Summary) -> Difference:
    """Compare two means whose spreads need not be alike (Welch's test)."""
    change = percent(first.mean, second.mean)
    if first.stdev is None or second.stdev is None or min(first.samples, second.samples) < FEWEST:
        return Difference(change, None, None)
    parts = [
        deviation**2 / count for deviation, count in ((first.stdev, first.samples), (second.stdev, second.samples))
    ]
    error = math.sqrt(sum(parts))
    if not error:
        return Difference(change, change, change)
    shares = parts[0] ** 2 / (first.samples - 1) + parts[1] ** 2 / (second.samples - 1)
    margin = student(sum(parts) ** 2 / shares) * error / first.mean * 100
    return Difference(change, change - margin, change + margin)


def compare(results: tuple[Result, Result], names: tuple[str, str]) -> Comparison:
    """Return the comparison. Raises WorkloadError for results that cannot be compared."""
    refuse_unlike(results, names)
    summaries = [summarize(result["samples"]) for result in results]
    first, second = (summary for summary in summaries if summary is not None)
    return Comparison(names, results, (first, second), difference(first, second))


def table(comparison: Comparison) -> str:
    """Return the comparison as text."""
    rows = [("", *comparison.names, "difference"), *comparison.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [comparison.title, ""]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in (1, 2, 3))]
        lines.append("  ".join(cells).rstrip())
    lines += ["", comparison.sentence + "."]
    lines += ["Other differences: %s (%s; %s)." % entry for entry in comparison.differing]
    return "\n".join(lines) + "\n"


def write_page(comparison: Comparison, path: str) -> None:
    try:
        import compare_page
    except ImportError as exc:
        raise WorkloadError(
            "Writing %s: %s. Install jinja2 for this Python, or compare on the controller, where Ansible has it"
            % (path, exc)
        ) from exc
    page = compare_page.page(comparison).encode()
    write_whole(path, lambda stream: stream.write(page))


def distinct_names(paths: t.Sequence[str]) -> tuple[str, str]:
    """Return short names for two files."""
    first, second = (os.path.splitext(os.path.basename(path))[0] for path in paths)
    return (first, second) if first != second else (paths[0], paths[1])


def main(words: t.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs=2, metavar="RESULT", help="JSON of --result, or the log of rank 0")
    parser.add_argument("--names", nargs=2, metavar="NAME", help="what to call them (default: the files' names)")
    parser.add_argument("--html", metavar="FILE", help="also write a self-contained page")
    arguments = parser.parse_args(words)
    names = tuple(arguments.names) if arguments.names else distinct_names(arguments.results)
    try:
        first, second = (read(path) for path in arguments.results)
        comparison = compare((first, second), (names[0], names[1]))
        print(table(comparison), end="")
        if arguments.html:
            write_page(comparison, arguments.html)
    except WorkloadError as exc:
        print("ERROR: %s" % exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
