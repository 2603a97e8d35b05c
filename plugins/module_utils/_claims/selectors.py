# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The expressions by which classes and requests select devices, evaluated by cel-python (https://cel.dev)."""

from __future__ import annotations

import re
import typing as t

from .slices import Device

# device.attributes["dra.net"].ifName
_MENTION = re.compile(r"""attributes\s*\[\s*["']([^"']+)["']\s*\]\s*\.\s*(\w+)""")


class Undecided(Exception):
    """An expression that cannot be evaluated here: the scheduler may know what it says."""


class Aborts(Exception):
    """An expression with no answer for a device: the scheduler then gives up the whole claim (CELDeviceSelector)."""


class Evaluate(t.Protocol):
    """Tells whether an expression is true of a device; raises Undecided or Aborts."""

    def __call__(self, expression: str, device: Device, /) -> bool: ...


def mentioned(expression: str) -> list[str]:
    """Return the attributes that an expression reads, by their qualified names."""
    return list(dict.fromkeys("%s/%s" % pair for pair in _MENTION.findall(expression)))


class Evaluator:
    """Evaluates with cel-python; every expression is compiled once, and answered once for devices that are alike."""

    def __init__(self) -> None:
        import celpy.adapter
        import celpy.celparser
        import celpy.celtypes
        import celpy.evaluation

        class Domains(celpy.celtypes.MapType):
            """Attributes by domain: the scheduler sees a domain that a device has none of as an empty one."""

            def __getitem__(self, key: t.Any) -> t.Any:
                return super().__getitem__(key) if key in self else celpy.celtypes.MapType()

        self._celpy = celpy
        self._domains = Domains
        self._environment = celpy.Environment()
        self._programs: dict[str, t.Any] = {}
        self._answers: dict[t.Any, bool | Exception] = {}

    def __call__(self, expression: str, device: Device) -> bool:
        names = mentioned(expression)
        # Where the expression reads attributes in another way, only the same device is alike.
        whole = expression.count("attributes") != len(_MENTION.findall(expression)) or "capacity" in expression
        known = (device.key, device.node) if whole else tuple(device.attributes.get(name) for name in names)
        # True and 1 are equal in Python.
        alike = (expression, device.driver, repr(known))
        if alike not in self._answers:
            try:
                self._answers[alike] = self._evaluate(expression, device)
            except (Undecided, Aborts) as exc:
                self._answers[alike] = exc
        answer = self._answers[alike]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _evaluate(self, expression: str, device: Device) -> bool:
        program = self._program(expression)
        domains: dict[str, dict[str, t.Any]] = {}
        for name, value in device.attributes.items():
            domain, _slash, field = name.partition("/")
            domains.setdefault(domain, {})[field] = value
        to_cel = self._celpy.adapter.json_to_cel
        attributes = self._domains({to_cel(key): to_cel(values) for key, values in domains.items()})
        activation = self._celpy.celtypes.MapType(
            {to_cel("driver"): to_cel(device.driver), to_cel("attributes"): attributes}
        )
        try:
            answer = program.evaluate({"device": activation})
        except self._celpy.evaluation.CELEvalError as exc:
            text = str(exc.args[0]) if exc.args else ""
            if text.startswith(("no such key", "no such member")):
                raise Aborts("it has no attribute %s" % self._absent(expression, device)) from exc
            raise Undecided(text) from exc
        if not isinstance(answer, (bool, self._celpy.celtypes.BoolType)):
            raise Aborts("the answer is not true or false")
        return bool(answer)

    def _program(self, expression: str) -> t.Any:
        if expression not in self._programs:
            try:
                self._programs[expression] = self._environment.program(self._environment.compile(expression))
            except self._celpy.celparser.CELParseError as exc:
                raise Undecided("cel-python does not read it") from exc
        return self._programs[expression]

    @staticmethod
    def _absent(expression: str, device: Device) -> str:
        return next((name for name in mentioned(expression) if name not in device.attributes), "of that name")


__all__ = ("Aborts", "Evaluate", "Evaluator", "Undecided", "mentioned")
