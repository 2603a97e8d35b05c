# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action image_build: run the module of this name, and show progress."""

from __future__ import annotations

import typing as t

from ..plugin_utils._progress import WaitingAction, at_most


class ActionModule(WaitingAction):
    """The action of this file."""

    def doing(self, arguments: t.Mapping[str, t.Any]) -> str:
        """Return what the module does, and for how long at most."""
        return "building image %s%s" % (arguments.get("name"), at_most(arguments, "timeout"))
