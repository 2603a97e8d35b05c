# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/reference from the documentation in modules, filters, the callback, argument specifications and playbooks,
the README of each role, which Galaxy takes no role without, and the table of docs/support.md.

    python tests/tools/reference.py            write it
    python tests/tools/reference.py --check    exit with 1, and name the files, where it is not what the code says

antsibull-docs writes reStructuredText for a site of Sphinx; here it is Markdown, which a repository shows as it is. The
markup is read by antsibull-docs' own parser.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml
from antsibull_docs_parser import dom
from antsibull_docs_parser.format import Formatter, LinkProvider, format_paragraphs
from antsibull_docs_parser.parser import Context, parse

from ansible_collections.rdmaops.gpu_fabric.tests.support import matrix

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
# A page of which one table is made from what is tested.
SUPPORT = ROOT / "docs" / "support.md"
COLLECTION = "rdmaops.gpu_fabric"
# How a kind of plugin is called, and the directory of its pages.
KINDS = {"module": "modules", "role": "roles", "filter": "filters", "callback": "callbacks"}
HEADER = """<!--
Copyright: (c) 2026, rdmaops contributors
SPDX-License-Identifier: GPL-3.0-or-later

Written by tests/tools/reference.py (make docs). Change what the code says instead.
-->
"""

Json = dict[str, t.Any]


def page_of(kind: str, name: str) -> str:
    return "%s/%s.md" % (KINDS[kind], name.rsplit(".", 1)[-1])


class Links(LinkProvider):
    """Links between the pages of this reference; what belongs to others has none."""

    def __init__(self, known: t.Collection[str]) -> None:
        self.known = known

    def plugin_link(self, plugin: dom.PluginIdentifier) -> str | None:
        where = page_of(plugin.type, plugin.fqcn) if plugin.type in KINDS else ""
        return "../" + where if where in self.known and plugin.fqcn.startswith(COLLECTION + ".") else None

    def plugin_option_like_link(
        self,
        plugin: dom.PluginIdentifier,
        entrypoint: str | None,
        what: str,
        name: list[str],
        current_plugin: bool,
    ) -> str | None:
        return None if current_plugin else self.plugin_link(plugin)


class NoLinks(LinkProvider):
    """For a text that is shown elsewhere, too."""


class Markdown(Formatter):
    """Markdown that is readable as a text, too."""

    def format_error(self, part: dom.ErrorPart) -> str:
        raise SystemExit("reference: %s" % part.message)

    def format_bold(self, part: dom.BoldPart) -> str:
        return "**%s**" % plain(part.text)

    def format_code(self, part: dom.CodePart) -> str:
        return code(part.text)

    def format_horizontal_line(self, part: dom.HorizontalLinePart) -> str:
        return "\n"

    def format_italic(self, part: dom.ItalicPart) -> str:
        return "*%s*" % plain(part.text)

    def format_link(self, part: dom.LinkPart) -> str:
        return "[%s](%s)" % (plain(part.text), part.url)

    def format_module(self, part: dom.ModulePart, url: str | None) -> str:
        return linked(part.fqcn, url)

    def format_rst_ref(self, part: dom.RSTRefPart) -> str:
        return plain(part.text)

    def format_url(self, part: dom.URLPart) -> str:
        return "<%s>" % part.url

    def format_text(self, part: dom.TextPart) -> str:
        return plain(part.text)

    def format_env_variable(self, part: dom.EnvVariablePart) -> str:
        return code(part.name)

    def format_option_name(self, part: dom.OptionNamePart, url: str | None) -> str:
        text = code(part.name if part.value is None else "%s=%s" % (part.name, part.value))
        return "[%s](%s)" % (text, url) if url else text

    def format_option_value(self, part: dom.OptionValuePart) -> str:
        return code(part.value)

    def format_plugin(self, part: dom.PluginPart, url: str | None) -> str:
        return linked(part.plugin.fqcn, url)

    def format_return_value(self, part: dom.ReturnValuePart, url: str | None) -> str:
        text = code(part.name if part.value is None else "%s=%s" % (part.name, part.value))
        return "[%s](%s)" % (text, url) if url else text


