# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Objects of AWX by their names: looked up all together, compared, then created and changed."""

from __future__ import annotations

import functools
import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .client import AwxError, Client, Object
from .kinds import (
    APART,
    ENCRYPTED,
    KINDS,
    ORDERED,
    TITLES,
    Entry,
    coerce,
    comparable,
    hide,
    payload,
    same,
    same_survey,
    text,
)
from .workflow import Nodes

# Fields that make AWX fetch a project again (Project.save in awx/main/models/projects.py).
_FETCHED_BY = frozenset(("scm_type", "scm_url", "scm_branch", "scm_refspec", "credential"))


class Plan:
    """The desired objects, and those of the controller."""

    def __init__(self, client: Client, params: t.Mapping[str, t.Any]) -> None:
        self.client = client
        self.update_secrets: bool = params["update_secrets"]
        self.project_timeout: int = params["project_timeout"]
        self.secrets: dict[str, dict[str, t.Any]] = params["notification_secrets"] or {}
        self.hidden = {value for fields in self.secrets.values() for value in fields.values() if isinstance(value, str)}
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.entries: dict[tuple[str, str], Entry] = {}
        self.others: dict[tuple[tuple[str, ...], str, int | None], Entry] = {}
        self.nodes: dict[str, Nodes] = {}
        objects: dict[str, t.Any] = params["objects"]
        for kind in KINDS:
            for desired in objects.get(kind) or []:
                self._enter(kind, desired)
        for name in self.secrets:
            if ("notification_templates", name) not in self.entries:
                self.problems.append(
                    "notification_secrets has %s, which is not a notification template in objects" % name
                )
        for entry in self.entries.values():
            self._resolve(entry)

    def _enter(self, kind: str, desired: Object) -> None:
        name = desired.get("name")
        if not name or not isinstance(name, str):
            self.problems.append("one of the %s has no name" % kind)
        elif (kind, name) in self.entries:
            self.problems.append("%s %s is listed twice" % (TITLES[kind], name))
        else:
            entry = Entry(kind, name)
            entry.fields = {key: coerce(key, value) for key, value in desired.items() if key not in APART}
            entry.survey = desired.get("survey_spec")
            if kind == "notification_templates" and name in self.secrets:
                configuration = entry.fields.get("notification_configuration") or {}
                entry.fields["notification_configuration"] = {**configuration, **self.secrets[name]}
            if "workflow_nodes" in desired:
                self.nodes[name] = Nodes(entry, desired["workflow_nodes"])
            self.entries[kind, name] = entry

    def _resolve(self, entry: Entry) -> None:
        """Find what an object refers to, and the object itself."""
        kind = KINDS[entry.kind]
        for field, kinds in kind.refs.items():
            if field in entry.fields:
                name = entry.fields.pop(field)
                entry.refs[field] = self.find(entry, kinds, name) if name else None
        for field, other_kind in kind.lists.items():
            if field in entry.fields:
                others = [self.find(entry, (other_kind,), name) for name in entry.fields.pop(field)]
                entry.lists[field] = [other for other in others if other]
        if entry.kind == "workflow_job_templates" and entry.name in self.nodes:
            self.nodes[entry.name].resolve(self)
        query: dict[str, t.Any] = {"name": entry.name}
        if kind.scope:
            scope = entry.refs.get(kind.scope)
            if scope is None:
                # A missing scope is already reported.
                if kind.scope not in entry.refs:
                    self.problems.append("%s has no %s" % (entry, kind.scope))
                return
            if scope.id is None:
                return
            query[kind.scope] = scope.id
        has = self.client.every(entry.kind + "/", "Looking for the %s" % entry, **query)
        entry.live = has[0] if has else None

    def find(self, entry: Entry, kinds: tuple[str, ...], name: str) -> Entry | None:
        """Return the object that ``entry`` names: a desired one, else one of the controller."""
        for kind in kinds:
            if (kind, name) in self.entries:
                return self.entries[kind, name]
        organization = entry.refs.get("organization")
        place = organization.id if organization else None
        key = (kinds, name, place)
        if key not in self.others:
            candidates = [
                (kind, live)
                for kind in kinds
                for live in self.client.every(kind + "/", "Looking for the %s %s" % (TITLES[kind], name), name=name)
                if place is None or live.get("organization") in (None, place)
            ]
            if len(candidates) != 1:
                self.problems.append(
                    "%s refers to the %s %s, and the controller has %s"
                    % (
                        entry,
                        " or ".join(TITLES[kind] for kind in kinds),
                        name,
                        "%d of that name" % len(candidates) if candidates else "none of that name",
                    )
                )
                return None
            kind, live = candidates[0]
            self.others[key] = Entry(kind, name, live)
        return self.others[key]

    def look_at_projects(self) -> None:
        """Find what AWX would refuse, or what would make every job fail, before anything is changed."""
        for entry in self.entries.values():
            organization = entry.refs.get("organization")
            if (
                entry.kind == "projects"
                and organization
                and organization.live
                and not organization.lists.get("galaxy_credentials")
                and not self.client.every(
                    organization.live["url"] + "galaxy_credentials/", "Looking at the %s" % organization
                )
            ):
                # galaxy_creds_are_defined in RunProjectUpdate, awx/main/tasks/jobs.py.
                self.warnings.append(
                    "The %s has no Galaxy credential, and without one AWX installs no collections for its projects, "
                    "not even from the project itself: jobs will not find the roles" % organization
                )
            project = entry.refs.get("project")
            if (
                entry.kind == "job_templates"
                and project
                and project.live
                and not _FETCHED_BY.intersection(self.differing(project))
            ):
                has = self.client.get(project.live["url"] + "playbooks/", "Reading the playbooks of the %s" % project)
                if entry.fields.get("playbook") not in has:
                    self.problems.append(
                        "%s: AWX's copy of the %s has no playbook %s. Update the project in AWX, or correct the name"
                        % (entry, project, entry.fields.get("playbook"))
                    )

    def differing(self, entry: Entry) -> list[str]:
        """Return the fields of an object that differ."""
        live = entry.live
        if live is None:
            return sorted([*entry.fields, *entry.refs])
        differ = [
            key for key, value in entry.fields.items() if not same(key, live.get(key), value, self.update_secrets)
        ]
        differ += [
            key for key, ref in entry.refs.items() if live.get(key) != (ref.id if ref else None) or self._new(ref)
        ]
        return sorted(differ)

    @staticmethod
    def _new(entry: Entry | None) -> bool:
        return entry is not None and entry.id is None

    # --- what is to be done -------------------------------------------------------------------------------------

    def decide(self, entry: Entry, decision: Decision) -> list[Object]:
        """Add the changes of one object to the decision, and return its entries for ``resources``."""
        count = len(decision.actions)
        desired: Object = {**entry.fields, **{key: ref.name if ref else None for key, ref in entry.refs.items()}}
        differ = self.differing(entry)
        before: Object = {}
        if entry.live is None:
            doing = "Create %s" % entry
            decision.add(doing, functools.partial(self._create, entry, doing))
        else:
            for key in desired:
                has = entry.name_of(key) if key in entry.refs else comparable(key, entry.live.get(key), desired[key])
                before[key] = has if key in differ else desired[key]
            if differ:
                doing = "Change %s: %s" % (entry, ", ".join(differ))
                decision.add(doing, functools.partial(self._change, entry, differ, doing))
        resources = self._hidden_secrets(entry)
        parts: Object = {field: self._decide_list(entry, field, decision) for field in entry.lists}
        desired.update({field: [other.name for other in entry.lists[field]] for field in entry.lists})
        if entry.survey is not None:
            desired["survey_spec"] = entry.survey
            parts["survey_spec"] = self._decide_survey(entry, decision)
        if entry.kind == "workflow_job_templates" and entry.name in self.nodes:
            desired["workflow_nodes"] = self.nodes[entry.name].shape()
            parts["workflow_nodes"] = self.nodes[entry.name].decide(self.client, decision)
        changes = len(decision.actions) > count
        desired = hide(desired, self.hidden)
        live = hide({**before, **parts}, self.hidden) if entry.live is not None else None
        if changes:
            decision.show(str(entry), text(live or {}), text(desired))
        kind = "awx_" + TITLES[entry.kind].replace(" ", "_")
        status = DRIFT if changes else IN_SYNC
        return [resource(kind, entry.name, desired=desired, live=live, status=status), *resources]

    def _hidden_secrets(self, entry: Entry) -> list[Object]:
        """Return an entry for every secret that the controller has and does not show."""
        if entry.kind != "notification_templates" or entry.live is None or self.update_secrets:
            return []
        live = entry.live.get("notification_configuration") or {}
        return [
            resource("awx_notification_secret", "%s %s" % (entry.name, key), desired=None, status=UNKNOWN)
            for key in sorted(self.secrets.get(entry.name, {}))
            if live.get(key) == ENCRYPTED
        ]

    def _body(self, entry: Entry, fields: t.Iterable[str]) -> Object:
        body: Object = {}
        for key in fields:
            if key in entry.refs:
                ref = entry.refs[key]
                body[key] = ref.id if ref else None
            else:
                body[key] = payload(key, entry.fields[key])
        return body

    def _create(self, entry: Entry, doing: str) -> None:
        body = self._body(entry, [*entry.fields, *entry.refs])
        self._accept(entry, body, self.client.call("POST", entry.kind + "/", doing, body), doing)

    def _change(self, entry: Entry, fields: list[str], doing: str) -> None:
        body = self._body(entry, fields)
        if "notification_configuration" in body:
            # AWX replaces it as a whole; its own placeholder keeps the old value.
            body["notification_configuration"] = {
                **entry.there["notification_configuration"],
                **body["notification_configuration"],
            }
        self._accept(entry, body, self.client.call("PATCH", entry.there["url"], doing, body), doing)

    def _accept(self, entry: Entry, body: Object, answer: Object, doing: str) -> None:
        """Check that the controller took every field: it ignores unknown ones."""
        entry.live = answer
        mismatches = sorted(key for key, value in body.items() if not same(key, answer.get(key), value))
        if mismatches:
            raise AwxError(
                "%s: the controller accepted the request, but these fields differ from the requested values: %s. Check "
                "that its version of AWX has these fields"
                % (doing, ", ".join("%s is %r" % (key, answer.get(key)) for key in mismatches))
            )
        if entry.kind == "projects" and _FETCHED_BY.intersection(body):
            self.client.wait_for_project(answer["url"], doing, self.project_timeout)

    def _decide_list(self, entry: Entry, field: str, decision: Decision) -> list[str]:
        """Return the names in one of an object's lists."""
        desired = entry.lists[field]
        live: list[Object] = []
        if entry.live is not None:
            live = self.client.every(entry.there["url"] + field + "/", "Reading %s of the %s" % (field, entry))
        have = [item["id"] for item in live]
        want = [other.id for other in desired]
        if have == want or (field not in ORDERED and set(have) == set(want)):
            return [other.name for other in desired]
        keep = set() if field in ORDERED else set(have) & set(want)
        # AWX takes one machine credential only: the old one must be removed first.
        for item in live:
            if item["id"] not in keep:
                doing = "Remove %s from the %s of the %s" % (item["name"], field, entry)
                decision.add(doing, functools.partial(self._associate, entry, field, doing, item["id"], True))
        for other in desired:
            if other.id is None or other.id not in keep:
                doing = "Add %s to the %s of the %s" % (other.name, field, entry)
                decision.add(doing, functools.partial(self._associate, entry, field, doing, other, False))
        return [item["name"] for item in live]

    def _associate(self, entry: Entry, field: str, doing: str, other: Entry | int, remove: bool) -> None:
        body: Object = {"id": other.id if isinstance(other, Entry) else other}
        if remove:
            body["disassociate"] = True
        self.client.call("POST", entry.there["url"] + field + "/", doing, body)

    def _decide_survey(self, entry: Entry, decision: Decision) -> t.Any:
        live = None
        if entry.live is not None:
            live = self.client.get(entry.live["url"] + "survey_spec/", "Reading the survey of the %s" % entry)
            if same_survey(live, entry.survey or {}):
                return entry.survey
        doing = "Write the survey of the %s" % entry
        decision.add(doing, functools.partial(self._write_survey, entry, doing))
        return live

    def _write_survey(self, entry: Entry, doing: str) -> None:
        self.client.call("POST", entry.there["url"] + "survey_spec/", doing, entry.survey)


def manage(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Return what the module awx_objects returns."""
    client = Client(params)
    plan = Plan(client, params)
    if not plan.problems:
        plan.look_at_projects()
    if plan.problems:
        raise AwxError("Nothing was changed on %s: %s" % (client.host, "; ".join(plan.problems)))
    decision = Decision()
    resources = [row for entry in plan.entries.values() for row in plan.decide(entry, decision)]
    if not check_mode:
        decision.carry_out()
    return {**decision.result(), "resources": resources, "warnings": plan.warnings}


__all__ = ("Plan", "manage")
