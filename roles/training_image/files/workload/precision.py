# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Full or mixed precision, for every PyTorch from 1.13 on."""

from __future__ import annotations

import typing as t

import torch


class Precision:
    """Number formats: float32, or autocast to float16 on GPUs and bfloat16 on CPUs.

    Every GPU with tensor cores has float16; its small gradients need a scale.
    """

    def __init__(self, amp: bool, device: torch.device) -> None:
        self._amp = amp
        self._kind = device.type
        self._dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
        self._scaler: t.Any = None
        if amp and device.type == "cuda":
            # The second is deprecated since 2.4, the first came with 2.3.
            newer = getattr(torch.amp, "GradScaler", None)
            self._scaler = newer("cuda") if newer else torch.cuda.amp.GradScaler()

    @property
    def name(self) -> str:
        return "amp-%s" % str(self._dtype).rpartition(".")[2] if self._amp else "fp32"

    def autocast(self) -> t.Any:
        return torch.autocast(self._kind, dtype=self._dtype, enabled=self._amp)

    def step(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Run the backward pass and the optimizer's step."""
        if self._scaler is None:
            loss.backward()
            optimizer.step()
            return
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self) -> dict[str, t.Any]:
        return self._scaler.state_dict() if self._scaler is not None else {}

    def load_state_dict(self, state: dict[str, t.Any]) -> None:
        if self._scaler is not None:
            self._scaler.load_state_dict(state)


__all__ = ("Precision",)
