# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Publish a drift report beyond the job's container: in the job's artifacts, and at a URL."""

from __future__ import annotations

import io
import json
import typing as t
import urllib.error
from urllib.parse import parse_qsl, unquote, urlsplit

from ...module_utils._decision import IN_SYNC
from ...module_utils._errors import FabricError
from .report import STATUSES, dumps
from .text import printable

Json = t.Dict[str, t.Any]

# AWX sets no limit. It stores a job's artifacts in one row of its database, and passes them to every later
# node of a workflow as extra variables (awx/main/models/workflow.py, get_job_kwargs()).
ARTIFACT_BYTES = 256 * 1024

REASONS = 10

# Bytes of a server's answer in a message.
ANSWER = 500


def artifact(report: Json, limit: int = ARTIFACT_BYTES) -> Json:
    """Return the report in at most ``limit`` bytes of JSON; ``left_out`` counts what is not in it.

    Objects in sync are removed first, then diffs, then the last of the other objects, and then hosts in sync.
    Each host keeps its counts.
    """
    if _size(report) <= limit:
        return report
    left = {"in_sync": 0, "diffs": 0, "objects": 0, "hosts": 0}
    hosts: dict[str, Json] = {}
    rest: list[tuple[str, Json]] = []
    for name, entry in report["hosts"].items():
        wrong = [resource for resource in entry["objects"] if resource["status"] != IN_SYNC]
        left["in_sync"] += len(entry["objects"]) - len(wrong)
        hosts[name] = {**entry, "objects": []}
        rest += [(name, resource) for resource in wrong]
    why = report["incomplete"]
    if len(why) > REASONS:
        why = [*why[:REASONS], "and %d more" % (len(why) - REASONS)]
    cut: Json = {**report, "incomplete": why, "left_out": left, "hosts": hosts}
    if _size(cut) > limit:
        quiet = [name for name, entry in hosts.items() if entry["status"] == IN_SYNC]
        left["hosts"] = len(quiet)
        for name in quiet:
            del hosts[name]
    room = limit - _size(cut)
    if sum(_size(resource) for _name, resource in rest) > room:
        left["diffs"] = sum(resource["diff"] is not None for _name, resource in rest)
        rest = [(name, {**resource, "diff": None}) for name, resource in rest]
    # The worst first: there may be one unknown object for every task of a host.
    for name, resource in sorted(rest, key=lambda pair: -STATUSES.index(pair[1]["status"])):
        room -= _size(resource)
        if room < 0:
            left["objects"] += 1
        else:
            hosts[name]["objects"].append(resource)
    if _size(cut) > limit:
        left["hosts"] = len(report["hosts"])
        cut["hosts"] = {}
    return cut


def _size(value: t.Any) -> int:
    # With the separator in a list.
    return len(json.dumps(value).encode()) + 2


def send(report: Json, options: t.Mapping[str, t.Any]) -> str:
    """Send the report to a URL, and return the URL without secrets."""
    from ansible.module_utils.urls import open_url

    address = _address(options["url"])
    doing = "Publishing the drift report at %s" % address
    secrets = _secrets(options)
    if urlsplit(options["url"]).scheme not in ("http", "https"):
        raise FabricError("%s: it is not a URL that begins with http:// or https://" % doing)
    headers = {"Content-Type": "application/json", **{name: str(text) for name, text in options["headers"].items()}}
    try:
        answer = open_url(
            options["url"],
            method=options["method"],
            data=dumps(report).encode(),
            headers=headers,
            timeout=options["timeout"],
            ca_path=options["ca_path"],
            http_agent="rdmaops.gpu_fabric",
            # The report and the headers are sent only to the configured address.
            follow_redirects="none",
            use_netrc=False,
        )
    except urllib.error.HTTPError as exc:
        raise FabricError("%s: %s" % (doing, _censor(_refusal(exc, options), secrets))) from None
    except (OSError, ValueError) as exc:
        raise FabricError("%s: %s" % (doing, _censor(_connection_error(exc, options), secrets))) from None
    answer.close()
    return address


def _refusal(exc: urllib.error.HTTPError, options: t.Mapping[str, t.Any]) -> str:
    hint = ""
    if 300 <= exc.code <= 399:
        hint = ". Redirects are not followed: give the address that it names"
    elif exc.code in (401, 403):
        hint = ". Give credentials that may write there, in headers"
    elif exc.code == 405:
        hint = ". It does not take %s: give another method" % options["method"]
    try:
        answer = " ".join((exc.read(ANSWER) or b"").decode("utf-8", "replace").split())
    except (OSError, io.UnsupportedOperation):
        answer = ""
    answer = answer or str(exc.headers.get("Location", "")) if exc.headers else answer
    return "it answered %d (%s)%s%s" % (exc.code, exc.reason, ": %s" % answer if answer else "", hint)


def _connection_error(exc: BaseException, options: t.Mapping[str, t.Any]) -> str:
    text = " ".join(str(getattr(exc, "reason", None) or exc).split()).rstrip(".")
    if "certificate" in text.lower():
        hint = "Give the CA that signed its certificate in ca_path"
    elif "timed out" in text.lower():
        hint = "It did not answer in %d s: raise timeout, or check the server" % options["timeout"]
    else:
        hint = "Is this its address, and is it running?"
    return "%s. %s" % (text, hint)


def _address(url: str) -> str:
    """Return a URL without its possible secrets: user, password and query."""
    parts = urlsplit(url)
    try:
        port = ":%d" % parts.port if parts.port else ""
    except ValueError:
        port = ""
    return printable("%s://%s%s%s" % (parts.scheme, parts.hostname or "", port, parts.path))


def _secrets(options: t.Mapping[str, t.Any]) -> list[str]:
    parts = urlsplit(options["url"])
    texts = [word for text in options["headers"].values() for word in [str(text), *str(text).split()]]
    texts += [parts.query, *(value for _name, value in parse_qsl(parts.query))]
    texts += [parts.username or "", parts.password or "", unquote(parts.password or "")]
    # An answer in JSON may repeat them.
    texts += [json.dumps(text)[1:-1] for text in texts]
    # The longest first: one secret may contain another.
    return sorted({text for text in texts if len(text) > 3}, key=len, reverse=True)


def _censor(text: str, secrets: t.Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "********")
    return printable(text)


__all__ = ("ARTIFACT_BYTES", "artifact", "send")
