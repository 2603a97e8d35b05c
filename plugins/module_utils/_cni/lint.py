# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What is wrong with a set of attachments, by themselves and against the cluster that they are for."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from . import config, lint_nodes, ranges
from .lint_model import Attachment, Report, Surroundings

if t.TYPE_CHECKING:  # pragma: no cover
    from .ranges import Span


# IFNAMSIZ less the closing zero (linux/if.h); dev_valid_name() refuses the rest.
_NAME_MAX = 15
_INTERFACE_KEYS = ("device", "master", "vrfname", "bridge")
# DNS-1123 label, which Multus wants of a name in a pod's annotation (parsePodNetworkObjectName of multus-cni 4.3.0).
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_SELECTORS = ("device", "hwaddr", "kernelpath", "pciBusID")


def check(wanted: t.Sequence[Attachment], around: Surroundings, report: Report) -> None:
    """Add what is wrong with the wanted attachments to a report."""
    seen: set[str] = set()
    for one in wanted:
        if one.key in seen:
            report.add("duplicate_name", one.key, "it is listed more than once", "one entry for each name")
        seen.add(one.key)
        for what, text in (("name", one.name), ("namespace", one.namespace)):
            if not _LABEL.match(text):
                report.add(
                    "invalid_name",
                    one.key,
                    "the %s %s cannot be used in a pod's annotation" % (what, text),
                    "lower case letters, digits and '-', at most 63, with a letter or digit at both ends",
                )
        if one.config is None:
            continue
        for code, problem, remedy in config.check_keys(one.config):
            report.add(code, one.key, problem, remedy)
        for kind in config.unknown_types(one.config):
            report.skip("unknown_key", "the keys of %s are not known here" % kind, attachment=one.key)
        _version(one, report)
        _interfaces(one, report)
        _resource(one, around, report)
    _devices(wanted, report)
    _addresses(wanted, around, report)
    if wanted:
        lint_nodes.check(wanted, around, report)


def _version(one: Attachment, report: Report) -> None:
    if one.config is None:  # that it cannot be read has been said
        return
    version = one.config.get("cniVersion")
    if not version:
        report.add(
            "cni_version",
            one.key,
            "it has no cniVersion, so plugins assume 0.1.0",
            "cniVersion 0.3.1, which every plugin supports",
            warn=True,
        )
    elif version not in config.VERSIONS:
        report.add(
            "cni_version",
            one.key,
            "%s is not a CNI version" % version,
            "one of %s; every plugin supports 0.3.1" % ", ".join(config.VERSIONS),
        )
    elif "plugins" in one.config and version not in config.LIST_VERSIONS:
        report.add(
            "cni_version",
            one.key,
            "CNI version %s does not support plugin lists" % version,
            "0.3.0 or newer, or no chain",
        )


def _interfaces(one: Attachment, report: Report) -> None:
    if one.config is None:  # that it cannot be read has been said
        return
    for plugin in config.plugins(one.config):
        for key in _INTERFACE_KEYS:
            name = plugin.get(key)
            if not isinstance(name, str) or not name:
                continue
            if len(name.encode()) > _NAME_MAX:
                problem = "%s %s has %d characters, and an interface name can have at most %d" % (
                    key,
                    name,
                    len(name.encode()),
                    _NAME_MAX,
                )
            elif name in (".", "..") or re.search(r"[\s/:]", name):
                problem = "%s '%s' is not a valid interface name: spaces, slashes and colons are not allowed" % (
                    key,
                    name,
                )
            else:
                continue
            report.add("interface_name", one.key, problem, "the name that 'ip link' shows on the nodes")


