# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who imports whom below plugins/: rooms, levels, cycles; and docs/images/rooms.svg, drawn from the same graph.

python tests/tools/rooms.py
"""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
PACKAGE = "ansible_collections.rdmaops.gpu_fabric."

# A room imports rooms of lower levels only. A name alone is a directory of module_utils.
LEVELS = (
    ("module_utils",),
    (
        "_awx", "_boot", "_cni", "_images", "_initramfs", "_kmod", "_kubernetes", "_netns", "_rails",
        "_rdma", "_sysctl", "_tool_output",
    ),
    ("_claims", "_helm", "_kubeadm", "_module_params", "_net_attach_def", "_pod_exec", "_rdma_devices", "_whereabouts"),
    ("_fabric", "_gpu_operator", "_node_drain", "_rdma_mode", "_rdma_mode_conflicts", "_training_job", "_transport"),
    ("_host",),
    ("modules", "plugin_utils"),
    (
        "plugin_utils/_drift", "plugin_utils/_experiment", "plugin_utils/_fabric", "plugin_utils/_kubernetes",
        "plugin_utils/_run_check", "plugin_utils/_run_summary",
    ),
    ("action", "callback", "doc_fragments", "filter"),
)  # fmt: skip
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}

Graph = dict[str, set[str]]


def sources(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each file by its path below plugins/, without the suffix: ``module_utils/_kmod/plan``."""
    plugins = root / "plugins"
    return {
        path.relative_to(plugins).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(plugins.rglob("*.py"))
    }


def room(name: str) -> str:
    """Return the room that a file is in."""
    parts = name.split("/")
    if parts[0] == "module_utils":
        return parts[1] if len(parts) == 3 else parts[0]
    return "/".join(parts[:-1])


def imports(texts: t.Mapping[str, str]) -> Graph:
    """Return what each file imports of the others, in functions and for types too."""
    graph: Graph = {}
    for name, text in texts.items():
        graph[name] = set()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom):
                continue
            base = (node.module or "").replace(".", "/")
            if node.level:
                base = "/".join([*name.split("/")[: -node.level], *filter(None, [base])])
            elif (node.module or "").startswith(PACKAGE + "plugins."):
                base = base[len(PACKAGE + "plugins.") :]
            else:
                continue
            for alias in node.names:
                graph[name] |= {
                    target for target in (f"{base}/{alias.name}", base) if target in texts and target != name
                }
    return graph


def cycles(graph: Graph) -> list[list[str]]:
    """Return groups of files that import each other, directly or by way of others (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return groups


def allowed(name: str, target: str) -> bool:
    """Return whether a file may import another: in its own room, or in one below."""
    here, there = room(name), room(target)
    return here == there or LEVEL.get(there, 99) < LEVEL.get(here, 99)


def problems(graph: Graph) -> list[str]:
    """Return what is wrong: cycles, imports that do not go down, files without a room."""
    wrong = ["a cycle: %s" % ", ".join(group) for group in cycles(graph)]
    for name in graph:
        if room(name) not in LEVEL:
            wrong.append("%s is in no room of tests/tools/rooms.py" % name)
    for name, targets in graph.items():
        wrong += [
            "%s imports %s, which is not below it" % (name, target)
            for target in sorted(targets)
            if not allowed(name, target)
        ]
    return wrong


def between(graph: Graph) -> dict[str, set[str]]:
    """Return the rooms that each room imports, but the files that all may import."""
    imported: dict[str, set[str]] = {name: set() for name in LEVEL}
    for name, targets in graph.items():
        imported[room(name)] |= {room(target) for target in targets} - {room(name), "module_utils"}
    return imported


def table(texts: t.Mapping[str, str]) -> list[str]:
    """Return the rows of the rooms for docs/architecture.md: what a room owns, and what it imports."""
    arrows = between(imports(texts))
    rows = []
    for number, rooms in enumerate(LEVELS):
        for name in rooms:
            path = "module_utils/" + name if name.startswith("_") else name
            owns = (ast.get_docstring(ast.parse(texts.get(path + "/__init__", ""))) or "").split("\n")[0]
            if owns:
                rows.append("| %d | `plugins/%s` | %s | %s |" % (number, path, owns, ", ".join(sorted(arrows[name]))))
    return rows


# --- the picture ---

WIDTH, ROW, BOX, GAP = 1240, 92, 30, 12


def _places() -> dict[str, tuple[float, float, float]]:
    """Return x, y and width of each room's box: a line of boxes for each level, the lowest one at the bottom."""
    places = {}
    for number, rooms in enumerate(LEVELS):
        widths = [18 + 7.1 * len(name) for name in rooms]
        x = (WIDTH - sum(widths) - GAP * (len(rooms) - 1)) / 2
        y = 20.0 + (len(LEVELS) - 1 - number) * ROW
        for name, width in zip(rooms, widths, strict=True):
            places[name] = (x, y, width)
            x += width + GAP
    return places


def picture(texts: t.Mapping[str, str]) -> str:
    """Return the picture; what everything imports, at the bottom, has no lines."""
    places = _places()
    height = 20 + len(LEVELS) * ROW
    rows = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
        % (WIDTH, height, WIDTH, height),
        "<title>The packages below plugins/ and which of them import which</title>",
        "<style>text{font-family:DejaVu Sans Mono,monospace;font-size:11px;fill:#1c2833}</style>",
        '<rect width="%d" height="%d" fill="#ffffff"/>' % (WIDTH, height),
    ]
    for name, targets in between(imports(texts)).items():
        x, y, width = places[name]
        for target in sorted(targets):
            to_x, to_y, to_width = places[target]
            rows.append(
                '<path d="M%.0f,%.0f C%.0f,%.0f %.0f,%.0f %.0f,%.0f" fill="none" stroke="#7f93a6" stroke-opacity="0.6"/>'
                % (
                    x + width / 2,
                    y + BOX,
                    x + width / 2,
                    y + BOX + 36,
                    to_x + to_width / 2,
                    to_y - 36,
                    to_x + to_width / 2,
                    to_y,
                )
            )
    for name, (x, y, width) in places.items():
        fill = "#fdf3e3" if LEVEL[name] > 4 else "#eef4fb" if LEVEL[name] else "#eaf7ee"
        rows.append(
            '<rect x="%.0f" y="%.0f" width="%.0f" height="%d" rx="6" fill="%s" stroke="#5a6b7b"/>'
            % (x, y, width, BOX, fill)
        )
        rows.append(
            '<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>' % (x + width / 2, y + BOX / 2 + 4, escape(name))
        )
    return "\n".join([*rows, "</svg>"]) + "\n"


def main() -> None:
    texts = sources()
    graph = imports(texts)
    PICTURE.write_text(picture(texts), encoding="utf-8")
    print("\n".join(table(texts)))
    print("%s: %d files, %d rooms, %d levels" % (PICTURE.relative_to(ROOT), len(graph), len(LEVEL), len(LEVELS)))
    for line in problems(graph):
        print(line)


if __name__ == "__main__":
    main()
