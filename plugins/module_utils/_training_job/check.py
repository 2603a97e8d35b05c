# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether a training job can start: the kinds are served, the attachments there, and all pods have room at once."""

from __future__ import annotations

import typing as t

from .._decision import DRIFT, UNKNOWN, resource
from .._kubernetes.client import Client, path
from . import kueue
from .manage import SPEC, templates
from .options import JobError
from .pod import JOB
from .preflight import Preflight
from .room import Node, describe, place, survey


class Check:
    """The questions to the API server."""

    def __init__(self, params: t.Mapping[str, t.Any], client: Client) -> None:
        self.client, self.manifests = client, params["objects"]
        if not self.manifests:
            raise JobError("Checking the job: no objects were given. Give those that the filter training_job returns")
        meta = self.manifests[-1]["metadata"]
        self.namespace: str = meta["namespace"]
        self.job = "%s/%s" % (self.namespace, meta["labels"][JOB])
        self.doing = "Checking the job %s" % self.job
        self.pods = templates(self.manifests)
        self.queue = kueue.queue_of(self.manifests)
        self.plurals = self._plurals()
        self.preflight = Preflight(client, self.doing, self.namespace, self.manifests, self.pods)

    def _plurals(self) -> dict[tuple[str, str], str | None]:
        """Return the API server's name of each kind; None if it does not have the kind."""
        plurals: dict[tuple[str, str], str | None] = {}
        for version in sorted({manifest["apiVersion"] for manifest in self.manifests}):
            served = {
                kind["kind"]: kind["name"] for kind in self.client.resources(version) or [] if "/" not in kind["name"]
            }
            for manifest in self.manifests:
                if manifest["apiVersion"] == version:
                    plurals[version, manifest["kind"]] = served.get(manifest["kind"])
        return plurals

    def unserved(self) -> list[str]:
        kinds = ["%s of %s" % (kind, version) for (version, kind), plural in self.plurals.items() if plural is None]
        if self.queue and kueue.api_version(self.client) is None:
            kinds.append("LocalQueue of %s" % kueue.GROUP)
        return kinds

    def exists(self) -> bool:
        """Whether the job is there; refuses one that was made of other options."""
        there = False
        for manifest in self.manifests:
            plural, meta = self.plurals[manifest["apiVersion"], manifest["kind"]], manifest["metadata"]
            if plural is None or SPEC not in meta.get("annotations", {}):
                continue
            text = "%s %s/%s" % (manifest["kind"], self.namespace, meta["name"])
            live = self.client.get(
                path(manifest["apiVersion"], plural, self.namespace, meta["name"]),
                "%s: reading %s" % (self.doing, text),
            )
            if live is None:
                continue
            there = True
            before = (live["metadata"].get("annotations") or {}).get(SPEC)
            if before is None:
                raise JobError(
                    "%s: %s already exists and does not belong to a job of this collection. Give the job another name"
                    % (self.doing, text)
                )
            if before != meta["annotations"][SPEC]:
                raise JobError(
                    "%s: %s was created with other options, and a job that has started cannot be changed. Remove it "
                    "first (state absent), give this job another name, or restore the options" % (self.doing, text)
                )
        return there

    def room(self, image_present: bool) -> dict[str, int] | None:
        """Return where the pods have room, None if the account may not look."""
        nodes = self.preflight.read("the nodes", self.client.items, path("v1", "nodes"))
        pods = None if nodes is None else self.preflight.read("the pods on them", self.client.items, path("v1", "pods"))
        if nodes is None or pods is None:
            return None
        rows = survey(nodes, pods)
        room = place(rows, self.pods, image_present)
        self.preflight.problems += self._short(room)
        self.preflight.unchecked += self._unlisted_images(rows, room["placed"]) if image_present else []
        return t.cast("t.Dict[str, int]", room["placed"])

    def _unlisted_images(self, rows: t.Sequence[Node], placed: t.Container[str]) -> list[str]:
        images = {container["image"] for _count, pod in self.pods for container in pod["spec"]["containers"]}
        unlisted = [
            (image, row.name) for image in images for row in rows if row.name in placed and row.has_image(image) is None
        ]
        return ["whether %s is on %s, which has more images than its kubelet lists" % pair for pair in sorted(unlisted)]

    def _short(self, room: t.Mapping[str, t.Any]) -> list[str]:
        if not room["missing"]:
            return []
        lacking = ["%s: %s" % (name, "; ".join(why)) for name, why in sorted(room["short"].items())]
        return [
            "not all pods can run at once: pods wanted: %s, but %d of them do not fit%s. %s. Wait until running pods "
            "have finished, fix the nodes, or request less"
            % (
                describe(self.pods),
                room["missing"],
                " next to %s" % ", ".join(room["beside"]) if room["beside"] else "",
                ". ".join(lacking) or "There is no other node",
            )
        ]

    def placement(self, image_present: bool) -> dict[str, int] | None:
        """Return where the pods have room, None if the account may not look. JobError: the job can never start."""
        # Kueue keeps a job back until there is room.
        placed = None if self.queue else self.room(image_present)
        self.preflight.run()
        if self.preflight.problems:
            raise JobError("%s: %s. Nothing was applied" % (self.doing, ". ".join(self.preflight.problems)))
        return placed


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module training_job_check_info returns."""
    check = Check(params, client)
    unserved = check.unserved()
    if unserved and not check_mode:
        raise JobError(
            "%s: the API server does not know %s. Install its operator first, or choose another kind or gang. Nothing "
            "was applied" % (check.doing, ", ".join(unserved))
        )
    there = check.exists()
    missing = check.preflight.missing_attachments()
    if missing and not check_mode:
        raise JobError(
            "%s: these attachments do not exist: %s. Create them first (role secondary_network, module "
            "network_attachment), or correct networks. Nothing was applied" % (check.doing, ", ".join(missing))
        )
    placed = check.placement(params["image_present"]) if params["capacity"] and not there else None
    unchecked = check.preflight.unchecked
    rows = [
        resource(item["kind"], "%s/%s" % (check.namespace, item["metadata"]["name"]), desired="present", status=UNKNOWN)
        for item in check.manifests
        if check.plurals[item["apiVersion"], item["kind"]] is None
    ]
    return {
        "changed": False,
        "exists": there,
        "placed": placed,
        "unchecked": unchecked,
        "warnings": ["%s: not checked: %s" % (check.doing, text) for text in unchecked]
        + ["%s: %s" % (check.doing, text) for text in check.preflight.warnings],
        "unserved": unserved,
        "missing_attachments": missing,
        "resources": rows
        + [
            resource("NetworkAttachmentDefinition", name, desired="present", live="absent", status=DRIFT)
            for name in missing
        ],
    }


__all__ = ("Check", "manage")
