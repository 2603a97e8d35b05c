# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action maintenance_lock: exclude other runs of this controller. Its documentation is in the module of this name."""

from __future__ import annotations

import datetime
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import FabricError
from ..modules.maintenance_lock import ARGUMENT_SPEC
from ..plugin_utils._maintenance_lock import hold


class ActionModule(ActionBase):
    """The action of this file."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Write the run to the file; fail while another run holds it."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        path = os.path.expanduser(arguments["path"])
        since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            # A task runs in a child of ansible-playbook.
            hold(path, os.getppid(), since, self._task.check_mode)
        except FabricError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        result.update(changed=False, path=path)
        return result
