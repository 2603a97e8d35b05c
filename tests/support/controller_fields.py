# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the objects of AWX 24.6.1 have: fields and defaults of its serializers, as far as anything here uses them.

A field that is not here is ignored by controller.py, as AWX ignores what it does not know.
"""

from __future__ import annotations

import typing as t

Json = t.Dict[str, t.Any]

_NAMED: Json = {"name": None, "description": ""}
_PROMPTS: tuple[str, ...] = (
    "scm_branch",
    "diff_mode",
    "variables",
    "limit",
    "tags",
    "skip_tags",
    "job_type",
    "verbosity",
    "inventory",
)
_PROMPTS += ("credential", "execution_environment", "labels", "forks", "job_slice_count", "timeout", "instance_groups")

# Fields with their defaults; None: required, REF: another object or null, NEEDED: another object.
REF, NEEDED = ("ref",), ("needed",)
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
        "organization": REF,
        "credential": REF,
        "default_environment": REF,
        "signature_validation_credential": REF,
        "scm_type": "",
        "scm_url": "",
        "scm_branch": "",
        "scm_refspec": "",
        "scm_clean": False,
        "scm_track_submodules": False,
        "scm_delete_on_update": False,
        "scm_update_on_launch": False,
        "scm_update_cache_timeout": 0,
        "allow_override": False,
        "timeout": 0,
    },
    "inventories": {
        **_NAMED,
        "organization": NEEDED,
        "kind": "",
        "variables": "",
        "prevent_instance_group_fallback": False,
    },
    "inventory_sources": {
        **_NAMED,
        "inventory": NEEDED,
        "source": None,
        "source_path": "",
        "source_vars": "",
        "source_project": REF,
        "credential": REF,
        "execution_environment": REF,
        "scm_branch": "",
        "enabled_var": "",
        "enabled_value": "",
        "host_filter": "",
        "limit": "",
        "overwrite": False,
        "overwrite_vars": False,
        "timeout": 0,
        "verbosity": 1,
        "update_on_launch": False,
        "update_cache_timeout": 0,
    },
    "job_templates": {
        **_NAMED,
        "job_type": "run",
        "inventory": REF,
        "project": NEEDED,
        "execution_environment": REF,
        "playbook": "",
        "scm_branch": "",
        "forks": 0,
        "limit": "",
        "verbosity": 0,
        "extra_vars": "",
        "job_tags": "",
        "skip_tags": "",
        "start_at_task": "",
        "force_handlers": False,
        "timeout": 0,
        "use_fact_cache": False,
        "become_enabled": False,
        "diff_mode": False,
        "allow_simultaneous": False,
        "job_slice_count": 1,
        "survey_enabled": False,
        "prevent_instance_group_fallback": False,
        **{f"ask_{name}_on_launch": False for name in _PROMPTS},
    },
    "workflow_job_templates": {
        **_NAMED,
        "organization": REF,
        "inventory": REF,
        "limit": "",
        "scm_branch": "",
        "extra_vars": "",
        "allow_simultaneous": False,
        "survey_enabled": False,
        **{
            f"ask_{name}_on_launch": False
            for name in _PROMPTS
            if name in ("scm_branch", "variables", "limit", "inventory", "labels", "tags", "skip_tags")
        },
    },
    "workflow_job_template_nodes": {
        "identifier": "",
        "workflow_job_template": NEEDED,
        "unified_job_template": REF,
        "inventory": REF,
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
}
NEEDS.update(email=("host", "recipients"), pagerduty=("token", "service_key", "subdomain", "client_name"))

__all__ = ["EDGES", "FIELDS", "LISTS", "NEEDED", "NEEDS", "PASSWORDS", "REF", "RELATED", "UNIFIED", "UNIQUE"]
