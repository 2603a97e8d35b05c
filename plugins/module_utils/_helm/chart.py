# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The content of a chart, read from its directory or archive."""

from __future__ import annotations

import io
import os
import tarfile
import typing as t

from .._fetch import SHA256, digest
from .._formats import all_yaml, from_yaml
from .output import HelmError

# A larger one is not a chart: helm itself refuses files over 5 MiB and charts over 100 MiB by default.
_LARGEST = 5 * 1024 * 1024
_WANTED = ("Chart.yaml", "values.yaml", "templates/", "crds/", "charts/")


class Chart(t.NamedTuple):
    """A chart's own files (name to text) and its subcharts."""

    path: str
    name: str
    version: str
    app_version: str
    values: str
    templates: dict[str, str]
    crds: dict[str, str]
    # By the key that the parent's values have them under.
    subcharts: dict[str, Chart]
    # Those that Chart.yaml names and that are not in the chart: they need `helm dependency build`.
    missing: list[str]
    # Subchart's key to the path of the value that switches it on.
    conditions: dict[str, str]


def refuse_unverified(chart: str, repo_url: str | None, checksum: str | None) -> None:
    """Refuse what could not be distinguished from another's chart, before anything is fetched."""
    if checksum and not SHA256.match(checksum):
        raise HelmError(
            "Reading the chart %s: chart_checksum is %r. Set it to sha256: and 64 lowercase hexadecimal digits"
            % (chart, checksum)
        )
    plain = [address for address in (chart, repo_url or "") if address.lower().startswith("http://")]
    if plain and not checksum:
        raise HelmError(
            "Fetching the chart %s: %s is plain http, and the download would not be verified. Set an https:// address, "
            "or the digest of the archive in chart_checksum: run helm pull and sha256sum on a machine and network that "
            "you trust. Nothing was fetched" % (chart, plain[0])
        )


def verify(path: str, checksum: str | None) -> None:
    """Refuse an archive that is not the expected one."""
    if not checksum:
        return
    if os.path.isdir(path):
        raise HelmError(
            "Verifying the chart %s: a directory has no digest. Use the packed chart, or remove chart_checksum" % path
        )
    actual = "sha256:%s" % digest(path)
    if actual != checksum:
        raise HelmError(
            "Verifying the chart %s: its checksum is %s, expected %s (chart_checksum). Nothing was done: the file is "
            "damaged or is not the expected one" % (path, actual, checksum)
        )


def read(path: str) -> Chart:
    """Read a chart from a directory or archive."""
    try:
        files = _directory(path) if os.path.isdir(path) else _archive(path)
    except (OSError, tarfile.TarError, EOFError) as exc:
        raise HelmError(
            "Reading the chart %s: %s. Set it to a chart's directory, archive or address" % (path, exc)
        ) from exc
    return _chart(path, files)


def _directory(path: str) -> dict[str, bytes]:
    files = {}
    for where, _directories, names in os.walk(path):
        for name in names:
            full = os.path.join(where, name)
            relative = os.path.relpath(full, path)
            if relative.startswith(_WANTED) and os.path.isfile(full) and os.path.getsize(full) <= _LARGEST:
                with open(full, "rb") as source:
                    files[relative] = source.read()
    return files


def _archive(path: str, data: bytes | None = None) -> dict[str, bytes]:
    files = {}
    with tarfile.open(path if data is None else None, "r:gz", io.BytesIO(data) if data is not None else None) as source:
        for member in source:
            # All of an archive is in one directory, named as the chart.
            relative = member.name.split("/", 1)[-1]
            if not member.isfile() or member.size > _LARGEST or not relative.startswith(_WANTED):
                continue
            content = source.extractfile(member)
            if content is not None:
                files[relative] = content.read()
    return files


