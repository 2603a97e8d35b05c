# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Record a drift report during a run, judge it, and read and merge those of other runs."""

from __future__ import annotations

import collections
import datetime
import json
import os
import typing as t

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from ...module_utils._errors import FabricError

Json = t.Dict[str, t.Any]

SCHEMA = 1
# The worst last.
STATUSES = (IN_SYNC, UNKNOWN, DRIFT)

# More than the report of a run on thousands of hosts: a larger file is something else.
MAX_BYTES = 1 << 28


class Recorder:
    """Record the objects of a run; ``document()`` returns the report so far."""

    def __init__(self, check_mode: bool, started: str | None = None) -> None:
        self.check_mode = check_mode
        self.started = started or now()
        self._finished: str | None = None
        self._hosts: dict[str, dict[tuple[t.Any, ...], Json]] = {}
        # In the order of the plays, which is that of the inventory.
        self._order: dict[str, None] = {}
        self._incomplete: list[str] = []
        # The names of the plays to come by their keys, and the key and name of the current play.
        self._to_come: dict[str, str] = {}
        self._key: str | None = None
        self._called = ""
        self._waiting: dict[str, None] = {}
        self._batch: tuple[str, ...] = ()
        # Hosts for which the play ended early, with the reason and the task.
        self._stopped: dict[str, tuple[str, str | None]] = {}

    def begin_playbook(self, plays: t.Mapping[str, str]) -> None:
        """Record the plays of a playbook."""
        self._finished = None
        self._to_come.update(plays)

    def begin_play(self, key: str, name: str, hosts: t.Iterable[str], batch: t.Iterable[str]) -> None:
        """Begin a play, or its next batch: ``hosts`` are all hosts of the play."""
        if key != self._key:
            self._leave_play()
            self._key, self._called = key, name
            self._waiting = dict.fromkeys(hosts)
            self._order.update(self._waiting)
        self._to_come.pop(key, None)
        self._batch = tuple(batch)
        for host in self._batch:
            self._waiting.pop(host, None)

    def add(self, host: str, objects: t.Iterable[Json], task: str | None = None) -> None:
        """Record the objects of the task with the key ``task`` on a host.

        Of several results for one object the worst counts, and of equal ones the first, from before any change.
        """
        # A host with a result of a later task was rescued.
        if host in self._stopped and self._stopped[host][1] not in (None, task):
            del self._stopped[host]
        for item in objects:
            known = self._hosts.setdefault(host, {})
            key = tuple(item[name] for name in ("role", "task", "action", "kind", "name", "item", "delegated_to"))
            old = known.get(key)
            if old is None or STATUSES.index(item["status"]) > STATUSES.index(old["status"]):
                known[key] = item

    def job(self, host: str, identity: str) -> Json | None:
        """Remove and return the object of a background task, which its result replaces."""
        for key, item in self._hosts.get(host, {}).items():
            if item.get("job") == identity:
                del self._hosts[host][key]
                return item
        return None

    def stop(self, why: str, task: str | None = None) -> None:
        """Record that the play ended for every host of the batch, by ``task`` if known."""
        for host in self._batch:
            self._stopped.setdefault(host, (why, task))

    def end(self, all_playbooks: bool = True) -> None:
        """Record that the run was completed."""
        self._leave_play()
        self._key = None
        for name in self._to_come.values():
            self._incomplete.append("play '%s' was not reached" % name)
        self._to_come = {}
        if all_playbooks:
            self._finished = now()

    def _leave_play(self) -> None:
        self._settle_stopped()
        for host in self._waiting:
            self._not_reached(host, "play '%s' ended before this host's turn" % self._called)
        self._waiting = {}

    def _settle_stopped(self) -> None:
        for host, (why, _task) in self._stopped.items():
            self._not_reached(host, "play '%s' ended early: %s" % (self._called, why))
        self._stopped = {}

    def _not_reached(self, host: str, why: str) -> None:
        reason = "%s: %s" % (host, why)
        if reason not in self._incomplete:
            self._incomplete.append(reason)
        if any(item["status"] == UNKNOWN for item in self._hosts.get(host, {}).values()):
            return
        self._hosts.setdefault(host, {})[("host", why)] = {
            **dict.fromkeys(OBJECT_KEYS), "kind": "host", "name": host, "status": UNKNOWN, "why": why,
        }  # fmt: skip

    def document(self, running: bool = False) -> Json:
        """Return the report. With ``running``, it is complete with what the run has done so far."""
        hosts = {}
        for name in [name for name in self._order if name in self._hosts] + list(self._hosts):
            objects = self._hosts[name]
            shown = [{key: value for key, value in item.items() if key != "job"} for item in objects.values()]
            hosts[name] = {
                "status": worst(item["status"] for item in shown),
                "counts": count_statuses(shown),
                "objects": shown,
            }
        incomplete = list(self._incomplete)
        if not running and self._finished is None:
            incomplete.append("the run is in progress, or was stopped")
        report: Json = {
            "schema": SCHEMA,
            "started": self.started,
            "finished": now() if running else self._finished,
            "check_mode": self.check_mode,
            "complete": not incomplete,
            "incomplete": incomplete,
            "verdict": UNKNOWN,
            "hosts": hosts,
        }
        report["verdict"] = verdict_of(report)
        return report


