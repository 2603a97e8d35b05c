# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""pyroute2, by which network devices are changed (rtnetlink(7)). It is imported where it is used only."""

from __future__ import annotations

__all__ = ("missing_pyroute2",)


def missing_pyroute2(exc: ImportError, consent: str) -> str:
    """Return why network devices cannot be changed, and how role gpu_node installs the library."""
    from ansible.module_utils.basic import missing_required_lib

    return "%s (%s). The package is python3-pyroute2; the role gpu_node installs it %s" % (
        missing_required_lib("pyroute2"), exc, consent,
    )  # fmt: skip
