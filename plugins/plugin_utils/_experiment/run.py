# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What a run measured: by the workload, by nccl-tests, or between the nodes by fabric_check."""

from __future__ import annotations

import math
import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._formats import json_dictionary
from ...module_utils._tool_output import nccl_tests

Json = t.Mapping[str, t.Any]

# Before the result of train.py and benchmark.py, in the log of rank 0.
MARK = "RESULT {"
SCHEMA = 1
# The numbers of the fabric check's tests.
BANDWIDTHS = {"ib_write_bw": "bandwidth", "ib_write_bw_cm": "bandwidth_cm", "ib_write_bw_cuda": "bandwidth_cuda"}
# What is measured: description, unit, whether more is better.
NUMBERS: dict[str, tuple[str, str, bool]] = {
    "bandwidth": ("bandwidth of ib_write_bw, slowest pair", "Gb/s", True),
    "bandwidth_cm": ("bandwidth of ib_write_bw -R, slowest pair", "Gb/s", True),
    "bandwidth_cuda": ("bandwidth of ib_write_bw --use_cuda, slowest pair", "Gb/s", True),
    "busbw": ("average bus bandwidth of nccl-tests", "GB/s", True),
    "images_per_second_per_device": ("images per second and device", "images/s", True),
    "images_per_second": ("images per second of all devices", "images/s", True),
    "seconds": ("duration", "s", False),
    "first_accuracy": ("accuracy at the first test", "", True),
    "accuracy": ("accuracy at the end", "", True),
}
# What a workload's result says about how it was measured, with descriptions; first what a comparison needs to be equal.
SAME = {
    "kind": "kind of run",
    "model": "model",
    "world_size": "world size",
    "batch_size": "batch size",
    "image_size": "image size",
    "precision": "precision",
    "device_type": "kind of device",
}
DETAILS = {
    **SAME,
    "data": "data",
    "epochs": "epochs",
    "device": "device",
    "hosts": "hosts",
    "backend": "backend",
    "transport": "transport",
    "gradients": "gradients of each rank",
    "rdma_sent": "sent over RDMA by the pod with the least",
    "ethernet_sent": "sent by network devices of the pod with the most",
    "tcp_sent": "sent over TCP by the pod with the most, at most",
    "measurements": "measurements",
    "torch": "PyTorch",
    "started": "started",
}
# What the trainer counts in each rank's pod, by detail: the key in a rank's traffic, and which pod is shown.
_SENT: dict[str, tuple[str, t.Callable[[t.Iterable[float]], float]]] = {
    "gradients": ("gradient_bytes", min),
    "rdma_sent": ("rdma_bytes", min),
    "ethernet_sent": ("netdev_bytes", max),
    "tcp_sent": ("tcp_bytes_at_most", max),
}


def of_job(job: Json) -> dict[str, t.Any]:
    """Return the run that the logs of a job show. Raises FabricError if they show none."""
    logs = job.get("logs") or []
    texts = [log["text"] for log in logs if not log["error"]]
    transport = (job.get("transport") or {}).get("transport")
    run = _workload(texts) or _nccl_tests(texts)
    if run is None:
        unread = ["%s: %s" % (log["pod"], log["error"]) for log in logs if log["error"]]
        raise FabricError(
            "the logs of the job's pods have neither a result of train.py or benchmark.py (a line that begins with"
            " RESULT) nor the summary of nccl-tests. Either the program is another one, or training_job_log_tail is too"
            " small%s" % ("; could not be read: %s" % "; ".join(unread) if unread else "")
        )
    run["details"]["transport"] = transport
    return run


