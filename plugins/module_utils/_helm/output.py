# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What helm 3 and helm 4 print, parsed."""

from __future__ import annotations

import contextlib
import re
import typing as t
from urllib.parse import unquote_plus

from .._errors import FabricError
from .._formats import from_json

# Charts from registries (oci://) came with 3.8.
OLDEST = (3, 8, 0)
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})\S*")
# What `helm list` calls a chart: its name and its version with a hyphen between, which names may contain too.
_CHART = re.compile(r"^(?P<name>.+?)-(?P<version>v?\d+\.\d+\.\d+(?:[-+].*)?)$")
_NOISE = re.compile(r"Kubernetes configuration file is (group|world)-readable|^level=(DEBUG|INFO|WARN)|level=DEBUG|^$")
_LINES = 8

# `helm get all --template`: text/template has no JSON, and urlquery puts any text on one line.
RELEASE_TEMPLATE = "\n".join(
    (
        "{{urlquery .Release.Name}}",
        "{{urlquery .Release.Namespace}}",
        "{{.Release.Version}}",
        "{{urlquery .Release.Info.Status}}",
        "{{.Release.Info.LastDeployed.Unix}}",
        "{{urlquery .Release.Chart.Metadata.Name}}",
        "{{urlquery .Release.Chart.Metadata.Version}}",
        "{{urlquery .Release.Chart.Metadata.AppVersion}}",
        "{{urlquery .Release.Manifest}}",
    )
)
# Helm 4 records whether it applied on the server ("ssa") or, as helm 3 does, on the client.
METHOD_TEMPLATE = "\n{{urlquery .Release.ApplyMethod}}"


class HelmError(FabricError):
    """helm failed; the text has the last lines of its output."""


class Listed(t.NamedTuple):
    """A row of `helm list`."""

    name: str
    namespace: str
    status: str
    chart: str
    version: str


class Release(t.NamedTuple):
    """The newest revision of a release."""

    name: str
    namespace: str
    revision: int
    status: str
    deployed: int
    chart: str
    version: str
    app_version: str
    manifest: str
    server_side: bool
    values: dict[str, t.Any]

    @property
    def pending(self) -> bool:
        return self.status.startswith("pending-") or self.status == "uninstalling"


class Revision(t.NamedTuple):
    number: int
    status: str


def parse_version(text: str, binary: str) -> tuple[int, int, int]:
    """Return helm's version; refuse one that is too old."""
    match = _VERSION.search(text)
    if match is None:
        raise HelmError(
            "Getting the version of %s: it answered %r, which is not a helm version. Set helm_binary to "
            "the path of helm" % (binary, text.strip()[:200])
        )
    version = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
    if version < OLDEST:
        raise HelmError(
            "%s is helm %s, and 3.8.0 or newer is needed. Install a newer one, or set helm_binary to its path"
            % (binary, match.group(0))
        )
    return version


@contextlib.contextmanager
def _printed(subject: str) -> t.Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise HelmError(
            "Reading helm's output about %s: it is not the output of helm 3 or 4 (%s: %s). Check that "
            "helm_binary is helm itself" % (subject, type(exc).__name__, str(exc)[:200])
        ) from exc


def parse_list(text: str) -> list[Listed]:
    """Read `helm list -o json`."""
    releases = []
    with _printed("its releases"):
        for row in from_json(text or "[]") or []:
            match = _CHART.match(row["chart"])
            name, version = (match.group("name"), match.group("version")) if match else (row["chart"], "")
            releases.append(Listed(row["name"], row["namespace"], row["status"], name, version))
    return releases


def parse_release(text: str, values: str) -> Release:
    """Read `helm get all --template` and `helm get values -o json`."""
    lines = [unquote_plus(line) for line in text.split("\n")] + [""]
    with _printed("a release"):
        return Release(
            name=lines[0],
            namespace=lines[1],
            revision=int(lines[2]),
            status=lines[3],
            deployed=int(lines[4]),
            chart=lines[5],
            version=lines[6],
            app_version=lines[7],
            manifest=lines[8],
            server_side=lines[9] == "ssa",
            values=from_json(values or "null") or {},
        )


def parse_history(text: str) -> list[Revision]:
    """Read `helm history -o json`."""
    with _printed("a release's history"):
        return [Revision(int(row["revision"]), str(row["status"])) for row in from_json(text or "[]") or []]


def last_lines(text: str, secrets: t.Iterable[str] = ()) -> str:
    """Return the end of helm's output on one line, without noise and secrets."""
    for secret in secrets:
        text = text.replace(secret, "********")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.search(line.strip())]
    return " | ".join(lines[-_LINES:])[-2000:] or "nothing"


__all__ = (
    "METHOD_TEMPLATE",
    "OLDEST",
    "RELEASE_TEMPLATE",
    "HelmError",
    "Listed",
    "Release",
    "Revision",
    "last_lines",
    "parse_history",
    "parse_list",
    "parse_release",
    "parse_version",
)
