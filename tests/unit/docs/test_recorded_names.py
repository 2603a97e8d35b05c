# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that users type are those of names.txt: modules, filters, the callback, roles, playbooks, and all their options.

Code is moved without moving these. Who adds or removes one does so in the file too:

    python tests/unit/docs/test_recorded_names.py >tests/unit/docs/names.txt
"""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

import yaml

COLLECTION = Path(__file__).resolve().parents[3]
RECORD = Path(__file__).with_name("names.txt")
# REUSE-IgnoreStart
HEADER = "# Copyright: (c) 2026, rdmaops contributors\n# SPDX-License-Identifier: GPL-3.0-or-later"
# REUSE-IgnoreEnd


def documentation(path: Path) -> dict[str, t.Any] | None:
    """Return the documentation of a plugin; None for a file without any."""
    if path.suffix == ".yml":
        return t.cast("dict[str, t.Any]", yaml.safe_load(path.read_text(encoding="utf-8"))["DOCUMENTATION"])
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            return t.cast("dict[str, t.Any]", yaml.safe_load(ast.literal_eval(node.value)))
    return None


def options(name: str, entries: t.Mapping[str, t.Any] | None) -> t.Iterator[str]:
    """Yield options and their suboptions, each with the names above it."""
    for option, entry in sorted((entries or {}).items()):
        yield f"{name}.{option}"
        yield from options(f"{name}.{option}", entry.get("suboptions") or entry.get("options"))


def names() -> t.Iterator[str]:
    """Yield every name."""
    for kind in ("modules", "filter", "callback"):
        for path in sorted((COLLECTION / "plugins" / kind).glob("[a-z]*.*")):
            content = documentation(path) if path.suffix in (".py", ".yml") else None
            if content is not None:
                yield f"{kind}/{path.stem}"
                yield from options(f"{kind}/{path.stem}", content.get("options"))
    for path in sorted((COLLECTION / "roles").glob("*/meta/argument_specs.yml")):
        for entry, spec in sorted(yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].items()):
            yield f"roles/{path.parents[1].name}/{entry}"
            yield from options(f"roles/{path.parents[1].name}/{entry}", spec.get("options"))
    for path in sorted((COLLECTION / "playbooks").glob("*.yml")):
        yield f"playbooks/{path.stem}"


def test_names_are_those_of_the_record() -> None:
    recorded = [line for line in RECORD.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    now = list(names())
    assert sorted(set(recorded) - set(now)) == [], "these are gone"
    assert sorted(set(now) - set(recorded)) == [], "these are not recorded"


if __name__ == "__main__":
    print("\n".join([HEADER, *names()]))
