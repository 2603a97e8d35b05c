# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pages name is there: files, links, modules, roles, playbooks, variables, targets of make, commands of the lab."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.suite.parts import PARTS
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.tools import architecture

PAGES = [
    COLLECTION / name
    for name in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "MAINTAINERS.md", "SECURITY.md")
]
PAGES += sorted((COLLECTION / "docs").glob("*.md"))
ROLES = sorted(path.name for path in (COLLECTION / "roles").iterdir())
PLAYBOOKS = sorted(path.stem for path in (COLLECTION / "playbooks").glob("*.yml"))
PLUGINS = {
    kind: sorted(path.stem for path in (COLLECTION / "plugins" / kind).glob("[a-z]*.py"))
    for kind in ("modules", "filter", "callback", "action")
}
VARIABLES = {
    name
    for path in COLLECTION.glob("roles/*/meta/argument_specs.yml")
    for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
    for name in entry.get("options") or {}
}
# Facts that a role sets, and what a playbook takes beside its roles.
FACTS = {
    name
    for path in COLLECTION.glob("roles/*/tasks/*.yml")
    for name in re.findall(r"^ +(?:register: )?([a-z][a-z_]+)(?::|$)", path.read_text(), re.M)
} | {"node_maintenance_batch", "teardown_gpu_operator_ok", "teardown_namespaces_ok", "teardown_ok"}
# Groups of an inventory: kubernetes_api is one, and no variable of the role kubernetes.
GROUPS = set(yaml.safe_load((COLLECTION / "inventories/example/hosts.yml").read_text())["all"]["children"])
# Statistics of a run, which are artifacts of a job.
FACTS |= set(re.findall(r'"(drift_[a-z]+)"', (COLLECTION / "plugins/action/drift_verdict.py").read_text()))
TOP = (
    "docs/", "inventories/", "molecule/", "playbooks/", "plugins/", "requirements/", "roles/", "tests/", "changelogs/",
)  # fmt: skip

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)


