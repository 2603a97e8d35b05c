# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A look at a training job: its state, its pods, and when it has ended, its logs."""

from __future__ import annotations

import functools
import time
import typing as t

from .._kubernetes.client import Client, Object, path
from . import kueue
from . import log as training_job_log
from .kinds import CUSTOM
from .options import JobError
from .pod import JOB
from .status import ABSENT, ENDED, FAILED, PENDING, RUNNING, SUCCEEDED, pod_row, progress, state

PAUSE = 2.0
# What a job leaves running, its operator ends: pods have 30 s by default (terminationGracePeriodSeconds).
ENDING = 60.0

Look = t.Dict[str, t.Any]


class JobReader:
    """The questions to the API server, again and again."""

    def __init__(self, params: t.Mapping[str, t.Any], client: Client) -> None:
        self.params, self.client = params, client
        self.namespace: str = params["namespace"]
        self.job = "%s/%s" % (self.namespace, params["name"])

    @functools.cached_property
    def kueue_version(self) -> str | None:
        """The version of Kueue's API, asked for once: a job is looked at every two seconds."""
        return kueue.api_version(self.client)

    def look(self) -> Look:
        kind, name = self.params["kind"], self.params["name"]
        doing = "Reading the state of the job %s" % self.job
        body: Object | None = None
        if kind != "pods":
            version, _kind, plural = CUSTOM[kind]
            body = self.client.get(path(version, plural, self.namespace, name), doing)
        pods = self.client.items(
            path("v1", "pods", self.namespace), "%s: listing its pods" % doing, {"labelSelector": "%s=%s" % (JOB, name)}
        )
        pods = sorted(pods or [], key=_order)
        job_state, message = state(kind, body, pods)
        rows = [pod_row(pod) for pod in pods]
        # Pods outlive the job's object for a while.
        if job_state == ABSENT and rows:
            message = "%d of its pods are still there" % len(rows)
        queued = None
        if job_state == PENDING and kueue.queue_of([item for item in (body, *pods) if item]) and self.kueue_version:
            queued = kueue.waiting(self.client, self.kueue_version, doing, self.namespace, body, pods)
        message = queued or message
        return {
            "state": job_state,
            "said": message,
            "queued": queued is not None,
            "pods": rows,
            "progress": progress(job_state, message, rows),
        }

    def until(self) -> Look:
        """Look until the job is where it should be, something has changed, or time is up."""
        until = time.monotonic() + self.params["wait_timeout"]
        while True:
            look = self.look()
            left = until - time.monotonic()
            if reached(self.params["wait_for"], look) or look["progress"] != self.params["known"] or left <= 0:
                return look
            time.sleep(min(PAUSE, left))

    def ended_pods(self, look: Look) -> list[str]:
        """Wait up to a minute for pods that ran on when their job succeeded. Return those whose logs may have grown."""
        until = time.monotonic() + ENDING
        names: list[str] = []
        while any(row["phase"] == "Running" for row in look["pods"]) and time.monotonic() < until:
            time.sleep(PAUSE)
            look = self.look()
            names = [row["name"] for row in look["pods"]]
        return names


def _order(pod: Object) -> tuple[bool, str, int]:
    """Sort pods by their number, and not by its text; a launcher, which prints the ranks' output, comes first."""
    head, _dash, number = pod["metadata"]["name"].rpartition("-")
    launcher = "-launcher" in pod["metadata"]["name"]
    return (not launcher, head, int(number) if number.isdigit() else -1)


def reached(goal: str, look: Look) -> bool:
    if goal == "gone":
        return look["state"] == ABSENT and not look["pods"]
    return look["state"] in ENDED or look["state"] == ABSENT


def manage(params: t.Mapping[str, t.Any], check_mode: bool, client: Client) -> dict[str, t.Any]:
    """Return what the module training_job_info returns."""
    for name in ("log_head", "log_tail"):
        if params[name] < 1:
            raise JobError("Reading the state of the job: %s is %d; it must be at least 1 byte" % (name, params[name]))
    reader = JobReader(params, client)
    look = reader.look() if check_mode else reader.until()
    result = {**look, "changed": False, "reached": reached(params["wait_for"], look), "logs": [], "transport": None}
    result["last_line"] = None
    names = [row["name"] for row in look["pods"]]
    if look["state"] in ENDED and params["wait_for"] == "ended":
        lengths = (params["log_head"], params["log_tail"])
        logs = training_job_log.read_all(client, reader.namespace, names, *lengths)
        if look["state"] == SUCCEEDED and params["wait_timeout"] and not check_mode:
            # Read before, because those that are deleted have no logs afterwards.
            later = training_job_log.read_all(client, reader.namespace, reader.ended_pods(look), *lengths)
            logs.update((name, log) for name, log in later.items() if not log.error)
        lost = training_job_log.lost_worker(logs)
        if look["state"] == SUCCEEDED and lost:
            said = "%s, and mpirun exited as if all were well" % lost
            result.update(state=FAILED, said=said, progress=progress(FAILED, said, look["pods"]))
        result["transport"] = training_job_log.transport(logs)
        result["logs"] = [
            {"pod": name, "text": log.tail, "cut": log.cut, "error": log.error} for name, log in logs.items()
        ]
    elif look["state"] == RUNNING and names:
        result["last_line"] = training_job_log.last_line(client, reader.namespace, names[0])
    return result


__all__ = ("JobReader", "manage", "reached")
