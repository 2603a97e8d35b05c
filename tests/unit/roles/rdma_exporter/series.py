# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an exporter serves, read back: samples by metric and labels. promtool says in the integration tests whether it is right."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"([a-z_0-9]+)(?:\{(.*)\})? (\S+)\Z")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|\Z)')


class Series:
    """The samples of one scrape."""

    def __init__(self, body: bytes) -> None:
        self.text = body.decode()
        self.types: dict[str, str] = {}
        self.samples: list[tuple[str, dict[str, str], float]] = []
        for line in self.text.splitlines():
            if line.startswith("# TYPE "):
                _hash, _type, name, kind = line.split(" ")
                self.types[name] = kind
            elif not line.startswith("#"):
                match = _SAMPLE.match(line)
                assert match, line
                self.samples.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))

    def of(self, metric: str, **labels: str) -> dict[str, float]:
        """Return values by device, of the samples that have these labels."""
        return {
            labelset.get("device", ""): value
            for name, labelset, value in self.samples
            if name == metric and labels.items() <= labelset.items()
        }

    def value(self, metric: str, **labels: str) -> float:
        (value,) = [
            value for name, labelset, value in self.samples if name == metric and labels.items() <= labelset.items()
        ]
        return value

    def labels(self, metric: str) -> list[dict[str, str]]:
        return [labelset for name, labelset, _value in self.samples if name == metric]

    def devices(self) -> set[str]:
        """Return the devices that have any counter."""
        return {
            labelset["device"] for name, labelset, _value in self.samples if self.types[name] == "counter" and labelset
        }

    def unreadable(self) -> set[tuple[str, ...]]:
        return {
            tuple(labelset.get(name, "") for name in ("device", "port", "what", "error"))
            for labelset in self.labels("rdma_unreadable")
        }


__all__ = ["Series"]
