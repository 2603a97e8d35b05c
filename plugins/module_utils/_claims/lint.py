# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Whether any node has devices for a claim, in words, before a pod waits for them for ever."""

from __future__ import annotations

import itertools
import typing as t

from . import dranet
from .choice import Choice, Problem, Surroundings, choose, some
from .slices import COMMON, ROOT, Device
from .solve import Slot, TooMany, most, same, solve
from .template import Ask, Constraint, Request, Template

POSSIBLE, IMPOSSIBLE, UNKNOWN = "possible", "impossible", "unknown"
# Ways to answer requests with alternatives (firstAvailable) that are tried on a node.
_WAYS = 64


# The devices of a node for each request, by its alternatives.
Choices = t.Mapping[str, t.Sequence[t.Tuple[Ask, Choice]]]


class Finding(t.NamedTuple):
    """One sentence about a template, and the nodes that it is true of; none: of the template by itself."""

    level: str
    code: str
    template: str
    nodes: tuple[str, ...]
    problem: str
    remedy: str

    def __str__(self) -> str:
        return "%s, %s: %s. %s" % (self.code, self.template, self.problem.rstrip("."), self.remedy.rstrip("."))


class Result(t.NamedTuple):
    """What is known of a template: its status on every node, and all of it together."""

    template: str
    status: str
    nodes: dict[str, str]
    findings: list[Finding]


def check(template: Template, nodes: t.Mapping[str, t.Sequence[Device]], around: Surroundings) -> Result:
    """Check a template against the devices of nodes."""
    choices = {name: _choices(template, devices, around) for name, devices in nodes.items()}
    problems = {name: _node(template, devices, choices[name]) for name, devices in nodes.items()}
    statuses = {
        name: POSSIBLE if problem is None else IMPOSSIBLE if problem.known else UNKNOWN
        for name, problem in problems.items()
    }
    found = set(statuses.values())
    status = next((value for value in (POSSIBLE, UNKNOWN, IMPOSSIBLE) if value in found), UNKNOWN)
    findings = _configs(template, list(choices.values()))
    for problem, names in _grouped(problems):
        level = "error" if status == IMPOSSIBLE else "warning"
        where = "on %s of %d nodes (%s), " % (len(names), len(nodes), some(names))
        remedy = problem.remedy if problem.known else "Unknown until then: " + problem.remedy
        findings.append(Finding(level, problem.code, template.key, names, where + problem.text, remedy))
    return Result(template.key, status, statuses, findings)


def _grouped(problems: t.Mapping[str, Problem | None]) -> list[tuple[Problem, tuple[str, ...]]]:
    groups: dict[Problem, list[str]] = {}
    for name, problem in problems.items():
        if problem is not None:
            groups.setdefault(problem, []).append(name)
    return [(problem, tuple(names)) for problem, names in groups.items()]


def _choices(template: Template, devices: t.Sequence[Device], around: Surroundings) -> Choices:
    return {
        request.name: [(ask, choose(request.name, ask, devices, around)) for ask in request.asks]
        for request in template.requests
    }


def _node(template: Template, devices: t.Sequence[Device], choices: Choices) -> Problem | None:
    """Return why a node cannot satisfy a template, or None if it can."""
    for request in template.requests:
        problem = _impossible(request, choices[request.name])
        if problem is not None:
            return problem
    listed = next((name for name in _attributes(template) if _is_list(name, devices)), None)
    if listed:
        return Problem(
            "attribute_list",
            "the attribute %s has several values, which are not compared here" % listed,
            "The scheduler decides when the first pod comes",
            known=False,
        )
    possible = [
        [(request.name, ask, choice) for ask, choice in choices[request.name] if choice.devices]
        for request in template.requests
    ]
    first: list[Slot] | None = None
    for number, way in enumerate(itertools.product(*possible)):
        if number >= _WAYS:
            return _given_up()
        slots = _slots(way)
        first = slots if first is None else first
        try:
            if solve(slots, template.constraints) is not None:
                return None
        except TooMany:
            return _given_up()
    return _why(template, first or [])


def _attributes(template: Template) -> list[str]:
    return list(dict.fromkeys(constraint.attribute for constraint in template.constraints))


def _is_list(name: str, devices: t.Sequence[Device]) -> bool:
    return any(isinstance(device.attributes.get(name), tuple) for device in devices)


def _impossible(request: Request, choices: t.Sequence[tuple[Ask, Choice]]) -> Problem | None:
    """Return the problem of a request of which no alternative has a device."""
    problems = [choice.problem for _ask, choice in choices if choice.problem is not None]
    if len(problems) < len(request.asks):
        return None
    return next((problem for problem in problems if not problem.known), problems[0])


def _slots(way: t.Sequence[tuple[str, Ask, Choice]]) -> list[Slot]:
    slots = []
    for name, ask, choice in way:
        if ask.number is None:
            slots += [Slot(name, (device,)) for device in choice.devices]
        else:
            slots += [Slot(name, choice.devices)] * ask.number
    return slots


def _given_up() -> Problem:
    return Problem(
        "undecided",
        "there are too many ways to give it its devices, and none of those tried is one",
        "The scheduler decides when the first pod comes",
        known=False,
    )


def _why(template: Template, slots: t.Sequence[Slot]) -> Problem:
    """Return why requests that each have devices have no solution together."""
    short = _short(slots)
    if short is not None:
        return short
    for constraint in template.constraints:
        bound = [slot for slot in slots if constraint.concerns(slot.request)]
        if solve(bound, [constraint]) is None:
            return _split(constraint, bound, template, slots)
    return _together(template, slots)


