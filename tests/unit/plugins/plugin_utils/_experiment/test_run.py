# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of a run, from logs and from reports."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._experiment import run
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._experiment.runs import (
    TRAINED,
    job,
    log_of,
)

FIXTURES = Path(__file__).resolve().parents[2] / "filter" / "fixtures"


def test_training() -> None:
    assert run.of_job(job(log_of(TRAINED), "nothing")) == {
        "numbers": {
            "images_per_second_per_device": 400.0,
            "images_per_second": 800.0,
            "seconds": 912.4,
            "first_accuracy": 0.8,
            "accuracy": 0.8571,
        },
        "samples": [399.0, 401.0],
        "details": {
            "kind": "train", "model": "resnet18", "world_size": 2, "batch_size": 128, "precision": "fp32",
            "device_type": "cpu", "data": "CIFAR-10", "epochs": 200, "device": "CPU", "hosts": ["train-0", "train-1"],
            "backend": "mpi", "transport": "rdma", "torch": "2.6.0", "started": "2026-11-24T12:00:00Z",
        },
    }  # fmt: skip


def rank(rdma: t.Any, ethernet: t.Any, tcp: t.Any) -> dict[str, t.Any]:
    """A rank of train.py's result, whose gradients had 90 MB."""
    traffic = {
        "steps": 2,
        "gradient_bytes": 90e6,
        "rdma_bytes": rdma,
        "netdev_bytes": ethernet,
        "tcp_bytes_at_most": tcp,
    }
    return {"rank": 0, "traffic": traffic}


QUIET = rank({"irdma0:1": 60e6, "irdma1:1": 31e6}, {"eth0": 40e3, "net1": 2e3}, 43e3)
LOUD = rank({"irdma0:1": 92.5e6, "irdma1:1": 0}, {"eth0": 91e6, "net1": 0}, 91.2e6)
# The ranks of a result, and what is shown of their traffic.
TRAFFIC: list[tuple[t.Any, list[str | None]]] = [
    ([QUIET, QUIET], ["90 MB", "91 MB", "0.042 MB", "0.043 MB"]),
    # One pod that used Ethernet is not hidden by another.
    ([QUIET, LOUD], ["90 MB", "91 MB", "91 MB", "91.2 MB"]),
    ([rank({"irdma0:1": 2.5e12}, {"eth0": 5e9}, 5e9)], ["90 MB", "2500000 MB", "5000 MB", "5000 MB"]),
    # A port without counters, a rank without counts, and values that are not traffic.
    ([QUIET, rank({"siw0:1": None}, {"eth0": 1e6}, 1e6)], ["90 MB", None, "1 MB", "1 MB"]),
    ([QUIET, {"rank": 1, "traffic": None}], [None] * 4),
    ([rank("x", [], {"a": "b"}), 7], [None] * 4),
    (None, [None] * 4),
]


@pytest.mark.parametrize(("ranks", "expected"), TRAFFIC)
def test_what_the_pods_sent(ranks: t.Any, expected: list[str | None]) -> None:
    details = run.of_job(job(log_of({**TRAINED, "ranks": ranks})))["details"]
    assert [details.get(name) for name in ("gradients", "rdma_sent", "ethernet_sent", "tcp_sent")] == expected


def test_the_last_result_counts_whatever_stands_before_it() -> None:
    first, last = json.dumps({**TRAINED, "seconds": 1.0}), json.dumps({**TRAINED, "seconds": 2.0})
    text = f"RESULT {first}\n[1,0]<stdout>:RESULT {last}\n"
    assert run.of_job(job("nothing", text))["numbers"]["seconds"] == 2.0


