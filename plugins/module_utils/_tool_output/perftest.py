# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What perftest's programs (ib_write_bw, ib_send_lat and the like) measured, from their text or their JSON.

Rates are in Gb/s (10^9 bits). What perftest calls MB is 2^20 bytes in every version (format_factor in
perftest_resources.c); later versions write MiB.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import typing as t

from .._errors import FabricError

_MIB = 8 * 2**20 / 1e9
_UNITS = {"gb/sec": 1.0, "mb/sec": _MIB, "mib/sec": _MIB}

_TITLE = re.compile(r"\s*(RDMA_Write|RDMA_Read|Send|Atomic)([A-Za-z_ +-]*?)[ _](BW|Latency)[ _](?:\w+[ _])?Test\s*\Z")
_HEADER = re.compile(r"\s*#bytes\s+#iterations\s+BW peak\[([\w/]+)\]\s+BW average\[([\w/]+)\]\s+MsgRate\[Mpps\]")
_LATENCY = re.compile(r"\s*#bytes\s+#iterations\s+t_(?:min|avg)\[")
_LATENCY_COLUMN = r"(?:\d+(?:\.\d*)?)"
# Size, iterations, t_min, t_max, t_typical, t_avg, t_stdev, and the percentiles 99 and 99.9.
_LATENCY_ROW = re.compile(
    r"\s*\d{1,18}\s+\d{1,18}\s+%s\s+%s\s+(%s)\s+%s\s+%s\s+(%s)\s+%s\s*\Z" % ((_LATENCY_COLUMN,) * 7)
)
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_ROW = re.compile(r"\s*(\d{1,18})\s+(\d{1,18})\s+(%s)\s+(%s)\s+(%s)(?=\s|\Z)" % (_NUMBER, _NUMBER, _NUMBER))
_SETTING = {
    "device": re.compile(r".*\bDevice\s+: (\S+)\s*\Z"),
    "link_type": re.compile(r"\s*Link type\s+: (\S+)\s*\Z"),
    "gid_index": re.compile(r"\s*GID index\s+: (\d{1,9})\s*\Z"),
    "mtu_bytes": re.compile(r"\s*Mtu\s+: (\d{1,9})\[B\]\s*\Z"),
}
# With --report-both the total comes first and then each side's share.
_SIDES = re.compile(r"\s*(?:Local|Remote) results:\s*\Z")
# perftest's words for "it did not work", on standard output or standard error, some in red. Not here: hints and
# "Conflicting CPU frequency values", which a good run prints too.
_ERROR = re.compile(
    r"(?:[\w./-]{1,64}: ){0,3} ?"
    r"(?:@?Function \w+|Couldn'?t|Could not|Can'?t|Cannot|Unable|Failed|failed|Failure|Fail to|Fatal|No such"
    r"|A? ?[Cc]ompletion with [Ee]rror|got completion with error|Problems? |ERROR|Error|error|Execution of"
    r"|[Pp]oll (?:on )?\w+|(?:rdma|ibv)_\w+ failed|accept\(\) failed|Port number \d+ state is|No IB devices"
    r"|IB device \S+ not found|command not found|Invalid|invalid|unrecognized|Unexpected|Unknown|Timeout|timed out"
    r"|Connection (?:refused|timed out|reset)|Bad |RDMA CM .*error|Device not recognized to support"
    r")|.{0,200}(?: is not supported| are not supported|: command not found)"
)
_BELOW = re.compile(r"\s*Error: (?:BW result|Msg rate)\s+is below\b")
_HARMLESS = re.compile(r"\s*(?:libibverbs: Warning|WARNING|Warning|Unable to validata PKey)", re.I)


# perftest's own lines are shorter. What goes on for longer must not cost time.
_LONGEST = 2000


class PerftestError(FabricError):
    """A result is missing, or cannot be relied on."""


def parse(text: str, report_gbits: bool | None = None) -> dict[str, t.Any]:
    """Return what a run measured. ``report_gbits``: for JSON, which has no units, whether that option was used."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise PerftestError("perftest printed nothing, so it has no result")
    start = re.search(r"^[ \t]*\{", text, re.M)
    if start and re.search(r"\btest_info\b|\bresults\b", text):
        _refuse_errors(text[: start.start()].split("\n"))
        return _from_documents(_documents(text[start.start() :]), report_gbits)
    return _from_lines([line[:_LONGEST] for line in text.split("\n")])


def from_document(document: t.Mapping[str, t.Any], report_gbits: bool | None = None) -> dict[str, t.Any]:
    """Return what a run measured, from its JSON that something else has decoded."""
    return _from_documents([document], report_gbits)


def latency(text: str) -> dict[str, float]:
    """Return the median and the 99th percentile of a latency test (ib_send_lat and the like) in microseconds.

    perftest has them for a number of iterations only, not for a duration (-D).
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = re.search(r"^[ \t]*\{", text, re.M)
    if start and re.search(r"\bresults\b", text):
        _refuse_errors(text[: start.start()].split("\n"))
        sections = [_section(document, "results") or {} for document in _documents(text[start.start() :])]
        found = [(_float(section.get("t_typical")), _float(section.get("percentile_99"))) for section in sections]
    else:
        lines = [line[:_LONGEST] for line in text.split("\n")]
        _refuse_errors(lines)
        rows = [match for match in map(_LATENCY_ROW.match, lines) if match] if any(map(_LATENCY.match, lines)) else []
        found = [(_float(match.group(1)), _float(match.group(2))) for match in rows]
    if len(found) != 1 or None in found[0]:
        raise PerftestError("perftest printed no latency, or several: give one run of one size, without -D")
    median, percentile_99 = (t.cast(float, value) for value in found[0])
    if min(median, percentile_99) <= 0:
        raise PerftestError("perftest's latency is not a time: %s us" % min(median, percentile_99))
    return {"median_us": median, "percentile_99_us": percentile_99}


