# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The root of the collection's own errors, so that a module can catch those of utils it has not imported yet."""

from __future__ import annotations


class FabricError(Exception):
    """Something could not be done or read.

    The text says what, to what, what the system answered, and what unblocks it.
    """


__all__ = ("FabricError",)
