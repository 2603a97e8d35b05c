# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action run_summary: show the nodes at the end of a run. Its documentation is in the module of this name."""

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ..modules.run_summary import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._run_summary.summary import lines, next_steps, node_of
from ..plugin_utils._terminal import show

display = Display()


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Keep the variables, in which roles have left their facts."""
        self._run_variables = task_vars or {}
        return super().run(tmp, task_vars)

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:  # noqa: ARG002
        """Show a line for each node, and what to do next."""
        names = [str(name) for name in self._run_variables["ansible_play_hosts_all"]]
        left = set(map(str, self._run_variables["ansible_play_hosts"]))
        facts = {name: self._run_variables["hostvars"][name] for name in names}
        check_mode = bool(self._task.check_mode)
        # In check mode nothing was measured.
        measured = {} if check_mode else facts
        results = (own["fabric_check_verdict"] for own in measured.values() if "fabric_check_verdict" in own)
        fabric: dict[str, t.Any] = next(results, {})
        verdict = fabric.get("verdict")
        verdicts = {node["name"]: node["verdict"] for node in fabric.get("report", {}).get("nodes", ())}
        nodes = [node_of(name, facts[name], name not in left, verdicts.get(name)) for name in names]
        shown = lines(nodes, check_mode, verdict)
        if not self._task.no_log:
            show(display, shown)
        return {
            "changed": False,
            "summary": [line.text for line in shown],
            "next": next_steps(nodes, check_mode, verdict),
        }


__all__ = ("ActionModule",)
