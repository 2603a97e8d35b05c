# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""torchvision, where the models come from."""

from __future__ import annotations

import sys
import typing as t

from common import WorkloadError


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


__all__ = ("torchvision_models",)
