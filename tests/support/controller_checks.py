# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX 24.6.1 refuses of a value, whatever other objects there are; see controller.py."""

from __future__ import annotations

import typing as t

Json = t.Dict[str, t.Any]


class Refused(Exception):
    """An answer other than that asked for."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


def not_found() -> Refused:
    return Refused(404, {"detail": "Not found."})


def check_type(field: str, example: t.Any, value: t.Any) -> None:
    """Refuse a value of another type than the example of its field has."""
    if isinstance(example, bool):
        if not isinstance(value, bool):
            raise Refused(400, {field: ["Must be a valid boolean."]})
    elif isinstance(example, int) and not isinstance(value, int):
        raise Refused(400, {field: ["A valid integer is required."]})
    elif isinstance(example, str) and not isinstance(value, str):
        raise Refused(400, {field: ["Not a valid string."]})


def check_rrule(rule: str) -> None:
    """Refuse the rule of a schedule without its two parts."""
    texts = {
        "DTSTART": "Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ",
        "INTERVAL": "INTERVAL required in rrule.",
    }
    for part, text in texts.items():
        if part not in rule:
            raise Refused(400, {"rrule": [text]})


def check_survey(survey: t.Any) -> None:
    """Refuse a survey that AWX would refuse."""
    for field, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(survey.get(field), kind):
            raise Refused(400, {"error": f"Field '{field}' is missing from survey spec."})
    if not survey["spec"]:
        raise Refused(400, {"error": "'spec' doesn't contain any items."})
    for index, question in enumerate(survey["spec"]):
        for field in ("type", "question_name", "variable", "required"):
            if field not in question:
                raise Refused(400, {"error": f"'{field}' missing from survey question {index}"})
        if question["type"] == "multiplechoice":
            choices = question.get("choices") or []
            choices = choices.splitlines() if isinstance(choices, str) else choices
            if question.get("default") and question["default"] not in choices:
                raise Refused(400, {"error": "Default choice must be answered from the choices listed."})


__all__ = ["Refused", "check_rrule", "check_survey", "check_type", "not_found"]
