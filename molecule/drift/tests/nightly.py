# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nightly run: playbook `drift` in check mode, as an engineer and as AWX start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.runner import as_awx

EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
INVENTORY = EPHEMERAL / "inventory"
LIMIT_S = 1200

Json = dict[str, t.Any]


class Night(t.NamedTuple):
    rc: int
    output: str
    report: Json

    def objects(self, *statuses: str) -> list[tuple[str, str, str]]:
        """Return (host, kind, name) of the objects with one of these statuses, once however many tasks examined them."""
        rows = {
            (host, row["kind"], row["name"])
            for host, entry in self.report["hosts"].items()
            for row in entry["objects"]
            if row["status"] in statuses
        }
        return sorted(rows)

    def first(self, host: str, kind: str) -> Json:
        """Return the first object of a kind that is not in sync."""
        objects: list[Json] = self.report["hosts"][host]["objects"]
        return next(row for row in objects if row["kind"] == kind and row["status"] != "in_sync")


def by_hand(*arguments: str) -> Night:
    """Run it from the checkout, whose ansible.cfg enables the callback."""
    report = EPHEMERAL / "drift.json"
    report.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"RDMAOPS_DRIFT_REPORT": str(report), "ANSIBLE_FORCE_COLOR": "0", "COLUMNS": "150"}
    argv = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        *("-i", str(INVENTORY), "rdmaops.gpu_fabric.drift", "--check", "--diff", *arguments),
    ]
    done = subprocess.run(
        argv,
        cwd=COLLECTION,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Night(done.returncode, done.stdout + done.stderr, json.loads(report.read_text()))


def by_awx(place: Path) -> Night:
    """Run what is committed, as a job of AWX does, in an empty directory."""
    report = place / "drift.json"
    (place / "awx").mkdir()
    job = as_awx(
        "playbooks/drift.yml",
        INVENTORY,
        place=place / "awx",
        environment={"RDMAOPS_DRIFT_REPORT": str(report)},
        timeout=LIMIT_S,
    )
    rc = {"successful": 0, "failed": 2}.get(job.status, 1)
    return Night(rc, job.stdout(), json.loads(report.read_text()))


__all__ = ["INVENTORY", "Json", "LIMIT_S", "Night", "by_awx", "by_hand"]
