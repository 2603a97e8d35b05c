# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Write drift reports to ConfigMaps of a cluster, read them for merging, and remove old ones."""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
import typing as t
import zlib
from types import SimpleNamespace

from ...module_utils._errors import FabricError
from ...module_utils._kubernetes import client as kubernetes
from ...module_utils._kubernetes import library
from ...module_utils._kubernetes.client import OWNER, ApiError, Client, Object, path
from .report import MAX_BYTES, dumps, validate

Json = t.Dict[str, t.Any]

RUN = "rdmaops.gpu-fabric/drift-run"
# What a ConfigMap contains: the report of one job, or of all jobs of a run.
PART = "rdmaops.gpu-fabric/drift-part"
SLICE, MERGED = "slice", "merged"

REPORT = "report.json.gz"

# MaxSecretSize in kubernetes/pkg/apis/core/types.go, by which ValidateConfigMap() bounds data and binaryData together.
CONFIGMAP_BYTES = 1 << 20


def connect(options: t.Mapping[str, t.Any]) -> Client:
    """Return a client for the options of a task that runs on the controller."""
    try:
        library.parts()
    except ImportError as exc:
        raise FabricError(
            "Reaching the cluster for the drift report: the Python library kubernetes is not installed on the "
            "controller: %s. Install it there (%s -m pip install kubernetes), or in the execution environment"
            % (exc, sys.executable)
        ) from exc
    # As a module has its options: those not set come from the environment.
    module = SimpleNamespace(params=dict(options), no_log_values=set())
    return Client(kubernetes.parameters(t.cast("t.Any", module)))


class ConfigMaps:
    """The ConfigMaps of one run."""

    def __init__(self, options: t.Mapping[str, t.Any], client: Client) -> None:
        self._options, self._client = options, client
        self._namespace: str = options["namespace"]
        # Another installation may publish in the same namespace, by another name.
        self._owner: str = "drift.%s" % options["name"]

    def _path(self, name: str | None = None) -> str:
        return path("v1", "configmaps", self._namespace, name)

    def publish(self, report: Json, summary: str, merged: bool) -> str:
        """Write the report, remove those of old runs, and return the name of the ConfigMap."""
        parts = [self._options["name"], self._options["run"]] + ([] if merged else [self._options["job"]])
        name = ".".join(parts)
        target = "ConfigMap %s/%s" % (self._namespace, name)
        doing = "Publishing the drift report in %s" % target
        packed = gzip.compress(dumps(report).encode(), mtime=0)
        data = {"verdict": report["verdict"], "message": summary}
        size = len(packed) + sum(len(text.encode()) for text in data.values())
        if size > CONFIGMAP_BYTES:
            raise FabricError(
                "%s: it takes %d bytes, compressed, and a ConfigMap can hold %d. Cut the diffs shorter "
                "(RDMAOPS_DRIFT_MAX_DIFF), run in more slices, or publish it at a URL or a path"
                % (doing, size, CONFIGMAP_BYTES)
            )
        labels = {OWNER: self._owner, RUN: self._options["run"], PART: MERGED if merged else SLICE}
        body: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self._namespace, "labels": labels},
            "data": data,
            "binaryData": {REPORT: base64.b64encode(packed).decode()},
        }
        try:
            self._client.apply(self._path(name), body, doing, force=True)
        except ApiError as exc:
            if not exc.missing:
                raise
            raise FabricError(
                "%s. Create the namespace first (kubectl create namespace %s, or docs/rbac/namespace.yml), or name "
                "another one" % (str(exc).rstrip("."), self._namespace)
            ) from exc
        self._remove_old()
        return target

    def _list(self, selector: t.Mapping[str, str], doing: str) -> list[Object]:
        query = {"labelSelector": ",".join("%s=%s" % pair for pair in selector.items())}
        return self._client.items(self._path(), doing, query) or []

    def _remove_old(self) -> None:
        """Keep the newest runs; a run is as new as its newest ConfigMap."""
        doing = "Listing the drift reports in %s, of which %d runs are kept" % (self._namespace, self._options["keep"])
        newest: dict[str, str] = {}
        configmaps = self._list({OWNER: self._owner}, doing)
        for configmap in configmaps:
            run = configmap["metadata"]["labels"].get(RUN, "")
            newest[run] = max(newest.get(run, ""), configmap["metadata"]["creationTimestamp"])
        # The run's own ConfigMap may be old: a job that is started again writes the same one.
        others = sorted(set(newest) - {self._options["run"]}, key=lambda run: newest[run], reverse=True)
        old = set(others[max(0, self._options["keep"] - 1) :])
        for configmap in configmaps:
            metadata = configmap["metadata"]
            if metadata["labels"].get(RUN, "") not in old:
                continue
            try:
                removing = "Removing the old drift report in ConfigMap %s/%s" % (self._namespace, metadata["name"])
                self._client.delete(self._path(metadata["name"]), removing, uid=metadata["uid"])
            except ApiError as exc:
                # Another slice has already removed or rewritten it.
                if exc.status not in (404, 409):
                    raise

    def reports(self) -> tuple[list[tuple[str, Json]], list[str]]:
        """Return the reports of the run's jobs, each with its source, and why others could not be read."""
        doing = "Listing the drift reports of run %s in %s" % (self._options["run"], self._namespace)
        reports: list[tuple[str, Json]] = []
        problems: list[str] = []
        for configmap in self._list({OWNER: self._owner, RUN: self._options["run"], PART: SLICE}, doing):
            source = "ConfigMap %s/%s" % (self._namespace, configmap["metadata"]["name"])
            try:
                reports.append((source, unpack(configmap, "Reading the drift report in %s" % source)))
            except FabricError as exc:
                problems.append(str(exc))
        if not reports and not problems:
            raise FabricError("%s: there is none. Publish the report of every slice before they are merged" % doing)
        return reports, problems


def unpack(configmap: Object, doing: str) -> Json:
    """Return the report in a ConfigMap."""
    try:
        packed = base64.b64decode((configmap.get("binaryData") or {})[REPORT], validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            text = stream.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise FabricError("%s: it is larger than %d bytes, so it is not a drift report" % (doing, MAX_BYTES))
        report = json.loads(text.decode("utf-8"))
    except KeyError as exc:
        raise FabricError("%s: it has no %s in binaryData" % (doing, REPORT)) from exc
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as exc:
        raise FabricError("%s: it is not JSON, compressed by gzip: %s" % (doing, exc)) from exc
    return validate(report, doing)


__all__ = ("CONFIGMAP_BYTES", "ConfigMaps", "connect", "unpack")
