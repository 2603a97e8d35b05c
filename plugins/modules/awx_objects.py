#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_objects
short_description: Manage a set of AWX objects as code
version_added: 0.1.0
description:
  - Creates and changes projects, inventories, templates, workflows and schedules of AWX from one data structure, in one module process.
  - Objects refer to each other, and to objects that already exist on the controller, by name. Names are looked up, and everything wrong with them is reported,
    before anything is changed. So check mode works on a controller that has none of the objects yet.
  - Only the fields that are given are compared and written. Objects that are not given are left alone, and nothing is deleted except nodes of a workflow.
  - The module waits for a new or changed project, because AWX rejects a job template whose playbook it has not fetched.
  - Credentials are referenced and never created. Create them in AWX by other means.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - AWX does not return secrets. They are written with a new notification template, and later only with O(update_secrets=true), which always counts as a
        change.
  platform:
    support: full
    platforms: posix
notes:
  - Written for the API of AWX 24.6.1, version 2. Tested against a recorded controller, not against AWX itself.
options:
  objects:
    description:
      - The objects by kind. Each is a dictionary of fields as in the AWX API, with names instead of the numeric IDs of the API.
      - A field that AWX stores as text, such as C(extra_vars), C(source_vars) and C(variables), is given as a dictionary.
    type: dict
    required: true
    suboptions:
      organizations:
        description: Organizations. C(galaxy_credentials) lists names of credentials, in order.
        type: list
        elements: dict
      execution_environments:
        description: Execution environments, with C(image), and C(pull) of V(always), V(missing) or V(never).
        type: list
        elements: dict
      notification_templates:
        description: Notification templates, each with C(organization), C(notification_type) and C(notification_configuration).
        type: list
        elements: dict
      projects:
        description: Projects, each with C(organization), C(scm_type), C(scm_url), and C(scm_branch) and C(credential) if needed.
        type: list
        elements: dict
      inventories:
        description: Inventories, each with C(organization).
        type: list
        elements: dict
      inventory_sources:
        description: Inventory sources, each with C(inventory), C(source), C(source_project) and C(source_path).
        type: list
        elements: dict
      job_templates:
        description:
          - Job templates, each with C(organization), which is that of the project, C(project), C(inventory) and C(playbook).
          - C(credentials), C(notification_templates_started), C(notification_templates_success) and C(notification_templates_error) list names. Anything else
            in these lists on the controller is removed.
          - C(survey_spec) is the survey, with C(name), C(description) and C(spec).
        type: list
        elements: dict
      workflow_job_templates:
        description:
          - Workflows, each with C(organization).
          - C(workflow_nodes) lists the nodes, each with an C(identifier), either C(unified_job_template), which names a template, or C(approval), with C(name),
            C(description) and C(timeout) in seconds, and C(success_nodes), C(failure_nodes) and C(always_nodes), which list identifiers.
          - Nodes that are not given are deleted.
        type: list
        elements: dict
      schedules:
        description: Schedules, each with C(unified_job_template), which names a template, and C(rrule).
        type: list
        elements: dict
  notification_secrets:
    description:
      - For each notification template, by name, the keys and values of its C(notification_configuration) that must stay secret, such as C(token), C(password)
        or a C(url) that contains a secret.
      - They appear neither in the diff nor in the result.
    type: dict
    default: {}
  update_secrets:
    description: Whether to write secrets that AWX does not return, even though they may be unchanged.
    type: bool
    default: false
  project_timeout:
    description: How long AWX may take to fetch a new or changed project, in seconds.
    type: int
    default: 300
  controller_host:
    description:
      - URL of the controller, such as V(https://awx.example.org).
      - If this option and the following ones are not set, E(CONTROLLER_HOST), E(CONTROLLER_OAUTH_TOKEN), E(CONTROLLER_USERNAME), E(CONTROLLER_PASSWORD) and
        E(CONTROLLER_VERIFY_SSL) are used, or the same with E(TOWER_HOST) and so on. AWX sets them for a job that has an AWX credential.
    type: str
    required: true
  controller_oauthtoken:
    description: Token with write scope.
    type: str
  controller_username:
    description: User name, if no token is used.
    type: str
  controller_password:
    description: Password of the user.
    type: str
  validate_certs:
    description: Whether to verify the controller's certificate.
    type: bool
    default: true
  ca_path:
    description: File with the CA certificates used to verify it.
    type: path
  request_timeout:
    description: How long to wait for one response of the controller, in seconds.
    type: int
    default: 30
"""

EXAMPLES = r"""
---
- name: Create a nightly job template
  rdmaops.gpu_fabric.awx_objects:
    controller_host: https://awx.example.org
    controller_oauthtoken: "{{ vaulted_token }}"
    objects:
      projects:
        - name: site
          organization: Default
          scm_type: git
          scm_url: https://git.example.org/site.git
      inventories:
        - name: site
          organization: Default
      job_templates:
        - name: site drift
          organization: Default
          project: site
          inventory: site
          playbook: playbooks/drift.yml
          job_type: check
          diff_mode: true
          credentials: [nodes]
      schedules:
        - name: nightly
          unified_job_template: site drift
          rrule: DTSTART:20260101T020000Z RRULE:FREQ=DAILY;INTERVAL=1
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: ["Create project site", "Add nodes to the credentials of the job template site drift"]
resources:
  description:
    - State of each object before anything was done, as the drift report reads it. C(live) is null for an object that does not exist.
    - A secret that AWX does not return is a separate object with the status C(unknown).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: awx_schedule
      name: nightly
      status: in_sync
      desired: {unified_job_template: site drift, rrule: "DTSTART:20260101T020000Z RRULE:FREQ=DAILY;INTERVAL=1"}
      configured: null
      live: {unified_job_template: site drift, rrule: "DTSTART:20260101T020000Z RRULE:FREQ=DAILY;INTERVAL=1"}
      next_boot: null
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._awx.client import CONNECTION, secrets
from ..module_utils._awx.kinds import KINDS
from ..module_utils._awx.objects import manage
from ..module_utils._errors import FabricError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION,
            "objects": {
                "type": "dict",
                "required": True,
                "options": {kind: {"type": "list", "elements": "dict"} for kind in KINDS},
            },
            "notification_secrets": {"type": "dict", "default": {}, "no_log": True},
            # A name that Ansible would take for that of a secret.
            "update_secrets": {"type": "bool", "default": False, "no_log": False},
            "project_timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(secrets(module.params))
    try:
        result = manage(module.params, module.check_mode)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
