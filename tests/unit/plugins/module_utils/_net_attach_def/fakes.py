# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server with attachments, and a call of the module."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes.client import ApiError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._net_attach_def.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import network_attachment as module
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of

NADS = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
POOLS = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools"


def forbidden(doing: str) -> ApiError:
    return ApiError(f"{doing}: joe may not list this", 403, "Forbidden")


class FakeClient:
    """A list is what is there, None no such kind, an error what is answered."""

    host = "https://cluster:6443"

    def __init__(self, *attachments: dict[str, t.Any], **lists: t.Any) -> None:
        self.lists: dict[str, t.Any] = {NADS: list(attachments), "/api/v1/nodes": [], **lists}
        self.objects: dict[str, t.Any] = {}
        self.asked: list[str] = []
        self.written: list[tuple[str, str]] = []
        self.apply_error: ApiError | None = None

    def items(self, path: str, doing: str, query: t.Any = None) -> t.Any:
        self.asked.append(path)
        answer = self.lists.get(path)
        if isinstance(answer, ApiError):
            raise answer
        if path.startswith(NADS.rpartition("/")[0] + "/namespaces/"):
            return [row for row in self.lists["all"] if row["metadata"]["namespace"] == path.split("/")[5]]
        return answer

    def get(self, path: str, doing: str) -> t.Any:
        self.asked.append(path)
        answer = self.objects.get(path)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def apply(self, path: str, body: t.Any, doing: str, *, force: bool = False, dry_run: bool = False) -> t.Any:
        if self.apply_error is not None:
            raise self.apply_error
        if not dry_run:
            self.written.append(("apply", path))
            rows = self.lists[NADS]
            rows[:] = [row for row in rows if key(row) != key(body)] + [json.loads(json.dumps(body))]
        return body

    def merge(self, path: str, body: t.Any, doing: str) -> None:
        self.written.append(("merge", path))

    def delete(self, path: str, doing: str, *, uid: str = "") -> None:
        self.written.append(("delete", path))
        self.lists[NADS][:] = [row for row in self.lists[NADS] if row["metadata"].get("uid") != uid]


def key(row: t.Any) -> tuple[str, str]:
    return row["metadata"]["namespace"], row["metadata"]["name"]


def nad(name: str, config: t.Any, owner: str | None = "training", namespace: str = "default") -> dict[str, t.Any]:
    text = config if isinstance(config, str) else json.dumps(config)
    labels = {"rdmaops.gpu-fabric/owner": owner} if owner else {}
    meta = {"name": name, "namespace": namespace, "uid": "uid-" + name, "labels": labels}
    return {"metadata": meta, "spec": {"config": text}}


def attachment(name: str = "nic0", **given: t.Any) -> dict[str, t.Any]:
    made = dict.fromkeys(module.ATTACHMENT)
    plugin: dict[str, t.Any] = {"type": "host-device", "device": "ens192"} if "config" not in given else {}
    made.update(name=name, **{**plugin, **given})
    return made


def ranged(text: str, **given: t.Any) -> dict[str, t.Any]:
    return attachment(ipam={**dict.fromkeys(module.IPAM), "type": "whereabouts", "range": text}, **given)


def run(client: FakeClient, *attachments: dict[str, t.Any], check: bool = False, **given: t.Any) -> dict[str, t.Any]:
    params = options_of("network_attachment", **{"owner": "training", "attachments": list(attachments), **given})
    return manage(params, check, t.cast("t.Any", lambda: client))


CONFIG = {"cniVersion": "0.3.1", "type": "host-device", "device": "ens192"}
