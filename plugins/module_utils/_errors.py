# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The root of the collection's own errors, so that a module can catch those of utils it has not imported yet.

A message of a module names options. Whoever runs a role sets variables, and reads the same message: a module that ends
with an error names both.
"""

from __future__ import annotations

import re
import typing as t


class FabricError(Exception):
    """Something could not be done or read.

    The text says what, to what, what the system answered, and what unblocks it.
    """


# The options of a connection that every role takes from one place.
API = {
    "kubeconfig": "kubernetes_api_kubeconfig (or the role's own, such as node_maintenance_kubeconfig)",
    "context": "kubernetes_api_context (or the role's own, such as training_job_context)",
}
# Of options that messages name.
VARIABLES: dict[str, dict[str, str]] = {
    "cluster_objects": {
        "adopt": "secondary_network_on_foreign (take_over)",
        "force_conflicts": "training_job_force_conflicts",
    },
    "cni_install": {"on_foreign": "secondary_network_on_foreign"},
    "gpu_operator": {
        "chart_checksum": "gpu_operator_chart_checksum",
        "chart_repo_url": "gpu_operator_chart_repo_url",
        "chart_version": "gpu_operator_chart_version",
        "create_namespace": "gpu_operator_create_namespace",
        "disrupt": "gpu_operator_disrupt_ok",
        "helm_binary": "gpu_operator_helm_binary",
        "on_pending": "gpu_operator_on_pending",
        "on_pruned": "gpu_operator_on_pruned",
        "on_unknown_value": "gpu_operator_on_unknown_value",
        "pending_age": "gpu_operator_pending_age",
        "timeout": "gpu_operator_timeout",
        "upgrade_crds": "gpu_operator_upgrade_crds",
        "wait_timeout": "gpu_operator_wait_timeout",
    },
    "host_rails": {"on_conflict": "gpu_node_rails_take_over"},
    "modprobe_options": {"on_conflict": "gpu_node_on_conflict"},
    "network_attachment": {"ignore_lint": "secondary_network_ignore_lint"},
    "node_drain": {
        "control_plane_ok": "node_maintenance_control_plane_ok",
        "delete_emptydir_data": "node_maintenance_delete_emptydir_data",
        "drain_timeout": "node_maintenance_drain_timeout",
        "evict_gpu_pods": "node_maintenance_evict_gpu_pods",
        "force": "node_maintenance_force",
        "lease_namespace": "node_maintenance_lease_namespace",
        "max_unavailable": "node_maintenance_max_unavailable",
        "missing_ok": "node_maintenance_missing_ok",
        "ready_timeout": "node_maintenance_ready_timeout",
    },
    "rdma_mode_conflict_info": {"on_conflict": "gpu_node_on_conflict"},
    "rdma_system": {"on_absent": "gpu_node_on_absent", "on_conflict": "gpu_node_on_conflict"},
}
# An option of one word is meant only where a message calls it one: "set disrupt", "raise timeout", "(force)".
_CALLED = r"(?:\b(?:[Oo]ptions?|[Ss]et|[Rr]aise) |\()%s\b"


def in_roles(module: str, message: str) -> str:
    """Return a message of a module with the variables of roles behind it, for the options that it names."""
    variables = {**API, **VARIABLES.get(module.rpartition(".")[2], {})}
    named = [
        "%s is %s" % (option, variable)
        for option, variable in sorted(variables.items())
        if re.search(r"\b%s\b" % option if "_" in option else _CALLED % option, message)
    ]
    return "%s. In roles: %s." % (message.rstrip(". "), ", ".join(named)) if named else message


def fail(module: t.Any, exc: Exception, **result: t.Any) -> t.NoReturn:
    """End a module with what is wrong."""
    module.fail_json(msg=in_roles(module._name, str(exc)), **result)
    raise AssertionError("fail_json returned")


__all__ = ("API", "VARIABLES", "FabricError", "fail", "in_roles")
