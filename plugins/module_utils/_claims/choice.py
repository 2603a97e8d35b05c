# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which devices of a node a request can have, and if none, why."""

from __future__ import annotations

import typing as t

from .selectors import Aborts, Evaluate, Undecided, mentioned
from .slices import Device, Taint
from .template import Ask

SHOWN = 4


class Problem(t.NamedTuple):
    """Why a claim has no solution on a node; ``known`` is false where only the scheduler can say."""

    code: str
    text: str
    remedy: str
    known: bool = True


class Choice(t.NamedTuple):
    """The devices that satisfy a request's selectors, or why there are none."""

    devices: tuple[Device, ...]
    problem: Problem | None


class Surroundings(t.NamedTuple):
    """What claims are checked against."""

    # Name to the expressions of a DeviceClass.
    classes: t.Mapping[str, tuple[str, ...]]
    evaluate: Evaluate
    # Who has a device, by driver, pool and name.
    held: t.Mapping[tuple[str, str, str], str]
    # Drivers that publish devices on any node.
    drivers: tuple[str, ...]


def some(rows: t.Iterable[t.Any]) -> str:
    """Return the first few of a list, and how many more there are."""
    texts = list(dict.fromkeys(str(row) for row in rows))
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (" and %d more" % more if more > 0 else "")


def _tolerated(taint: Taint, tolerations: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    for row in tolerations:
        equal = row.get("operator") == "Exists" or str(row.get("value") or "") == taint.value
        if row.get("key") in (None, "", taint.key) and row.get("effect") in (None, "", taint.effect) and equal:
            return True
    return False


class _Sorting:
    """Sorts devices by the answers of some expressions."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.hidden: list[tuple[Device, str]] = []

    def sort(self, devices: t.Iterable[Device], expressions: t.Iterable[str]) -> tuple[Device, ...]:
        """Return the devices of which all expressions are true. Raises Undecided and Aborts."""
        texts = list(expressions)
        return tuple(device for device in devices if all(self._true(text, device) for text in texts))

    def _true(self, expression: str, device: Device) -> bool:
        holder = self.around.held.get(device.key)
        absent = [name for name in mentioned(expression) if name not in device.attributes]
        try:
            answer = self.around.evaluate(expression, device)
        except Aborts as exc:
            # The scheduler leaves out devices that are in use before it looks at them.
            if not holder:
                raise Aborts("for the device %s, %s" % (device.name, exc)) from exc
            answer = False
        if not answer and holder and absent:
            self.hidden.append((device, absent[0]))
        return answer


def choose(request: str, ask: Ask, devices: t.Sequence[Device], around: Surroundings) -> Choice:
    """Return what a request can have of the devices of a node."""
    if ask.device_class not in around.classes:
        have = some(sorted(around.classes)) or "none"
        return _none(
            "class_missing",
            "request %s: there is no DeviceClass %s (there are: %s)" % (request, ask.device_class, have),
            "Correct deviceClassName, or install the driver that brings the class",
        )
    sorting = _Sorting(around)
    try:
        of_class = sorting.sort(devices, around.classes[ask.device_class])
        matching = sorting.sort(of_class, ask.selectors)
    except Aborts as exc:
        return _none(
            "expression_aborts",
            "request %s: an expression has no answer: %s; the scheduler gives up the whole claim then" % (request, exc),
            'Test for the attribute first, as in has(device.attributes["DOMAIN"].NAME) && ...',
        )
    except Undecided as exc:
        return _none(
            "expression_unknown",
            "request %s: an expression cannot be evaluated here (%s)" % (request, exc),
            "The scheduler decides when the first pod comes",
            known=False,
        )
    fit = tuple(device for device in matching if all(_tolerated(taint, ask.tolerations) for taint in device.taints))
    if fit:
        return Choice(fit, None)
    if sorting.hidden:
        return _in_use(request, sorting.hidden[0], around)
    if matching:
        taints = some("%s (%s)" % (device.name, device.taints[0]) for device in matching)
        return _none(
            "device_tainted",
            "request %s: what it could have is tainted: %s" % (request, taints),
            "Remove the taint when its cause is, or add a toleration to the request",
        )
    if of_class:
        return _unselected(request, ask, of_class)
    return _no_device(request, ask, devices, around)


def _none(code: str, text: str, remedy: str, *, known: bool = True) -> Choice:
    return Choice((), Problem(code, text, remedy, known))


def _in_use(request: str, hidden: tuple[Device, str], around: Surroundings) -> Choice:
    device, attribute = hidden
    return _none(
        "device_in_use",
        "request %s: the claim %s has the device %s, of which %s publishes no %s meanwhile"
        % (request, around.held[device.key], device.name, device.driver, attribute),
        "Check again when that pod is gone",
        known=False,
    )


def _unselected(request: str, ask: Ask, devices: t.Sequence[Device]) -> Choice:
    names = list(dict.fromkeys(name for text in ask.selectors for name in mentioned(text)))
    values = []
    for name in names:
        have = some(device.attributes[name] for device in devices if name in device.attributes)
        values.append("%s is %s" % (name, have) if have else "none has %s" % name)
    return _none(
        "none_selected",
        "request %s: its selectors are true of none of the %d devices of class %s%s"
        % (request, len(devices), ask.device_class, " (%s)" % "; ".join(values) if values else ""),
        "Correct the selectors, or the node",
    )


def _no_device(request: str, ask: Ask, devices: t.Sequence[Device], around: Surroundings) -> Choice:
    drivers = some(sorted({device.driver for device in devices})) or "none"
    elsewhere = some(name for name in around.drivers if name not in {device.driver for device in devices})
    return _none(
        "driver_missing",
        "request %s: no device is of class %s; the drivers with devices are: %s%s"
        % (request, ask.device_class, drivers, " (on other nodes: %s)" % elsewhere if elsewhere else ""),
        "Install the driver of that class, or look at the log of its pod on the node",
    )


__all__ = ("SHOWN", "Choice", "Problem", "Surroundings", "choose", "some")
