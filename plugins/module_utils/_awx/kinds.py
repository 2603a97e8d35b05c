# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The kinds of objects in AWX, how they refer to each other, and when two of them are the same."""

from __future__ import annotations

import json
import typing as t

from .._formats import from_json

# What the API shows instead of a secret (ENCRYPTED_PLACEHOLDER in awx/main/fields.py).
ENCRYPTED = "$encrypted$"
HIDDEN = "********"


class Kind(t.NamedTuple):
    """One kind of object: its path in the API is its name."""

    title: str
    # Fields that hold another object, by the kinds that it may be of.
    refs: dict[str, tuple[str, ...]]
    # Lists of other objects, each under a path of its own.
    lists: dict[str, str]
    # The field within which a name is unique.
    scope: str = ""


def _notifications(*more: str) -> dict[str, str]:
    names = ("started", "success", "error", *more)
    return {"notification_templates_%s" % name: "notification_templates" for name in names}


_ORGANIZATION: dict[str, tuple[str, ...]] = {"organization": ("organizations",)}
_ENVIRONMENT: dict[str, tuple[str, ...]] = {"execution_environment": ("execution_environments",)}
_CREDENTIAL: dict[str, tuple[str, ...]] = {"credential": ("credentials",)}

# In the order in which they can be created.
KINDS: dict[str, Kind] = {
    "organizations": Kind("organization", {}, {"galaxy_credentials": "credentials"}),
    "execution_environments": Kind("execution environment", {**_ORGANIZATION, **_CREDENTIAL}, {}),
    "notification_templates": Kind("notification template", _ORGANIZATION, {}, "organization"),
    "projects": Kind(
        "project",
        {**_ORGANIZATION, **_CREDENTIAL, "default_environment": ("execution_environments",)},
        _notifications(),
        "organization",
    ),
    "inventories": Kind("inventory", _ORGANIZATION, {}, "organization"),
    "inventory_sources": Kind(
        "inventory source",
        {"inventory": ("inventories",), "source_project": ("projects",), **_CREDENTIAL, **_ENVIRONMENT},
        _notifications(),
        "inventory",
    ),
    "job_templates": Kind(
        "job template",
        # AWX takes the organization from the project; it distinguishes two templates of the same name.
        {**_ORGANIZATION, "inventory": ("inventories",), "project": ("projects",), **_ENVIRONMENT},
        {"credentials": "credentials", **_notifications()},
        "organization",
    ),
    "workflow_job_templates": Kind(
        "workflow",
        {**_ORGANIZATION, "inventory": ("inventories",)},
        _notifications("approvals"),
        "organization",
    ),
    "schedules": Kind(
        "schedule",
        {"unified_job_template": ("job_templates", "workflow_job_templates"), "inventory": ("inventories",)},
        {},
        "unified_job_template",
    ),
}

TITLES = {**{name: kind.title for name, kind in KINDS.items()}, "credentials": "credential"}
# Galaxy servers are tried in this order.
ORDERED = frozenset(("galaxy_credentials",))
# Dictionaries that AWX keeps as text, YAML or JSON.
TEXT_FIELDS = frozenset(("extra_vars", "source_vars", "variables"))
NUMBERS = frozenset(
    ("forks", "timeout", "job_slice_count", "verbosity", "update_cache_timeout", "scm_update_cache_timeout")
)
# What is not a field: it is compared and written by itself.
APART = frozenset(("survey_spec", "workflow_nodes"))


