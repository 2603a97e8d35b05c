# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failing call reports."""

from __future__ import annotations

import typing as t

import pytest


def message_of(
    error: type[Exception] | tuple[type[Exception], ...], call: t.Callable[..., object], *args: t.Any, **options: t.Any
) -> str:
    """Return the message of the error that a call must raise."""
    with pytest.raises(error) as caught:
        call(*args, **options)
    return str(caught.value)


__all__ = ["message_of"]
