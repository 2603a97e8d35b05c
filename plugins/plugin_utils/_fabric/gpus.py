# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""GPUs in a fabric report: nccl-tests over all of them, and whether GPUDirect RDMA is proven."""

from __future__ import annotations

import typing as t

from .._terminal import some
from .vocabulary import CUDA, FAIL, NCCL, PASS, UNKNOWN, printable, short

Json = t.Dict[str, t.Any]

_DETAILS = (
    "transport", "evidence", "network", "gpudirect", "version", "avg_busbw", "max_busbw", "out_of_bounds", "ranks",
    "seconds",
)  # fmt: skip


def missing_gpus(hosts: t.Mapping[str, Json]) -> str | None:
    """Return why tests with GPUs are impossible, None if all nodes have some."""
    none = [printable(name) for name, host in hosts.items() if host["gpus"] == 0]
    unknown = [printable(name) for name, host in hosts.items() if host["gpus"] is None]
    reasons = ["no GPUs (no nvidia-smi) on %s" % some(none)] if none else []
    reasons += ["whether there are GPUs is not known on %s" % some(unknown)] if unknown else []
    return "; ".join(reasons) or None


def unplaced(hosts: t.Mapping[str, Json], rail: int) -> list[str]:
    """Return why a rail cannot be measured with memory of GPUs."""
    missing = missing_gpus(hosts)
    errors = {node: (host["placements"].get(rail) or {}).get("gpu_error") for node, host in hosts.items()}
    return [missing] if missing else ["node %s: %s" % item for item in errors.items() if item[1]]


def nccl(
    result: t.Mapping[str, t.Any] | None, hosts: t.Mapping[str, Json], requested: bool, silence: str
) -> Json | None:
    """Return the result of nccl-tests with its verdict, None if it was not requested."""
    if not requested and result is None:
        return None
    details: Json = {key: (result or {}).get(key) for key in _DETAILS}
    verdict, error = _nccl(result, hosts, silence)
    return {"verdict": verdict, "error": error, **details}


def _nccl(result: t.Mapping[str, t.Any] | None, hosts: t.Mapping[str, Json], silence: str) -> tuple[str, str | None]:
    if result is None:
        bare = [printable(name) for name, host in hosts.items() if not host["pod"]]
        pods = "it is run in pods only, and not on the hosts %s" % some(bare) if bare else None
        return UNKNOWN, missing_gpus(hosts) or pods or silence
    wrong, transport = result.get("out_of_bounds"), result.get("transport")
    if wrong:
        return FAIL, "%d values were wrong (out of bounds)" % wrong
    if result.get("ok") is False:
        return FAIL, result.get("error") or "it failed"
    if transport in ("socket", "mixed"):
        part = "all" if transport == "socket" else "some"
        return FAIL, "NCCL sent %s of it by TCP (transport %s), not by RDMA" % (part, transport)
    if result.get("ok") is None:
        return UNKNOWN, result.get("error") or "the result could not be read"
    if result.get("avg_busbw") is None or wrong is None:
        return UNKNOWN, "no bandwidth, or no check of the values, could be read"
    if transport != "rdma":
        return UNKNOWN, "NCCL's log does not show which path it took"
    return PASS, None


def sentence(entry: Json | None, verdict: str) -> list[str]:
    """Return the reason of nccl-tests, if it has this verdict."""
    if entry is None or entry["verdict"] != verdict:
        return []
    return ["%s: %s" % (NCCL, printable(short(entry["error"], 400)))]


def gpudirect(pairs: t.Sequence[Json], nccl_entry: Json | None, hosts: t.Mapping[str, Json]) -> Json:
    """Return whether GPUDirect RDMA is ``proven``, ``by`` what, or ``why`` not. Nothing is assumed."""
    ran = [entry for entry in pairs if entry["test"] == CUDA and entry["verdict"] == PASS]
    by = [
        "ib_write_bw --use_cuda %s -> %s on rail %d" % (entry["client"], entry["server"], entry["rail"])
        for entry in ran
    ]
    if nccl_entry and nccl_entry["gpudirect"]:
        by.append("GDRDMA in NCCL's log")
    if by:
        return {"proven": True, "by": by, "why": None}
    tried = any(entry["test"] == CUDA for entry in pairs) or nccl_entry is not None
    why = missing_gpus(hosts)
    if why is None and not tried:
        why = "neither %s nor %s was requested" % (CUDA, NCCL)
    elif why is None and nccl_entry and nccl_entry["gpudirect"] is False:
        why = "NCCL's log shows that it was not used"
    return {"proven": False, "by": [], "why": why or "what was requested did not succeed"}


def lines(report: t.Mapping[str, t.Any]) -> list[str]:
    """Return the report's lines on GPUs."""
    direct, entry = report["gpudirect"], report["nccl"]
    text = "proven by %s" % some(direct["by"], 2) if direct["proven"] else "not proven: %s" % direct["why"]
    texts = ["GPUDirect RDMA: %s" % printable(text)]
    if entry:
        shown = entry["verdict"]
        if entry["avg_busbw"] is not None:
            shown += ", %.2f GB/s on average, transport %s" % (entry["avg_busbw"], entry["transport"])
        texts.append("%s: %s" % (NCCL, shown))
    return texts


__all__ = ("gpudirect", "lines", "missing_gpus", "nccl", "sentence", "unplaced")
