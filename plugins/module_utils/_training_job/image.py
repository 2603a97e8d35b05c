# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which image the nodes have under a name, by what their kubelets list."""

from __future__ import annotations

import time
import typing as t

from .._kubernetes.client import ApiError, Client, Object, path
from .options import JobError

_PAUSE = 2.0


def repository(image: str) -> str:
    """Return the name of an image without its tag."""
    head, colon, tag = image.rpartition(":")
    return head if colon and "/" not in tag else image


def digests(image: str, nodes: t.Sequence[Object]) -> dict[str, list[str]]:
    """Return the digests of an image, and the nodes that have each; "" if a node lists the name without a digest.

    A kubelet lists all names of one image together (NodeStatus.images in k8s.io/api): with tags and with digests.
    """
    by_digest: dict[str, list[str]] = {}
    for node in nodes:
        for row in (node.get("status") or {}).get("images") or []:
            names = row.get("names") or []
            if image not in names:
                continue
            repo_digests = [name.partition("@")[2] for name in names if name.startswith(repository(image) + "@")]
            by_digest.setdefault(repo_digests[0] if repo_digests else "", []).append(node["metadata"]["name"])
    return by_digest


def manage(params: t.Mapping[str, t.Any], _check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module node_image_info returns."""
    image: str = params["name"]
    doing = "Looking for the image %s on the nodes" % image
    until = time.monotonic() + params["wait"]
    while True:
        nodes = _nodes(client, doing)
        by_digest = digests(image, nodes)
        if (len(by_digest) == 1 and "" not in by_digest) or time.monotonic() >= until:
            break
        time.sleep(_PAUSE)
    if not by_digest:
        raise JobError(
            "%s: none of the %d nodes lists it. Deliver it first (playbook image), or name it by its digest "
            "(NAME@sha256:DIGEST)" % (doing, len(nodes))
        )
    if len(by_digest) > 1 or "" in by_digest:
        rows = ["%s on %s" % (digest or "no digest", ", ".join(names)) for digest, names in sorted(by_digest.items())]
        raise JobError(
            "%s: they do not have the same one: %s. Deliver it again (playbook image), or name it by its digest"
            % (doing, "; ".join(rows))
        )
    digest = next(iter(by_digest))
    reference = "%s@%s" % (repository(image), digest)
    return {"changed": False, "reference": reference, "digest": digest, "nodes": sorted(by_digest[digest])}


def _nodes(client: Client, doing: str) -> list[Object]:
    try:
        return client.items(path("v1", "nodes"), doing) or []
    except ApiError as exc:
        if exc.status != 403:
            raise
        raise JobError("%s. Or name the image by its digest (NAME@sha256:DIGEST)" % str(exc).rstrip(".")) from exc


__all__ = ("digests", "manage", "repository")