def _resource(one: Attachment, around: Surroundings, report: Report) -> None:
    if one.config is None:  # that it cannot be read has been said
        return
    first = config.plugins(one.config)[0]
    kind = config.kind_of(first)
    resource = one.resource_name
    if kind == "host-device":
        given = [key for key in _SELECTORS if first.get(key)]
        if len(given) > 1:
            report.add(
                "several_devices",
                one.key,
                "%s are set, and host-device uses only %s" % (" and ".join(given), given[0]),
                "one of them",
            )
        if not given and not first.get("deviceID") and not resource:
            report.add(
                "missing_key",
                one.key,
                "host-device has no device selector",
                "one of %s, or a resource_name, whose device plugin selects the device" % ", ".join(_SELECTORS),
            )
    elif kind in ("sriov", "ib-sriov") and not first.get("deviceID") and not resource:
        report.add(
            "missing_key",
            one.key,
            "%s has no virtual function selector" % first["type"],
            "resource_name, whose device plugin selects one for each pod (or deviceID for a single one)",
        )
    elif kind in ("macvlan", "ipvlan", "ipoib") and not first.get("master"):
        report.add(
            "missing_key",
            one.key,
            "%s has no master%s"
            % (first["type"], "" if kind == "ipoib" else ", and would use the interface of the node's default route"),
            "master: the card of this rail",
        )
    if not resource:
        return
    if not _RESOURCE.match(resource):
        report.add(
            "resource_missing", one.key, "%s is not a valid resource name" % resource, "such as nvidia.com/rail0"
        )
    elif around.nodes is None:
        report.skip("resource_missing", around.why.get("nodes", ""), attachment=one.key)
    else:
        offers = {name: _count(node, resource) for name, node in around.nodes.items()}
        if not any(offers.values()):
            known = sorted(
                {key for node in around.nodes.values() for key in _allocatable(node) if "/" in key and key != resource}
            )
            report.add(
                "resource_missing",
                one.key,
                "no node offers the resource %s" % resource,
                "the device plugin's configuration, or one of the resources that the nodes offer: %s"
                % (", ".join(known[:20]) or "nothing"),
            )


def _allocatable(node: t.Any) -> dict[str, t.Any]:
    return (node.get("status") or {}).get("allocatable") or {}


def _count(node: t.Any, resource: str) -> bool:
    return str(_allocatable(node).get(resource, "0")) != "0"


def _devices(wanted: t.Sequence[Attachment], report: Report) -> None:
    taken: dict[tuple[str, str], str] = {}
    for one in wanted:
        for plugin in config.plugins(one.config) if one.config else []:
            if config.kind_of(plugin) != "host-device":
                continue
            for key in _SELECTORS:
                value = plugin.get(key)
                if not isinstance(value, str) or not value:
                    continue
                other = taken.setdefault((key, value.lower()), one.key)
                if other != one.key:
                    report.add(
                        "duplicate_device",
                        one.key,
                        "its %s %s is also used by %s, and a device can be in only one pod at a time"
                        % (key, value, other),
                        "another device, or one attachment",
                    )


def _addresses(wanted: t.Sequence[Attachment], around: Surroundings, report: Report) -> None:
    spans: list[tuple[Attachment, list[Span]]] = []
    for one in wanted:
        if one.config is None:
            continue
        found = ranges.ranges(one.config)
        for code, problem, remedy in found.problems:
            report.add(code, one.key, problem, remedy)
        spans += [(one, group) for group in found.groups]
        if found.groups and not around.expected_pods.get(one.key):
            report.skip("range_too_small", "expected_pods does not set the number of pods", attachment=one.key)
        _host_local(one, around, report)
    strangers = _strangers(around, report) if spans else []
    nearby = _networks(around, report) if spans else []
    nodes = _node_addresses(around, report) if spans else []
    for number, (one, group) in enumerate(spans):
        blocked = [span.network for other, later in spans if other.key != one.key for span in later]
        blocked += [span.network for _other, span in strangers] + [network for _code, network, _name in nearby]
        _capacity(one, group, spans, around, report, blocked)
        for span in group:
            later = [(other, item) for other, items in spans[number + 1 :] for item in items if other.key != one.key]
            for other, item in later + strangers:
                _overlap(one, span, other, item, report)
            for code, network, name in nearby:
                at = span.overlap_network(network)
                if at:
                    report.add(
                        code,
                        one.key,
                        "%s overlaps %s %s at %s" % (span.text, name, network, at),
                        "a separate range for the fabric, or exclude",
                    )
            for address, whose in nodes:
                if span.holds(address):
                    report.add(
                        "range_overlaps_nodes",
                        one.key,
                        "%s contains %s, the address of %s" % (span.text, address, whose),
                        "exclude: [%s/%d], or another range" % (address, address.max_prefixlen),
                    )


def _overlap(one: Attachment, span: Span, other: Attachment, item: Span, report: Report) -> None:
    at = span.overlap(item)
    if at is None:
        return
    if span.pool and span.pool == item.pool:
        why = "both use the whereabouts pool %s" % span.pool
    else:
        why = "two pods may get the same address"
    report.add(
        "range_overlap",
        one.key,
        "%s overlaps %s of %s at %s: %s" % (span.text, item.text, other.key, at, why),
        "a separate network for each attachment (each rail has its own subnet), or ignore_lint: [range_overlap] if "
        "this is intended",
    )


