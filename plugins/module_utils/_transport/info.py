# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The counters of pods, read twice by exec."""

from __future__ import annotations

import re
import time
import typing as t

from .._errors import FabricError
from .._kubernetes.client import Client, Object, path
from .._pod_exec import files
from .._pod_exec import run as pod_exec_run
from .._pod_exec.api import ApiExec, container_in
from .._pod_exec.run import ContainerError, PodExec
from .._rdma import traffic
from .judge import UNKNOWN, Sample, judge, together

NETDEVS = "/proc/self/net/dev"
MODE = "/sys/module/ib_core/parameters/netns_mode"
_PORTS = "/sys/class/infiniband/*/ports/*/"
PATTERNS = (NETDEVS, MODE, *(_PORTS + traffic.file_of(name) for name in traffic.NAMES))
_PORT = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/[a-z_]+/(\w+)\Z")
_LOOK_S = 30


class TransportError(FabricError):
    """No pod matches the options."""


def parse(text: str, sign: str, at: float) -> Sample:
    """Read what the look printed. ValueError: it is something else."""
    texts = files.parse(text, sign)
    ports: dict[str, dict[str, int]] = {}
    for name, content in texts.items():
        match = _PORT.match(name)
        if match:
            device, port, counter = match.groups()
            numbers = ports.setdefault("%s/%s" % (device, port), {})
            number = traffic.number(content)
            if number is not None:
                numbers[counter] = number
    # A bool parameter (ib_core: netns_mode), Y or N.
    mode = {"Y": True, "N": False}.get(texts.get(MODE, "").strip())
    netdevs = {name: sum(both) for name, both in traffic.netdevs(texts.get(NETDEVS, "")).items()}
    return Sample(at, ports, netdevs, mode)


def look(pod_exec: PodExec) -> Sample:
    sign = pod_exec_run.new_mark()
    done = pod_exec_run.run(pod_exec, files.argv(sign, PATTERNS), _LOOK_S, sign)
    try:
        return parse(done.text, sign, time.monotonic())
    except ValueError as exc:
        output = " ".join(done.text.split())[-200:] or "nothing was printed"
        raise ContainerError(
            "Reading the counters in the %s: %s (%s). Its image needs sh, env, timeout and cat"
            % (pod_exec.text, exc, output)
        ) from exc


class Pod:
    """A pod between its two looks."""

    def __init__(self, manifest: Object, connect: t.Callable[[Object], PodExec]) -> None:
        meta, spec = manifest["metadata"], manifest.get("spec") or {}
        self.facts = {"pod": "%s/%s" % (meta["namespace"], meta["name"]), "node": spec.get("nodeName")}
        self.host_network = bool(spec.get("hostNetwork"))
        self.error: str | None = None
        self.before: Sample | None = None
        self._manifest, self._connect = manifest, connect

    def look(self) -> Sample | None:
        """Return the counters; None if they cannot be read, or could not before."""
        if self.error:
            return None
        try:
            return look(self._connect(self._manifest))
        except FabricError as exc:
            self.error = str(exc)
            return None

    def judge(self, after: Sample | None, idle_below: float) -> dict[str, t.Any]:
        if self.before is None or after is None:
            nothing: dict[str, t.Any] = {
                "transport": UNKNOWN,
                "why": self.error,
                "seconds": None,
                "rdma": {},
                "netdevs": {},
            }
            return {**self.facts, **nothing}
        return {**self.facts, **judge(self.before, after, idle_below, self.host_network)}


def manifests(params: t.Mapping[str, t.Any], client: Client) -> list[Object]:
    """Return the pods that are asked for. TransportError: there are none."""
    namespace: str = params["namespace"]
    if params["name"]:
        text = "the pod %s/%s" % (namespace, params["name"])
        manifest = client.get(path("v1", "pods", namespace, params["name"]), "Reading %s" % text)
        if manifest is None:
            raise TransportError("Reading %s: it does not exist. Check its name and namespace" % text)
        return [manifest]
    selector = ",".join(params["label_selectors"])
    query = {"labelSelector": selector}
    doing = "Listing the pods of %s with %s" % (namespace, selector)
    rows = client.items(path("v1", "pods", namespace), doing, query) or []
    # Those that have ended have no traffic.
    running = [row for row in rows if (row.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if not running:
        ended = "%d have ended" % len(rows) if rows else "there are none"
        raise TransportError("%s: %s. Check the labels, or ask while the pods run" % (doing, ended))
    return running


def manage(params: t.Mapping[str, t.Any], _check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module transport_info returns."""

    def connect(manifest: Object) -> PodExec:
        shown = "%(namespace)s/%(name)s" % manifest["metadata"]
        return ApiExec(client, shown, container_in(manifest, shown, params["container"]), None)

    pods = [Pod(manifest, connect) for manifest in manifests(params, client)]
    for pod in pods:
        pod.before = pod.look()
    time.sleep(params["seconds"])
    rows = [pod.judge(pod.look(), params["idle_bytes_per_second"]) for pod in pods]
    return {"changed": False, "transport": together(row["transport"] for row in rows), "pods": rows}


__all__ = ("PATTERNS", "TransportError", "look", "manage", "manifests", "parse")