def _errors(lines: t.Iterable[str]) -> list[str]:
    errors: list[str] = []
    for line in lines:
        words = re.sub(r"\x1b\[[\d;]*m", "", line[:_LONGEST]).strip()
        if _ERROR.match(words) and not _HARMLESS.match(words) and not _BELOW.match(words) and words not in errors:
            errors.append(words)
    return errors


def _refuse_errors(lines: t.Iterable[str]) -> None:
    errors = _errors(lines)
    if errors:
        raise PerftestError(_failed(errors))


def _failed(errors: t.Iterable[str]) -> str:
    return "the test failed: " + "; ".join(errors)


def _from_lines(lines: list[str]) -> dict[str, t.Any]:
    _refuse_errors(lines)
    run = list(itertools.takewhile(lambda line: not _SIDES.match(line), lines))
    title = _title(run)
    test, bidirectional = _test(title) if title else (None, False)
    rows = _rows(run)
    if not rows:
        last = [line.strip() for line in lines if line.strip(" \t-*")][-3:]
        raise PerftestError("perftest printed no result; its last output is: " + " / ".join(last))
    return {
        "test": test,
        "bidirectional": bidirectional,
        **_settings(run),
        "below_limit": any(_BELOW.match(line) for line in lines),
        "rows": rows,
    }


def _title(lines: list[str]) -> re.Match[str] | None:
    titles = [title for title in map(_TITLE.match, lines) if title]
    if any(map(_LATENCY.match, lines)) or any(title.group(3) == "Latency" for title in titles):
        raise _latency()
    if len(titles) > 1:
        raise PerftestError("the text has %s runs of perftest: give one run at a time" % len(titles))
    return titles[0] if titles else None


def _settings(lines: list[str]) -> dict[str, t.Any]:
    settings: dict[str, t.Any] = {}
    for name, pattern in _SETTING.items():
        value = next((match.group(1) for match in map(pattern.match, lines) if match), None)
        settings[name] = int(value) if value and name in ("gid_index", "mtu_bytes") else value
    return settings


def _rows(lines: list[str]) -> list[dict[str, t.Any]]:
    rows: list[dict[str, t.Any]] = []
    factors: tuple[float, float] | None = None
    for line in lines:
        header, row = _HEADER.match(line), _ROW.match(line)
        if _TITLE.match(line):
            factors = None
        elif header:
            factors = _factor(header.group(1)), _factor(header.group(2))
        elif row and factors:
            size, iterations, peak, average, mpps = (float(cell) for cell in row.groups())
            rows.append(_row(size, iterations, peak * factors[0], average * factors[1], mpps))
    return rows


def _latency() -> PerftestError:
    return PerftestError(
        "this is the output of a latency test; only bandwidth tests (ib_write_bw and the like) are read"
    )


def _test(title: re.Match[str]) -> tuple[str, bool]:
    verb = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send", "Atomic": "atomic"}[title.group(1)]
    return "ib_%s_bw" % verb, "Bidirectional" in title.group(2)


def _factor(unit: str) -> float:
    if unit.lower() not in _UNITS:
        raise PerftestError("perftest measured in %s, an unknown unit" % unit)
    return _UNITS[unit.lower()]


def _row(size: float, iterations: float, peak: float, average: float, mpps: float) -> dict[str, t.Any]:
    # Counters that ran over made negative rates in old versions.
    if min(size, peak, average, mpps) < 0 or not all(map(math.isfinite, (size, iterations, peak, average, mpps))):
        raise PerftestError("perftest's result is not a rate: peak %s, average %s, %s Mpps" % (peak, average, mpps))
    # If the frequency is unknown (get_clock.c: r^2 < 0.9), perftest -F prints rates of 0 and exits with 0.
    if iterations and not max(average, mpps):
        raise PerftestError(
            "perftest counted %d messages and printed a rate of 0: it could not determine the processor's frequency"
            % iterations
        )
    return {
        "bytes": int(size),
        "iterations": int(iterations),
        "peak_gbps": round(peak, 6),
        "average_gbps": round(average, 6),
        "mpps": mpps,
    }