# changes of a result, what the run then has
ODD: list[tuple[dict[str, t.Any], str, t.Any]] = [
    ({"samples": ["fast", True, 0, 5.0]}, "samples", [5.0]),
    ({"samples": None}, "samples", []),
    ({"accuracies": []}, "numbers", {"first_accuracy": None}),
    ({"accuracy": "high"}, "numbers", {"accuracy": None}),
    ({"images_per_second": None}, "numbers", {"images_per_second": None}),
    ({"images_per_second": [1], "accuracies": 5}, "numbers", {"images_per_second": None, "first_accuracy": None}),
    ({"accuracies": ["high"], "samples": {"a": 1}}, "samples", []),
    ({"model": {"a": 1}, "hosts": [1], "batch_size": float("nan"), "settings": 7}, "details",
     {"model": None, "hosts": None, "batch_size": None, "epochs": None, "backend": "mpi"}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key", "expected"), ODD)
def test_what_is_not_valid_is_left_out(changes: dict[str, t.Any], key: str, expected: t.Any) -> None:
    part = run.of_job(job(log_of({**TRAINED, **changes})))[key]
    if isinstance(expected, dict):
        part = {name: part.get(name) for name in expected}
    assert part == expected


# logs without a result
WITHOUT = ["", "Model: vgg16\n", "RESULT {", log_of(TRAINED)[:-60], log_of({**TRAINED, "schema": 2}), "RESULT {}"]


@pytest.mark.parametrize("text", WITHOUT)
def test_no_result_is_an_error(text: str) -> None:
    assert message_of(FabricError, run.of_job, job(text)) == (
        "the logs of the job's pods have neither a result of train.py or benchmark.py (a line that begins with RESULT) nor the"
        " summary of nccl-tests. Either the program is another one, or training_job_log_tail is too small"
    )


def test_ranks_that_have_trained_alone_are_no_run() -> None:
    alone = [log_of({**TRAINED, "world_size": 1, "hosts": [f"train-{number}"]}) for number in (0, 1)]
    text = (
        "ranks have trained without each other, on train-0 and on train-1: each of them printed a result of its own. Does "
        "training_job_kind suit the command?"
    )
    for logs in (alone, ["\n".join(alone)]):
        assert message_of(FabricError, run.of_job, job(*logs)) == text
    # A job may run the program more than once.
    assert run.of_job(job(log_of(TRAINED) + "\n" + log_of(TRAINED)))["details"]["hosts"] == TRAINED["hosts"]


def test_logs_that_could_not_be_read_are_named() -> None:
    unread = job("")
    unread["logs"].append({"pod": "train-1", "text": "", "error": "HTTP 500"})
    assert message_of(FabricError, run.of_job, unread).endswith("too small; could not be read: train-1: HTTP 500")


def test_nccl_tests() -> None:
    text = (FIXTURES / "nccl-2.18.5_ibext_roce_all-reduce.txt").read_text(encoding="utf-8")
    assert run.of_job(job("nothing", text)) == {
        "numbers": {"busbw": 2.80687},
        "samples": [],
        "details": {"kind": "nccl-tests", "transport": "rdma"},
    }


def report(*measurements: tuple[str, float | None]) -> dict[str, t.Any]:
    pairs = [
        {"client": "a", "server": f"b{number}", "test": test, "gbps": rate}
        for number, (test, rate) in enumerate(measurements)
    ]
    return {"pairs": pairs, "verdict": "unknown", "reasons": ["no measurement"], "started": "2026-11-24T12:00:00Z"}


def test_fabric() -> None:
    measurements = [
        ("ib_write_bw_cm", 23.14),
        ("ib_write_bw_cm", None),
        ("ib_write_bw_cm", 22.5),
        ("ib_write_bw", 24.1),
    ]
    assert run.of_fabric(report(*measurements, ("rping", None))) == {
        "numbers": {"bandwidth_cm": 22.5, "bandwidth": 24.1},
        "samples": [],
        "details": {"kind": "ib_write_bw, ib_write_bw_cm", "hosts": ["a", "b0", "b2", "b3"], "measurements": 3,
                    "started": "2026-11-24T12:00:00Z"},
    }  # fmt: skip


def test_a_fabric_without_a_measurement_is_an_error() -> None:
    assert message_of(FabricError, run.of_fabric, report(("ib_write_bw", None))) == (
        "the fabric check measured no bandwidth (its verdict is unknown: no measurement)"
    )
