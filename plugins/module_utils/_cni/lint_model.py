# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What is linted, against what, and what comes of it: findings by their codes."""

from __future__ import annotations

import typing as t

from . import config as cni

# Every code, with whether ignore_lint may turn it into a warning. What it may not: there is no object without it, or a
# host or a pod would lose its network.
CODES: dict[str, bool] = {
    "invalid_json": False,
    "invalid_config": False,
    "invalid_name": False,
    "duplicate_name": False,
    "unknown_key": True,
    "invalid_value": True,
    "missing_key": True,
    "cni_version": True,
    "interface_name": True,
    "several_devices": True,
    "duplicate_device": True,
    "invalid_cidr": True,
    "exclude_outside": True,
    "range_bounds": True,
    "gateway_in_range": True,
    "range_too_small": True,
    "range_overlap": True,
    "range_overlaps_pods": True,
    "range_overlaps_services": True,
    "range_overlaps_nodes": True,
    "range_in_use": False,
    "address_shared": True,
    "namespace_missing": True,
    "resource_missing": True,
    "plugin_missing": True,
    "device_missing": True,
    "host_interface": False,
    "mtu_too_large": True,
    "owned_by_other": False,
}

# Warnings from the start: the plugin accepts it, and it is rarely intended.
_WARNINGS = ("gateway_in_range",)


class Finding(t.NamedTuple):
    """One thing that is wrong, and what would be right."""

    level: str
    code: str
    attachment: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        remedy = self.remedy[:1].upper() + self.remedy[1:]
        return "%s, %s: %s. %s" % (self.code, self.attachment, self.problem.rstrip("."), remedy.rstrip("."))


class Attachment(t.NamedTuple):
    """One NetworkAttachmentDefinition, desired or live; without ``config`` its text cannot be read."""

    namespace: str
    name: str
    config: cni.Config | None
    resource_name: str | None = None

    @property
    def key(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


class NotChecked(t.NamedTuple):
    """A lint that nothing was known for: neither passed nor failed."""

    code: str
    attachment: str | None
    node: str | None
    why: str


class Surroundings(t.NamedTuple):
    """What the lint compares with. None: it could not be read, for the reason in ``why``."""

    # Attachments that are in the cluster and not of this set.
    others: list[Attachment] | None
    # Name to Node object of the API; and the names that the attachments are for.
    nodes: dict[str, t.Any] | None
    targets: list[str] | None
    pod_networks: list[str] | None
    service_networks: list[str] | None
    # Node name to devices, interfaces and cni, as the option node_info.
    node_info: t.Mapping[str, t.Any]
    expected_pods: t.Mapping[str, int]
    # Attachments that are in the cluster as desired, with the devices that they name.
    settled: t.Container[str]
    why: t.Mapping[str, str]


class Report:
    """Findings and what was not checked."""

    def __init__(self, ignored: t.Container[str] = ()) -> None:
        self.findings: list[Finding] = []
        self.not_checked: list[NotChecked] = []
        # A fault of every rail on every node is thousands of rows, each looked for among the others.
        self._reported: set[tuple[str | None, ...]] = set()
        self._ignored = ignored

    def add(self, code: str, attachment: str, problem: str, remedy: str, *, warn: bool = False) -> None:
        level = "warning" if warn or code in self._ignored or code in _WARNINGS else "error"
        finding = Finding(level, code, attachment, problem, remedy)
        if finding not in self._reported:
            self._reported.add(finding)
            self.findings.append(finding)

    def skip(self, code: str, why: str, *, attachment: str | None = None, node: str | None = None) -> None:
        row = NotChecked(code, attachment, node, why)
        if row not in self._reported:
            self._reported.add(row)
            self.not_checked.append(row)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "warning"]


__all__ = ("CODES", "Attachment", "Finding", "NotChecked", "Report", "Surroundings")