def _workload(texts: t.Iterable[str]) -> dict[str, t.Any] | None:
    """Return the last result of the workload; mpirun and kubectl may have put words before it.

    Raises FabricError if ranks have trained without each other: the first rank of a job prints the only result.
    """
    lines = [line.partition(MARK)[2] for text in texts for line in text.splitlines() if MARK in line]
    results = [json_dictionary("{" + line) for line in lines]
    result = results[-1] if results else {}
    if result.get("schema") != SCHEMA:
        return None
    places = sorted({", ".join(map(str, _list(other.get("hosts")))) for other in results})
    if len(places) > 1:
        raise FabricError(
            "ranks have trained without each other, on %s: each of them printed a result of its own. Does "
            "training_job_kind suit the command?" % " and on ".join(places[:8])
        )
    accuracies = [_dictionary(entry).get("accuracy") for entry in _list(result.get("accuracies"))]
    numbers = {
        "images_per_second_per_device": _dictionary(result.get("images_per_second_per_device")).get("mean"),
        "images_per_second": _dictionary(result.get("images_per_second")).get("mean"),
        "seconds": result.get("seconds"),
        "first_accuracy": accuracies[0] if accuracies else None,
        "accuracy": result.get("accuracy"),
    }
    samples = [rate for rate in _list(result.get("samples")) if is_number(rate) and rate > 0]
    settings = _dictionary(result.get("settings"))
    details = {key: result.get(key, settings.get(key)) for key in DETAILS}
    return _run(numbers, samples, {**details, **_traffic(_list(result.get("ranks")))})


def _traffic(ranks: t.Sequence[t.Any]) -> dict[str, str]:
    """Return what the pods sent while they trained. What one of them did not count is left out."""
    sent = {}
    for name, (key, choose) in _SENT.items():
        totals = [_total(_dictionary(_dictionary(rank).get("traffic")).get(key)) for rank in ranks]
        known = [total for total in totals if total is not None]
        if known and len(known) == len(totals):
            sent[name] = ("%.4g MB" if choose(known) < 1e10 else "%.0f MB") % (choose(known) / 1e6)
    return sent


def _total(value: t.Any) -> float | None:
    """Return a number of bytes, or the sum of those of several devices, None if one of them is not known."""
    counts = list(value.values()) if isinstance(value, dict) else [value]
    return math.fsum(counts) if counts and all(is_number(count) for count in counts) else None


def _nccl_tests(texts: t.Iterable[str]) -> dict[str, t.Any] | None:
    for text in texts:
        result = nccl_tests.parse(text)
        if result["avg_busbw"] is not None:
            return _run({"busbw": result["avg_busbw"]}, [], {"kind": "nccl-tests"})
    return None


def of_fabric(report: Json) -> dict[str, t.Any]:
    """Return the run that a fabric report shows. Raises FabricError if no bandwidth was measured."""
    entries = [entry for entry in report["pairs"] if entry["gbps"] is not None and entry["test"] in BANDWIDTHS]
    if not entries:
        raise FabricError(
            "the fabric check measured no bandwidth (its verdict is %s: %s)"
            % (report["verdict"], "; ".join(report["reasons"][:3]) or "no reason given")
        )
    details = {
        "kind": ", ".join(sorted({entry["test"] for entry in entries})),
        "hosts": sorted({entry[end] for entry in entries for end in ("client", "server")}),
        "measurements": len(entries),
        "started": report["started"],
    }
    rates: dict[str, float] = {}
    for entry in entries:
        key = BANDWIDTHS[entry["test"]]
        rates[key] = min(entry["gbps"], rates.get(key, math.inf))
    return _run(rates, [], details)


def _run(numbers: Json, samples: list[float], details: Json) -> dict[str, t.Any]:
    return {
        "numbers": {key: value for key, value in numbers.items() if is_number(value)},
        "samples": samples,
        "details": {key: value for key, value in details.items() if _is_detail(value)},
    }


def _is_detail(value: t.Any) -> bool:
    """Return whether a value is a text, a number or a list of texts. A log may have anything."""
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str) or is_number(value)


def _dictionary(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []


def is_number(value: t.Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


__all__ = ("DETAILS", "NUMBERS", "SAME", "SCHEMA", "is_number", "of_fabric", "of_job")
