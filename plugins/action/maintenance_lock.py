# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action maintenance_lock: exclude other runs of this controller. Its documentation is in the module of this name."""

from __future__ import annotations

import datetime
import os
import typing as t

from ..modules.maintenance_lock import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._maintenance_lock import hold


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Write the run to the file; fail while another run holds it."""
        path = os.path.expanduser(arguments["path"])
        since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        # A task runs in a child of ansible-playbook.
        hold(path, os.getppid(), since, self._task.check_mode)
        return {"changed": False, "path": path}