def _capacity(
    one: Attachment,
    group: list[Span],
    spans: list[tuple[Attachment, list[Span]]],
    around: Surroundings,
    report: Report,
    blocked: list[ranges.Network],
) -> None:
    size = sum(span.size() for span in group)
    pods = around.expected_pods.get(one.key, 0)
    whose = "%d pods are expected" % pods
    # Attachments that share a pool share its addresses.
    sharing = {
        other.key: around.expected_pods.get(other.key, 0)
        for other, items in spans
        if group[0].pool and any(item.pool == group[0].pool for item in items)
    }
    if len(sharing) > 1:
        pods = sum(sharing.values())
        whose = "%d pods are expected for the attachments %s that share it" % (pods, ", ".join(sorted(sharing)))
    span = group[0]
    if span.where.endswith("address"):
        if pods > 1 and len(sharing) <= 1:
            report.add(
                "address_shared",
                one.key,
                "static assigns %s to each pod, and %s" % (span.text, whose),
                "whereabouts, or one attachment for each pod",
            )
        return
    need = max(pods, 1)
    if size >= need:
        return
    if not pods:
        whose = "a pod needs one"
    fits = ranges.fitting(span, need)
    bad = [network for network in blocked if network.version == fits.version and network.overlaps(fits)]
    counted = "%d %s" % (size, "address" if size == 1 else "addresses")
    if fits == span.network:
        remedy = "fewer exclusions, or range_start and range_end further apart: %s has %d addresses in total" % (
            fits,
            ranges.usable(fits),
        )
    elif bad:
        remedy = "a network of at least /%d elsewhere (%s would overlap %s)" % (fits.prefixlen, fits, bad[0])
    else:
        remedy = "%s would fit (%d addresses)" % (fits, ranges.usable(fits))
    report.add("range_too_small", one.key, "%s holds %s and %s" % (span.text, counted, whose), remedy)


def _host_local(one: Attachment, around: Surroundings, report: Report) -> None:
    if one.config is None:  # that it cannot be read has been said
        return
    if not any(config.ipam_of(plugin).get("type") == "host-local" for plugin in config.plugins(one.config)):
        return
    if around.targets is None:
        report.skip("address_shared", around.why.get("nodes", ""), attachment=one.key)
    elif len(around.targets) > 1:
        report.add(
            "address_shared",
            one.key,
            "host-local allocates on each node independently, so pods on two of the %d nodes get the same address"
            % len(around.targets),
            "whereabouts, which allocates cluster-wide; or a separate attachment for each node, with target_nodes",
        )


def _strangers(around: Surroundings, report: Report) -> list[tuple[Attachment, Span]]:
    if around.others is None:
        report.skip("range_overlap", around.why.get("others", ""))
        return []
    found = []
    for other in around.others:
        if other.config is None:
            report.skip("range_overlap", "the config of %s cannot be read" % other.key)
            continue
        found += [(other, span) for group in ranges.ranges(other.config).groups for span in group]
    return found


def _networks(around: Surroundings, report: Report) -> list[tuple[str, ranges.Network, str]]:
    found = []
    for code, texts, name in (
        ("range_overlaps_pods", around.pod_networks, "the pod network"),
        ("range_overlaps_services", around.service_networks, "the service network"),
    ):
        if texts is None:
            report.skip(code, around.why.get(code, ""))
        for text in sorted(set(texts or [])):
            found.append((code, ipaddress.ip_network(text, strict=False), name))
    return found


def _node_addresses(around: Surroundings, report: Report) -> list[tuple[ranges.Address, str]]:
    found: dict[ranges.Address, str] = {}
    if around.nodes is None:
        report.skip("range_overlaps_nodes", around.why.get("nodes", ""))
    for name, node in (around.nodes or {}).items():
        for entry in (node.get("status") or {}).get("addresses") or []:
            if entry.get("type") in ("InternalIP", "ExternalIP"):
                found.setdefault(ipaddress.ip_address(entry["address"]), "node %s" % name)
    for name, info in around.node_info.items():
        for interface in info.get("interfaces") or []:
            for text in interface.get("addresses") or []:
                whose = "%s on node %s" % (interface.get("name"), name)
                found.setdefault(ipaddress.ip_interface(text).ip, whose)
    return list(found.items())


__all__ = ("check",)
