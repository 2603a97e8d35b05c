# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action run_check: find mistakes before anything is done. Its documentation is in the module of this name."""

from __future__ import annotations

import os
import typing as t

from ansible import context
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ..modules.run_check import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._run_check.hosts import Inventory, file_mistakes, group_mistakes
from ..plugin_utils._run_check.known import load
from ..plugin_utils._run_check.message import message
from ..plugin_utils._run_check.tags import tag_mistakes
from ..plugin_utils._run_check.values import listed
from ..plugin_utils._run_check.variables import FOREIGN, Judge, Variables

Json = t.Dict[str, t.Any]

OWN = "rdmaops.gpu_fabric."

display = Display()


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Keep the variables of the task, and return the result."""
        self._task_vars = task_vars or {}
        return super().run(tmp, task_vars)

    def act(self, arguments: Json) -> Json:
        """Check the run, and fail with everything that is wrong."""
        everything = set(self._task_vars["groups"]["all"])
        inventory = Inventory(
            groups=self._task_vars["groups"],
            sources=list(self._task_vars.get("ansible_inventory_sources") or ()),
            hosts=[host for host in self._task_vars["ansible_play_hosts_all"] if host in everything],
            limit=self._task_vars.get("ansible_limit") or "",
        )
        hostvars = self._task_vars["hostvars"]
        variables = Variables(
            raw={host: hostvars.raw_get(host) for host in inventory.hosts},
            value=lambda host, name: hostvars[host][name],
            extra=load_extra_vars(self._loader),
            play=self._task.get_play().vars,
        )
        foreign = variables.foreign()
        sentences = self._tags(arguments["tags"])
        found = group_mistakes(inventory, arguments["groups"], arguments["other_groups"], foreign)
        found += file_mistakes(inventory, foreign)
        judge = Judge(load(), variables, inventory)
        # Where there are no hosts, no variable of theirs can be missing.
        sentences += found + judge.sentences([] if found else arguments["required"])
        if judge.unknown:
            display.warning(
                "No role of rdmaops.gpu_fabric has a variable %s, although the name begins as those of a role do. "
                "List what is meant for something else in %s." % (listed(sorted(judge.unknown), "or", 6), FOREIGN)
            )
        if sentences:
            return {"failed": True, "msg": message(sentences)}
        return {"changed": False, "unknown": sorted(judge.unknown)}

    def _tags(self, tags: t.Sequence[str]) -> list[str]:
        """Return mistakes in tags, if a playbook of this collection was started and not another that imports it."""
        started = [self._own_name(str(name)) for name in context.CLIARGS.get("args") or ()]
        if not started or not all(started):
            return []
        chosen, skipped = (self._task_vars.get(name) or () for name in ("ansible_run_tags", "ansible_skip_tags"))
        return tag_mistakes(listed(filter(None, started)), tags, list(chosen), list(skipped))

    def _own_name(self, playbook: str) -> str | None:
        """Return the name of one of our playbooks, as given on the command line."""
        if playbook.startswith(OWN):
            return playbook[len(OWN) :]
        path = os.path.realpath(playbook)
        # The directory of the playbook with this task.
        if os.path.dirname(path) == os.path.realpath(self._task_vars["playbook_dir"]):
            return os.path.splitext(os.path.basename(path))[0]
        return None


__all__ = ("ActionModule",)
