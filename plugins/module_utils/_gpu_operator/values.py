# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Values of the GPU Operator's chart: options to values, and values that the chart does not know."""

from __future__ import annotations

import copy
import difflib
import re
import typing as t

from .._errors import FabricError
from .._helm.chart import defaults

if t.TYPE_CHECKING:  # pragma: no cover
    from .._helm.chart import Chart

# Option of the module to the chart's value.
SHORTCUTS = {
    "driver_enabled": "driver.enabled",
    "driver_version": "driver.version",
    "driver_rdma": "driver.rdma.enabled",
    "driver_rdma_use_host_mofed": "driver.rdma.useHostMofed",
    "driver_kernel_module_type": "driver.kernelModuleType",
    "toolkit_enabled": "toolkit.enabled",
    "toolkit_version": "toolkit.version",
    "mig_strategy": "mig.strategy",
    "mig_manager": "migManager.enabled",
    "dcgm_exporter": "dcgmExporter.enabled",
    "dcgm_exporter_host_network": "dcgmExporter.hostNetwork",
    "dcgm_exporter_service_monitor": "dcgmExporter.serviceMonitor.enabled",
    "gdrcopy": "gdrcopy.enabled",
    "nfd_enabled": "nfd.enabled",
}

# Maps with keys of the user's choice, and Kubernetes' own structures: what stands under them is not the chart's.
OPEN = frozenset(
    [
        "nodeSelector",
        "tolerations",
        "affinity",
        "env",
        "resources",
        "labels",
        "annotations",
        "additionalLabels",
        "args",
        "securityContext",
        "podSecurityContext",
        "containerSecurityContext",
        "limits",
        "requests",
        "imagePullSecrets",
        "data",
        "relabelings",
        "global",
        "podAnnotations",
        "podLabels",
        "startupProbe",
        "livenessProbe",
        "readinessProbe",
    ]
)
_COMMENTED = re.compile(r"^(?P<indent>\s*)#(?P<inner>\s*)(?:-\s+)?(?P<key>[A-Za-z0-9_][A-Za-z0-9_./-]*):(?:\s|$)")
_REAL = re.compile(r"^(?P<indent>\s*)(?P<key>[\"']?[A-Za-z0-9_][A-Za-z0-9_./-]*[\"']?):(?:\s|$)")
_REFERENCE = re.compile(r"\$?\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)")
# Below this two names have nothing to do with each other.
_ALIKE = 0.6


class ValuesError(FabricError):
    """The values cannot be used; nothing has been changed."""


class Unknown(t.NamedTuple):
    """A value that the chart does not know, and the known one that looks most like it."""

    path: str
    nearest: str


