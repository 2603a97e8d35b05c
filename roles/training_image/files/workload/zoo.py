# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The models: torchvision's, and a small one."""

from __future__ import annotations

import sys
import typing as t

import torch
from common import WorkloadError
from dataset import CLASSES


def torchvision_models() -> t.Any:
    """Return torchvision's models. Raises WorkloadError if it cannot be used."""
    try:
        from torchvision import models
    except Exception as exc:  # one that was built for another PyTorch raises RuntimeError or OSError
        raise WorkloadError(
            "torchvision, where the models come from, cannot be used by %s: %s. Install the one that goes with this"
            " PyTorch" % (sys.executable, exc)
        ) from exc
    return models


def build_classifier(name: str, pre_trained: bool) -> torch.nn.Module:
    """Return small_cnn, or ResNet-18 for as many classes. Raises WorkloadError without torchvision, or its weights."""
    if name == "small_cnn":
        return small_cnn()
    models = torchvision_models()
    if not pre_trained:
        return models.resnet18(num_classes=CLASSES)
    try:
        model = models.resnet18(weights=models.ResNet18_Weights.DEFAULT)
    except OSError as exc:  # urllib's errors too
        raise WorkloadError(
            "--pre-trained: the weights are not in %s and cannot be downloaded: %s" % (torch.hub.get_dir(), exc)
        ) from exc
    model.fc = torch.nn.Linear(model.fc.in_features, CLASSES)
    return model


def small_cnn() -> torch.nn.Module:
    """Return a model for images of 28 x 28 pixels and one channel; it has 215,370 parameters."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 7 * 7, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, CLASSES),
    )


__all__ = ("build_classifier", "torchvision_models")
