# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""Where a drift report goes that shall outlive the job's container: a job's artifacts, and a URL."""

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

# AWX sets no limit. It keeps a job's artifacts in one row of its database, and hands them to every later
# node of a workflow as extra variables (awx/main/models/workflow.py, get_job_kwargs()).
ARTIFACT_BYTES = 256 * 1024

REASONS = 10

# As much of a server's answer as a message has room for.
ANSWER = 500


def artifact(report: Json, limit: int = ARTIFACT_BYTES) -> Json:
    """Return the report in at most ``limit`` bytes of JSON; ``left_out`` is how much is not in it.

    Objects in sync go first, then diffs, then what stands last of the rest, and then hosts that are in sync. Each
    host's counts stay what they were.
    """
    if _size(report) <= limit:
        return report
    left = {"in_sync": 0, "diffs": 0, "objects": 0, "hosts": 0}
    hosts: dict[str, Json] = {}
    rest: list[tuple[str, Json]] = []
    for name, entry in report["hosts"].items():
        wrong = [one for one in entry["objects"] if one["status"] != IN_SYNC]
        left["in_sync"] += len(entry["objects"]) - len(wrong)
        hosts[name] = {**entry, "objects": []}
        rest += [(name, one) for one in wrong]
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
    if sum(_size(one) for _name, one in rest) > room:
        left["diffs"] = sum(one["diff"] is not None for _name, one in rest)
        rest = [(name, {**one, "diff": None}) for name, one in rest]
    # What is worse first: of unknown objects there may be one for every task that a host had.
    for name, one in sorted(rest, key=lambda pair: -STATUSES.index(pair[1]["status"])):
        room -= _size(one)
        if room < 0 or name not in hosts:
            left["objects"] += 1
        else:
            hosts[name]["objects"].append(one)
    if _size(cut) > limit:
        left["hosts"] = len(report["hosts"])
        cut["hosts"] = {}
    return cut


def _size(value: t.Any) -> int:
    # With the separator that follows it in a list.
    return len(json.dumps(value).encode()) + 2


def send(report: Json, given: t.Mapping[str, t.Any]) -> str:
    """Send the report to a URL, and return what the URL is called."""
    from ansible.module_utils.urls import open_url

    address = _address(given["url"])
    doing = "Publishing the drift report at %s" % address
    secrets = _secrets(given)
    if urlsplit(given["url"]).scheme not in ("http", "https"):
        raise FabricError("%s: it is not a URL that begins with http:// or https://" % doing)
    headers = {"Content-Type": "application/json", **{name: str(text) for name, text in given["headers"].items()}}
    try:
        answer = open_url(
            given["url"],
            method=given["method"],
            data=dumps(report).encode(),
            headers=headers,
            timeout=given["timeout"],
            ca_path=given["ca_path"],
            http_agent="rdmaops.gpu_fabric",
            # Neither the report nor the headers go anywhere else than configured.
            follow_redirects="none",
            use_netrc=False,
        )
    except urllib.error.HTTPError as exc:
        raise FabricError("%s: %s" % (doing, _censored(_refused(exc, given), secrets))) from None
    except (OSError, ValueError) as exc:
        raise FabricError("%s: %s" % (doing, _censored(_unreachable(exc, given), secrets))) from None
    answer.close()
    return address


def _refused(exc: urllib.error.HTTPError, given: t.Mapping[str, t.Any]) -> str:
    hint = ""
    if 300 <= exc.code <= 399:
        hint = ". Redirects are not followed: give the address that it names"
    elif exc.code in (401, 403):
        hint = ". Give credentials that may write there, in headers"
    elif exc.code == 405:
        hint = ". It does not take %s: give another method" % given["method"]
    try:
        said = " ".join((exc.read(ANSWER) or b"").decode("utf-8", "replace").split())
    except (OSError, io.UnsupportedOperation):
        said = ""
    said = said or str(exc.headers.get("Location", "")) if exc.headers else said
    return "it answered %d (%s)%s%s" % (exc.code, exc.reason, ": %s" % said if said else "", hint)


def _unreachable(exc: BaseException, given: t.Mapping[str, t.Any]) -> str:
    text = " ".join(str(getattr(exc, "reason", None) or exc).split()).rstrip(".")
    if "certificate" in text.lower():
        hint = "Give the CA that signed its certificate in ca_path"
    elif "timed out" in text.lower():
        hint = "It did not answer in %d s: raise timeout, or check the server" % given["timeout"]
    else:
        hint = "Is this its address, and is it running?"
    return "%s. %s" % (text, hint)


def _address(url: str) -> str:
    """Return a URL without what may be a secret: user, password and query."""
    parts = urlsplit(url)
    try:
        port = ":%d" % parts.port if parts.port else ""
    except ValueError:
        port = ""
    return printable("%s://%s%s%s" % (parts.scheme, parts.hostname or "", port, parts.path))


def _secrets(given: t.Mapping[str, t.Any]) -> list[str]:
    parts = urlsplit(given["url"])
    texts = [word for text in given["headers"].values() for word in [str(text), *str(text).split()]]
    texts += [parts.query, *(value for _name, value in parse_qsl(parts.query))]
    texts += [parts.username or "", parts.password or "", unquote(parts.password or "")]
    # An answer in JSON may repeat them.
    texts += [json.dumps(text)[1:-1] for text in texts]
    # The longest first: one may be a part of another.
    return sorted({text for text in texts if len(text) > 3}, key=len, reverse=True)


def _censored(text: str, secrets: t.Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "********")
    return printable(text)


__all__ = ("ARTIFACT_BYTES", "artifact", "send")