def _documents(text: str) -> list[t.Mapping[str, t.Any]]:
    """Decode one JSON document or several, one after the other."""
    decoder = json.JSONDecoder()
    documents: list[t.Mapping[str, t.Any]] = []
    rest = text.strip()
    while rest.startswith("{"):
        try:
            document, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return _lenient(text)
        documents.append(document)
        rest = rest[end:].strip()
    _refuse_errors(rest.split("\n"))
    return documents


def _lenient(text: str) -> list[t.Mapping[str, t.Any]]:
    """Read what older versions (4.5 is one) wrote for JSON: a pair a line, no quotes, a comma after the last one."""
    documents: list[dict[str, dict[str, str]]] = []
    section: dict[str, str] | None = None
    errors: list[str] = []
    for line in text.split("\n"):
        words = line[:_LONGEST].strip().rstrip(",").strip()
        opening = re.match(r'"?(\w+)"?\s*:\s*\{\Z', words)
        pair = re.match(r'"?([\w. ]+?)"?\s*:\s*"?(.*?)"?\Z', words)
        if words == "{":
            documents.append({})
            section = None
        elif opening and documents:
            section = documents[-1].setdefault(opening.group(1), {})
        elif words == "}":
            section = None
        elif _errors([line]):
            errors.append(words)
        elif pair and section is not None:
            section[pair.group(1)] = pair.group(2)
    if errors:
        raise PerftestError(_failed(errors))
    if not documents or text.count("{") > text.count("}"):
        raise PerftestError("perftest's JSON ends before it is complete")
    return list(documents)


def _from_documents(documents: list[t.Mapping[str, t.Any]], report_gbits: bool | None) -> dict[str, t.Any]:
    rows = []
    infos = []
    for document in documents:
        info = _section(document, "test_info") or {}
        infos.append(info)
        title = _TITLE.match(str(info.get("test", "")))
        if title and title.group(3) == "Latency":
            raise _latency()
        rows.append(_document_row(document, report_gbits))
    if any(info != infos[0] for info in infos):
        raise PerftestError("the JSON has %s different runs of perftest: give one run at a time" % len(infos))
    info = infos[0]
    title = _TITLE.match(str(info.get("test", "")))
    test, bidirectional = _test(title) if title else (None, False)
    return {
        "test": test,
        "bidirectional": bidirectional,
        "device": _text(info.get("Device")),
        "link_type": _text(info.get("Link_type")),
        "gid_index": _integer(info.get("GID_index")),
        "mtu_bytes": _integer(info.get("Mtu")),
        "below_limit": False,
        "rows": rows,
    }


def _document_row(document: t.Mapping[str, t.Any], report_gbits: bool | None) -> dict[str, t.Any]:
    sections = [_section(document, "results")]
    if sections[0] is None:
        # With --report-both each side may have its own, and the run is both together.
        sections = [_section(document, "results_local"), _section(document, "results_remote")]
    totals = {"BW_peak": 0.0, "BW_average": 0.0, "MsgRate": 0.0}
    size = iterations = 0.0
    for section in sections:
        if not section:
            raise PerftestError("perftest's JSON has no results")
        if "t_avg" in section or "avg_lat" in section:
            raise _latency()
        missing = [name for name in ("MsgSize", "n_iterations", *totals) if _float(section.get(name)) is None]
        if missing:
            raise PerftestError(
                "perftest's JSON lacks " + ", ".join(missing) + " (--output leaves them out: run it without)"
            )
        for name in totals:
            totals[name] += t.cast(float, _float(section[name]))
        size, iterations = t.cast(float, _float(section["MsgSize"])), t.cast(float, _float(section["n_iterations"]))
    factor = _json_factor(size, totals["BW_average"], totals["MsgRate"], report_gbits)
    return _row(size, iterations, totals["BW_peak"] * factor, totals["BW_average"] * factor, totals["MsgRate"])


def _json_factor(size: float, average: float, mpps: float, report_gbits: bool | None) -> float:
    """Return the unit of a rate from the message rate times the message size, which are the same number otherwise."""
    if report_gbits is not None:
        return 1.0 if report_gbits else _MIB
    if average <= 0:
        return 1.0
    # MsgRate has six digits after the point.
    low, high = (max(mpps + error, 0.0) * size * 8e-3 for error in (-6e-7, 6e-7))
    fits = [factor for factor in (1.0, _MIB) if low * 0.8 <= average * factor <= high * 1.25]
    if len(fits) != 1:
        raise PerftestError(
            "the unit of BW_average %s in perftest's JSON cannot be derived from its MsgRate %s: set "
            "report_gbits to whether --report_gbits was used" % (average, mpps)
        )
    return fits[0]


def _section(document: t.Any, name: str) -> t.Mapping[str, t.Any] | None:
    section = document.get(name) if isinstance(document, t.Mapping) else None
    return section if isinstance(section, t.Mapping) else None


def _text(value: t.Any) -> str | None:
    return str(value) if isinstance(value, str) and value else None


def _float(value: t.Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _integer(value: t.Any) -> int | None:
    number = _float(value)
    return None if number is None else int(number)


__all__ = ("PerftestError", "from_document", "latency", "parse")
