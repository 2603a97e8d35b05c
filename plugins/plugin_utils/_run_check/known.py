# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""The variables of this collection: those of its roles, and what else begins with their names."""

from __future__ import annotations

import os
import typing as t

from ...module_utils._errors import FabricError
from ...module_utils._files import read_text
from ...module_utils._formats import from_yaml

Json = t.Dict[str, t.Any]

COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))

GROUPS = (
    "gpu_nodes", "kubernetes_api", "kubernetes_control_plane", "image_build", "experiments", "monitoring",
    "switch_telemetry", "awx",
)  # fmt: skip

# Of playbooks, and not of a role.
OF_PLAYBOOKS: dict[str, Json] = {
    "node_maintenance_batch": {"type": "raw"},
    "site_foreign_variables": {"type": "list", "elements": "str", "default": []},
    "teardown_gpu_operator_ok": {"type": "bool", "default": False},
    "teardown_namespaces_ok": {"type": "bool", "default": False},
    "teardown_ok": {"type": "bool", "default": False},
}

# Facts that roles set, and the statistics of drift_verdict, which AWX passes to the next job of a workflow.
FACTS = (
    "drift_counts", "drift_hosts", "drift_message", "drift_report", "drift_verdict", "experiment_result",
    "experiment_results", "fabric_check_verdict", "gpu_node_changes", "gpu_node_mode", "gpu_node_reboot_reason",
    "gpu_node_reboot_required", "gpu_node_reboot_would_help", "gpu_node_runtime_restart_required", "gpu_operator_gpus",
    "gpu_operator_result", "secondary_network_plan", "training_image_check", "training_image_digest",
    "training_image_reference", "training_job_result",
)  # fmt: skip

# What AWX gives each job (awx_meta_vars in awx/main/models/unified_jobs.py and jobs.py, awx/api/views/webhooks.py).
OF_AWX = tuple(
    "awx_" + name
    for name in (
        "execution_node", "inventory_id", "inventory_name", "job_id", "job_launch_type", "job_scm_branch",
        "job_template_id", "job_template_name", "parent_job_schedule_id", "parent_job_schedule_name",
        "project_revision", "project_scm_branch", "schedule_id", "schedule_name", "user_email", "user_first_name",
        "user_id", "user_last_name", "user_name", "webhook_event_guid", "webhook_event_ref", "webhook_event_type",
        "webhook_payload", "webhook_status_api", "workflow_job_id", "workflow_job_launch_type", "workflow_job_name",
        "workflow_job_template_id", "workflow_job_template_name",
    )
)  # fmt: skip


class Known(t.NamedTuple):
    """The names of this collection."""

    # Specifications of variables.
    variables: dict[str, Json]
    # The role of a variable.
    roles: dict[str, str]
    # What variables begin with: the names of roles, with an underscore.
    prefixes: tuple[str, ...]

    def all(self) -> set[str]:
        """Return the names that a host may have."""
        return {*self.variables, *FACTS, *OF_AWX}

    def prefix(self, name: str) -> str:
        """Return what a name begins with: the longest name of a role, else its first word."""
        matching = [prefix for prefix in self.prefixes if name.startswith(prefix)]
        return max(matching, key=len) if matching else name.partition("_")[0] + "_"


def load(directory: str = COLLECTION) -> Known:
    """Read the argument specifications of all roles."""
    variables = dict(OF_PLAYBOOKS)
    roles: dict[str, str] = {}
    place = os.path.join(directory, "roles")
    names = sorted(os.listdir(place))
    for role in names:
        path = os.path.join(place, role, "meta", "argument_specs.yml")
        text = read_text(path)
        if text is None:
            continue
        try:
            entries = from_yaml(text)["argument_specs"]
        except (ValueError, KeyError, TypeError) as exc:
            raise FabricError("Reading the variables of role %s in %s: %s" % (role, path, exc)) from exc
        for entry in entries.values():
            for name, specification in (entry.get("options") or {}).items():
                variables.setdefault(name, specification)
                roles.setdefault(name, role)
    return Known(variables, roles, tuple(name + "_" for name in names))


__all__ = ("COLLECTION", "FACTS", "GROUPS", "Known", "OF_AWX", "OF_PLAYBOOKS", "load")
