# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The desired set, what the cluster has of it, and what must be applied."""

from __future__ import annotations

import contextlib
import re
import typing as t

from .._cni import config as cni
from .._cni.lint_model import CODES, Attachment, Report
from .._errors import FabricError
from .._kubernetes.client import OWNER
from .cluster import API

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Object

# Multus takes a device plugin's resource from here.
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
# validation.IsValidLabelValue in apimachinery.
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")


class AttachmentError(FabricError):
    """The set cannot be applied; ``result`` is what the module returns in addition to the message."""

    def __init__(self, text: str, result: dict[str, t.Any] | None = None) -> None:
        super().__init__(text)
        self.result = result or {}


class Live(t.NamedTuple):
    """An attachment that is in the cluster."""

    body: Object
    text: str
    config: cni.Config | None
    resource_name: str | None
    owner: str | None

    @property
    def attachment(self) -> Attachment:
        meta = self.body["metadata"]
        return Attachment(str(meta.get("namespace")), str(meta["name"]), self.config, self.resource_name)

    @property
    def key(self) -> str:
        return self.attachment.key


class Plan(t.NamedTuple):
    """One object to apply."""

    attachment: Attachment
    live: Live | None
    body: Object
    changes: list[str]


def check_options(params: t.Mapping[str, t.Any]) -> None:
    doing = "Checking the options: "
    if not _LABEL.match(params["owner"]):
        raise AttachmentError(
            "%sowner %s cannot be a label's value: letters, digits, '-', '_' and '.', at most 63, with a letter or "
            "digit at both ends" % (doing, params["owner"])
        )
    if params["prune"] and not params["attachments"] and not params["prune_all"]:
        raise AttachmentError(
            "%sprune with an empty list of attachments would delete every attachment of %s. An empty list may come "
            "from a wrong variable: set prune_all to true if this is intended" % (doing, params["owner"])
        )
    for code in params["ignore_lint"]:
        if not CODES.get(code):
            can = sorted(name for name, ignorable in CODES.items() if ignorable)
            why = "cannot be ignored" if code in CODES else "is not a lint code"
            raise AttachmentError("%signore_lint: %s %s. These can: %s" % (doing, code, why, ", ".join(can)))
    for node, info in params["node_info"].items():
        if not isinstance(info, dict):
            raise AttachmentError(
                "%snode_info of %s must be a dictionary with devices, interfaces and cni" % (doing, node)
            )


def expected(option: t.Any, attachments: t.Sequence[Attachment]) -> dict[str, int]:
    if option is None:
        return {}
    if isinstance(option, dict):
        names: dict[str, list[str]] = {}
        for attachment in attachments:
            names.setdefault(attachment.name, []).append(attachment.key)
            names[attachment.key] = [attachment.key]
        unknown = sorted(str(name) for name in option if name not in names)
        if unknown:
            raise AttachmentError(
                "Checking the options: expected_pods names %s, which is not an attachment of this task. There are: %s"
                % (", ".join(unknown), ", ".join(sorted(attachment.key for attachment in attachments)) or "none")
            )
        return {key: _number(value) for name, value in option.items() for key in names[name]}
    return {attachment.key: _number(option) for attachment in attachments}


def _number(value: t.Any) -> int:
    if isinstance(value, bool) or not re.match(r"[0-9]+\Z", str(value)):
        raise AttachmentError(
            "Checking the options: expected_pods must be a number, or a dictionary of attachment to number; it "
            "has %r" % (value,)
        )
    return int(value)


def read(options: t.Mapping[str, t.Any], params: t.Mapping[str, t.Any], report: Report) -> Attachment:
    values = dict(options)
    values.pop("pci_address", None)  # an alias, whose value stands under its name too
    name, namespace = values.pop("name"), values.pop("namespace") or params["namespace"]
    raw, resource_name = values.pop("config"), values.pop("resource_name")
    version = values.pop("cni_version")
    config: cni.Config | None = None
    key = "%s/%s" % (namespace, name)
    if raw is not None:
        extra = sorted(option for option, value in [*values.items(), ("cni_version", version)] if value is not None)
        if extra:
            report.add("invalid_config", key, "config is given together with %s" % ", ".join(extra), "one or the other")
        try:
            config = cni.parse(raw)
        except cni.ConfigError as exc:
            report.add(exc.code, key, "config: %s" % exc, "a CNI configuration as JSON or as a dictionary")
    elif values["type"] is None:
        report.add("invalid_config", key, "neither type nor config is given", "one of them")
    else:
        config = cni.build(values, version or params["cni_version"])
    return Attachment(namespace, name, config, resource_name)


def live_of(body: Object) -> Live:
    meta = body["metadata"]
    text = str((body.get("spec") or {}).get("config") or "")
    config = None
    with contextlib.suppress(cni.ConfigError):
        config = cni.parse(text)
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return Live(body, text, config, notes.get(RESOURCE), labels.get(OWNER))


def same(config: cni.Config | None, live: Live) -> bool:
    name = str(live.body["metadata"]["name"])
    if config is None or live.config is None:
        return False
    return cni.normal(config, name) == cni.normal(live.config, name)


def plan_of(attachment: Attachment, live: Live | None, owner: str) -> Plan | None:
    """Return what must be applied for an attachment; None: nothing."""
    if attachment.config is None:
        return None
    text, changes = cni.text(attachment.config), ["create"]
    if live is not None:
        equal = same(attachment.config, live)
        changes = [] if equal else ["config"]
        changes += [] if attachment.resource_name == live.resource_name else ["resource name"]
        changes += [] if owner == live.owner else ["owner"]
        # Another spelling of the same would only start a conflict with who wrote it.
        text = live.text if equal else text
    if not changes:
        return None
    meta: Object = {"name": attachment.name, "namespace": attachment.namespace, "labels": {OWNER: owner}}
    if attachment.resource_name:
        meta["annotations"] = {RESOURCE: attachment.resource_name}
    body = {"apiVersion": API, "kind": "NetworkAttachmentDefinition", "metadata": meta, "spec": {"config": text}}
    return Plan(attachment, live, body, changes)


__all__ = (
    "OWNER",
    "RESOURCE",
    "AttachmentError",
    "Live",
    "Plan",
    "check_options",
    "expected",
    "live_of",
    "plan_of",
    "read",
    "same",
)