OBJECT_KEYS = (
    "role", "task", "action", "kind", "name", "item", "delegated_to", "status", "desired", "configured", "live",
    "next_boot", "diff", "repaired", "why",
)  # fmt: skip


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def worst(statuses: t.Iterable[str]) -> str:
    """Return the worst status, or unknown if there is none."""
    ranks = [STATUSES.index(status) for status in statuses]
    return STATUSES[max(ranks)] if ranks else UNKNOWN


def count_statuses(objects: t.Iterable[Json]) -> dict[str, int]:
    counts = collections.Counter(item["status"] for item in objects)
    return {status: counts[status] for status in STATUSES}


def totals(report: Json) -> dict[str, int]:
    """Count the objects of each status."""
    return count_statuses(item for host in report["hosts"].values() for item in host["objects"])


def verdict_of(report: Json) -> str:
    """Return the verdict on a report: drift beats unknown, which beats in sync.

    A run that was not completed or checked nothing is never in sync.
    """
    status = worst(item["status"] for host in report["hosts"].values() for item in host["objects"])
    return UNKNOWN if status == IN_SYNC and not report["complete"] else status


def dumps(report: Json) -> str:
    return json.dumps(report, indent=1, allow_nan=False) + "\n"


def load(path: str) -> Json:
    """Read a report that another run has published."""
    doing = "Reading the drift report %s" % path
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise FabricError("%s: it is larger than %d bytes, so it is not a drift report" % (doing, MAX_BYTES))
        with open(path, "rb") as stream:
            report = json.loads(stream.read().decode("utf-8"))
    except OSError as exc:
        raise FabricError(
            "%s: %s. Publish the report of every slice before they are merged" % (doing, exc.strerror or exc)
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise FabricError("%s: it is not JSON: %s" % (doing, exc)) from exc
    return validate(report, doing)


_TYPES: dict[str, t.Any] = {
    "started": str, "check_mode": bool, "complete": bool, "incomplete": list, "hosts": dict,
}  # fmt: skip


def validate(report: t.Any, doing: str) -> Json:
    """Return a report if it has the shape of this release."""
    if not isinstance(report, dict) or "schema" not in report or "hosts" not in report:
        raise FabricError("%s: it is not a drift report, which has schema and hosts" % doing)
    if report["schema"] != SCHEMA or isinstance(report["schema"], bool):
        raise FabricError(
            "%s: it has schema %r, and this release of rdmaops.gpu_fabric reads %d. Write and merge the reports with "
            "one release" % (doing, report["schema"], SCHEMA)
        )
    if report.get("left_out"):
        raise FabricError(
            "%s: it was cut to fit a job's artifacts, and what was cut cannot be judged. Publish whole reports, in "
            "ConfigMaps, at a URL or a path" % doing
        )
    for name, kind in _TYPES.items():
        if not isinstance(report.get(name), kind):
            raise FabricError("%s: %s is missing, or not a %s" % (doing, name, kind.__name__))
    if report.get("verdict") not in STATUSES:
        raise FabricError("%s: verdict is not one of %s" % (doing, ", ".join(STATUSES)))
    for name, host in report["hosts"].items():
        _validate_host(name, host, doing)
    return report


def _validate_host(name: str, host: t.Any, doing: str) -> None:
    objects = host.get("objects") if isinstance(host, dict) else None
    if not isinstance(objects, list):
        raise FabricError("%s: host %s has no list of objects" % (doing, name))
    for item in objects:
        if not isinstance(item, dict) or item.get("status") not in STATUSES:
            raise FabricError("%s: an object of host %s has none of the statuses %s" % (doing, name, STATUSES))


def merge(reports: t.Sequence[tuple[str, Json]], missing: t.Iterable[str] = ()) -> Json:
    """Merge the reports of a run's slices, each with its source; ``missing`` names those without a report."""
    hosts: dict[str, Json] = {}
    owner: dict[str, str] = {}
    incomplete = list(missing)
    for source, report in reports:
        for name, host in report["hosts"].items():
            if name in owner:
                raise FabricError(
                    "Merging drift reports: host %s is in %s and in %s. A host belongs to one slice: it is not known "
                    "which of the two counts" % (name, owner[name], source)
                )
            owner[name] = source
            objects = [{**dict.fromkeys(OBJECT_KEYS), **item} for item in host["objects"]]
            status = worst(item["status"] for item in objects)
            hosts[name] = {"status": status, "counts": count_statuses(objects), "objects": objects}
        incomplete += ["%s: %s" % (source, why) for why in report["incomplete"]]
        if not report["complete"] and not report["incomplete"]:
            incomplete.append("%s: it is not complete" % source)
        if not report["hosts"]:
            incomplete.append("%s: nothing was checked" % source)
    ends = [report.get("finished") for _source, report in reports]
    merged: Json = {
        "schema": SCHEMA,
        "started": min(report["started"] for _source, report in reports),
        "finished": max(end for end in ends if end) if all(ends) else None,
        "check_mode": all(report["check_mode"] for _source, report in reports),
        "complete": not incomplete,
        "incomplete": incomplete,
        "verdict": UNKNOWN,
        "hosts": dict(sorted(hosts.items())),
    }
    merged["verdict"] = verdict_of(merged)
    return merged


__all__ = (
    "MAX_BYTES",
    "OBJECT_KEYS",
    "Recorder",
    "SCHEMA",
    "STATUSES",
    "count_statuses",
    "dumps",
    "load",
    "merge",
    "now",
    "totals",
    "validate",
    "verdict_of",
    "worst",
)
