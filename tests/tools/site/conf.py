# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Sphinx renders docs/ as a site: the pages as they are, in the order of docs/README.md."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

if t.TYPE_CHECKING:  # pragma: no cover
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[3]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
REPOSITORY = GALAXY["repository"].removesuffix(".git")

project = "%s.%s" % (GALAXY["namespace"], GALAXY["name"])
version = release = str(GALAXY["version"])
author = "rdmaops contributors"
project_copyright = "2026, rdmaops contributors"

extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["rbac/*"]
# Links to headings, as forges make them.
myst_heading_anchors = 4
html_theme = "furo"
html_title = "gpu_fabric %s" % release
html_show_sphinx = False
# The site is readable without JavaScript; search is not. Nothing is loaded from elsewhere.
html_copy_source = False

LINK = re.compile(r"\]\(([a-z0-9-]+|reference/README)\.md\)")
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)(?!\.)([^)\s]+)\)")


def navigation(text: str) -> str:
    """Return the table of contents: a part for each heading of the first page, with the pages that it links."""
    parts = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _newline, body = section.partition("\n")
        pages = dict.fromkeys(LINK.findall(body))
        if pages:
            parts.append("```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (title.strip(), "\n".join(pages)))
    return "\n".join(parts)


def to_the_repository(page: str, text: str) -> str:
    """Return a page whose links to files outside docs/ lead to the repository."""
    depth = page.count("/")

    def link(match: re.Match[str]) -> str:
        up, path = match[1].count("../"), match[2]
        if up <= depth:
            return match[0]
        kind = "tree" if (ROOT / path.partition("#")[0]).is_dir() else "blob"
        return "](%s/%s/main/%s)" % (REPOSITORY, kind, path)

    return OUTSIDE.sub(link, text)


def read(_app: Sphinx, page: str, content: list[str]) -> None:
    text = to_the_repository(page, content[0])
    if page == root_doc:
        text += "\n" + navigation(text)
    if page == "reference/README":
        text += "\n```{toctree}\n:hidden:\n:glob:\n\nplaybooks\nroles/*\nmodules/*\nfilters/*\ncallbacks/*\n```\n"
    content[0] = text


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)