class Entry:
    """An object by its name: its desired and its live state."""

    def __init__(self, kind: str, name: str, live: dict[str, t.Any] | None = None) -> None:
        self.kind = kind
        self.name = name
        self.live = live
        self.fields: dict[str, t.Any] = {}
        self.refs: dict[str, Entry | None] = {}
        self.lists: dict[str, list[Entry]] = {}
        self.survey: dict[str, t.Any] | None = None

    def __str__(self) -> str:
        return "%s %s" % (TITLES[self.kind], self.name)

    @property
    def id(self) -> int | None:
        """Return its number, None before it is created."""
        return int(self.live["id"]) if self.live else None

    @property
    def there(self) -> dict[str, t.Any]:
        """Return the live object; only for one that exists."""
        return t.cast("dict[str, t.Any]", self.live)

    def name_of(self, field: str) -> t.Any:
        """Return the name of the object that a field refers to now."""
        summary = (self.there.get("summary_fields") or {}).get(field) or {}
        return summary.get("name", self.there.get(field))


def coerce(field: str, value: t.Any) -> t.Any:
    """Return a field with its type: ansible-core 2.18 turns a number from a template into text."""
    return int(value) if field in NUMBERS and isinstance(value, str) and value.isdigit() else value


def same(field: str, live: t.Any, desired: t.Any, update_secrets: bool = False) -> bool:
    """Return whether a field is as desired, as far as the controller shows it."""
    if live == ENCRYPTED and isinstance(desired, str):
        return not update_secrets
    if field in TEXT_FIELDS and isinstance(live, str) and isinstance(desired, dict):
        return _parsed(live) == desired
    if isinstance(desired, dict) and isinstance(live, dict):
        # AWX adds keys with their defaults.
        return all(key in live and same("", live[key], value, update_secrets) for key, value in desired.items())
    return bool(live == desired)


def same_survey(live: t.Any, desired: t.Mapping[str, t.Any]) -> bool:
    """Return whether a survey is as desired; AWX keeps the order of questions and may add keys to them."""
    if not isinstance(live, dict) or not isinstance(live.get("spec"), list):
        return False
    head = all(live.get(key) == desired[key] for key in ("name", "description"))
    questions = desired["spec"]
    return (
        head
        and len(live["spec"]) == len(questions)
        and all(same("", current, question) for current, question in zip(live["spec"], questions))
    )


def comparable(field: str, live: t.Any, desired: t.Any) -> t.Any:
    """Return a live field in the shape of the desired one."""
    if field in TEXT_FIELDS and isinstance(live, str) and isinstance(desired, dict):
        return _parsed(live)
    if isinstance(desired, dict) and isinstance(live, dict):
        return {key: live[key] for key in desired if key in live}
    return live


def payload(field: str, desired: t.Any) -> t.Any:
    """Return a field as the API takes it."""
    return json.dumps(desired, sort_keys=True) if field in TEXT_FIELDS and isinstance(desired, dict) else desired


def text(fields: t.Mapping[str, t.Any]) -> str:
    """Return fields one per line, for a diff."""
    return "".join("%s: %s\n" % (key, json.dumps(value, sort_keys=True)) for key, value in _flat("", fields))


def _flat(prefix: str, value: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    parts: t.Iterable[tuple[t.Any, t.Any]] = ()
    if isinstance(value, dict):
        parts = sorted(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        parts = enumerate(value)
    if not parts and prefix:
        yield prefix, value
    for key, part in parts:
        yield from _flat("%s.%s" % (prefix, key) if prefix else str(key), part)


def hide(value: t.Any, secrets: t.AbstractSet[str]) -> t.Any:
    """Return a value with the secrets in it hidden."""
    if isinstance(value, dict):
        return {key: hide(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [hide(item, secrets) for item in value]
    # Encrypted values are shown neither before nor after.
    return HIDDEN if value == ENCRYPTED or (isinstance(value, str) and value in secrets) else value


def _parsed(content: str) -> t.Any:
    # An empty one is shown as three dashes.
    if content.strip() in ("", "---", "{}"):
        return {}
    try:
        return from_json(content)
    except ValueError:
        return content


__all__ = (
    "APART",
    "ENCRYPTED",
    "KINDS",
    "ORDERED",
    "TITLES",
    "Entry",
    "Kind",
    "comparable",
    "coerce",
    "hide",
    "same",
    "same_survey",
    "payload",
    "text",
)
