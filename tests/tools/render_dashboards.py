# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the dashboards as Grafana would, from a Prometheus that watches the made-up site of tests/integration/monitoring.

    python tests/tools/render_dashboards.py docs/images

It needs matplotlib, which no test does, and this collection's own environment for the rest:
pip install --target DIRECTORY matplotlib, and PYTHONPATH=DIRECTORY.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
import typing as t
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import dates
from matplotlib.ticker import FuncFormatter
from PIL import Image

from ansible_collections.rdmaops.gpu_fabric.tests.integration.monitoring.running import Site, site
from ansible_collections.rdmaops.gpu_fabric.tests.support import prometheus

STEP = 1.0
PREFIXES = ("", "k", "M", "G", "T")
# Grafana's units -> what stands behind the number.
UNITS = {"bps": "b/s", "pps": "p/s", "cps": "/s", "watt": "W", "hertz": "Hz", "percent": "%", "celsius": "°C"}


def load(seconds: float) -> float:
    """How busy the fabric is: steps of a training job, with a pause in the middle."""
    if 70 < seconds % 120 < 85:
        return 0.02
    return 0.55 + 0.35 * math.sin(seconds / 5) ** 2


def number(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "mbytes":
        return f"{value / 1024:.3g} GiB"
    if unit in ("percent", "none"):
        return f"{value:.4g} {UNITS.get(unit, '')}".strip()
    power = 0
    while abs(value) >= 1000 and power < len(PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {PREFIXES[power]}{UNITS.get(unit, '')}".strip()


def legend(target: t.Mapping[str, t.Any], labels: t.Mapping[str, str]) -> str:
    text: str = target["legendFormat"]
    for name, value in labels.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def draw_series(
    axes: t.Any, panel: t.Mapping[str, t.Any], server: prometheus.Prometheus, values: t.Any, seconds: float
) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    for target in panel["targets"]:
        for line in server.range(prometheus.substituted(target["expr"], values), seconds, STEP):
            xs = [at / 86400 for at, _value in line["values"]]
            ys = [float(value) for _at, value in line["values"]]
            if defaults["custom"]["drawStyle"] == "bars":
                axes.bar(xs, ys, width=STEP / 86400, label=legend(target, line["metric"]))
            else:
                axes.plot(xs, ys, linewidth=1, label=legend(target, line["metric"]))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    axes.xaxis.set_major_locator(dates.AutoDateLocator(maxticks=5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _at: number(value, defaults["unit"])))
    axes.set_ylim(bottom=0, top=defaults.get("max"))
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=6)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles[:12], labels[:12], fontsize=5, loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False)


def draw_stat(axes: t.Any, panel: t.Mapping[str, t.Any], server: prometheus.Prometheus, values: t.Any) -> None:
    (target,) = panel["targets"]
    samples = server.query(prometheus.substituted(target["expr"], values))
    defaults = panel["fieldConfig"]["defaults"]
    value = float(samples[0]["value"][1]) if samples else None
    steps = defaults["thresholds"]["steps"]
    color = [
        step["color"] for step in steps if step["value"] is None or (value is not None and value >= step["value"])
    ][-1]
    text = "No data" if value is None else number(value, defaults["unit"])
    axes.text(0.5, 0.45, text, ha="center", va="center", fontsize=17, color=color)
    axes.axis("off")