def _short(slots: t.Sequence[Slot]) -> Problem | None:
    """Return which requests ask for more devices than there are for them."""
    if most(slots) == len(slots):
        return None
    for slot in slots:
        devices = {device.key: device.name for device in slot.devices}
        # Who can have nothing else than these.
        asked = [other for other in slots if all(device.key in devices for device in other.devices)]
        if len(asked) > len(devices):
            names = list(dict.fromkeys(other.request for other in asked))
            verb = "ask" if len(names) > 1 else "asks"
            text = "%s %s for %d devices, and %d match: %s"
            text %= (_requests(names), verb, len(asked), len(devices), some(devices.values()))
            return Problem("too_few_devices", text, "Ask for fewer, or find out what became of the others")
    return Problem("too_few_devices", "there are fewer devices than the requests ask for", "Ask for fewer")


def _requests(names: t.Sequence[str]) -> str:
    return "%s %s" % ("requests" if len(names) > 1 else "request", some(names))


def _split(constraint: Constraint, bound: t.Sequence[Slot], template: Template, slots: t.Sequence[Slot]) -> Problem:
    """Return the problem of a constraint that has no solution by itself."""
    name = constraint.attribute
    for slot in bound:
        if not any(name in device.attributes for device in slot.devices):
            return Problem(
                "attribute_missing",
                "no device of request %s has the attribute %s (driver %s)"
                % (slot.request, name, some(device.driver for device in slot.devices)),
                _instead(template, slots, constraint.attribute, "Leave the constraint out, or take another driver"),
            )
    values = {
        slot.request: some(device.attributes[name] for device in slot.devices if name in device.attributes)
        for slot in bound
    }
    have = "; ".join("%s has %s" % row for row in list(values.items())[:2])
    return Problem(
        "same_value" if constraint.distinct else "split",
        "%s cannot have %s %s: %s"
        % (_requests(list(values)), "different values of" if constraint.distinct else "one value of", name, have),
        _instead(template, slots, constraint.attribute, "Ask for devices that sit together"),
    )


def _together(template: Template, slots: t.Sequence[Slot]) -> Problem:
    """Return the problem of constraints that have a solution each, and none together."""
    names = _attributes(template)
    parts = []
    for name in names:
        mine = [constraint for constraint in template.constraints if constraint.attribute == name]
        groups = [[slot for slot in slots if constraint.concerns(slot.request)] for constraint in mine]
        whole = set.intersection(*[_values(name, group) for group in groups]) if groups else set()
        parts.append(
            "%d constraints on %s, for which %d values have devices of all their requests (%s)"
            % (len(mine), name, len(whole), some(sorted(whole)) or "none")
        )
    return Problem(
        "too_few_together",
        "each constraint has a solution, and all of them together have none: %s" % "; ".join(parts),
        _instead(template, slots, names[0], "Ask for fewer pairs in one pod"),
    )


def _values(name: str, slots: t.Sequence[Slot]) -> set[str]:
    """Return the values of an attribute that devices of every slot have."""
    sets = [{str(device.attributes[name]) for device in slot.devices if name in device.attributes} for slot in slots]
    return set.intersection(*sets) if sets else set()


def _instead(template: Template, slots: t.Sequence[Slot], attribute: str, otherwise: str) -> str:
    """Name an attribute that could take the place of one that has no solution."""
    failed = [constraint for constraint in template.constraints if constraint.attribute == attribute]
    if any(constraint.distinct for constraint in failed):
        return otherwise
    for name in _shared(slots, failed):
        constraints = [
            constraint._replace(attribute=name) if constraint in failed else constraint
            for constraint in template.constraints
        ]
        try:
            if solve(slots, constraints) is not None:
                return "With matchAttribute %s there is a solution, where that is close enough. %s" % (name, otherwise)
        except TooMany:
            continue
    return otherwise + "; no other attribute that they share has a solution"


def _shared(slots: t.Sequence[Slot], failed: t.Sequence[Constraint]) -> list[str]:
    """Return attributes that some device of every slot of the constraints has, the nearest first.

    One of which no two devices have the same value says nothing about their places.
    """
    bound = [slot for slot in slots if any(constraint.concerns(slot.request) for constraint in failed)]
    names = set.intersection(*[{name for device in slot.devices for name in device.attributes} for slot in bound])
    devices = list({device.key: device for slot in bound for device in slot.devices}.values())
    telling = []
    for name in names:
        values = [device.attributes[name] for device in devices if name in device.attributes]
        if len({repr(value) for value in values}) > 1 and any(
            same(one, other) for one, other in itertools.combinations(values, 2)
        ):
            telling.append(name)
    return sorted(telling, key=lambda name: (name != ROOT, not name.startswith(COMMON + "/"), name))


def _configs(template: Template, nodes: t.Sequence[Choices]) -> list[Finding]:
    """Return what is wrong with parameters for drivers."""
    findings = []
    for config in template.configs:
        if config.driver == dranet.DRIVER:
            findings += [
                Finding("error", "parameters", template.key, (), problem, "Correct the parameters for dra.net")
                for problem in dranet.problems(config.parameters)
            ]
        wanted = [request for request in template.requests if not config.requests or request.name in config.requests]
        drivers = {
            device.driver
            for request in wanted
            for choices in nodes
            for _ask, choice in choices[request.name]
            for device in choice.devices
        }
        if drivers and config.driver not in drivers:
            problem = "parameters for the driver %s are for %s, whose devices are of %s, which does not read them"
            problem %= (config.driver, _requests([request.name for request in wanted]), some(sorted(drivers)))
            findings.append(
                Finding("error", "wrong_driver", template.key, (), problem, "Name the driver of the devices")
            )
    return findings


__all__ = ("IMPOSSIBLE", "POSSIBLE", "UNKNOWN", "Finding", "Result", "check")
