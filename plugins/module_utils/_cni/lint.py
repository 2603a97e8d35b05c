# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What is wrong with a set of attachments, by themselves and in the cluster that they are for."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from . import config, lint_nodes, ranges
from .lint_model import Attachment, Report, Surroundings

if t.TYPE_CHECKING:  # pragma: no cover
    from .ranges import Span


# IFNAMSIZ without the closing zero (linux/if.h); dev_valid_name() refuses longer names.
_NAME_MAX = 15
_INTERFACE_KEYS = ("device", "master", "vrfname", "bridge")
# DNS-1123 label, which Multus requires of a name in a pod's annotation (parsePodNetworkObjectName of multus-cni 4.3.0).
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_SELECTORS = ("device", "hwaddr", "kernelpath", "pciBusID")


def check(attachments: t.Sequence[Attachment], around: Surroundings, report: Report) -> None:
    """Add what is wrong with attachments to a report."""
    keys: set[str] = set()
    for attachment in attachments:
        if attachment.key in keys:
            report.add("duplicate_name", attachment.key, "it is listed more than once", "one entry for each name")
        keys.add(attachment.key)
        for field, text in (("name", attachment.name), ("namespace", attachment.namespace)):
            if not _LABEL.match(text):
                report.add(
                    "invalid_name",
                    attachment.key,
                    "the %s %s cannot be used in a pod's annotation" % (field, text),
                    "lower case letters, digits and '-', at most 63, with a letter or digit at both ends",
                )
        if attachment.config is not None:
            _config(attachment, attachment.config, around, report)
    _devices(attachments, report)
    _addresses(attachments, around, report)
    if attachments:
        lint_nodes.check(attachments, around, report)


def _config(attachment: Attachment, conf: config.Config, around: Surroundings, report: Report) -> None:
    for code, problem, remedy in config.check_keys(conf):
        report.add(code, attachment.key, problem, remedy)
    for kind in config.unknown_types(conf):
        report.skip("unknown_key", "the keys of %s are not known here" % kind, attachment=attachment.key)
    _version(attachment.key, conf, report)
    for plugin in config.plugins(conf):
        _interfaces(attachment.key, plugin, report)
    _selector(attachment.key, config.plugins(conf)[0], attachment.resource_name, report)
    if attachment.resource_name:
        _resource(attachment.key, attachment.resource_name, around, report)


def _version(key: str, conf: config.Config, report: Report) -> None:
    version = conf.get("cniVersion")
    if not version:
        report.add(
            "cni_version",
            key,
            "it has no cniVersion, so plugins assume 0.1.0",
            "cniVersion 0.3.1, which every plugin supports",
            warn=True,
        )
    elif version not in config.VERSIONS:
        report.add(
            "cni_version",
            key,
            "%s is not a CNI version" % version,
            "one of %s; every plugin supports 0.3.1" % ", ".join(config.VERSIONS),
        )
    elif "plugins" in conf and version not in config.LIST_VERSIONS:
        report.add(
            "cni_version",
            key,
            "CNI version %s does not support plugin lists" % version,
            "0.3.0 or newer, or no chain",
        )


def _interfaces(key: str, plugin: config.Config, report: Report) -> None:
    for option in _INTERFACE_KEYS:
        name = plugin.get(option)
        if not isinstance(name, str) or not name:
            continue
        length = len(name.encode())
        if length > _NAME_MAX:
            problem = "%s %s has %d characters, and an interface name can have at most %d"
            problem %= (option, name, length, _NAME_MAX)
        elif name in (".", "..") or re.search(r"[\s/:]", name):
            problem = "%s '%s' is not a valid interface name: spaces, slashes and colons are not allowed"
            problem %= (option, name)
        else:
            continue
        report.add("interface_name", key, problem, "the name that 'ip link' shows on the nodes")


def _selector(key: str, plugin: config.Config, resource: str | None, report: Report) -> None:
    """Check that a plugin knows which device to use."""
    kind = config.kind_of(plugin)
    if kind == "host-device":
        selectors = [option for option in _SELECTORS if plugin.get(option)]
        if len(selectors) > 1:
            report.add(
                "several_devices",
                key,
                "%s are set, and host-device uses only %s" % (" and ".join(selectors), selectors[0]),
                "one of them",
            )
        if not selectors and not resource:
            # NetConf in host-device.go: deviceID is read of runtimeConfig only, which is Multus's.
            report.add(
                "missing_key",
                key,
                "host-device has no device selector%s"
                % (", and does not read deviceID" if "deviceID" in plugin else ""),
                "one of %s, or a resource_name, whose device plugin selects the device" % ", ".join(_SELECTORS),
            )
    elif kind in ("sriov", "ib-sriov") and not plugin.get("deviceID") and not resource:
        report.add(
            "missing_key",
            key,
            "%s has no virtual function selector" % plugin["type"],
            "resource_name, whose device plugin selects one for each pod (or deviceID for a single one)",
        )
    elif kind in ("macvlan", "ipvlan", "ipoib") and not plugin.get("master"):
        report.add(
            "missing_key",
            key,
            "%s has no master%s"
            % (plugin["type"], "" if kind == "ipoib" else ", and would use the interface of the node's default route"),
            "master: the card of this rail",
        )


