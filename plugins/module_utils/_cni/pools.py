# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Addresses that whereabouts has given out, and those among them that a changed range would forget."""

from __future__ import annotations

import ipaddress
import typing as t

from . import ranges

if t.TYPE_CHECKING:  # pragma: no cover
    from . import config as cni
    from .ranges import Span

    class _HasConfig(t.Protocol):
        @property
        def config(self) -> cni.Config | None: ...


class Leaving(t.NamedTuple):
    """A pool that an attachment leaves (``new`` is None), or whose bounds change."""

    old: Span
    new: Span | None


def _pooled(holder: _HasConfig | None) -> dict[tuple[str, bool], Span]:
    config = holder.config if holder is not None else None
    if config is None:
        return {}
    spans = [span for group in ranges.ranges(config).groups for span in group]
    return {(span.pool, span.sliced): span for span in spans if span.pool}


def leaving(before: _HasConfig | None, after: _HasConfig) -> list[Leaving]:
    """Return which of an attachment's pools change."""
    old, new = _pooled(before), _pooled(after)
    return [
        Leaving(span, new.get(key)) for key, span in old.items() if key not in new or new[key].pieces() != span.pieces()
    ]


def orphaned_allocations(pools: t.Iterable[t.Any], changes: t.Iterable[Leaving]) -> list[str]:
    """Return the addresses in use that are in a pool that is left, or outside a pool's new bounds, with their pods."""
    changes = list(changes)
    addresses = []
    for pool in pools:
        name = str((pool.get("metadata") or {}).get("name"))
        spec = pool.get("spec") or {}
        try:
            base = ipaddress.ip_network(str(spec.get("range")), strict=False)
        except ValueError:
            continue
        for old, new in changes:
            if not _is_pool_of(name, base, old):
                continue
            # An allocation's key is its offset from the range's first address (toIPReservationList).
            for offset, row in sorted((spec.get("allocations") or {}).items(), key=lambda pair: _int(pair[0])):
                address = base.network_address + _int(offset)
                if new is not None and (new.holds(address) or not old.holds(address)):
                    continue
                addresses.append("%s by %s" % (address, row.get("podref") or "container %s" % row.get("id")))
    return addresses


def _is_pool_of(name: str, base: ranges.Network, span: Span) -> bool:
    if not span.sliced:
        return name == span.pool
    # One pool per node: [NETWORK-]NODE-RANGE, where the range is the node's slice.
    prefix = str(span.pool)[: -len(ranges.pool_name(span.network, None))]
    return name.startswith(prefix) and base.version == span.network.version and base.subnet_of(span.network)  # type: ignore[arg-type]


def _int(text: t.Any) -> int:
    return int(text) if str(text).isdigit() else 0


__all__ = ("Leaving", "leaving", "orphaned_allocations")