def desired(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the values with those of the shortcuts put in; a contradiction is an error that names both."""
    values = copy.deepcopy(params["values"] or {})
    for option, path in SHORTCUTS.items():
        value = params[option]
        if value is None:
            continue
        *steps, last = path.split(".")
        place = values
        for step in steps:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise ValuesError(
                    "%s sets the value %s, and in values %s is not a map. Set only one of the two"
                    % (option, path, step)
                )
        if last in place and place[last] != value:
            raise ValuesError(
                "%s is %s, and values.%s is %s: they contradict each other. Set only one of the two, or "
                "the same value in both" % (option, _text(value), path, _text(place[last]))
            )
        place[last] = value
    return values


def _text(value: t.Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Known:
    """What a chart accepts: its values, the keys in their comments, and what its templates ask for."""

    def __init__(self, chart: Chart) -> None:
        self.tree = defaults(chart)
        self.paths: set[str] = set()
        self.open: set[str] = set()
        self._walk(self.tree, "")
        self._comments(chart.values)
        self._templates(chart.templates.values())

    def _walk(self, tree: t.Any, prefix: str) -> None:
        for key, value in tree.items():
            path = prefix + str(key)
            self.paths.add(path)
            if isinstance(value, dict) and value:
                self._walk(value, path + ".")
            elif not isinstance(value, (bool, int, float, str)):
                self.open.add(path)  # {}, [] and null do not show what belongs there

    def _comments(self, text: str) -> None:
        """Note commented keys under every section that they could belong to: authors indent comments as they like."""
        sections: list[tuple[int, str]] = []
        commented: list[tuple[int, str]] = []
        for line in text.splitlines():
            match = _COMMENTED.match(line)
            if match:
                column, key = len(match.group("inner")), match.group("key")
                commented = [entry for entry in commented if entry[0] < column]
                for depth in range(len(sections) + 1):
                    outer = [outer_key for _column, outer_key in sections[:depth]]
                    for steps in ([*outer, key], [*outer, *(outer_key for _column, outer_key in commented), key]):
                        self.paths.add(".".join(steps))
                        if line.rstrip().endswith(":"):
                            self.open.add(".".join(steps))
                commented.append((column, key))
                continue
            match = _REAL.match(line)
            if match:
                column, commented = len(match.group("indent")), []
                sections = [section for section in sections if section[0] < column]
                sections.append((column, match.group("key").strip("\"'")))

    def _templates(self, texts: t.Iterable[str]) -> None:
        for text in texts:
            for line in text.splitlines():
                for match in _REFERENCE.finditer(line):
                    steps = match.group(1)[1:].split(".")
                    for depth in range(len(steps)):
                        self.paths.add(".".join(steps[: depth + 1]))
                    if re.search(r"\b(toYaml|toJson|with|range)\b", line):
                        self.open.add(".".join(steps))


def unknown(values: t.Mapping[str, t.Any], chart: Chart) -> list[Unknown]:
    """Return the values that a chart and its subcharts know nothing of."""
    result: list[Unknown] = []
    own = {key: value for key, value in values.items() if key not in chart.subcharts and key not in chart.missing}
    known = _Known(chart)
    _compare(own, "", known, result)
    for key, sub in chart.subcharts.items():
        nested = values.get(key)
        if isinstance(nested, dict):
            inner = _Known(sub)
            # What the parent sets for its subchart is known too.
            for path in known.paths:
                if path.startswith(key + "."):
                    inner.paths.add(path[len(key) + 1 :])
            nested_unknown: list[Unknown] = []
            _compare(nested, "", inner, nested_unknown)
            result += [
                Unknown("%s.%s" % (key, value.path), value.nearest and "%s.%s" % (key, value.nearest))
                for value in nested_unknown
            ]
    return result


def _compare(values: t.Mapping[str, t.Any], prefix: str, known: _Known, result: list[Unknown]) -> None:
    for key, value in values.items():
        path = prefix + str(key)
        if key in OPEN or path in known.open:
            continue
        if path not in known.paths:
            result.append(Unknown(path, nearest(path, known.paths)))
        elif isinstance(value, dict):
            _compare(value, path + ".", known, result)


def _plain(path: str) -> str:
    return re.sub(r"[^a-z0-9]", "", path.lower())


def nearest(path: str, paths: t.Iterable[str]) -> str:
    """Return the known path that looks most like one, or nothing."""
    target = _plain(path)
    best, rank = "", _ALIKE
    for known in sorted(paths):
        plain = _plain(known)
        if plain == target:
            return known
        ratio = difflib.SequenceMatcher(None, target, plain).ratio()
        # A sibling is likelier meant than a namesake elsewhere.
        if known.rpartition(".")[0] == path.rpartition(".")[0]:
            ratio += 0.1
        if ratio > rank:
            best, rank = known, ratio
    return best


def explain(values: t.Iterable[Unknown], chart: Chart) -> str:
    """Return one sentence on values that a chart does not know."""
    return "; ".join(
        "%s is not a value of the chart %s %s%s"
        % (value.path, chart.name, chart.version, " (is %s meant?)" % value.nearest if value.nearest else "")
        for value in values
    )


__all__ = ("OPEN", "SHORTCUTS", "Unknown", "ValuesError", "desired", "explain", "nearest", "unknown")
