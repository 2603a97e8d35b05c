# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a report becomes an artifact, and what of a ConfigMap becomes a report again."""

from __future__ import annotations

import base64
import gzip
import json
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils import _drift_configmap as configmap
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift_publish import ARTIFACT_BYTES, artifact
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift_report import (
    OBJECT_KEYS,
    counted,
    verdict_of,
    worst,
)

Json = dict[str, t.Any]


def entry(**objects: int) -> Json:
    """Return a host with as many objects of each status, of which those that drifted have a diff."""
    made = [
        {**dict.fromkeys(OBJECT_KEYS), "name": f"{status}-{number}", "status": status, "diff": diff}
        for status, many in objects.items()
        for number in range(many)
        for diff in ["+x\n" * 100 if status == "drift" else None]
    ]
    return {"status": worst(one["status"] for one in made), "counts": counted(made), "objects": made}


def report(**hosts: Json) -> Json:
    made: Json = {"schema": 1, "started": "2026-11-21T12:00:00Z", "complete": True, "incomplete": [], "hosts": hosts}
    return {**made, "check_mode": True, "verdict": verdict_of(made)}


def names(found: Json) -> dict[str, list[str]]:
    return {host: [one["name"] for one in entry["objects"]] for host, entry in found["hosts"].items()}


def size(found: Json) -> int:
    return len(json.dumps(found).encode())


WHOLE = report(a=entry(in_sync=50, drift=2), b=entry(in_sync=50), c=entry(unknown=20, drift=1))


def test_a_report_that_fits_is_whole() -> None:
    assert artifact(WHOLE) is WHOLE
    assert size(WHOLE) < ARTIFACT_BYTES


# the limit in bytes, what is left out, what is left
@pytest.mark.parametrize(
    ("limit", "left", "kept"),
    [
        (10000, {"in_sync": 100, "diffs": 0, "objects": 0, "hosts": 0}, {"a": 2, "b": 0, "c": 21}),
        (7000, {"in_sync": 100, "diffs": 3, "objects": 0, "hosts": 0}, {"a": 2, "b": 0, "c": 21}),
        (2600, {"in_sync": 100, "diffs": 3, "objects": 15, "hosts": 0}, {"a": 2, "b": 0, "c": 6}),
        (480, {"in_sync": 100, "diffs": 3, "objects": 23, "hosts": 1}, {"a": 0, "c": 0}),
        (360, {"in_sync": 100, "diffs": 3, "objects": 23, "hosts": 3}, {}),
    ],
)
def test_what_goes_first(limit: int, left: Json, kept: Json) -> None:
    cut = artifact(WHOLE, limit)
    assert size(cut) <= limit
    assert cut["left_out"] == left, (names(cut), size(cut))
    assert {host: len(found) for host, found in names(cut).items()} == kept
    # Drift is the last to go, and what is told of a host stays true.
    assert all(cut["hosts"][host]["counts"] == WHOLE["hosts"][host]["counts"] for host in cut["hosts"])
    assert cut["verdict"] == "drift"
    if any(kept.values()):
        assert names(cut)["a"] == ["drift-0", "drift-1"]
        assert "drift-0" in names(cut)["c"]


def test_reasons_that_are_too_many() -> None:
    many = {**WHOLE, "incomplete": [f"gpu-{number}: not come to" for number in range(1000)]}
    cut = artifact(many, 2000)
    assert size(cut) <= 2000
    assert cut["incomplete"][0] == "gpu-0: not come to"
    assert cut["incomplete"][-1] == "and 990 more"


@pytest.mark.parametrize(
    ("binary", "said"),
    [
        ({}, "it has no report.json.gz in binaryData"),
        ({"report.json.gz": "?"}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": base64.b64encode(b"{}").decode()}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": base64.b64encode(gzip.compress(b"{")).decode()}, "it is not JSON, compressed by gzip"),
        ({"report.json.gz": base64.b64encode(gzip.compress(b"{}")[:-4]).decode()}, "it is not JSON, compressed"),
        ({"report.json.gz": base64.b64encode(gzip.compress(b"{}")).decode()}, "it is not a drift report"),
    ],
)
def test_a_configmap_that_is_no_report(binary: Json, said: str) -> None:
    with pytest.raises(FabricError) as caught:
        configmap.unpacked({"binaryData": binary}, "Reading it")
    assert str(caught.value).startswith(f"Reading it: {said}")


def test_a_configmap_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configmap, "MAX_BYTES", 1000)
    packed = base64.b64encode(gzip.compress(b" " * 1001)).decode()
    with pytest.raises(FabricError, match="Reading it: it is larger than 1000 bytes, and cannot be one"):
        configmap.unpacked({"binaryData": {"report.json.gz": packed}}, "Reading it")
