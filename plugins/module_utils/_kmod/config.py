# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What kmod makes of modprobe.d and of the kernel command line, without running it.

The rules are those of kmod 29 to 34 (modprobe.d(5), libkmod-config.c) and, for what is inside an ``options`` line,
of the kernel (next_arg() in lib/cmdline.c, parse_args() in kernel/params.c): kmod hands the line over as it is.
"""

from __future__ import annotations

import os
import re
import stat
import typing as t

from .._errors import FabricError
from .._files import drop_ins, in_root, is_conf
from .release import USR_LOCAL, reads_usr_local

# Highest priority first: a file hides those of the same name in later directories. /usr/lib came with kmod 32, and is
# /lib on a merged /usr; for /usr/local/lib see release.py.
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)

# The kernel's isspace() (lib/ctype.c) takes the Latin-1 no-break space too.
SPACES = " \t\n\v\f\r\xa0"
_WORD = re.compile(r'(?:[^ \t\n\v\f\r\xa0"]|"[^"]*(?:"|\Z))+')
LINE = re.compile(r"[\t ]*([^\t ]+)[\t ]+([^\t ]+)(?:[\t ](.+))?", re.S)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


class Assignment(t.NamedTuple):
    """One parameter on an ``options`` line; module and name have ``_`` for ``-``.

    A name without ``=`` has the value 1, as param_set_bool() in kernel/params.c has it.
    """

    path: str
    line: int
    text: str
    module: str
    name: str
    value: str


class Directive(t.NamedTuple):
    """A line of modprobe.d that kmod understands: its command, its first word and the rest of the line."""

    path: str
    line: int
    text: str
    command: str
    module: str
    rest: str
    marks: list[tuple[int, int, str]]  # offset in rest from which on: physical line, its text


class Tree(t.NamedTuple):
    """A whole configuration. With a module given to the reader, only what concerns it is in the lists."""

    files: list[str]
    assignments: list[Assignment]
    unreadable: list[tuple[str, str]]
    directives: list[Directive]


def underscored(name: str) -> str:
    """Return a module's or parameter's name with ``_`` for ``-``, which kmod and the kernel hold to be equal."""
    return name.replace("-", "_")


def parse(path: str, text: str) -> list[Assignment]:
    """Return every assignment of one file's text."""
    return _assign(directives(path, text))


def directives(path: str, text: str) -> list[Directive]:
    """Return the lines of one file that kmod understands."""
    result = []
    for line, pieces in _logical_lines(text):
        whole = "".join([piece for _number, piece, _raw in pieces])
        # A NUL ends a C string; what follows on the line is never seen.
        whole = whole.split("\0", 1)[0]
        # '#' counts at the very start of a line only; a comment can be continued like any other line.
        match = None if whole.startswith("#") else LINE.match(whole)
        if match is None:
            continue
        command, module, rest = match.groups()
        # "options" without parameters, like any other incomplete line, is a syntax error that kmod skips.
        if command not in ("options", "alias", "install") or rest is None:
            continue
        name = kmod_name(module)
        if name is None:
            continue
        if command == "options":
            rest = rest.replace("\t", " ")
        start, offset, marks = match.start(3), 0, []
        for number, piece, raw in pieces:
            marks.append((offset - start, number, raw))
            offset += len(piece)
        result.append(Directive(path, line, pieces[0][2], command, name, rest, marks))
    return result