def _resource(key: str, resource: str, around: Surroundings, report: Report) -> None:
    if not _RESOURCE.match(resource):
        report.add("resource_missing", key, "%s is not a valid resource name" % resource, "such as nvidia.com/rail0")
    elif around.nodes is None:
        report.skip("resource_missing", around.why.get("nodes", ""), attachment=key)
    elif not any(str(_allocatable(node).get(resource, "0")) != "0" for node in around.nodes.values()):
        known = sorted(
            {name for node in around.nodes.values() for name in _allocatable(node) if "/" in name} - {resource}
        )
        report.add(
            "resource_missing",
            key,
            "no node offers the resource %s" % resource,
            "the device plugin's configuration, or one of the resources that the nodes offer: %s"
            % (", ".join(known[:20]) or "nothing"),
        )


def _allocatable(node: t.Any) -> dict[str, t.Any]:
    return (node.get("status") or {}).get("allocatable") or {}


def _devices(attachments: t.Sequence[Attachment], report: Report) -> None:
    first_users: dict[tuple[str, str], str] = {}
    for attachment in attachments:
        for plugin in config.plugins(attachment.config) if attachment.config else []:
            if config.kind_of(plugin) != "host-device":
                continue
            for option in _SELECTORS:
                value = plugin.get(option)
                if not isinstance(value, str) or not value:
                    continue
                user = first_users.setdefault((option, value.lower()), attachment.key)
                if user != attachment.key:
                    report.add(
                        "duplicate_device",
                        attachment.key,
                        "its %s %s is also used by %s, and a device can be in only one pod at a time"
                        % (option, value, user),
                        "another device, or one attachment",
                    )


def _addresses(attachments: t.Sequence[Attachment], around: Surroundings, report: Report) -> None:
    spans: list[tuple[Attachment, list[Span]]] = []
    for attachment in attachments:
        if attachment.config is None:
            continue
        addresses = ranges.ranges(attachment.config)
        for code, problem, remedy in addresses.problems:
            report.add(code, attachment.key, problem, remedy)
        spans += [(attachment, group) for group in addresses.groups]
        if addresses.groups and not around.expected_pods.get(attachment.key):
            why = "expected_pods does not set the number of pods"
            report.skip("range_too_small", why, attachment=attachment.key)
        if any(config.ipam_of(plugin).get("type") == "host-local" for plugin in config.plugins(attachment.config)):
            _host_local(attachment.key, around, report)
    if not spans:
        return
    foreign = _foreign_ranges(around, report)
    networks = _networks(around, report)
    nodes = _node_addresses(around, report)
    for number, (attachment, group) in enumerate(spans):
        others = [(other, span) for other, items in spans if other.key != attachment.key for span in items]
        blocked = [span.network for _other, span in others + foreign] + [network for _code, network, _name in networks]
        _capacity(attachment, group, spans, around, report, blocked)
        later = [(other, span) for other, items in spans[number + 1 :] if other.key != attachment.key for span in items]
        for span in group:
            for other, item in later + foreign:
                _overlap(attachment, span, other, item, report)
            _overlap_networks(attachment.key, span, networks, report)
            _overlap_nodes(attachment.key, span, nodes, report)


def _overlap(attachment: Attachment, span: Span, other: Attachment, item: Span, report: Report) -> None:
    at = span.overlap(item)
    if at is None:
        return
    if span.pool and span.pool == item.pool:
        why = "both use the whereabouts pool %s" % span.pool
    else:
        why = "two pods may get the same address"
    report.add(
        "range_overlap",
        attachment.key,
        "%s overlaps %s of %s at %s: %s" % (span.text, item.text, other.key, at, why),
        "a separate network for each attachment (each rail has its own subnet), or ignore_lint: [range_overlap] if "
        "this is intended",
    )


def _overlap_networks(
    key: str, span: Span, networks: t.Iterable[tuple[str, ranges.Network, str]], report: Report
) -> None:
    for code, network, name in networks:
        at = span.overlap_network(network)
        if at:
            report.add(
                code,
                key,
                "%s overlaps %s %s at %s" % (span.text, name, network, at),
                "a separate range for the fabric, or exclude",
            )