def _chart(path: str, files: t.Mapping[str, bytes]) -> Chart:
    if "Chart.yaml" not in files:
        raise HelmError("Reading the chart %s: it has no Chart.yaml, so it is not a chart" % path)
    try:
        about = from_yaml(files["Chart.yaml"])
    except ValueError as exc:
        raise HelmError("Reading the chart %s: Chart.yaml: %s" % (path, exc)) from exc
    if not isinstance(about, dict) or not about.get("name") or not about.get("version"):
        raise HelmError("Reading the chart %s: its Chart.yaml has no name or no version" % path)
    packed = _subcharts(path, files)
    subcharts: dict[str, Chart] = {}
    missing: list[str] = []
    conditions: dict[str, str] = {}
    dependencies = about.get("dependencies") or []
    if not isinstance(dependencies, list) or not all(isinstance(dependency, dict) for dependency in dependencies):
        raise HelmError("Reading the chart %s: Chart.yaml: dependencies must be a list of maps" % path)
    for dependency in dependencies:
        name = str(dependency.get("name"))
        key = str(dependency.get("alias") or name)
        if dependency.get("condition"):
            conditions[key] = str(dependency["condition"]).split(",", maxsplit=1)[0]
        if name in packed:
            subcharts[key] = packed.pop(name)
        else:
            missing.append(key)
    subcharts.update(packed)
    return Chart(
        path=path,
        name=str(about["name"]),
        version=str(about["version"]),
        app_version=str(about.get("appVersion") or ""),
        values=files.get("values.yaml", b"").decode("utf-8", "replace"),
        templates=_texts(files, "templates/"),
        crds=_texts(files, "crds/"),
        subcharts=subcharts,
        missing=missing,
        conditions=conditions,
    )


def _texts(files: t.Mapping[str, bytes], prefix: str) -> dict[str, str]:
    return {name: files[name].decode("utf-8", "replace") for name in sorted(files) if name.startswith(prefix)}


def _subcharts(path: str, files: t.Mapping[str, bytes]) -> dict[str, Chart]:
    trees: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        if not name.startswith("charts/"):
            continue
        first, _slash, rest = name[len("charts/") :].partition("/")
        if rest and rest.startswith(_WANTED):
            trees.setdefault(first, {})[rest] = data
        elif not rest and first.endswith(".tgz"):
            trees[first] = _archive("%s/%s" % (path, name), data)
    charts = [_chart("%s/charts/%s" % (path, name), tree) for name, tree in trees.items() if "Chart.yaml" in tree]
    return {chart.name: chart for chart in charts}


def definitions(chart: Chart, values: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the CustomResourceDefinitions in a chart's crds directory and in those of the subcharts in use."""
    result = []
    for name, text in chart.crds.items():
        if not name.endswith((".yaml", ".yml", ".json")):
            continue
        try:
            documents = [document for document in all_yaml(text, loader()) if isinstance(document, dict)]
        except ValueError as exc:
            raise HelmError("Reading %s of the chart %s: %s" % (name, chart.path, exc)) from exc
        result += [document for document in documents if document.get("kind") == "CustomResourceDefinition"]
    for key, sub in chart.subcharts.items():
        if _switched_on(chart, key, values):
            result += definitions(sub, values.get(key) or {})
    return result


def _switched_on(chart: Chart, key: str, values: t.Mapping[str, t.Any]) -> bool:
    value: t.Any
    for value in (values, defaults(chart)):
        for step in chart.conditions.get(key, "").split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return value
    return True


def defaults(chart: Chart) -> dict[str, t.Any]:
    """Return a chart's own values."""
    try:
        values = from_yaml(chart.values) or {}
    except ValueError as exc:
        raise HelmError("Reading values.yaml of the chart %s: %s" % (chart.path, exc)) from exc
    if not isinstance(values, dict):
        raise HelmError("Reading values.yaml of the chart %s: it is not a map" % chart.path)
    return values


def loader() -> t.Any:
    """Return a safe YAML loader that leaves timestamps as text, as Kubernetes does.

    libyaml's is ten times as fast on a large CRD, and not built in everywhere.
    """
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        key: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for key, resolvers in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


__all__ = ("Chart", "definitions", "loader", "read", "refuse_unverified", "verify")
