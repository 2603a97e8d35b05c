# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary at the end of a run: what is said of a node, worst first, on a screen."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_summary.summary import (
    NODE_LINES,
    Node,
    describe,
    lines,
    next_steps,
    node_of,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._terminal import BAD, CHANGED, DOUBTFUL, GOOD, text_of

Json = t.Any
IN_SYNC: Json = {"before": "exclusive", "live": "exclusive", "next_boot": "exclusive", "desired": "exclusive"}
SHARED: Json = {**IN_SYNC, "before": "shared", "live": "shared"}
REASON = "the RDMA subsystem is in mode shared instead of exclusive. The next boot sets exclusive."


def facts(**more: Json) -> Json:
    """Return what role gpu_node sets for a node in sync."""
    return {
        "gpu_node_changes": {},
        "gpu_node_mode": IN_SYNC,
        "gpu_node_reboot_required": False,
        "gpu_node_reboot_would_help": True,
        "gpu_node_reboot_reason": "",
        "gpu_node_runtime_restart_required": False,
        **more,
    }


def due(**more: Json) -> Json:
    return facts(
        **{"gpu_node_mode": SHARED, "gpu_node_reboot_required": True, "gpu_node_reboot_reason": REASON, **more}
    )


def looked(live: str, due: bool = False, **more: Json) -> Json:
    """Return what node_maintenance registers of rdma_system."""
    mode = {"live": live, "next_boot": "exclusive", "desired": "exclusive"}
    return {"mode": mode, "reboot_required": due, "reboot_would_help": True, "reboot_reason": REASON * due, **more}


FRESH = {"package": 5, "file": 1, "kernel module": 0, "initramfs": 0, "rail setting": 0}
BEFORE, AFTER = "__node_maintenance_before", "__node_maintenance_after"


# facts, status, text
@pytest.mark.parametrize(
    ("variables", "status", "text"),
    [
        (facts(), GOOD, "in sync, mode exclusive"),
        (
            due(gpu_node_changes=FRESH),
            CHANGED,
            "5 packages, 1 file, mode shared -> exclusive at the next boot, reboot due and would help",
        ),
        # A template of a number alone is text before ansible-core 2.19.
        (facts(gpu_node_changes={"file": "2", "package": "0"}), CHANGED, "2 files, mode exclusive"),
        (
            facts(gpu_node_changes={"initramfs": 1, "rail setting": 3, "kernel module": 1}),
            CHANGED,
            "initramfs, 3 rail settings, 1 kernel module, mode exclusive",
        ),
        (facts(gpu_node_mode={**IN_SYNC, "before": "shared"}), CHANGED, "mode shared -> exclusive"),
        (
            due(gpu_node_mode={**SHARED, "next_boot": "shared"}, gpu_node_reboot_would_help=False),
            BAD,
            "mode shared, also at the next boot, instead of exclusive, reboot due and would not help",
        ),
        *(
            (
                due(gpu_node_mode={**SHARED, "next_boot": nothing}, gpu_node_reboot_would_help=nothing),
                DOUBTFUL,
                "mode shared, unknown at the next boot, reboot due and may not help",
            )
            # What null is before ansible-core 2.19, and since.
            for nothing in ("", None)
        ),
        (facts(gpu_node_mode={**IN_SYNC, "next_boot": None}), DOUBTFUL, "mode exclusive, unknown at the next boot"),
        (
            facts(gpu_node_mode={**IN_SYNC, "next_boot": "shared"}),
            CHANGED,
            "mode exclusive -> shared at the next boot",
        ),
        (
            facts(gpu_node_runtime_restart_required=True),
            CHANGED,
            "mode exclusive, restart of the container runtime due",
        ),
        # A kernel without the RDMA subsystem, with gpu_node_on_absent=ignore.
        (facts(gpu_node_mode={**dict.fromkeys(IN_SYNC), "desired": "exclusive"}), GOOD, "in sync"),
        ({}, DOUBTFUL, "nothing is known of it"),
        # Playbook reboot alone.
        ({BEFORE: looked("exclusive")}, GOOD, "in sync, mode exclusive"),
        (
            {BEFORE: looked("shared", due=True)},
            CHANGED,
            "mode shared -> exclusive at the next boot, reboot due and would help",
        ),
        (
            {BEFORE: looked("shared", due=True), AFTER: looked("exclusive")},
            CHANGED,
            "rebooted, mode shared -> exclusive",
        ),
        # Playbook site: the facts of gpu_node are of before the reboot.
        (
            {**due(), BEFORE: looked("shared", due=True), AFTER: looked("exclusive")},
            CHANGED,
            "rebooted, mode shared -> exclusive",
        ),
        # In check mode the look of node_maintenance knows nothing of what gpu_node would do, and nothing is rebooted.
        (
            {**due(), BEFORE: looked("shared", due=True, reboot_would_help=False), AFTER: {"skipped": True}},
            CHANGED,
            "mode shared -> exclusive at the next boot, reboot due and would help",
        ),
    ],
)
def test_a_node_in_words(variables: Json, status: str, text: str) -> None:
    node = node_of("gpu-01", variables, failed=False)
    assert (node.status, describe(node)) == (status, text)


