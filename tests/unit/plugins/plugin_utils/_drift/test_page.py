# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a drift report: the run, the verdict, and each object."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift import page as pages
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._drift.test_text import MODE, entry, report

Json = t.Any

TIMES = {"started": "2026-11-21T12:00:00Z", "finished": "2026-11-21T12:05:00Z"}


# the report, what the head of the page says of the run
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {**report({"a": [entry("drift")], "b": [entry(), entry(name="m")]}), **TIMES},
            "Started 2026-11-21T12:00:00Z Finished 2026-11-21T12:05:00Z Mode check Hosts 2 Objects 1 drift, 2 in sync",
        ),
        (
            {**report({}, complete=False, check_mode=False), "started": ""},
            "Started none Finished not known Mode applied Hosts 0 Objects none",
        ),
    ],
)
def test_the_facts_of_a_run(content: Json, said: str) -> None:
    [facts] = [part for part in Page(pages.page(content)).find("div") if part.attributes["class"] == "facts"]
    assert " ".join(facts.text.split()) == said


@pytest.mark.parametrize(
    ("statuses", "meaning"),
    [
        (["in_sync"], "Everything that was checked is in the desired state."),
        (["unknown"], "Nothing is known to have drifted, but not everything could be checked."),
        (["drift"], "Something is not, or was not, in the desired state."),
    ],
)
def test_what_a_verdict_means(statuses: list[str], meaning: str) -> None:
    assert Page(pages.page(report({"a": [entry(status) for status in statuses]}))).find("p")[0].text == meaning


def test_the_filters_count_what_they_show() -> None:
    objects = [entry("drift", "1"), *(entry("unknown", name) for name in "23"), *(entry(name=name) for name in "456")]
    labels = Page(pages.page(report({"a": objects}))).find("label")
    assert [label.text for label in labels] == ["Not in sync 3", "Drift 1", "Unknown 2", "In sync 3", "All 6"]


# an object, its titles and values
@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (entry("drift", **MODE), ["wanted exclusive", "live shared"]),
        (
            entry("drift", **{**MODE, "configured": "exclusive", "next_boot": "shared"}),
            ["wanted exclusive", "live shared", "configured exclusive", "next boot shared"],
        ),
        (entry("drift", live={"a": [1]}), ["wanted nothing", 'live {"a": [1]}']),
        (entry("drift", desired=0), ["wanted 0", "live unknown"]),
        (entry("drift", configured=False), ["wanted nothing", "live unknown", "configured false"]),
        (entry("drift", next_boot=""), ["wanted nothing", "live unknown", "next boot "]),
        (entry("drift"), []),
    ],
)
def test_the_values_of_an_object_on_the_page(item: Json, shown: list[str]) -> None:
    reader = Page(pages.page(report({"a": [item]})))
    titles, values = reader.find("dt"), reader.find("dd")
    assert [f"{title.text} {value.text}" for title, value in zip(titles, values, strict=True)] == shown
