# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the objects of AWX 24.6.1 have: fields and defaults of its serializers, as far as anything here uses them.

A field that is not here is ignored by controller.py, as AWX ignores what it does not know.
"""

from __future__ import annotations

import typing as t

Json = t.Dict[str, t.Any]

_NAMED: Json = {"name": None, "description": ""}
_PROMPTS = (
    "scm_branch", "diff_mode", "variables", "limit", "tags", "skip_tags", "job_type", "verbosity", "inventory",
    "credential", "execution_environment", "labels", "forks", "job_slice_count", "timeout", "instance_groups",
)  # fmt: skip
_PROMPTS_OF_WORKFLOWS = ("scm_branch", "variables", "limit", "inventory", "labels", "tags", "skip_tags")

# Fields with their defaults; None: required, REF: another object or null, NEEDED: another object.
REF, NEEDED = ("ref",), ("needed",)


def _all(default: t.Any, *names: str) -> Json:
    """Return fields that have the same default."""
    return dict.fromkeys(names, default)


FIELDS: dict[str, Json] = {
    "organizations": {**_NAMED, "max_hosts": 0, "default_environment": REF},
    "credential_types": {**_NAMED},
    "credentials": {**_NAMED, "organization": REF, "credential_type": REF},
    "execution_environments": {**_NAMED, "organization": REF, "image": None, "credential": REF, "pull": ""},
    "notification_templates": {
        **_NAMED,
        "organization": NEEDED,
        "notification_type": None,
        "notification_configuration": {},
        "messages": {"started": None, "success": None, "error": None, "workflow_approval": None},
    },
    "projects": {
        **_NAMED,
        **_all(REF, "organization", "credential", "default_environment", "signature_validation_credential"),
        **_all("", "scm_type", "scm_url", "scm_branch", "scm_refspec"),
        **_all(False, "scm_clean", "scm_track_submodules", "scm_delete_on_update", "scm_update_on_launch"),
        "allow_override": False,
        **_all(0, "scm_update_cache_timeout", "timeout"),
    },
    "inventories": {
        **_NAMED,
        "organization": NEEDED,
        **_all("", "kind", "variables"),
        "prevent_instance_group_fallback": False,
    },
    "inventory_sources": {
        **_NAMED,
        "inventory": NEEDED,
        "source": None,
        **_all(REF, "source_project", "credential", "execution_environment"),
        **_all("", "source_path", "source_vars", "scm_branch", "enabled_var", "enabled_value", "host_filter", "limit"),
        **_all(False, "overwrite", "overwrite_vars", "update_on_launch"),
        **_all(0, "timeout", "update_cache_timeout"),
        "verbosity": 1,
    },
    "job_templates": {
        **_NAMED,
        "project": NEEDED,
        **_all(REF, "inventory", "execution_environment"),
        "job_type": "run",
        **_all("", "playbook", "scm_branch", "limit", "extra_vars", "job_tags", "skip_tags", "start_at_task"),
        **_all(0, "forks", "verbosity", "timeout"),
        "job_slice_count": 1,
        **_all(False, "force_handlers", "use_fact_cache", "become_enabled", "diff_mode", "allow_simultaneous"),
        **_all(False, "survey_enabled", "prevent_instance_group_fallback"),
        **_all(False, *(f"ask_{name}_on_launch" for name in _PROMPTS)),
    },
    "workflow_job_templates": {
        **_NAMED,
        **_all(REF, "organization", "inventory"),
        **_all("", "limit", "scm_branch", "extra_vars"),
        **_all(False, "allow_simultaneous", "survey_enabled"),
        **_all(False, *(f"ask_{name}_on_launch" for name in _PROMPTS_OF_WORKFLOWS)),
    },
    "workflow_job_template_nodes": {
        "identifier": "",
        "workflow_job_template": NEEDED,
        **_all(REF, "unified_job_template", "inventory"),
        "extra_data": {},
        "all_parents_must_converge": False,
    },
    "workflow_approval_templates": {**_NAMED, "timeout": 0},
    "schedules": {
        **_NAMED,
        "unified_job_template": NEEDED,
        "inventory": REF,
        "rrule": None,
        "enabled": True,
        "extra_data": {},
    },
}

# Lists of other objects, by the kind of what is in them.
LISTS = {
    "credentials": "credentials",
    "galaxy_credentials": "credentials",
    "success_nodes": "workflow_job_template_nodes",
    "failure_nodes": "workflow_job_template_nodes",
    "always_nodes": "workflow_job_template_nodes",
    **{
        f"notification_templates_{when}": "notification_templates"
        for when in ("started", "success", "error", "approvals")
    },
}
EDGES = ("success_nodes", "failure_nodes", "always_nodes")
# Objects of these kinds have their numbers from one sequence.
UNIFIED = ("projects", "inventory_sources", "job_templates", "workflow_job_templates", "workflow_approval_templates")
UNIQUE = {
    "organizations": (),
    "execution_environments": (),
    "projects": ("organization",),
    "inventories": ("organization",),
    "inventory_sources": ("inventory",),
    "notification_templates": ("organization",),
    "job_templates": ("organization",),
    "workflow_job_templates": ("organization",),
    "schedules": ("unified_job_template",),
}
RELATED = {
    "organization": ("organizations",),
    "credential": ("credentials",),
    "credential_type": ("credential_types",),
    "signature_validation_credential": ("credentials",),
    "default_environment": ("execution_environments",),
    "execution_environment": ("execution_environments",),
    "inventory": ("inventories",),
    "project": ("projects",),
    "source_project": ("projects",),
    "workflow_job_template": ("workflow_job_templates",),
    "unified_job_template": UNIFIED,
}
# Parameters of notifications that are of the type password, awx/main/notifications/*_backend.py.
PASSWORDS = {
    "webhook": ("password",),
    "slack": ("token",),
    "mattermost": (),
    "rocketchat": (),
    "email": ("password",),
    "pagerduty": ("token",),
}
NEEDS = {
    "webhook": ("url", "headers"),
    "slack": ("token", "channels"),
    "mattermost": ("mattermost_url",),
    "rocketchat": ("rocketchat_url",),
    "email": ("host", "recipients"),
    "pagerduty": ("token", "service_key", "subdomain", "client_name"),
}

__all__ = ["EDGES", "FIELDS", "LISTS", "NEEDED", "NEEDS", "PASSWORDS", "REF", "RELATED", "UNIFIED", "UNIQUE"]
