# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs for the tests of this directory."""

from __future__ import annotations

import json
import typing as t

# Images per second and GPU that Alibaba Cloud's guide "topology-aware GPU scheduling (PyTorch)" shows for VGG16 and
# ResNet-50 on 4 V100, with the scheduling and without.
TOPOLOGY = [205.5, 205.2, 205.1, 205.5, 205.1, 205.1, 205.3, 204.3, 205.0, 204.9]
DEFAULT = [113.1, 109.5, 106.5, 108.5, 108.1, 111.2, 110.7, 109.8, 102.8, 107.9]
RESNET_TOPOLOGY = [331.0, 330.6, 330.9, 330.4, 330.7, 330.8, 329.9, 330.5, 330.4, 329.7]
RESNET_DEFAULT = [313.1, 312.8, 313.0, 312.2, 313.7, 313.2, 313.6, 313.0, 311.3, 313.6]

# The beginning of what train.py prints as its result, with the keys that matter here.
TRAINED = {
    "schema": 1, "kind": "train", "model": "resnet18", "world_size": 2, "batch_size": 128, "precision": "fp32",
    "device_type": "cpu", "device": "CPU", "backend": "mpi", "torch": "2.6.0", "hosts": ["train-0", "train-1"],
    "started": "2026-11-24T12:00:00Z", "seconds": 912.4, "settings": {"data": "CIFAR-10", "epochs": 200},
    "accuracy": 0.8571, "accuracies": [{"epoch": 10, "accuracy": 0.8}, {"epoch": 200, "accuracy": 0.8571}],
    "images_per_second_per_device": {"mean": 400.0}, "images_per_second": {"mean": 800.0}, "samples": [399.0, 401.0],
}  # fmt: skip


def job(*texts: str, transport: str = "rdma") -> dict[str, t.Any]:
    """Return the result of a job whose pods printed these logs."""
    logs = [{"pod": f"train-{number}", "text": text, "error": None} for number, text in enumerate(texts)]
    return {"logs": logs, "transport": {"transport": transport}}


def log_of(result: t.Mapping[str, t.Any]) -> str:
    return f"NCCL INFO x\nRESULT {json.dumps(result, sort_keys=True)}\nbye\n"


def benchmark(samples: t.Sequence[float], **changes: t.Any) -> dict[str, t.Any]:
    """Return a run of benchmark.py."""
    details = {
        "kind": "benchmark", "model": "vgg16", "world_size": 4, "batch_size": 64, "image_size": 224,
        "precision": "fp32", "device_type": "cuda", "device": "V100", "backend": "nccl", "hosts": ["a", "a", "b", "b"],
    }  # fmt: skip
    mean = sum(samples) / len(samples)
    return {
        "numbers": {"images_per_second_per_device": mean, "images_per_second": mean * 4},
        "samples": list(samples),
        "details": {**details, **changes},
    }
