# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report beside an earlier one."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.inputs import VerdictError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.page import page
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.repeat import again
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._fabric.table import table
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._fabric.fabrics import (
    STARTED,
    Fabric,
    Json,
    blamed,
    entry,
    good,
)

# 350 of 400 Gb/s are above 80 % of the link's rate, and all of them are alike: only an earlier run shows that it was more.
NOW = 350.0


def measured(fabric: Fabric, gbps: float, baseline: Json) -> Json:
    """Return the report after what failed was measured again, at this rate."""
    for pair in itertools.chain.from_iterable(again(fabric.report(baseline=baseline))):
        rows = [good(pair["client"], pair["server"], rail, "ib_write_bw", again=True) for rail in pair["rails"]]
        fabric.results += [{**row, "gbps": gbps} for row in rows]
    return fabric.report(baseline=baseline)


def test_a_port_that_lost_since_then_is_blamed() -> None:
    before = Fabric().report()
    fabric = Fabric().slow("b", [1], NOW)
    # All pairs of the rail are equally fast now; only the earlier report differs.
    fabric.slow("", [1], NOW)
    for row in before["pairs"]:
        if row["rail"] == 1 and "b" not in (row["client"], row["server"]):
            row["gbps"] = NOW
    report = measured(fabric, NOW, before)
    worst = entry(report, "a", "b", 1, "ib_write_bw")
    assert (worst["verdict"], worst["baseline_gbps"]) == ("fail", 388.0)
    assert worst["error"] == "350.0 Gb/s are 90.2% of the 388.0 Gb/s of 2026-11-21T12:00:00Z, the limit is 93%"
    assert {row["verdict"] for row in report["pairs"] if "b" not in (row["client"], row["server"])} == {"pass"}
    assert (report["verdict"], report["baseline"]["started"]) == ("fail", STARTED)
    first = report["baseline"]["changes"][0]
    assert ("b" in (first["client"], first["server"]), first["rail"], round(first["change"], 3)) == (True, 1, -0.098)
    assert len(report["baseline"]["changes"]) == 12
    text = "12 bandwidths compared with 2026-11-21T12:00:00Z, the worst: a -> b on rail 1, ib_write_bw: 388.0 to 350.0 Gb/s (-9.8%)"
    assert "Baseline: " + text in " ".join(table(report).split())
    html = page(report)
    assert text in html.replace("&gt;", ">")
    section = html.partition("<h2>Compared with 2026-11-21T12:00:00Z</h2>")[2].partition("<h2>")[0]
    assert section.count("<tr>") == 13
    assert "-9.8%" in section


def test_what_is_as_fast_again_is_not_repeatable() -> None:
    before = Fabric().report()
    report = measured(Fabric().slow("", [1], NOW), 388.0, before)
    assert (report["verdict"], blamed(report)) == ("unknown", [])
    assert all("not repeatable: 350.0 Gb/s (" in row["error"] for row in report["pairs"] if row["verdict"] != "pass")


def test_the_other_direction_and_what_is_new() -> None:
    """A pair that was measured from the other end is the same; one that is new is not compared."""
    before = Fabric("ab").report()
    for row in before["pairs"]:
        row["client"], row["server"] = row["server"], row["client"]
    report = Fabric("abc").report(baseline=before)
    figures = {
        (row["client"], row["server"]): row["baseline_gbps"] for row in report["pairs"] if row["test"] == "ib_write_bw"
    }
    assert figures == {("a", "b"): 388.0, ("a", "c"): None, ("b", "c"): None}
    assert len(report["baseline"]["changes"]) == 2
    assert report["verdict"] == "pass"


def test_nothing_in_common() -> None:
    report = Fabric("ab").report(baseline=Fabric("cd").report())
    assert report["baseline"]["changes"] == []
    assert "No bandwidth was measured in both." in page(report)
    assert "0 bandwidths compared with" in table(report)
    assert "Compared with" not in page(Fabric("ab").report())


@pytest.mark.parametrize("value", [{"pairs": 1, "started": ""}, {"started": ""}, ["x"], {"pairs": [{}], "started": ""}])
def test_what_is_no_report(value: Json) -> None:
    with pytest.raises(VerdictError, match="baseline must be a report of this check, not"):
        Fabric("ab").report(baseline=value)
