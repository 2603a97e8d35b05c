# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a ResourceClaimTemplate asks for (resource.k8s.io/v1): requests, and what their devices must have in common."""

from __future__ import annotations

import typing as t

from .._errors import FabricError


class TemplateError(FabricError):
    """An object is not what the API server would take for a ResourceClaimTemplate."""


class Ask(t.NamedTuple):
    """Devices of one class; a request has one of these, or several of which the first that fits is taken."""

    device_class: str
    # CEL, each of which must be true of a device.
    selectors: tuple[str, ...]
    # None: all that there are (allocationMode All).
    number: int | None
    tolerations: tuple[t.Mapping[str, t.Any], ...] = ()


class Request(t.NamedTuple):
    """One request of a claim, by the name that constraints and configurations use."""

    name: str
    asks: tuple[Ask, ...]


class Constraint(t.NamedTuple):
    """An attribute that all devices of some requests have the same value of, or no two of them."""

    # Empty: all requests.
    requests: tuple[str, ...]
    attribute: str
    distinct: bool

    def concerns(self, request: str) -> bool:
        # A subrequest is written REQUEST/SUBREQUEST.
        return not self.requests or any(name.partition("/")[0] == request for name in self.requests)


class Config(t.NamedTuple):
    """Parameters for the driver of some requests' devices."""

    requests: tuple[str, ...]
    driver: str
    parameters: t.Mapping[str, t.Any]


class Template(t.NamedTuple):
    """A ResourceClaimTemplate, or a ResourceClaim, by its requests."""

    namespace: str
    name: str
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    configs: tuple[Config, ...]

    @property
    def key(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def _ask(raw: t.Mapping[str, t.Any]) -> Ask:
    selectors = [str((row.get("cel") or {}).get("expression") or "") for row in raw.get("selectors") or []]
    number = None if raw.get("allocationMode") == "All" else int(raw.get("count") or 1)
    return Ask(str(raw.get("deviceClassName") or ""), tuple(selectors), number, tuple(raw.get("tolerations") or []))


def _request(raw: t.Mapping[str, t.Any], key: str) -> Request:
    name = str(raw.get("name") or "")
    rows = [raw["exactly"]] if raw.get("exactly") else raw.get("firstAvailable") or []
    if not name or not rows:
        raise TemplateError(
            "Reading the template %s: request %s has neither exactly nor firstAvailable, which resource.k8s.io/v1 "
            "wants. Before v1, the fields of exactly stood in the request itself" % (key, name or "without a name")
        )
    return Request(name, tuple(_ask(row) for row in rows))


def read(raw: t.Mapping[str, t.Any], namespace: str = "default") -> Template:
    """Return a template from an object of the API, of kind ResourceClaimTemplate or ResourceClaim."""
    meta = raw.get("metadata") or {}
    spec = raw.get("spec") or {}
    # A template has the claim's specification in its own; in a list, objects have no kind.
    spec = spec.get("spec") or spec
    place = str(meta.get("namespace") or namespace)
    key = "%s/%s" % (place, meta.get("name"))
    devices = spec.get("devices") or {}
    requests = tuple(_request(row, key) for row in devices.get("requests") or [])
    constraints = tuple(
        Constraint(
            tuple(row.get("requests") or []),
            str(row.get("matchAttribute") or row.get("distinctAttribute")),
            not row.get("matchAttribute"),
        )
        for row in devices.get("constraints") or []
    )
    configs = tuple(
        Config(tuple(row.get("requests") or []), str(opaque.get("driver")), opaque.get("parameters") or {})
        for row in devices.get("config") or []
        for opaque in [row.get("opaque")]
        if opaque
    )
    return Template(place, str(meta.get("name")), requests, constraints, configs)


__all__ = ("Ask", "Config", "Constraint", "Request", "Template", "TemplateError", "read")