def test_a_failed_node_and_a_verdict() -> None:
    failed = node_of("gpu-01", {}, failed=True)
    assert (failed.status, describe(failed)) == (BAD, "failed in this run, or was not reached: see its message above")
    for verdict, status in (("pass", GOOD), ("unknown", DOUBTFUL), ("fail", BAD)):
        node = node_of("gpu-01", facts(), False, verdict)
        assert node.status == status
        assert describe(node).endswith(f"mode exclusive, fabric {verdict}")


def nodes(number: int, **more: Json) -> list[Node]:
    return [node_of(f"gpu-{place:02}", {**facts(), **more}, False) for place in range(1, number + 1)]


def test_twenty_nodes_in_sync_are_one_line() -> None:
    assert text_of(lines(nodes(20), check_mode=True)) == (
        "Summary of 20 nodes: 20 in sync (check mode: nothing was changed)\n"
        "gpu-01, gpu-02, gpu-03, gpu-04, gpu-05, gpu-06, gpu-07, gpu-08 and 12 more: in sync, mode exclusive\n"
    )


def test_the_worst_come_first_and_then_what_to_do() -> None:
    fleet = nodes(4)
    fleet[0] = node_of("gpu-01", due(gpu_node_changes=FRESH), False)
    fleet[1] = node_of("gpu-02", facts(gpu_node_changes={"file": 1}), False)
    fleet.append(node_of("gpu-05", {}, failed=True))
    fleet.append(
        node_of("gpu-06", due(gpu_node_reboot_would_help=False, gpu_node_mode={**SHARED, "next_boot": "shared"}), False)
    )
    shown = lines(fleet, check_mode=True)
    assert text_of(shown) == (
        "Summary of 6 nodes: 1 failed, 2 due for a reboot, 2 to change, 2 in sync (check mode: nothing was changed)\n"
        "gpu-06: mode shared, also at the next boot, instead of exclusive, reboot due and would not help\n"
        "gpu-05: failed in this run, or was not reached: see its message above\n"
        "gpu-01: 5 packages, 1 file, mode shared -> exclusive at the next boot, reboot due and would help\n"
        "gpu-02: 1 file, mode exclusive\n"
        "gpu-03, gpu-04: in sync, mode exclusive\n"
        "Next:\n"
        "  * Correct what the messages of failed nodes say, and give the same command again.\n"
        "  * Make these changes: the same command without --check.\n"
        "  * Reboot gpu-01: playbook rdmaops.gpu_fabric.reboot, or site, with -e node_maintenance_reboot_ok=true\n"
        "  * A reboot would not help gpu-06: the RDMA subsystem is in mode shared instead of exclusive. The next boot sets\n"
        "    exclusive.\n"
    )
    assert [line.status for line in shown[:7]] == [None, BAD, BAD, CHANGED, CHANGED, GOOD, None]


def test_after_a_run() -> None:
    fleet = [node_of("gpu-01", facts(gpu_node_runtime_restart_required=True), False, "fail"), *nodes(1)]
    assert text_of(lines(fleet, check_mode=False, verdict="fail")) == (
        "Summary of 2 nodes: 1 in sync; fabric check: FAIL\n"
        "gpu-01: mode exclusive, restart of the container runtime due, fabric fail\n"
        "gpu-01: in sync, mode exclusive\n"
        "Next:\n"
        "  * Restart the container runtime of gpu-01: -e gpu_node_runtime_restart_ok=true\n"
        "  * Read the table of the fabric check above; docs/red-verdict.md explains each message.\n"
    )
    assert next_steps(nodes(3), check_mode=False, verdict="pass") == []


def test_a_large_fleet_fits_on_a_screen() -> None:
    fleet = [
        node_of(
            f"gpu-{place:03}",
            due(gpu_node_changes={"file": place % 50 + 1}, gpu_node_reboot_reason=f"line {place}"),
            False,
        )
        for place in range(200)
    ]
    shown = text_of(lines(fleet, check_mode=True)).splitlines()
    assert len(shown) <= 60
    assert max(map(len, shown)) <= 120
    assert any(line.startswith("and ") and line.endswith(" more nodes") for line in shown)
    same = text_of(lines(nodes(64, **due(gpu_node_changes=FRESH)), check_mode=True)).splitlines()
    assert same[1].startswith("gpu-01, gpu-02, gpu-03, ")
    assert sum("gpu-64" in line for line in same) == 1
    assert len(same) < NODE_LINES