def plain(text: str) -> str:
    """Return text of which Markdown makes nothing else."""
    for letter in "\\`*_[]<":
        text = text.replace(letter, "\\" + letter)
    return text


def code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return fence + text + fence if text else "``(empty)``"


def linked(fqcn: str, url: str | None) -> str:
    name = fqcn.removeprefix(COLLECTION + ".")
    return "[%s](%s)" % (code(name), url) if url else code(fqcn)


class Writer:
    """The pages, from what ansible-doc says."""

    def __init__(self, documentation: Json, playbooks: t.Sequence[Path]) -> None:
        self.documentation = documentation
        self.playbooks = playbooks
        self.names = {kind: sorted(documentation[kind]) for kind in KINDS}
        self.links = Links({page_of(kind, name) for kind, names in self.names.items() for name in names})
        self.context = Context()

    def text(self, value: str | t.Sequence[str], separator: str = "\n\n") -> str:
        paragraphs = parse(value, self.context, errors="message")
        return format_paragraphs(
            paragraphs, Markdown(), self.links, par_sep=separator, current_plugin=self.context.current_plugin
        )

    def line(self, value: str | t.Sequence[str]) -> str:
        return " ".join(self.text(value, " ").split())

    def pages(self) -> dict[str, str]:
        pages = {"README.md": self.index(), "playbooks.md": self.of_playbooks()}
        for kind, names in self.names.items():
            for name in names:
                pages[page_of(kind, name)] = self.of_role(name) if kind == "role" else self.of_plugin(kind, name)
        return {name: HEADER + text.rstrip() + "\n" for name, text in pages.items()}

    def readmes(self) -> dict[str, str]:
        """Return what each role's README says, by the role's own name."""
        return {name.rsplit(".", 1)[-1]: HEADER + self.readme(name) for name in self.names["role"]}

    def readme(self, name: str) -> str:
        doc = self.documentation["role"][name]["entry_points"]["main"]
        self.context = Context(dom.PluginIdentifier(name, "role"), "main")
        about = format_paragraphs(
            parse(doc.get("description", []), self.context, errors="message"), Markdown(), NoLinks(), par_sep="\n\n"
        )
        reference = "../../docs/reference/%s" % page_of("role", name)
        lines = ["# Role %s" % code(name), "", self.line(doc["short_description"]) + ".", "", about, ""]
        lines += ["Its variables are on [its page of the reference](%s), and in" % reference]
        return "\n".join([*lines, code("ansible-doc -t role %s" % name) + ".", ""])

    def short(self, kind: str, name: str) -> str:
        entry = self.documentation[kind][name]
        doc = entry["entry_points"]["main"] if kind == "role" else entry["doc"]
        return self.line(doc["short_description"])

    def index(self) -> str:
        lines = [
            "# Reference",
            "",
            "Here you find every name of the collection, and what it takes and returns. These pages",
        ]
        lines += ["are made from the code. `ansible-doc` shows the same on a terminal.", ""]
        lines += ["* [Playbooks](playbooks.md): %s" % ", ".join(code(path.stem) for path in self.playbooks), ""]
        for kind, directory in KINDS.items():
            lines += ["## %s" % directory.capitalize(), ""]
            for name in self.names[kind]:
                own = name.rsplit(".", 1)[-1]
                lines.append("* [%s](%s): %s" % (code(own), page_of(kind, name), self.short(kind, name)))
            lines.append("")
        return "\n".join(lines)

    def of_playbooks(self) -> str:
        lines = [
            "# Playbooks",
            "",
            "What each playbook runs, and on which hosts of the inventory. Its variables are the",
        ]
        lines += ["variables of its roles.", ""]
        for path in self.playbooks:
            text = path.read_text(encoding="utf-8")
            lines += ["## %s" % code("%s.%s" % (COLLECTION, path.stem)), ""]
            for play in yaml.safe_load(text):
                if "ansible.builtin.import_playbook" in play:
                    other = Path(play["ansible.builtin.import_playbook"]).stem
                    variables = ", ".join(
                        code("%s: %s" % item) for item in (play.get("vars") or {}).items() if item[0][0] != "_"
                    )
                    lines.append("* the playbook %s%s" % (code(other), " with " + variables if variables else ""))
                    continue
                roles = [role["role"] for role in play.get("roles", [])]
                roles += [task[key]["name"] for task in play.get("tasks", []) for key in task if key.endswith("_role")]
                named = [linked(role, page_of("role", role)) for role in dict.fromkeys(roles)]
                actions = [key for task in play.get("tasks", []) for key in task if key.startswith(COLLECTION + ".")]
                named += [linked(action, page_of("module", action)) for action in actions]
                tags = ", tags %s" % ", ".join(map(code, play["tags"])) if "tags" in play else ""
                lines.append("* %s: on %s, %s%s" % (plain(play["name"]), code(play["hosts"]), ", ".join(named), tags))
            lines.append("")
        return "\n".join(lines)

    def of_role(self, name: str) -> str:
        entries = self.documentation["role"][name]["entry_points"]
        lines = ["# Role %s" % code(name), ""]
        for point, doc in sorted(entries.items(), key=lambda entry: (entry[0] != "main", entry[0])):
            self.context = Context(dom.PluginIdentifier(name, "role"), point)
            if point != "main":
                lines += ["## Entry point %s" % code(point), ""]
            lines += [self.line(doc["short_description"]) + ".", ""]
            lines += [self.text(doc.get("description", [])), ""]
            lines += self.attributes(doc)
            # Entry points share their variables in the code, too.
            if point != "main" and doc.get("options") == entries["main"].get("options"):
                lines += ["Its variables are those of the entry point %s." % code("main"), ""]
            elif doc.get("options"):
                lines += ["%s Variables" % ("##" if point == "main" else "###"), ""]
                lines += [*self.options(doc["options"]), ""]
            else:
                lines += ["It has no variables.", ""]
        return "\n".join(lines)

    def of_plugin(self, kind: str, name: str) -> str:
        entry = self.documentation[kind][name]
        doc = entry["doc"]
        self.context = Context(dom.PluginIdentifier(name, kind))
        lines = ["# %s %s" % (kind.capitalize(), code(name)), ""]
        lines += [self.line(doc["short_description"]) + ".", "", self.text(doc["description"]), ""]
        if doc.get("requirements"):
            lines += ["It needs:", "", *("* " + self.line(text) for text in doc["requirements"]), ""]
        lines += self.attributes(doc)
        if doc.get("options"):
            lines += ["## Options", "", *self.options(doc["options"]), ""]
        if doc.get("notes"):
            lines += ["## Notes", "", *("* " + self.line(text) for text in doc["notes"]), ""]
        if entry.get("examples"):
            lines += ["## Examples", "", "```yaml", entry["examples"].strip().removeprefix("---").strip(), "```", ""]
        if entry.get("return"):
            lines += ["## Return values", "", *self.values(entry["return"]), ""]
        return "\n".join(lines)

    def attributes(self, doc: Json) -> list[str]:
        lines = []
        for name, entry in (doc.get("attributes") or {}).items():
            support = entry.get("platforms") or entry["support"]
            more = self.line(entry.get("details") or entry.get("description") or "")
            lines.append("* %s: **%s**. %s" % (code(name), support, more))
        return [*lines, ""] if lines else []

    def options(self, options: Json, depth: int = 0) -> list[str]:
        lines = []
        for name, option in options.items():
            kind = option.get("type", "str")
            facts = [kind + (" of " + option["elements"] if option.get("elements") else "")]
            if option.get("aliases"):
                facts.append("also %s" % ", ".join(map(code, option["aliases"])))
            if option.get("required"):
                facts.append("required")
            elif option.get("default") is not None:
                facts.append("default %s" % code(shown(option["default"])))
            if option.get("choices"):
                choices = option["choices"]
                facts.append("one of " + ", ".join(code(shown(choice)) for choice in choices))
            lines += self.item(depth, code(name), ", ".join(facts), option.get("description", ""))
            if isinstance(option.get("choices"), dict):
                for choice, about in option["choices"].items():
                    lines += self.item(depth + 1, code(choice), "", about)
            inner = option.get("suboptions") or option.get("options")
            if inner:
                lines += self.options(inner, depth + 1)
        return lines

    def values(self, values: Json, depth: int = 0) -> list[str]:
        lines = []
        for name, value in values.items():
            kind = value.get("type", "")
            facts = [kind + (" of " + value["elements"] if value.get("elements") else "")]
            if value.get("returned") and value["returned"] != "success":
                facts.append("returned: " + self.line(value["returned"]))
            lines += self.item(depth, code(name), ", ".join(filter(None, facts)), value.get("description", ""))
            if value.get("contains"):
                lines += self.values(value["contains"], depth + 1)
        return lines

    def item(self, depth: int, head: str, facts: str, description: str | t.Sequence[str]) -> list[str]:
        indent = "  " * depth
        paragraphs = [description] if isinstance(description, str) else list(description)
        texts = [self.line(paragraph) for paragraph in paragraphs if paragraph]
        lines = ["%s* %s%s" % (indent, head, " (%s)" % facts if facts else "")]
        return lines[:-1] + [lines[-1] + ("\\" if texts else "")] + ["%s  %s" % (indent, " ".join(texts))] * bool(texts)