def code(page: Path) -> list[str]:
    """The code of a page: spans, and blocks by their lines."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", text) + re.findall(r"^ {4,}(\S.*)$", text, re.M)


def words(page: Path, pattern: str) -> set[str]:
    return {match for text in code(page) for match in re.findall(pattern, text)}


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _hash, part = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), target
        if part:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M)
            assert part in map(anchor, headings), target


@by_page
def test_files_of_the_repository_are_there(page: Path) -> None:
    generated = ("docs/reference", "inventories/mysite", "inventories/lab")
    for word in words(page, r"[\w./*<>-]+/[\w./*<>-]*"):
        if word.startswith(TOP) and "<" not in word and not word.startswith(generated):
            assert list(COLLECTION.glob(word.rstrip("/"))), word


@by_page
def test_names_of_the_collection_are_there(page: Path) -> None:
    known = {*ROLES, *PLAYBOOKS, *(name for names in PLUGINS.values() for name in names), "gpu_fabric"}
    for word in words(page, r"rdmaops\.gpu_fabric\.([a-z_]+)"):
        assert word in known, word


@by_page
def test_variables_are_those_of_roles(page: Path) -> None:
    prefixes = tuple(role + "_" for role in ROLES)
    modules = {*PLUGINS["modules"], *PLUGINS["filter"], *ROLES, *PLAYBOOKS}
    for word in words(page, r"(?<![\w./-])([a-z]+(?:_[a-z0-9]+)+)(?![\w./(-])"):
        if word.startswith(prefixes) and word not in modules:
            assert word in VARIABLES | FACTS | GROUPS, word


@by_page
def test_targets_of_make_are_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):(?!=)", (COLLECTION / "Makefile").read_text(), re.M))
    known = {name for line in targets for name in line.split()}
    parts = {part.name for part in PARTS}
    for word in words(page, r"\bmake ([a-z-]+)"):
        assert word in known, word
    for value in words(page, r'(?:PART|ONLY|FROM)=("[a-z -]+"|[a-z-]+)'):
        assert set(value.strip('"').split()) <= parts, value


@by_page
def test_commands_of_the_lab_are_there(page: Path) -> None:
    lab = (COLLECTION / "tests/lab/cli.py").read_text(encoding="utf-8")
    for first, second in {
        match for text in code(page) for match in re.findall(r"lab\.py ([a-z]+)(?: ([a-z]+)\b)?", text)
    }:
        for text in (first, second) if first == "cluster" else (first,):
            assert re.search(rf'(?:add|add_parser)\("{text}"', lab), (first, second)


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_page_of_contents_has_every_name_once() -> None:
    text = (COLLECTION / "docs/contents.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([a-z][a-z, ]*) \| (.*) \|$", section(text, "Names"), re.M))

    def named(*kinds: str) -> list[str]:
        cells = " ".join(cell for title, cell in rows.items() if title.split(",")[0] in kinds)
        # What is in brackets says what the name before does.
        return sorted(re.findall(r"`([a-z_]+)`", re.sub(r"\([^()]*\)", "", cells)))

    assert named("playbooks") == PLAYBOOKS
    assert named("roles") == ROLES
    assert named("filters") == PLUGINS["filter"]
    drift = sorted({"drift", "drift_verdict"})
    assert named("drift") == drift
    assert sorted(named("modules") + ["drift_verdict"]) == PLUGINS["modules"]


def test_the_index_has_every_page() -> None:
    text = (COLLECTION / "docs/README.md").read_text(encoding="utf-8")
    pages = {page.name for page in PAGES if page.parent.name == "docs"} - {"README.md"}
    assert set(re.findall(r"\]\(([a-z0-9-]+\.md)\)", text)) == pages


@pytest.mark.parametrize("page", [path for path in PAGES if path.parent.name == "docs"], ids=lambda path: path.stem)
def test_a_page_begins_with_what_it_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8").split("-->\n", 1)[1].strip()
    title, first = text.split("\n\n")[:2]
    assert title.startswith("# ")
    assert first.startswith(("This page shows", "This page lists")), first


def test_the_picture_has_every_role_and_playbook_and_is_drawn_anew() -> None:
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture(), "tests/tools/architecture.py"
    assert sorted(architecture.ON_NODES + architecture.ON_CLUSTER + architecture.ELSEWHERE) == ROLES
    assert sorted(architecture.PLAYBOOKS) == PLAYBOOKS


def test_ansible_lists_the_inventories_that_pages_name() -> None:
    program = Path(sys.executable).parent / "ansible-inventory"
    names = {word for page in PAGES for word in words(page, r"inventories/([a-z0-9_]+)")} - {"mysite", "lab"}
    assert names == {path.parent.name for path in COLLECTION.glob("inventories/*/hosts.yml")} - {"lab"}
    argv: list[t.Any] = [program, "--list", "-i", COLLECTION / "inventories/roce_nvidia"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert '"gpu-02"' in done.stdout, done.stderr


def test_every_download_is_on_the_page_for_sites_without_internet() -> None:
    text = (COLLECTION / "docs/offline.md").read_text(encoding="utf-8")
    addresses = []
    for path in COLLECTION.glob("roles/*/defaults/main.yml"):
        for name, value in yaml.safe_load(path.read_text()).items():
            if re.search(r"https://|nvcr\.io", str(value)) and not name.endswith("_checksum"):
                addresses.append(name)
    assert len(addresses) > 5
    assert [name for name in addresses if f"`{name}" not in text] == []


def test_the_page_on_the_lab_has_every_scenario() -> None:
    text = (COLLECTION / "docs/lab.md").read_text(encoding="utf-8")
    scenarios = sorted(path.parent.name for path in COLLECTION.glob("molecule/*/molecule.yml"))
    assert sorted(re.findall(r"^\| `([a-z]+)` \|", section(text, "Scenarios"), re.M)) == scenarios


def test_make_help_and_the_readme_agree() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (COLLECTION / "Makefile").read_text(encoding="utf-8"), re.M))
    readme = section(PAGES[0].read_text(encoding="utf-8"), "Development")
    assert set(re.findall(r"^    make ([a-z-]+)", readme, re.M)) <= targets
