# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action node_reboot: Ansible's own reboot, with progress. Its documentation is in the module of this name."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.reboot import ActionModule as Reboot

from ..plugin_utils._progress import at_most, clock, progress


class ActionModule(Reboot):
    """The action of this file."""

    _VALID_ARGS = frozenset(("reboot_timeout", "msg"))

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Reboot the host, and return what ansible.builtin.reboot returns."""
        text = position(task_vars or {}) + at_most(self._task.args, "reboot_timeout")
        if not self._task.check_mode:
            self._display.display("%s %s" % (clock(0), text), stderr=True)
        with progress(self._display, text):
            result: dict[str, t.Any] = super().run(tmp, task_vars)
        return result


def position(variables: t.Mapping[str, t.Any]) -> str:
    """Return which of the hosts of the play is rebooting."""
    name, names = variables.get("inventory_hostname"), list(variables.get("ansible_play_hosts_all", ()))
    place = " (node %d of %d)" % (names.index(name) + 1, len(names)) if name in names else ""
    return "%s%s: rebooting" % (name, place)


__all__ = ("ActionModule", "position")
