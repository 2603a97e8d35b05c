# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action kubernetes_plan: decide on the controller. Its documentation is in the module of this name."""

from __future__ import annotations

import textwrap
import typing as t

from ansible.utils.display import Display

from ..modules.kubernetes_plan import ARGUMENT_SPEC
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._drift.diff import diff_text
from ..plugin_utils._drift.text import printable
from ..plugin_utils._kubernetes.plan import Options, plan, sentence
from ..plugin_utils._terminal import BAD, WIDTH, Line, fitting, show

# Characters of a diff that are shown.
MAX_DIFF = 20000

display = Display()

RETURNED = ("problems", "differences", "certificates", "resources", "diff")
# Lines of problems on the terminal, and characters of the message.
MAX_LINES = 40
MAX_MESSAGE = 500


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Make the plan, and show what prevents it."""
        options = Options(
            source=arguments["source"],
            ignore=arguments["ignore_preflight_errors"],
            avoid=arguments["avoid"],
            least_mib=arguments["min_memory_mib"],
            on_difference=arguments["on_difference"],
            renew=arguments["certificates_renew"],
            renew_before_days=arguments["certificates_renew_before"],
            group=arguments["control_plane"],
            reset_consent=arguments["reset_consent"],
        )
        decision = plan(arguments["nodes"], arguments["settings"], options)
        result = {name: decision[name] for name in RETURNED}
        result.update(changed=False, plan={name: value for name, value in decision.items() if name not in RETURNED})
        if options.on_difference == "report":
            result["warnings"] = [sentence(row) for row in decision["differences"]]
        # Ansible shows diffs only of tasks that change something, and this one never does.
        shown = diff_text(decision["diff"], MAX_DIFF) if self._task.diff and not self._task.no_log else None
        if shown:
            display.display(shown)
        if decision["problems"]:
            result["msg"] = refusal(decision["problems"])
            if not self._task.no_log:
                show(display, problem_lines(decision["problems"]))
        return result


def problem_lines(problems: t.Sequence[str]) -> list[Line]:
    """Return what prevents the plan as lines for the terminal, and the number of the problems left out."""

    def wrap(problem: str) -> list[str]:
        return textwrap.wrap(printable(problem), WIDTH, initial_indent="  * ", subsequent_indent="    ", max_lines=4)

    rows = fitting(problems, wrap, MAX_LINES, "  and %d more")
    return [Line("What prevents a cluster of these hosts:", BAD), *map(Line, rows)]


def refusal(problems: t.Sequence[str]) -> str:
    """Return what prevents the plan as one message: all of it if it is short, else the first problem."""
    head = "Creating a cluster of these hosts: nothing was changed. "
    texts = [problem.rstrip(".") for problem in problems]
    if len("; ".join(texts)) <= MAX_MESSAGE:
        return head + "; ".join(texts)
    return head + "%d problems; first: %s" % (len(texts), textwrap.shorten(texts[0], MAX_MESSAGE, placeholder=" ..."))


__all__ = ("ActionModule", "problem_lines", "refusal")
