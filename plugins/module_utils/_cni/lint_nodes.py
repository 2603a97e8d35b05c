# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Attachments against what is on the nodes: plugin binaries, devices, what the hosts use them for, MTU."""

from __future__ import annotations

import typing as t

from . import config

if t.TYPE_CHECKING:  # pragma: no cover
    from .lint_model import Attachment, Report, Surroundings

_CODES = ("plugin_missing", "device_missing", "host_interface", "mtu_too_large")
# Keys of the plugins to the key of an interface in node_info.
_BY = {"device": "name", "master": "name", "hwaddr": "mac", "pciBusID": "pci_address"}
# They take all that a member receives (netdev_rx_handler_register() in net/core/dev.c).
_MASTERS = ("bond", "bridge", "team")
# What has no kind may be an uplink representor, since Linux 6.3 and stable releases of March 2023 (mlx5e_fix_features()
# in drivers/net/ethernet/mellanox/mlx5/core/en_main.c).
_IMMUTABLE = "netns-immutable device (as that of a physical function of mlx5 in switchdev mode)"
_ON_TOP = (
    "type macvlan or ipvlan with master %s, by which a pod gets a network device on %s. Its RDMA device stays with the "
    "host, where pods can use it in mode shared"
)


def check(attachments: t.Sequence[Attachment], around: Surroundings, report: Report) -> None:
    """Add what the target nodes lack, or need themselves."""
    if not around.node_info or around.targets is None:
        for code in _CODES:
            report.skip(code, around.why.get("nodes", "") if around.node_info else "node_info is not set")
        return
    for node in around.targets:
        info = around.node_info.get(node)
        if info is None:
            for code in _CODES:
                report.skip(code, "node_info has no entry for this node", node=node)
            continue
        for attachment in attachments:
            if attachment.config is not None:
                _plugins(attachment, node, info, report)
                _devices(attachment, node, info, around, report)


def _plugins(attachment: Attachment, node: str, info: t.Mapping[str, t.Any], report: Report) -> None:
    cni = info.get("cni")
    if cni is None:
        report.skip("plugin_missing", "node_info has no list of CNI plugins for it", node=node)
        return
    present = cni.get("plugins") or []
    for plugin in config.plugins(t.cast("config.Config", attachment.config)):
        ipam = config.ipam_of(plugin).get("type")
        for kind, category in ((plugin["type"], "CNI plugin"), (ipam, "IPAM plugin")):
            if kind and kind not in present:
                report.add(
                    "plugin_missing",
                    attachment.key,
                    "node %s has no %s %s in %s" % (node, category, kind, cni.get("bin_dir") or "its plugin directory"),
                    "install it there (the role rdmaops.gpu_fabric.secondary_network does), or use one of: %s"
                    % (", ".join(sorted(present)) or "none"),
                )


def _find(interfaces: list[t.Any], key: str, value: str) -> list[t.Any]:
    """The network devices that a plugin's key stands for, the one that the plugin takes first."""
    rows = [row for row in interfaces if str(row.get(_BY[key]) or "").lower() == value.lower()]
    if key != "pciBusID":
        return rows
    # getLink() of host-device reads the directory net of the PCI device, by name. A sub-function has its own.
    return sorted((row for row in rows if not row.get("auxiliary_device")), key=lambda row: str(row.get("name")))


def _devices(
    attachment: Attachment, node: str, info: t.Mapping[str, t.Any], around: Surroundings, report: Report
) -> None:
    first = config.plugins(t.cast("config.Config", attachment.config))[0]
    kind = config.kind_of(first)
    keys = ("device", "hwaddr", "kernelpath", "pciBusID") if kind == "host-device" else ("master",)
    if kind not in ("host-device", "macvlan", "ipvlan", "ipoib"):
        return
    key = next((key for key in keys if isinstance(first.get(key), str) and first[key]), None)
    if key is None:
        return
    if key == "kernelpath":
        report.skip("device_missing", "a kernel path is not looked up", attachment=attachment.key, node=node)
        report.skip("host_interface", "a kernel path is not looked up", attachment=attachment.key, node=node)
        return
    interfaces = info.get("interfaces")
    if interfaces is None:
        for code in ("device_missing", "host_interface", "mtu_too_large"):
            report.skip(code, "node_info has no list of interfaces for it", node=node)
        return
    _device(attachment, node, kind, key, info, around, report)


