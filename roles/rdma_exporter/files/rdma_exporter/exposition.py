# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus' text format, version 0.0.4.

Written here because the ports' labels are the same for dozens of counters each: put into text once, they make a scrape
half as expensive as with prometheus_client, which does it for every sample.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
import typing as t

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# What is in a label unchanged: nearly all values.
_PLAIN = re.compile(r"[A-Za-z0-9 _.:/-]*\Z").match
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")


def metric_part(name: str) -> str:
    """A kernel's name as part of a metric's."""
    return _NOT_IN_NAMES.sub("_", name.lower())


def labels(pairs: t.Mapping[str, str]) -> str:
    """Labels as they stand behind a metric's name. An empty one is left out: to Prometheus that is the same."""
    parts = []
    for name, value in pairs.items():
        if value:
            if not _PLAIN(value):
                value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                value = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
            parts.append('%s="%s"' % (name, value))
    return "{%s}" % ",".join(parts) if parts else ""


class Families:
    """Samples by metric, because those of a metric must be together."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def declare(self, metric: str, kind: str, text: str) -> list[str]:
        """The lines of a metric, to which the samples are added."""
        lines = self._found.get(metric)
        if lines is None:
            text = text.replace("\\", r"\\").replace("\n", r"\n")
            lines = self._found[metric] = ["# HELP %s %s\n# TYPE %s %s\n" % (metric, text, metric, kind)]
        return lines

    def gauge(self, metric: str, text: str, value: float, where: str = "") -> None:
        self.declare(metric, "gauge", text).append("%s%s %s\n" % (metric, where, value))

    def counter(self, metric: str, text: str, value: float, where: str = "") -> None:
        self.declare(metric, "counter", text).append("%s%s %s\n" % (metric, where, value))

    def render(self) -> bytes:
        """All that has samples."""
        found = [lines for _metric, lines in sorted(self._found.items()) if len(lines) > 1]
        return "".join([line for lines in found for line in lines]).encode()


__all__ = ("CONTENT_TYPE", "Families", "labels", "metric_part")