def _overlap_nodes(key: str, span: Span, nodes: t.Iterable[tuple[ranges.Address, str]], report: Report) -> None:
    for address, owner in nodes:
        if span.holds(address):
            report.add(
                "range_overlaps_nodes",
                key,
                "%s contains %s, the address of %s" % (span.text, address, owner),
                "exclude: [%s/%d], or another range" % (address, address.max_prefixlen),
            )


def _capacity(
    attachment: Attachment,
    group: list[Span],
    spans: list[tuple[Attachment, list[Span]]],
    around: Surroundings,
    report: Report,
    blocked: list[ranges.Network],
) -> None:
    size = sum(span.size() for span in group)
    pods = around.expected_pods.get(attachment.key, 0)
    users = "%d pods are expected" % pods
    # Attachments that share a pool share its addresses.
    sharing = {
        other.key: around.expected_pods.get(other.key, 0)
        for other, items in spans
        if group[0].pool and any(item.pool == group[0].pool for item in items)
    }
    if len(sharing) > 1:
        pods = sum(sharing.values())
        users = "%d pods are expected for the attachments %s that share it" % (pods, ", ".join(sorted(sharing)))
    span = group[0]
    if span.where.endswith("address"):
        if pods > 1 and len(sharing) <= 1:
            report.add(
                "address_shared",
                attachment.key,
                "static assigns %s to each pod, and %s" % (span.text, users),
                "whereabouts, or one attachment for each pod",
            )
        return
    need = max(pods, 1)
    if size >= need:
        return
    if not pods:
        users = "a pod needs one"
    fits = ranges.fitting(span, need)
    overlapped = [network for network in blocked if network.version == fits.version and network.overlaps(fits)]
    counted = "%d %s" % (size, "address" if size == 1 else "addresses")
    if fits == span.network:
        remedy = "fewer exclusions, or range_start and range_end further apart: %s has %d addresses in total" % (
            fits,
            ranges.usable(fits),
        )
    elif overlapped:
        remedy = "a network of at least /%d elsewhere (%s would overlap %s)" % (fits.prefixlen, fits, overlapped[0])
    else:
        remedy = "%s would fit (%d addresses)" % (fits, ranges.usable(fits))
    report.add("range_too_small", attachment.key, "%s holds %s and %s" % (span.text, counted, users), remedy)


def _host_local(key: str, around: Surroundings, report: Report) -> None:
    if around.targets is None:
        report.skip("address_shared", around.why.get("nodes", ""), attachment=key)
    elif len(around.targets) > 1:
        report.add(
            "address_shared",
            key,
            "host-local allocates on each node independently, so pods on two of the %d nodes get the same address"
            % len(around.targets),
            "whereabouts, which allocates cluster-wide; or a separate attachment for each node, with target_nodes",
        )


def _foreign_ranges(around: Surroundings, report: Report) -> list[tuple[Attachment, Span]]:
    if around.others is None:
        report.skip("range_overlap", around.why.get("others", ""))
        return []
    spans = []
    for other in around.others:
        if other.config is None:
            report.skip("range_overlap", "the config of %s cannot be read" % other.key)
            continue
        spans += [(other, span) for group in ranges.ranges(other.config).groups for span in group]
    return spans


def _networks(around: Surroundings, report: Report) -> list[tuple[str, ranges.Network, str]]:
    networks = []
    for code, texts, name in (
        ("range_overlaps_pods", around.pod_networks, "the pod network"),
        ("range_overlaps_services", around.service_networks, "the service network"),
    ):
        if texts is None:
            report.skip(code, around.why.get(code, ""))
        for text in sorted(set(texts or [])):
            networks.append((code, ipaddress.ip_network(text, strict=False), name))
    return networks


def _node_addresses(around: Surroundings, report: Report) -> list[tuple[ranges.Address, str]]:
    owners: dict[ranges.Address, str] = {}
    if around.nodes is None:
        report.skip("range_overlaps_nodes", around.why.get("nodes", ""))
    for name, node in (around.nodes or {}).items():
        for entry in (node.get("status") or {}).get("addresses") or []:
            if entry.get("type") in ("InternalIP", "ExternalIP"):
                owners.setdefault(ipaddress.ip_address(entry["address"]), "node %s" % name)
    for name, info in around.node_info.items():
        for interface in info.get("interfaces") or []:
            for text in interface.get("addresses") or []:
                owner = "%s on node %s" % (interface.get("name"), name)
                owners.setdefault(ipaddress.ip_interface(text).ip, owner)
    return list(owners.items())


__all__ = ("check",)
