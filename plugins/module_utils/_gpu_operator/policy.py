# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The ClusterPolicy of the NVIDIA GPU Operator, as it reports itself."""

from __future__ import annotations

import typing as t


def policy_state(policy: t.Mapping[str, t.Any] | None, name: str) -> dict[str, t.Any]:
    """Return what a ClusterPolicy says of itself."""
    status = (policy or {}).get("status") or {}
    words = [
        "%s: %s" % (one.get("reason") or one.get("type"), one["message"])
        for one in status.get("conditions") or []
        if one.get("message") and (one.get("type") != "Ready" or one.get("status") != "True")
    ]
    return {"name": name, "state": status.get("state") or None, "message": "; ".join(words)}


__all__ = ("policy_state",)