def _device(
    attachment: Attachment,
    node: str,
    kind: str,
    key: str,
    info: t.Mapping[str, t.Any],
    around: Surroundings,
    report: Report,
) -> None:
    first, interfaces = config.plugins(t.cast("config.Config", attachment.config))[0], info["interfaces"]
    rows = _find(interfaces, key, first[key])
    if not rows:
        _missing(attachment, node, key, first[key], interfaces, around, report)
        return
    row = rows[0]
    if key == "pciBusID" and len(rows) > 1:
        _several(attachment, node, first[key], rows, report)
    kinds = {str(other.get("name")): str(other.get("kind")) for other in interfaces}
    if kind == "host-device":
        _host(attachment, node, first[key], row, kinds, around, report)
        _rdma(attachment, node, row, info, report)
    elif kind != "ipoib":
        _parent(attachment, node, kind, row, kinds, report)
    mtu = first.get("mtu")
    if isinstance(mtu, int) and isinstance(row.get("mtu"), int) and mtu > row["mtu"]:
        report.add(
            "mtu_too_large",
            attachment.key,
            "mtu %d is larger than the mtu %d of its parent %s on node %s" % (mtu, row["mtu"], row.get("name"), node),
            "an mtu of at most %d, or a larger mtu on the parent and the switch" % row["mtu"],
        )


def _missing(
    attachment: Attachment,
    node: str,
    key: str,
    value: str,
    interfaces: list[t.Any],
    around: Surroundings,
    report: Report,
) -> None:
    # A device that host-device gave to a pod is not on the host for so long.
    there = attachment.key in around.settled and key != "master"
    by = {str(row[_BY[key]]): _find(interfaces, key, str(row[_BY[key]])) for row in interfaces if row.get(_BY[key])}
    remedy = "one of: %s. " % (", ".join(sorted(name for name, rows in by.items() if rows)) or "none")
    below = sorted(str(row["name"]) for row in interfaces if key == "pciBusID" and row.get("pci_address") == value)
    if below:
        remedy += "The network devices of the sub-functions of %s have names, not an address: %s (device). " % (
            value,
            ", ".join(below),
        )
    report.add(
        "device_missing",
        attachment.key,
        "node %s has no %s %s%s" % (node, key, value, " (a pod may hold it now)" if there else ""),
        remedy + "Devices in use by pods are not listed. Exclude nodes without it with target_nodes",
        warn=there,
    )


def _several(attachment: Attachment, node: str, value: str, rows: t.Sequence[t.Any], report: Report) -> None:
    report.add(
        "several_devices",
        attachment.key,
        "pciBusID %s on node %s has the network devices %s, and host-device takes the first"
        % (value, node, ", ".join(str(row.get("name")) for row in rows)),
        "device, with the name of one of them",
        warn=True,
    )


def _parent(
    attachment: Attachment, node: str, kind: str, row: t.Any, kinds: t.Mapping[str, str], report: Report
) -> None:
    above = row.get("master")
    if above and kinds.get(str(above)) in _MASTERS:
        report.add(
            "host_interface",
            attachment.key,
            "%s on node %s is a member of the %s %s, and the kernel adds no %s to a member"
            % (row.get("name"), node, kinds[above], above, kind),
            "master %s" % above,
        )


def _host(
    attachment: Attachment,
    node: str,
    value: str,
    row: t.Any,
    kinds: t.Mapping[str, str],
    around: Surroundings,
    report: Report,
) -> None:
    if row.get("can_change_netns") is False:
        report.add(
            "host_interface",
            attachment.key,
            "%s on node %s is a %s, which the kernel does not move to another network namespace"
            % (value, node, row.get("kind") or _IMMUTABLE),
            _ON_TOP % (row["name"], row["name"]),
        )
        return
    uses = [str(use) for use in row.get("uses") or []]
    above = row.get("master")
    if above and not any(use.endswith(" %s" % above) for use in uses):
        uses.append("member of %s" % above)
    own = {
        str(entry.get("address"))
        for entry in (((around.nodes or {}).get(node) or {}).get("status") or {}).get("addresses") or []
    }
    uses += ["the node's address %s" % text for text in row.get("addresses") or [] if text.partition("/")[0] in own]
    if uses:
        report.add(
            "host_interface",
            attachment.key,
            "%s on node %s is used by the host: %s. A pod would take it away from the host"
            % (value, node, ", ".join(uses)),
            "a device that the host does not use"
            + ("; or " + _ON_TOP % (above, above) if kinds.get(str(above)) == "bond" else ""),
        )


def _rdma(attachment: Attachment, node: str, row: t.Any, info: t.Mapping[str, t.Any], report: Report) -> None:
    if not any(
        config.kind_of(plugin) == "rdma" for plugin in config.plugins(t.cast("config.Config", attachment.config))
    ):
        return
    devices = info.get("devices")
    if devices is None:
        report.skip(
            "device_missing", "node_info has no list of RDMA devices for it", attachment=attachment.key, node=node
        )
        return
    for device in devices:
        netdevs = [port.get("netdev") for port in device.get("ports") or []]
        same = row.get("pci_address") and all(
            device.get(key) == row.get(key) for key in ("pci_address", "auxiliary_device")
        )
        if row.get("name") in netdevs or same:
            return
    report.add(
        "device_missing",
        attachment.key,
        "node %s has no RDMA device on %s, and the chained plugin rdma needs one" % (node, row.get("name")),
        "a card with one (%s), or no rdma in chain"
        % (", ".join(sorted(str(device.get("name")) for device in devices)) or "there is none"),
    )


__all__ = ("check",)
