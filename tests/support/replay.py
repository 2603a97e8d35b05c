# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host from the record that rdma_info writes of it (option `dump`), and what the collection's code makes of it.

The record has the answers of the edges, and this gives them again: everything above the edges is the collection's own
code.
"""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path
from unittest import mock

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni import lint
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.lint_model import (
    Attachment,
    Report,
    Surroundings,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import dump
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import Sources
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import failed
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import (
    Holder,
    Namespace,
    Survey,
    Unreadable,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rails import rails
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev, pci_netdevs, sysfs
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.devices import Look
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import audit, info
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode import manage, model
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

Json = t.Any

# What kmod does not read as text, for a file that it could not read on the host either.
UNREADABLE = "\x01"


class Kernel:
    """The RDMA subsystem of one network namespace, as recording.record() has seen it."""

    def __init__(self, answer: Json, root: Path) -> None:
        self.rows = answer["devices"]
        self.sys = str(root)
        self.errors = {f"{root}/{path}": code for path, code in answer["files"].items() if isinstance(code, int)}
        for directory in ("class/net", "class/infiniband"):
            (root / directory).mkdir(parents=True, exist_ok=True)
        write_tree(root, {path: text for path, text in answer["files"].items() if isinstance(text, str)})
        for path, target in answer["links"].items():
            (root / target).mkdir(parents=True, exist_ok=True)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(root / target)

    def read(self, path: str) -> str | None:
        if path in self.errors:
            code = self.errors[path]
            raise sysfs.SysfsError(f"Could not read {path}: {os.strerror(code)}") from OSError(code, os.strerror(code))
        return sysfs.read(path)

    def names(self, path: str) -> list[str]:
        broken = [os.path.basename(file) for file in self.errors if os.path.dirname(file) == path]
        return sorted([*sysfs.names(path), *broken]) if os.path.isdir(path) else broken

    def devices(self) -> list[nldev.Device]:
        return [nldev.Device(**row["device"]) for row in self.rows]

    def ports(self, index: int) -> list[nldev.Port]:
        row = next(row for row in self.rows if row["device"]["index"] == index)
        if row["errno"] is not None:
            raise nldev.NldevError(row["errno"], f"list the ports of {row['device']['name']}")
        return [nldev.Port(**port) for port in row["ports"]]

    def look(self, gather: t.Collection[str]) -> Json:
        """Return what devices.look() does."""
        with mock.patch.multiple(nldev, devices=self.devices, ports=self.ports):
            look = Look(gather, self.sys, self)
            devices = look.devices()
        # The record was made below /sys.
        missing = [{**row, "error": row["error"].replace(self.sys, "/sys")} for row in look.unreadable]
        return {"devices": devices, "unreadable": missing}


class RdmaHost(audit.AuditHost):
    """For rdma_info and rdma_audit_info."""

    def __init__(self, document: Json, root: Path) -> None:
        super().__init__()
        self.rdma, self.recorded = document["rdma"], document["namespaces"]
        answer = self.rdma["answer"] or {"devices": [], "files": {}, "links": {}}
        self.kernel = Kernel(answer, root / "host")
        self.kernels = {
            row["inode"]: Kernel(row["answer"]["value"], root / str(row["inode"]))
            for row in self.recorded["others"]
            if row["answer"] and "value" in row["answer"]
        }

    def system(self) -> tuple[bool, str | None]:
        return self.rdma["loaded"], self.rdma["mode"]

    def own(self) -> int:
        return int(self.recorded["own"])

    def initial(self) -> int | None:
        return t.cast("int | None", self.recorded["initial"])

    def look(self, gather: t.Collection[str]) -> Json:
        self.cards = [audit.Card(netdev, self.own()) for netdev in pci_netdevs.netdevs(self.kernel.sys)]
        return self.kernel.look(gather)

    def netns_capable_drivers(self) -> set[str] | None:
        able = self.rdma["netns_capable_drivers"]
        return None if able is None else set(able)

    def survey(self) -> Survey:
        return Survey(
            [_namespace(row) for row in self.recorded["others"]],
            [Unreadable(*entry) for entry in self.recorded["unreadable"]],
        )

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        survey = self.survey()
        self.spaces = {space.inode: space for space in survey.namespaces}
        return survey.namespaces, survey.problem

    def look_inside(self, spaces: t.Sequence[Namespace], gather: t.Collection[str]) -> dict[int, Json]:
        recorded = {row["inode"]: row["answer"] for row in self.recorded["others"]}
        answers = {}
        for space in spaces:
            kernel = self.kernels.get(space.inode)
            answer = recorded[space.inode]
            answers[space.inode] = (
                {"value": kernel.look(gather)} if kernel else failed(answer["error"], answer["errno"])
            )
            if kernel:
                self.cards += [audit.Card(netdev, space.inode) for netdev in pci_netdevs.netdevs(kernel.sys)]
        return answers

    def pods(self) -> dict[str, tuple[str, str]]:
        return {uid: (namespace, name) for uid, (namespace, name) in self.recorded["pods"].items()}

    def claims(self) -> dict[str, list[str]]:
        return {}


def _namespace(row: Json) -> Namespace:
    holders = [
        Holder(holder["kind"], holder["path"], holder["pid"], "process", None, holder["pod"], None, holder["foreign"])
        for holder in row["holders"]
    ]
    return Namespace(row["inode"], row["name"], holders, row["holders_total"])


class ModeHost(model.Host):
    """For rdma_system; nothing can be changed by it."""

    def __init__(self, document: Json, root: Path, rdma: RdmaHost) -> None:
        super().__init__(str(root))
        self.recorded, self.rdma = document["mode"], rdma
        files = self.recorded["modprobe_d"]
        write_tree(root, {**files["files"], **dict.fromkeys(files["unreadable"], UNREADABLE)})

    def is_root(self) -> bool:
        return True

    def boot_id(self) -> str:
        return ""

    def available(self) -> bool:
        return bool(self.recorded["available"])

    def live(self) -> str | None:
        if self.recorded["live_error"]:
            raise sysfs.SysfsError(self.recorded["live_error"])
        return t.cast("str | None", self.recorded["live"])

    def sources(self) -> Sources:
        recorded = dict(self.recorded["sources"])
        contents = recorded["contents"] and dict(recorded["contents"])
        if contents:
            broken = dict.fromkeys(contents.pop("unreadable"), UNREADABLE)
            contents["modprobe"] = {**contents["modprobe"], **broken}
        recorded["contents"] = contents and Contents(**contents)
        recorded["entry"] = recorded["entry"] and BootEntry(**recorded["entry"])
        return Sources(**recorded)

    def other_namespaces(self) -> Survey:
        return self.rdma.survey()

    def users(self) -> list[dict[str, t.Any]]:
        return []

    def preflight(self, image: str, kernel: str) -> None:
        """The space on the host's disk is not recorded."""


