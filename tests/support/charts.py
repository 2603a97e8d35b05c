# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart of our own with the names of NVIDIA's: values, objects and CRDs, small enough for a control plane without nodes.

The templates are kept as .tpl, because they are no YAML before helm has read them.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

PLACE = Path(__file__).resolve().parent / "gpu-operator-chart"
# A default that v26.7.0 has changed (NVIDIA/gpu-operator#2262).
MONITOR = "  serviceMonitor:\n    enabled: %s\n"


def chart(directory: Path, *layers: str) -> Path:
    """Make the chart in a directory, version v25.3.0 unless layers (v25.10.0, v26.7.0 on top of it, old-crd) say otherwise."""
    target = directory / "-".join(("gpu-operator", *layers))
    for layer in ("base", *layers):
        shutil.copytree(PLACE / layer, target, dirs_exist_ok=True)
    more = target / "values-more.yaml"
    if more.exists():
        with (target / "values.yaml").open("a") as values:
            values.write(more.read_text().partition("---\n")[2])
        more.unlink()
    if "v26.7.0" in layers:
        text = (target / "values.yaml").read_text()
        (target / "values.yaml").write_text(text.replace(MONITOR % "false", MONITOR % "true"))
    for template in target.rglob("templates/*.tpl"):
        template.rename(template.with_suffix(".yaml"))
    return target


def packed(directory: Path, *layers: str) -> Path:
    """Make the chart as an archive."""
    source = chart(directory, *layers)
    archive = source.with_suffix(".tgz") if not layers else directory / f"{source.name}.tgz"
    with tarfile.open(archive, "w:gz") as sink:
        sink.add(source, "gpu-operator")
    return archive


__all__ = ["PLACE", "chart", "packed"]

if __name__ == "__main__":
    print(packed(Path(sys.argv[1]), *sys.argv[2:]))