def _logical_lines(text: str) -> t.Iterator[tuple[int, list[tuple[int, str, str]]]]:
    """Yield lines put together from continued ones, each piece with its line number, and its text in the file.

    A backslash takes itself and a following newline away; before any other character only itself goes. With CR LF it
    therefore continues nothing.
    """
    pieces: list[tuple[int, str, str]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        continued = False
        piece = raw
        if "\\" in raw:
            continued = (len(raw) - len(raw.rstrip("\\"))) % 2 == 1
            piece = re.sub(r"\\(.)", r"\1", raw[:-1] if continued else raw, flags=re.S)
        pieces.append((number, piece, raw))
        if not continued:
            yield pieces[0][0], pieces
            pieces = []
    if pieces:
        yield pieces[0][0], pieces


def kmod_name(name: str) -> str | None:
    """Return a name as kmod compares it: ``-`` inside brackets stays; brackets that do not pair spoil the line."""
    done = ""
    while name:
        head, bracket, name = name.partition("[")
        if "]" in head:
            return None
        done += head.replace("-", "_")
        if bracket:
            inside, closing, name = name.partition("]")
            if not closing:
                return None
            done += "[" + inside + "]"
    return done


def _assign(lines: t.Iterable[Directive]) -> list[Assignment]:
    """Split options lines as the kernel does.

    kmod makes one string of all lines of a module, with a blank after each. So a quote left open, or a ``--``, reaches
    into the lines that follow.
    """
    modules: dict[str, list[tuple[int, Directive]]] = {}
    for number, directive in enumerate(lines):
        if directive.command == "options":
            modules.setdefault(directive.module, []).append((number, directive))
    assignments: list[tuple[int, int, Assignment]] = []
    for module, own in modules.items():
        starts, joined = [], ""
        for number, directive in own:
            starts.append((len(joined), number, directive))
            joined += directive.rest + " "
        at = 0
        for offset, _end, name, value in words(joined):
            while at + 1 < len(starts) and starts[at + 1][0] <= offset:
                at += 1
            start, number, directive = starts[at]
            mark = [entry for entry in directive.marks if entry[0] <= offset - start][-1]
            assignments.append((number, offset, Assignment(directive.path, mark[1], mark[2], module, name, value)))
    assignments.sort(key=lambda entry: entry[:2])
    return [entry[2] for entry in assignments]


def words(options: str) -> list[tuple[int, int, str, str]]:
    """Split a string of parameters as the kernel's next_arg() does: start, end, name, value; ``--`` ends it."""
    latin = options if options.isascii() else options.encode("utf-8", "surrogateescape").decode("latin-1")

    def back(text: str) -> str:
        return text if latin is options else text.encode("latin-1").decode("utf-8", "surrogateescape")

    result = []
    for match in _WORD.finditer(latin):
        name, value = _split_word(match.group())
        if value is None and name == "--":
            break
        start, end = match.span()
        if latin is not options:
            start, end = len(back(latin[:start])), len(back(latin[:end]))
        result.append((start, end, underscored(back(name)), "1" if value is None else back(value)))
    return result


def _split_word(word: str) -> tuple[str, str | None]:
    quoted = word.startswith('"')
    if quoted:
        word = word[1:]
    trimmed = False
    equals = word.find("=", 1)
    value = None
    if equals > 0:
        word, value = word[:equals], word[equals + 1 :]
        if value.startswith('"'):
            value = value[1:]
            trimmed = value.endswith('"')
            value = value[:-1] if trimmed else value
    if quoted and not trimmed:
        if value is None:
            word = word[:-1] if word.endswith('"') else word
        else:
            value = value[:-1] if value.endswith('"') else value
    return word, value


def from_texts(
    texts: t.Mapping[str, str], module: str | None = None, unreadable: t.Iterable[tuple[str, str]] = ()
) -> Tree:
    """Evaluate files given by their paths, which are in the directories that kmod reads; others are left out."""
    broken = dict(unreadable)
    files = drop_ins([*texts, *broken], DIRECTORIES)
    bad: list[tuple[str, str]] = []
    good: list[str] = []
    for path in files:
        problem = broken[path] if path in broken else _not_text(texts[path])
        if problem:
            bad.append((path, problem))
        else:
            good.append(path)
    lines: list[Directive] = []
    names = {module}
    for path in good:
        # Most files say nothing of the module: looking for its name costs less than parsing.
        if module is None or module in underscored(texts[path]) or "\\" in texts[path]:
            lines += directives(path, texts[path])
    if module is not None:
        names.update(line.module for line in lines if line.command == "alias" and _target(line) == module)
        if len(names) > 1:
            lines = [line for path in good for line in directives(path, texts[path])]
        lines = [line for line in lines if line.module in names]
    return Tree(good, _assign(lines), bad, lines)


def _target(line: Directive) -> str | None:
    """Return the module that an alias line is for."""
    words = re.split("[\t ]+", line.rest.strip("\t "))
    return kmod_name(words[0])


def _not_text(text: str) -> str | None:
    """Return why a file's text is not a configuration, or None."""
    if _CONTROL.search(text):
        return "it is not a text file (it has control characters), and what kmod makes of it is not known"
    if text.isascii():
        return None
    try:
        # Old comments may be in Latin-1; kmod skips them.
        "\n".join(line for line in text.split("\n") if not line.startswith("#")).encode("utf-8")
    except UnicodeEncodeError:
        return "it is not a text file (it is not UTF-8), and what kmod makes of it is not known"
    return None


class _Files:
    """The files of modprobe.d below a root, as they are read."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.texts: dict[str, str] = {}
        self.broken: list[tuple[str, str]] = []
        self.dangling: list[str] = []
        # By their real paths: on a merged /usr two of them are one directory.
        self.directories: dict[str, str] = {}

    def read_directory(self, directory: str) -> None:
        real = _real(self.root, directory)
        if real in self.directories:
            return
        self.directories[real] = directory
        try:
            names = sorted(os.listdir(real))
        except FileNotFoundError:
            return
        except OSError as exc:
            self.broken.append((directory + "/*.conf", _because(exc)))
            return
        if directory == USR_LOCAL and names and not reads_usr_local(self.root):
            return
        for name in names:
            if is_conf(name):
                self.read_file(real + "/" + name, directory + "/" + name)

    def read_file(self, real: str, path: str) -> None:
        """Read one file as far as kmod would. A directory is skipped; a link to /dev/null is an empty file."""
        try:
            mode = os.lstat(real).st_mode
            if stat.S_ISLNK(mode):
                real = _real(self.root, path)
                if real == _real(self.root, "/dev/null"):
                    self.texts[path] = ""
                    return
                mode = os.stat(real).st_mode
            if stat.S_ISREG(mode):
                with open(real, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                    self.texts[path] = stream.read()
            elif not stat.S_ISDIR(mode):
                # kmod opens a named pipe and waits for ever.
                self.broken.append((path, "it is not a regular file"))
        except FileNotFoundError:
            self.dangling.append(path)
        except (FabricError, OSError) as exc:
            self.broken.append((path, _because(exc)))

    def replace(self, path: str, text: str | None) -> None:
        directory, name = os.path.split(path)
        path = self.directories.get(_real(self.root, directory), directory) + "/" + name
        self.broken = [entry for entry in self.broken if entry[0] != path]
        self.texts.pop(path, None)
        if text is not None:
            self.texts[path] = text


def read_tree(root: str = "/", planned: t.Mapping[str, str | None] | None = None, module: str | None = None) -> Tree:
    """Read what kmod would read in ``root``. ``planned`` lays files over it: texts, or None for one that is removed."""
    files = _Files(root)
    for directory in DIRECTORIES:
        files.read_directory(directory)
    for path, text in (planned or {}).items():
        files.replace(path, text)
    # A link to nowhere hides the files of its name from kmod 30, and does not from 34.
    names = {os.path.basename(path) for path in files.texts}
    broken = files.broken + [
        (path, "it is a symbolic link to nowhere") for path in files.dangling if os.path.basename(path) in names
    ]
    whole = [entry for entry in broken if entry[0].endswith("/*.conf")]
    tree = from_texts(files.texts, module, [entry for entry in broken if entry not in whole])
    return tree._replace(unreadable=whole + tree.unreadable)


def canonical(root: str, path: str) -> str:
    """Return ``path`` with the name that read_tree() gives its directory: on a merged /usr, /lib is /usr/lib."""
    directory, name = os.path.split(path)
    where = _real(root, directory)
    return next((known for known in DIRECTORIES if _real(root, known) == where), directory) + "/" + name


def _real(root: str, path: str) -> str:
    if os.path.abspath(root) == "/":
        return os.path.realpath(path)
    return in_root(root, path)


def _because(exc: Exception) -> str:
    reason = getattr(exc, "strerror", None) or str(exc)
    return reason + "; run as root (become: true)" if isinstance(exc, PermissionError) else reason


def settings(tree: Tree, module: str) -> dict[str, Assignment]:
    """Return what each parameter of a module is set to: the kernel takes the last assignment."""
    name = underscored(module)
    return {assignment.name: assignment for assignment in tree.assignments if assignment.module == name}


def history(tree: Tree, module: str, name: str) -> list[Assignment]:
    """Return every assignment of one parameter, in the order in which the kernel gets them."""
    parameter = (underscored(module), underscored(name))
    return [assignment for assignment in tree.assignments if (assignment.module, assignment.name) == parameter]


def kernel_bool(value: str | None, newest: bool = False) -> bool | None:
    """Return what kstrtobool() of lib/kstrtox.c makes of a value on every kernel; None: no boolean, or not everywhere.

    ``newest`` takes what only some kernels know: t and f came with Linux 5.17, e and d later, and both went into some
    older ones, so that a kernel's version does not show it.
    """
    start = (value or "")[:2].lower()
    if start[:1] in ("y", "1") or start == "on" or (newest and start[:1] in ("t", "e")):
        return True
    if start[:1] in ("n", "0") or start == "of" or (newest and start[:1] in ("f", "d")):
        return False
    return None


def same_value(value: str | None, other: str | None) -> bool:
    """Return whether two values are the same: literally, or as booleans if one is Y or N, as sysfs prints them."""
    if value == other:
        return True
    if value is None or other is None or not {"Y", "N"} & {value, other}:
        return False
    # A kernel that shows Y or N for a word has understood it.
    meaning = kernel_bool(value, newest=True)
    return meaning is not None and meaning == kernel_bool(other, newest=True)


def render(module: str, options: t.Mapping[str, str], header: str) -> str:
    """Return the text of a drop-in that sets ``options``, a line each."""
    lines = [header]
    for name in sorted(options):
        value = options[name]
        if any(space in value.encode("utf-8").decode("latin-1") for space in SPACES):
            value = '"%s"' % value
        escaped = value.replace("\\", "\\\\")
        lines.append("options %s %s=%s" % (module, name, escaped))
    return "\n".join(lines) + "\n"


__all__ = (
    "DIRECTORIES",
    "LINE",
    "Assignment",
    "Directive",
    "Tree",
    "canonical",
    "directives",
    "from_texts",
    "history",
    "is_conf",
    "kernel_bool",
    "kmod_name",
    "parse",
    "read_tree",
    "render",
    "same_value",
    "settings",
    "underscored",
    "words",
)