# What of a result is a decision, or what it is based on.
_MODE = (
    "actions", "mode", "reboot_required", "reboot_would_help", "reboot_reason", "initramfs_stale", "conflicts",
    "problems", "warnings", "after",
)  # fmt: skip
_DEVICE = (
    "name", "driver", "protocol", "pci_address", "auxiliary_device", "numa_node", "node_guid", "sys_image_guid", "pod",
    "can_change_netns",
)  # fmt: skip
_PORT = ("port", "state", "link_layer", "rate_gbps", "netdev", "netdev_mtu", "representor", "pkeys", "gids")
_AUDIT = ("kind", "name", "status", "live", "why")


def _mode(host: ModeHost, desired: str) -> Json:
    options = {
        "netns_mode": desired, "persistent": True, "state": "present", "runtime": "auto", "initramfs": "rebuild", "on_conflict": "warn",
        "on_absent": "fail",
    }  # fmt: skip
    try:
        result = manage.manage(options, True, host)
    except FabricError as exc:
        return {"error": str(exc), "conflicts": getattr(exc, "conflicts", [])}
    return {key: result[key] for key in _MODE}


def _device(device: Json) -> Json:
    ports = [{key: port[key] for key in _PORT} for port in device["ports"]]
    return {**{key: device[key] for key in _DEVICE}, "ports": ports}


def _rails(result: Json) -> Json:
    try:
        return rails.rails(result)
    except FabricError as exc:
        return {"error": str(exc)}


def _lint(node_info: Json) -> list[str]:
    """Return what is wrong with an attachment for each network device of a card and of a port."""
    named = {port["netdev"] for device in node_info["devices"] for port in device["ports"]}
    attachments = []
    for row in node_info["interfaces"] or []:
        if row["pci_address"] or row["name"] in named:
            plugins = [{"type": "host-device", "device": row["name"]}, {"type": "rdma"}]
            name = re.sub("[^a-z0-9]+", "-", row["name"].lower()).strip("-")
            attachments.append(Attachment("default", name, {"cniVersion": "1.0.0", "plugins": plugins}))
    around = Surroundings([], {}, ["node"], [], [], {"node": node_info}, {}, set(), {})
    report = Report()
    lint.check(attachments, around, report)
    return [f"{finding.level}: {finding}" for finding in report.findings] + [
        f"not checked: {row.code}, {row.attachment or 'all'}: {row.why}" for row in report.not_checked
    ]


def answers(document: Json, root: Path) -> Json:
    """Return what the collection decides about a recorded host. Files are written below ``root``."""
    if document["schema"] != dump.SCHEMA:
        raise ValueError(f"the record has schema {document['schema']}; this is the code for {dump.SCHEMA}")
    rdma = RdmaHost(document, root / "sys")
    mode = ModeHost(document, root / "root", rdma)
    result = info.gather_info(info.DEFAULT_SUBSETS, True, rdma)
    here = {**result, "devices": [device for device in result["devices"] if device["netns"]["initial"]]}
    network = document["network"]
    return {
        "devices": [_device(device) for device in result["devices"]],
        "unreadable": result["unreadable"],
        "rails": _rails(here),
        "audit": [{key: row[key] for key in _AUDIT} for row in audit.audit([], 0, rdma)["resources"]],
        "mode": {desired: _mode(mode, desired) for desired in model.VALUES},
        "attachments": _lint({"devices": here["devices"], "interfaces": network["interfaces"], "cni": network["cni"]}),
    }


__all__ = ["Kernel", "ModeHost", "RdmaHost", "answers"]
