# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""ResourceClaimTemplates for the rails of a plan: the same rails as attachments, given out by a DRA driver."""

from __future__ import annotations

import json
import typing as t

from .._rails.ports import RailsError, RailsTypeError, brief
from .dranet import DRIVER
from .slices import ROOT

DOING = "claim the rails"
_SHAPE: dict[str, t.Any] = {
    "name": "",
    "rails": [],
    "gpus": 0,
    "gpu_class": "gpu.nvidia.com",
    "align": ROOT,
    "parameters": {},
}

Rail = t.Mapping[str, t.Any]
Object = t.Dict[str, t.Any]


class ClaimsError(RailsError):
    """No templates can be made of the rails and shapes."""


class Options(t.NamedTuple):
    """The options of the filter rail_claims."""

    shapes: t.Any = None
    namespace: str = "default"
    device_class: str = "dranet"
    parameters: t.Any = None


def plan(rails: t.Any, options: Options) -> dict[str, t.Any]:
    """Return templates, for each rail under its name and for each shape of pods, and what dranet may publish."""
    if not isinstance(rails, t.Sequence) or isinstance(rails, str):
        raise RailsTypeError("Could not %s: the input must be the rails of a plan, not %s" % (DOING, brief(rails)))
    known = {str(rail["name"]): rail for rail in rails}
    shapes: list[Object] = [{**_SHAPE, "name": name, "rails": [name]} for name in known]
    shapes += [_shape(shape, known) for shape in options.shapes or ()]
    names = [shape["name"] for shape in shapes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ClaimsError(
            "Could not %s: %s is the name of more than one template; each rail has one of its own. Choose another name"
            % (DOING, ", ".join(twice))
        )
    templates = [_template(shape, known, options) for shape in shapes]
    return {"templates": templates, "filter": _filter(list(known.values()))}


def _filter(rails: t.Sequence[Rail]) -> str:
    """Return the expression by which dranet publishes rails and nothing else (its option --filter).

    By itself it offers every network device of the host but the one with the default route, to whoever may create a
    claim. A card that a pod has is published without a name, and cannot be given out.
    """
    tests = []
    for rail in rails:
        name, value = _place(rail)
        attribute = json.dumps("%s/%s" % (DRIVER, name))
        tests.append("%s in attributes && attributes[%s].StringValue == %s" % (attribute, attribute, json.dumps(value)))
    absent = " && ".join('!("%s/%s" in attributes)' % (DRIVER, name) for name in ("ifName", "rdmaDevice"))
    return " || ".join([*tests, absent] if any("ifName" in test for test in tests) else tests or ["false"])


def _place(rail: Rail) -> tuple[str, str]:
    """Return the attribute by which a rail is found, without its domain, and the value."""
    key, value = next(iter(rail["selector"].items()))
    names = {"device": "ifName", "pciBusID": "pciAddress"}
    if key not in names:
        raise ClaimsError(
            "Could not %s: the rail %s is chosen by the resource %s of a device plugin, which a claim cannot name. "
            "Leave resources empty, so that rails are found by their network devices" % (DOING, rail["name"], value)
        )
    return names[key], str(value)


def _shape(shape: t.Any, known: t.Mapping[str, Rail]) -> Object:
    if not isinstance(shape, t.Mapping) or not shape.get("name"):
        raise ClaimsError("Could not %s: a shape is a dictionary with a name, and this is %s" % (DOING, brief(shape)))
    odd = sorted(set(shape) - set(_SHAPE))
    if odd:
        raise ClaimsError(
            "Could not %s: the shape %s has %s; it can have %s"
            % (DOING, shape["name"], ", ".join(odd), ", ".join(_SHAPE))
        )
    whole = {**_SHAPE, **shape, "rails": list(shape.get("rails") or known)}
    missing = [str(name) for name in whole["rails"] if name not in known]
    if missing:
        raise ClaimsError(
            "Could not %s: the shape %s has %s, which the plan has no rail of (there are: %s)"
            % (DOING, shape["name"], ", ".join(missing), ", ".join(known) or "none")
        )
    return whole


def _selector(rail: Rail) -> str:
    """Return the expression that selects a rail's device, and only while its RDMA device is there too.

    What dranet publishes of a device lacks ifName and rdma while a pod has it. An expression without an answer ends the
    whole allocation, so each attribute is asked for first.
    """
    name, value = _place(rail)
    of_device = "device.attributes[%s]" % json.dumps(DRIVER)
    return "has(%s.%s) && %s.%s == %s && has(%s.rdma) && %s.rdma" % (
        of_device,
        name,
        of_device,
        name,
        json.dumps(value),
        of_device,
        of_device,
    )


def _beside(names: t.Sequence[str], gpus: int) -> dict[str, list[str]]:
    """Return the GPUs of each rail: as many to each as there are, in their order."""
    return {
        name: ["gpu%d" % number for number in range(gpus) if number * len(names) // gpus == place]
        for place, name in enumerate(names)
    }


def _template(shape: t.Mapping[str, t.Any], known: t.Mapping[str, Rail], options: Options) -> Object:
    names, gpus = shape["rails"], int(shape["gpus"])
    requests = [
        {
            "name": name,
            "exactly": {
                "deviceClassName": options.device_class,
                "selectors": [{"cel": {"expression": _selector(known[name])}}],
            },
        }
        for name in names
    ]
    requests += [{"name": "gpu%d" % n, "exactly": {"deviceClassName": shape["gpu_class"]}} for n in range(gpus)]
    devices: Object = {"requests": requests}
    if gpus and shape["align"]:
        beside = _beside(names, gpus)
        devices["constraints"] = [
            {"requests": [name, *beside[name]], "matchAttribute": shape["align"]} for name in names if beside[name]
        ]
    parameters = {**(options.parameters or {}), **shape["parameters"]}
    if parameters:
        devices["config"] = [{"requests": list(names), "opaque": {"driver": DRIVER, "parameters": parameters}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": str(shape["name"]), "namespace": options.namespace},
        "spec": {"spec": {"devices": devices}},
    }


__all__ = ("ClaimsError", "Options", "plan")
