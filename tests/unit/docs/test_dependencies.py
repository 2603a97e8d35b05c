# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection needs no other: its playbooks, roles and plugins name modules and plugins of ansible-core and its own."""

from __future__ import annotations

import re

import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

OWN = ("ansible.builtin.", "rdmaops.gpu_fabric.")
# A module or an action as a key, and a filter, a test or a lookup in an expression.
NAMES = re.compile(
    r"^[ -]*([a-z_]+\.[a-z_]+\.[a-z_0-9.]+):(?: |$)"
    r"|(?:\||\bis(?: not)?) *([a-z_]+\.[a-z_]+\.[a-z_0-9]+)"
    r"|(?:lookup|query)\('([a-z_]+\.[a-z_]+\.[a-z_0-9]+)'",
    re.M,
)


def foreign(text: str) -> set[str]:
    """Return the full names of other collections in a file of YAML."""
    names = {name for match in NAMES.findall(text) for name in match if name}
    return {name for name in names if not name.startswith(OWN)}


def test_roles_and_playbooks_use_no_other_collection() -> None:
    paths = [
        path for part in ("tasks", "vars", "defaults", "handlers") for path in COLLECTION.glob(f"roles/*/{part}/*.yml")
    ]
    paths += COLLECTION.glob("playbooks/*.yml")
    found = {str(path.relative_to(COLLECTION)): foreign(path.read_text(encoding="utf-8")) for path in paths}
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}


def test_the_search_finds_modules_filters_and_lookups() -> None:
    text = "- name: Look\n  kubernetes.core.k8s_info:\n    kind: \"{{ x | community.general.json_query('y') }}\"\n"
    text += "    src: \"{{ lookup('community.hashi_vault.vault_read', 'x') }}\"\n  ansible.builtin.debug:\n"
    assert foreign(text) == {
        "kubernetes.core.k8s_info",
        "community.general.json_query",
        "community.hashi_vault.vault_read",
    }


def test_plugins_import_no_other_collection() -> None:
    imports = re.compile(r"ansible_collections\.([a-z_]+\.[a-z_]+)")
    found = {
        name
        for path in COLLECTION.glob("plugins/**/*.py")
        for name in imports.findall(path.read_text(encoding="utf-8"))
    }
    assert found <= {"rdmaops.gpu_fabric"}


def test_galaxy_yml_has_no_dependencies() -> None:
    assert yaml.safe_load((COLLECTION / "galaxy.yml").read_text())["dependencies"] == {}
    required = yaml.safe_load((COLLECTION / "collections/requirements.yml").read_text())["collections"]
    assert required == [{"source": ".", "type": "dir"}]
