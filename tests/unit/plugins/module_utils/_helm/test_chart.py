# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm import chart as helm_chart
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._helm.output import HelmError
from ansible_collections.rdmaops.gpu_fabric.tests.support import charts
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


def test_a_directory_and_its_archive_are_the_same_chart(tmp_path: Path) -> None:
    first = helm_chart.read(str(charts.chart(tmp_path)))
    second = helm_chart.read(str(charts.packed(tmp_path)))
    assert (first.name, first.version, first.app_version) == ("gpu-operator", "v25.3.0", "v25.3.0")
    assert list(first.subcharts) == ["node-feature-discovery"]
    assert first.conditions == {"node-feature-discovery": "nfd.enabled"}
    assert (first.values, first.templates, first.crds) == (second.values, second.templates, second.crds)


def test_crds_follow_the_subcharts_condition(tmp_path: Path) -> None:
    chart = helm_chart.read(str(charts.chart(tmp_path)))
    names = [definition["metadata"]["name"] for definition in helm_chart.definitions(chart, {})]
    assert names == ["clusterpolicies.nvidia.com", "nvidiadrivers.nvidia.com", "nodefeatures.nfd.k8s-sigs.io"]
    assert len(helm_chart.definitions(chart, {"nfd": {"enabled": False}})) == 2


def test_a_packed_subchart_and_a_missing_one(tmp_path: Path) -> None:
    place = charts.chart(tmp_path)
    inner = place / "charts" / "node-feature-discovery"
    with tarfile.open(place / "charts" / "node-feature-discovery-0.17.2.tgz", "w:gz") as sink:
        sink.add(inner, "node-feature-discovery")
    inner.rename(tmp_path / "away")
    chart = helm_chart.read(str(place))
    assert chart.subcharts["node-feature-discovery"].version == "0.17.2"
    assert chart.missing == []
    (place / "charts" / "node-feature-discovery-0.17.2.tgz").unlink()
    assert helm_chart.read(str(place)).missing == ["node-feature-discovery"]


def archive(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as sink:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            sink.addfile(member, io.BytesIO(text.encode()))
    return path


# files of an archive, what the message has
BROKEN = [
    ({"x/values.yaml": "a: 1"}, "it has no Chart.yaml, so it is not a chart"),
    ({"x/Chart.yaml": "a: ["}, "Chart.yaml: while parsing"),
    ({"x/Chart.yaml": "name: x"}, "its Chart.yaml has no name or no version"),
]


@pytest.mark.parametrize(("files", "text"), BROKEN, ids=["none", "broken", "incomplete"])
def test_what_is_no_chart(files: dict[str, str], text: str, tmp_path: Path) -> None:
    assert text in message_of(HelmError, helm_chart.read, str(archive(tmp_path / "x.tgz", files)))


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_text("not an archive")
    message = message_of(HelmError, helm_chart.read, str(tmp_path / "x.tgz"))
    assert "Set it to a chart's directory, archive or address" in message


DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("chart", "repo_url"),
    [("gpu-operator", "http://charts.example.org"), ("HTTP://charts.example.org/gpu-operator.tgz", None)],
)
def test_plain_http_needs_a_digest(chart: str, repo_url: str | None) -> None:
    assert message_of(HelmError, helm_chart.refuse_unverified, chart, repo_url, None) == (
        f"Fetching the chart {chart}: {repo_url or chart} is plain http, and the download would not be "
        "verified. Set an https:// address, or the digest of the archive in chart_checksum: run helm pull and "
        "sha256sum on a machine and network that you trust. Nothing was fetched"
    )
    helm_chart.refuse_unverified(chart, repo_url, DIGEST)


def test_https_and_files_need_none() -> None:
    for chart, repo_url in (("gpu-operator", "https://charts.example.org"), ("/srv/x.tgz", None), ("nvidia/x", None)):
        helm_chart.refuse_unverified(chart, repo_url, None)
    for wrong in ("sha256:abc", "abc", "sha256:http://charts.example.org/sums"):
        with pytest.raises(
            HelmError, match="chart_checksum is .* Set it to sha256: and 64 lowercase hexadecimal digits"
        ):
            helm_chart.refuse_unverified("/srv/x.tgz", None, wrong)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "x.tgz"
    archive.write_bytes(b"one")
    right = "sha256:" + hashlib.sha256(b"one").hexdigest()
    helm_chart.verify(str(archive), right)
    helm_chart.verify(str(archive), None)
    assert message_of(HelmError, helm_chart.verify, str(archive), DIGEST) == (
        f"Verifying the chart {archive}: its checksum is {right}, expected {DIGEST} (chart_checksum). Nothing "
        "was done: the file is damaged or is not the expected one"
    )
    with pytest.raises(HelmError, match="a directory has no digest. Use the packed chart, or remove chart_checksum"):
        helm_chart.verify(str(tmp_path), DIGEST)