def rows(
    panel: t.Mapping[str, t.Any], server: prometheus.Prometheus, values: t.Any
) -> tuple[list[str], list[list[str]]]:
    """The names of a table's columns and what is in its rows, the panel's transformations done."""
    merged: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    several = len(panel["targets"]) > 1
    for target in panel["targets"]:
        for sample in server.query(prometheus.substituted(target["expr"], values)):
            row = merged.setdefault(tuple(sorted(sample["metric"].items())), dict(sample["metric"]))
            row[f"Value #{target['refId']}" if several else "Value"] = sample["value"][1]
    options = next(step["options"] for step in panel["transformations"] if step["id"] == "organize")
    names: dict[str, str] = options["renameByName"]
    columns = sorted(names, key=lambda name: options.get("indexByName", {}).get(name, 99))
    columns = [name for name in columns if any(name in row for row in merged.values())]
    changes = {
        override["matcher"]["options"]: {change["id"]: change["value"] for change in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }
    return [names[name] for name in columns], [
        [cell(row.get(name, ""), changes.get(names[name], {})) for name in columns] for row in merged.values()
    ]


def cell(text: str, changes: t.Mapping[str, t.Any]) -> str:
    for mapping in changes.get("mappings", []):
        text = mapping["options"].get(text, {}).get("text", text)
    return number(float(text), changes["unit"]) if text and "unit" in changes else text


def draw_table(axes: t.Any, panel: t.Mapping[str, t.Any], server: prometheus.Prometheus, values: t.Any) -> None:
    columns, cells = rows(panel, server, values)
    axes.axis("off")
    if not cells:
        axes.text(0.5, 0.5, "No data", ha="center", va="center", color="gray")
        return
    table = axes.table(cellText=cells[:9], colLabels=columns, loc="upper left", cellLoc="left", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(6)


def marks(dashboard: t.Mapping[str, t.Any], server: prometheus.Prometheus, values: t.Any, seconds: float) -> t.Any:
    """When each annotation of a dashboard begins, and its colour."""
    for annotation in dashboard["annotations"]["list"]:
        for line in server.range(prometheus.substituted(annotation["expr"], values), seconds, STEP):
            yield line["values"][0][0] / 86400, annotation["iconColor"]


def draw(dashboard: t.Mapping[str, t.Any], monitored: Site, seconds: float, file: Path) -> None:
    values = {"__rate_interval": "4s", "__interval": "1s", "__range": f"{int(seconds)}s"}
    for variable in dashboard["templating"]["list"][1:]:
        values[variable["name"]] = ".*"
    if "job" in values:
        values.update(namespace="ml", job="train")
    events = list(marks(dashboard, monitored.server, values, seconds))
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    figure = plt.figure(figsize=(13, height * 0.31), dpi=80)
    figure.suptitle(dashboard["title"], fontsize=11, x=0.01, ha="left", y=0.998, va="top")
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        legend_room = 0.14 if panel["type"] == "timeseries" else 0.01
        left, width = place["x"] / 24 + 0.04, place["w"] / 24 - 0.05 - legend_room
        if panel["type"] != "timeseries":
            left, width = place["x"] / 24 + 0.01, place["w"] / 24 - 0.02
        bottom = 1 - (place["y"] + place["h"] - 0.9) / (height + 1) - 1 / (height + 1)
        axes = figure.add_axes((left, bottom, width, (place["h"] - 2.1) / (height + 1)))
        axes.set_title(panel["title"], fontsize=7, loc="left", fontweight="bold")
        if panel["type"] == "timeseries":
            draw_series(axes, panel, monitored.server, values, seconds)
            for at, color in events:
                axes.axvline(at, color=color, linewidth=0.8, linestyle="--")
        elif panel["type"] == "stat":
            draw_stat(axes, panel, monitored.server, values)
        else:
            draw_table(axes, panel, monitored.server, values)
    figure.savefig(file)
    plt.close(figure)
    with Image.open(file) as drawn:
        few = drawn.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE)
    few.save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=120, help="of traffic to show (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    quick: dict[str, t.Any] = {"monitoring_for": "5s", "monitoring_unreadable_for": "5s"}
    with tempfile.TemporaryDirectory() as place, site(Path(place), load, **quick) as monitored:
        time.sleep(arguments.seconds / 2)
        shutil.rmtree(monitored.made.tree.root / "class/infiniband/mlx5_1")
        monitored.made.tree.device("mlx5_5", 50, netdev="rail50").breaks("ports/1/counters/symbol_error")
        time.sleep(arguments.seconds / 2)
        for name, dashboard in prometheus.dashboards().items():
            file = arguments.directory / f"monitoring-{name.removeprefix('rdmaops-').removesuffix('.json')}.png"
            draw(dashboard, monitored, arguments.seconds, file)
            print(f"{file}: {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
