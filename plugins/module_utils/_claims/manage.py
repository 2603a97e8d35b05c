# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The templates of a cluster, checked against the devices that its nodes publish."""

from __future__ import annotations

import typing as t

from .._decision import DRIFT, IN_SYNC, UNKNOWN, resource
from .._errors import FabricError
from .._kubernetes.client import path
from . import lint
from .choice import Surroundings
from .selectors import Aborts, Evaluate, Evaluator, Undecided
from .slices import Device, in_use, published, tainted
from .template import Template, read

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client, Object

API = "resource.k8s.io/v1"
_STATUS = {lint.POSSIBLE: IN_SYNC, lint.IMPOSSIBLE: DRIFT, lint.UNKNOWN: UNKNOWN}


class ClaimError(FabricError):
    """A template can never be satisfied; ``result`` is what the module returns in addition to the message."""

    def __init__(self, text: str, result: dict[str, t.Any]) -> None:
        super().__init__(text)
        self.result = result


def evaluator() -> Evaluate:
    """Return what evaluates expressions; without the library, nothing is known of any."""
    try:
        return Evaluator()
    except ImportError:
        return _without_library


def _without_library(_expression: str, _device: Device) -> bool:
    raise Undecided("the Python library cel-python is missing on this host: pip install cel-python")


def _list(client: Client, plural: str) -> list[Object]:
    rows = client.items(path(API, plural), "Listing the %s" % plural)
    if rows is None:
        raise FabricError(
            "Listing the %s: the API server has no %s, which is there since Kubernetes 1.34. With an older one, pods "
            "get their devices by NetworkAttachmentDefinitions" % (plural, API)
        )
    return rows


def _classes(rows: t.Iterable[Object]) -> dict[str, tuple[str, ...]]:
    return {
        str(row["metadata"]["name"]): tuple(
            str((selector.get("cel") or {}).get("expression") or "")
            for selector in (row.get("spec") or {}).get("selectors") or []
        )
        for row in rows
    }


def look(
    client: Client, templates: t.Sequence[Template], nodes: t.Sequence[str] = (), classes: t.Iterable[Object] = ()
) -> tuple[list[lint.Result], list[dict[str, t.Any]]]:
    """Return what is known of templates on nodes (all that publish devices), and what could not be looked at."""
    slices = _list(client, "resourceslices")
    names = nodes or sorted({row["spec"]["nodeName"] for row in slices if row["spec"].get("nodeName")})
    found = published(slices, names)
    evaluate = evaluator()
    # Stable since 1.37; an older server has none.
    rules = client.items(path(API, "devicetaintrules"), "Listing the devicetaintrules") or []
    unknown = [{"node": node or None, "what": what} for node, rows in found.unknown.items() for what in rows]
    devices, undecided = tainted(found.nodes, rules, lambda text, device: _answer(evaluate, text, device))
    unknown += [{"node": None, "what": what} for what in undecided]
    around = Surroundings(
        {**_classes(_list(client, "deviceclasses")), **_classes(classes)},
        evaluate,
        in_use(_list(client, "resourceclaims")),
        tuple(sorted({str(row["spec"]["driver"]) for row in slices})),
    )
    return [lint.check(template, devices, around) for template in templates], unknown


def manage(params: t.Mapping[str, t.Any], _check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Check templates against nodes. Return what the module returns; raise ClaimError where no node fits one."""
    given: list[Object] = params["templates"] or _list(client, "resourceclaimtemplates")
    templates = [read(raw, params["namespace"]) for raw in given]
    results, unknown = look(client, templates, params["nodes"], params["device_classes"])
    return _result(params, templates, results, unknown)


def _answer(evaluate: Evaluate, expression: str, device: Device) -> bool | None:
    try:
        return evaluate(expression, device)
    except Aborts:
        return False
    except Undecided:
        return None


def _result(
    params: t.Mapping[str, t.Any],
    templates: t.Sequence[Template],
    results: t.Sequence[lint.Result],
    unknown: list[dict[str, t.Any]],
) -> dict[str, t.Any]:
    findings = [finding for result in results for finding in result.findings]
    returned = {
        "changed": False,
        "templates": [
            {"template": result.template, "status": result.status, "nodes": result.nodes} for result in results
        ],
        "lint": [{**finding._asdict(), "nodes": list(finding.nodes)} for finding in findings],
        "unknown": unknown,
        "resources": [
            resource(
                "resource_claim_template",
                result.template,
                desired="a node with devices for it",
                live=result.status,
                status=_STATUS[result.status],
            )
            for result in results
        ],
    }
    errors = [finding for finding in findings if finding.level == "error"]
    if errors and params["on_impossible"] == "fail":
        more = "" if len(errors) == 1 else " And %d more, in lint" % (len(errors) - 1)
        raise ClaimError("Checking %d claim templates: %s%s" % (len(templates), errors[0], more), returned)
    return returned


__all__ = ("API", "ClaimError", "evaluator", "look", "manage")
