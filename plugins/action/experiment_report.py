# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action experiment_report: a run beside others, on the controller. Its documentation is in the module of this name."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.utils.display import Display

from ..module_utils._errors import FabricError
from ..module_utils._files import read_text
from ..module_utils._formats import json_dictionary
from ..modules.experiment_report import ARGUMENT_SPEC, NAME
from ..plugin_utils._action import ControllerAction
from ..plugin_utils._experiment import run
from ..plugin_utils._experiment.page import page, table

SCHEMA = 1

display = Display()


class ActionModule(ControllerAction):
    """The action of this file."""

    ARGUMENT_SPEC = ARGUMENT_SPEC

    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Write the result and the page, and show the table."""
        validate(arguments)
        directory = self._loader.path_dwim(arguments["directory"])
        path = os.path.join(directory, arguments["name"])
        former = _read_result(path + ".json")
        try:
            current = run.of_fabric(arguments["fabric"]) if arguments["job"] is None else run.of_job(arguments["job"])
        except FabricError as exc:
            raise FabricError("Experiment %s: %s" % (arguments["name"], exc)) from exc
        again = former.get("run") == current
        result = {
            "schema": SCHEMA,
            "name": arguments["name"],
            "title": arguments["title"],
            "document": arguments["document"],
            "run": current,
            "earlier": former.get("earlier") if again else former.get("run"),
        }
        others = {name: _read_result(os.path.join(directory, name + ".json")) for name in arguments["beside"]}
        present = {name: other for name, other in others.items() if other}
        texts = {
            path + ".json": json.dumps(result, indent=1, allow_nan=False) + "\n",
            path + ".html": page(result, present),
        }
        changed = [file for file, text in texts.items() if self.write_report(file, text)]
        if not self._task.no_log:
            display.display(table(result, present))
        missing = sorted(set(others) - set(present))
        message = "Experiment %s: %s" % (arguments["name"], path + ".html")
        if missing:
            message += "; not beside it, as they have no result yet: %s" % ", ".join(missing)
        return {"changed": bool(changed), "msg": message, "files": changed, "result": result}


def validate(arguments: t.Mapping[str, t.Any]) -> None:
    """Raises FabricError for invalid names, and for unknown numbers and details of a document."""
    for name in (arguments["name"], *arguments["beside"]):
        if not NAME.match(name):
            raise FabricError(
                "Experiment %r: the name is part of a file name, and may only have letters, digits, dots, dashes and"
                " underscores, and begins with a letter or a digit" % name
            )
    if (arguments["job"] is None) == (arguments["fabric"] is None):
        raise FabricError("Experiment %s: exactly one of job and fabric is required" % arguments["name"])
    document = arguments["document"] or {"numbers": {}, "details": {}}
    for option, known in (("numbers", run.NUMBERS), ("details", run.DETAILS)):
        unknown = sorted(set(document[option]) - set(known))
        if unknown:
            raise FabricError(
                "Experiment %s: document.%s has %s, which is not measured; known are %s"
                % (arguments["name"], option, ", ".join(unknown), ", ".join(known))
            )
    wrong = sorted(key for key, value in document["numbers"].items() if not run.is_number(value))
    if wrong:
        raise FabricError(
            "Experiment %s: document.numbers has a value that is not a number for %s"
            % (arguments["name"], ", ".join(wrong))
        )


def _read_result(path: str) -> dict[str, t.Any]:
    """Return a former result, an empty one if there is none."""
    result = json_dictionary(read_text(path))
    return result if result.get("schema") == SCHEMA else {}


__all__ = ("ActionModule", "validate")