def shown(value: t.Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def documented() -> Json:
    """Return what ansible-doc knows of the collection that `make dev` has linked."""
    site = Path(sys.prefix) / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
    program = Path(sys.executable).parent / "ansible-doc"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(site)
    argv = [str(program), "--metadata-dump", "--no-fail-on-errors", COLLECTION]
    done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit("reference: %s ended with %d: %s" % (program.name, done.returncode, done.stderr))
    documentation: Json = json.loads(done.stdout)["all"]
    broken = [name for kind in KINDS for name, entry in documentation[kind].items() if "error" in entry]
    if broken:
        raise SystemExit("reference: ansible-doc cannot read %s" % ", ".join(broken))
    return documentation


def between(text: str, name: str, table: str) -> str:
    """Put a table between the two comments of that name."""
    head, first, rest = text.partition("<!-- %s -->\n" % name)
    _old, last, tail = rest.partition("<!-- /%s -->\n" % name)
    if not (first and last):
        raise SystemExit("reference: %s has no place for the table %s" % (SUPPORT.relative_to(ROOT), name))
    return "%s%s\n%s\n%s%s" % (head, first, table, last, tail)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    writer = Writer(documented(), sorted((ROOT / "playbooks").glob("*.yml")))
    pages = {REFERENCE / name: text for name, text in writer.pages().items()}
    pages[SUPPORT] = between(SUPPORT.read_text("utf-8"), "matrix", matrix.page())
    pages.update({ROOT / "roles" / name / "README.md": text for name, text in writer.readmes().items()})
    there = {SUPPORT, *(path for path in REFERENCE.rglob("*") if path.is_file())} | set(
        (ROOT / "roles").glob("*/README.md")
    )
    stale = [path for path, text in pages.items() if path not in there or path.read_text("utf-8") != text]
    gone = sorted(there - set(pages))
    if check:
        for path in [*stale, *gone]:
            print("%s is not what the code says: make docs" % path.relative_to(ROOT))
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    print("reference: %d pages, %d written, %d removed" % (len(pages), len(stale), len(gone)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
