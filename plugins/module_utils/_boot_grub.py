# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""GRUB 2: enough of its script language to know which entry boots by default and with which arguments.

A grub.cfg is a program: which entry is the default depends on grubenv, on tests and on functions. It is run here as
GRUB would run it, without a screen and without devices.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import BootEntry, Machine
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot_files import BootError, Files, finish

MAX_STEPS = 50000
MAX_DEPTH = 40

# A word is a list of (kind, text, quoted); kind is "text" or "var".
Piece = t.Tuple[str, str, bool]
Word = t.List[Piece]

# grub-core/script/yylex.l: what separates words, what quotes, what a variable may be called.
_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\r?\n)+)
      |(?P<newline>\n)
      |(?P<end>[;|&<>])
      |(?P<brace>[{}])
      |'(?P<single>[^']*)'
      |\$?"(?P<double>(?:[^"\\]|\\.)*)"
      |\\(?P<escape>.)
      |\$(?:\{(?P<braced>[^}\n]*)\}|(?P<var>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*\#?]))
      |(?P<text>[^\s'"\\${};|&<>]+|\$)""",
    re.VERBOSE | re.DOTALL,
)
_INSIDE = re.compile(
    r"""\\(?P<escape>["$\\])
      |(?P<skip>\\\n)
      |\$(?:\{(?P<braced>[^}\n]*)\}|(?P<var>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*\#?]))
      |(?P<text>[^\\$]+|[\\$])""",
    re.VERBOSE | re.DOTALL,
)


# grub-core/normal/main.c, features[]: what this GRUB can do, for configurations that also serve older ones.
FEATURES = (
    "200_final all_video_module chainloader_bpb default_font_path menuentry_id menuentry_options nativedisk_cmd ntldr "
    "platform_search_hint timeout_style"
)


class Command(t.NamedTuple):
    """One statement: a simple command, or a compound one whose ``kind`` tells what ``parts`` are."""

    kind: str
    line: int
    words: list[Word]
    parts: list[t.Any]


class Item(t.NamedTuple):
    """A line of the menu."""

    title: str
    id: str | None
    body: list[Command]
    path: str
    submenu: bool
    # What a file of the Boot Loader Specification brings instead of a body.
    bls: t.Any = None


class Linux(t.NamedTuple):
    """The kernel that an entry starts."""

    path: str
    arguments: list[str]
    line: int
    config: str
    parts: list[tuple[str, int, str]]


class _Stop(Exception):
    """The rest of this file, function or loop is not run."""


def _lex(text: str, path: str) -> list[tuple[int, str | Word]]:
    """Cut a script into separators (";", "{", "}") and words, each with its line."""
    tokens: list[tuple[int, str | Word]] = []
    word: Word = []
    at, line, size = 0, 1, len(text)
    while at < size:
        found = None
        if text[at] == "#" and not word:
            at = text.find("\n", at)
            if at < 0:
                break
        found = _TOKEN.match(text, at)
        if found is None:
            raise BootError("%s:%d: a quotation mark is not closed" % (path, line))
        kind, value = found.lastgroup or "", found.group(found.lastgroup or 0)
        if kind in ("blank", "newline", "end", "brace"):
            if word:
                tokens.append((line, word))
                word = []
            if kind != "blank":
                tokens.append((line, value if kind == "brace" else ";"))
        elif kind == "double":
            word.append(("text", "", True))
            for piece in _INSIDE.finditer(value):
                what = piece.lastgroup
                if what in ("braced", "var"):
                    word.append(("var", piece.group(what), True))
                elif what != "skip":
                    word.append(("text", piece.group(what or 0), True))
        elif kind in ("braced", "var"):
            word.append(("var", value, False))
        else:
            word.append(("text", value, kind != "text"))
        line += text.count("\n", at, found.end())
        at = found.end()
    if word:
        tokens.append((line, word))
    return tokens


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.tokens = _lex(text, path)
        self.at = 0
        self.depth = 0

    def keyword(self) -> str | None:
        if self.at >= len(self.tokens):
            return None
        token = self.tokens[self.at][1]
        if isinstance(token, str):
            return token
        return token[0][1] if len(token) == 1 and token[0][0] == "text" and not token[0][2] else ""

    def fail(self, what: str) -> t.NoReturn:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][0] if self.tokens else 1
        raise BootError("%s:%d: %s" % (self.path, line, what))

    def take(self, keyword: str) -> None:
        while self.keyword() == ";" and keyword != ";":
            self.at += 1
        if self.keyword() != keyword:
            self.fail("expected '%s'" % keyword)
        self.at += 1

    def statements(self, *ends: str) -> list[Command]:
        """Read up to one of the keywords, which is left in place; without any, to the end of the text."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("nested too deeply")
        commands = []
        while True:
            word = self.keyword()
            if word == ";":
                self.at += 1
            elif word is None and ends:
                self.fail("expected '%s' before the end of the file" % ends[0])
            elif word is None or word in ends:
                break
            elif word in ("}", "then", "fi", "done", "do", "else", "elif"):
                self.fail("unexpected '%s'" % word)
            else:
                commands.append(self.statement(word))
        self.depth -= 1
        return commands

    def statement(self, word: str) -> Command:
        line = self.tokens[self.at][0]
        parts: list[t.Any] = []
        if word == "if":
            self.at += 1
            while True:
                condition = self.statements("then")
                self.at += 1
                parts.append((condition, self.statements("elif", "else", "fi")))
                ended = self.keyword()
                self.at += 1
                if ended == "else":
                    parts.append((None, self.statements("fi")))
                    self.at += 1
                if ended != "elif":
                    return Command("if", line, [], parts)
        if word in ("while", "until", "for"):
            self.at += 1
            condition = []
            words: list[Word] = []
            if word == "for":
                words = self.words()
                self.take("do")
            else:
                condition = self.statements("do")
                self.at += 1
            body = self.statements("done")
            self.at += 1
            return Command(word, line, words, [condition, body])
        if word == "{":
            self.at += 1
            body = self.statements("}")
            self.at += 1
            return Command("if", line, [], [(None, body)])
        words = self.words()
        name = words[0][0][1] if words else ""
        if name == "function" and len(words) > 1:
            self.take("{")
            self.at -= 1
        # grub-core/script/parser.y: a block is an argument, of any command and at any place.
        while self.keyword() == "{":
            self.at += 1
            parts = self.statements("}")
            self.at += 1
            words += self.words()
        kind = name if name in ("menuentry", "submenu", "function", "hiddenentry") else "simple"
        return Command(kind, line, words, parts)

    def words(self) -> list[Word]:
        words: list[Word] = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at][1]
            if isinstance(token, str):
                break
            words.append(token)
            self.at += 1
        return words


def parse(text: str, path: str) -> list[Command]:
    """Parse a script; BootError tells file and line of what is no GRUB script."""
    return _Parser(text, path).statements()


def variables(text: str, root: str, machine: Machine | None = None) -> dict[str, str]:
    """Run a script and return its variables."""
    shell = _Shell(Files(root), machine or Machine(), "/boot/grub/grub.cfg")
    shell.run(parse(text, shell.path))
    return shell.env


def read_grubenv(text: str) -> dict[str, tuple[str, int]]:
    """Return the variables of an environment block with the line that each is on.

    grub-core/lib/envblk.c: the signature line, NAME=VALUE lines in which a backslash escapes, then "#" up to the
    block's 1024 bytes. Without the signature GRUB refuses the whole block.
    """
    lines = text.split("\n")
    if lines[0] != "# GRUB Environment Block":
        return {}
    values = {}
    joined, start = "", 0
    for number, line in enumerate(lines[1:], 2):
        start = start if joined else number
        joined += line
        if len(line) - len(line.rstrip("\\")) & 1:
            joined = joined[:-1] + "\n"
            continue
        if not joined.startswith("#") and "=" in joined:
            name, value = joined.split("=", 1)
            values[name] = (re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL), start)
        joined = ""
    return values


class _Shell:
    """Runs a script and remembers the menu that it makes, or the kernel that it loads."""

    def __init__(self, files: Files, machine: Machine, config: str) -> None:
        self.files = files
        self.machine = machine
        self.path = config
        self.steps = 0
        self.depth = 0
        self.status = 0
        self.functions: dict[str, list[Command]] = {}
        self.menu: list[Item] = []
        self.linux: Linux | None = None
        self.initrds: list[str] = []
        self.names_first = False
        self.chain: tuple[str, int] | None = None
        self.origin: dict[str, tuple[str, int]] = {}
        directory = os.path.dirname(config)
        self.env = {
            "prefix": directory,
            "config_directory": directory,
            "config_file": config,
            "root": "boot",
            "grub_platform": "efi" if machine.efi else "pc",
            "grub_cpu": {"aarch64": "arm64", "i686": "i386"}.get(machine.machine, machine.machine),
        }
        self.env.update(dict.fromkeys(["feature_" + name for name in FEATURES.split()], "y"))

    def expand(self, word: Word) -> list[str]:
        """Return the arguments that a word makes: an unquoted variable may be several, or none."""
        fields: list[str] = []
        current: str | None = None
        for kind, text, quoted in word:
            if kind == "text":
                current = (current or "") + text
                continue
            value = self.env.get(text, "")
            if quoted:
                current = (current or "") + value
                continue
            # Blanks divide words, those at the ends of the value do not.
            for number, field in enumerate(value.split()):
                if number:
                    fields.append(current or "")
                    current = field
                else:
                    current = (current or "") + field
        if current is not None:
            fields.append(current)
        return fields

    def words(self, text: str) -> list[str]:
        """Return the arguments that a text makes behind a command."""
        command = _Parser("command " + text.replace("\n", " "), self.path).statements()[0]
        return [field for word in command.words[1:] for field in self.expand(word)]

    def run(self, commands: list[Command]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BootError("%s: functions or files call each other without end" % self.path)
        for command in commands:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise BootError("%s:%d: more than %d steps" % (self.path, command.line, MAX_STEPS))
            if command.kind == "simple":
                self.simple(command)
            elif command.kind == "if":
                for condition, body in command.parts:
                    if condition is not None:
                        self.run(condition)
                    if condition is None or self.status == 0:
                        self.run(body)
                        break
            elif command.kind == "function":
                self.functions["".join(self.expand(command.words[1])) if command.words[1:] else ""] = command.parts
            elif command.kind in ("menuentry", "submenu", "hiddenentry"):
                self.add(command)
            else:
                self.loop(command)
        self.depth -= 1

    def loop(self, command: Command) -> None:
        condition, body = command.parts
        try:
            if command.kind == "for":
                words = [field for word in command.words for field in self.expand(word)]
                for value in words[2:]:
                    self.env[words[0]] = value
                    self.run(body)
                return
            while True:
                self.run(condition)
                if (self.status == 0) is (command.kind == "until"):
                    return
                self.run(body)
                self.steps += 1
                if self.steps > MAX_STEPS:
                    raise BootError("%s:%d: more than %d steps" % (self.path, command.line, MAX_STEPS))
        except _Stop as stop:
            if stop.args[0] not in ("break", "continue"):
                raise

    def add(self, command: Command) -> None:
        words = [field for word in command.words[1:] for field in self.expand(word)]
        title, entry_id, source = None, None, None
        while words:
            word = words.pop(0)
            name, has_value, value = word.partition("=")
            if name in ("--id", "--class", "--users", "--hotkey", "--source"):
                if not has_value:
                    value = words.pop(0) if words else ""
                entry_id = value if name == "--id" else entry_id
                source = value if name == "--source" else source
            elif word.startswith("--") or title is not None:
                continue
            else:
                title = word
        body = command.parts if source is None else _Parser(source, self.path).statements()
        if title is not None:
            self.menu.append(Item(title, entry_id, body, self.path, command.kind == "submenu"))

    def set(self, name: str, value: str, line: int) -> None:
        self.env[name] = value
        self.origin[name] = (self.path, line)

    def simple(self, command: Command) -> None:
        words = [field for word in command.words for field in self.expand(word)]
        self.status = 0
        if not words:
            return
        name, arguments = words[0], words[1:]
        if name == "set" or re.match(r"[A-Za-z_][A-Za-z0-9_]*=", name):
            # The first argument only (grub_core_cmd_set() in grub-core/kern/corecmd.c): the rest is a value's that was
            # not quoted.
            key, equals, value = "".join((arguments if name == "set" else words)[:1]).partition("=")
            if equals:
                self.set(key, value, command.line)
        elif name in ("[", "test"):
            self.status = 0 if _test(self, arguments[:-1] if name == "[" else arguments) else 1
        elif name in ("linux", "linuxefi", "linux16", "linux32", "linuxloader", "kernel"):
            self.load(command, arguments)
        elif name in ("initrd", "initrdefi", "initrd16"):
            self.initrds = [word for word in arguments if not word.startswith("--")]
        elif name in ("module", "module2") or name.startswith("xen_module"):
            # Xen: the hypervisor is loaded by multiboot or xen_hypervisor, its first module is the kernel.
            arguments = [word for word in arguments if word != "--nounzip"]
            if self.linux is None:
                self.load(command, arguments)
            else:
                self.initrds += arguments[:1]
        elif name == "load_env":
            self.load_env(arguments)
        elif name == "unset":
            for key in arguments:
                self.env.pop(key, None)
        elif name in ("source", ".", "configfile", "normal") or name.startswith("extract_entries"):
            self.source(name, arguments)
        elif name in ("blscfg", "bls_import"):
            self.blscfg(arguments)
        elif name == "chainloader":
            self.chain = (arguments[-1] if arguments else "", command.line)
        elif name in ("false", "keystatus", "regexp", "sleep"):
            self.status = 0 if name == "sleep" and "--interruptible" not in arguments else 1
        elif name in ("return", "exit", "break", "continue"):
            raise _Stop(name)
        elif name in self.functions:
            saved = {key: self.env.get(key) for key in "123456789"}
            self.env.update({str(number): value for number, value in enumerate(arguments[:9], 1)})
            try:
                self.run(self.functions[name])
            except _Stop as stop:
                if stop.args[0] != "return":
                    raise
            for key, old in saved.items():
                if old is None:
                    self.env.pop(key, None)
                else:
                    self.env[key] = old

    def load(self, command: Command, arguments: list[str]) -> None:
        if not arguments:
            return
        parts = []
        for word in command.words[2:]:
            parts += [
                self.origin[text] + (self.env[text],)
                for kind, text, _quoted in word
                if kind == "var" and text in self.origin and text in self.env
            ]
        parts.insert(0, (self.path, command.line, " ".join(arguments[1:])))
        self.linux = Linux(arguments[0], arguments[1:], command.line, self.path, parts)

    def load_env(self, arguments: list[str]) -> None:
        path = self.env.get("prefix", "") + "/grubenv"
        wanted = []
        while arguments:
            word = arguments.pop(0)
            if word in ("-f", "--file"):
                path = arguments.pop(0) if arguments else path
            elif word.startswith("--file="):
                path = word[7:]
            elif not word.startswith("-"):
                wanted.append(word)
        place = self.files.locate(path, self.machine, subvolumes=False)
        text = self.files.read(place) if place else None
        if text is None or place is None:
            self.status = 1
            return
        for name, (value, line) in read_grubenv(text).items():
            if not wanted or name in wanted:
                self.env[name] = value
                self.origin[name] = (place, line)

    def source(self, name: str, arguments: list[str]) -> None:
        place = self.files.locate(arguments[0], self.machine, subvolumes=False) if arguments else None
        text = self.files.read(place) if place and not self.files.is_dir(place) else None
        if text is None or place is None:
            self.status = 1
            return
        commands = _Parser(text, place).statements()
        before = self.path
        self.path = place
        if name in ("configfile", "normal"):
            # A new menu, which takes the place of this one.
            self.menu = []
            self.env["config_file"], self.env["config_directory"] = place, os.path.dirname(place)
        try:
            self.run(commands)
        except _Stop as stop:
            if stop.args[0] != "return":
                raise
        self.path = before
        if name in ("configfile", "normal"):
            raise _Stop("exit")

    def blscfg(self, arguments: list[str]) -> None:
        from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot_bls import grub_entries

        self.names_first = True
        only = arguments[0] if len(arguments) == 1 and not arguments[0].startswith(("(", "-", "/")) else None
        for entry in grub_entries(self.files, self.env.get("blsdir")):
            default = self.env.get("default") in (entry.id, entry.title)
            if only in (None, entry.id) or (only == "default" and default) or (only == "non-default" and not default):
                self.menu.append(Item(entry.title or entry.linux, entry.id, [], entry.path, False, entry))


_STRING_TESTS: dict[str, t.Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "-eq": lambda a, b: _number(a) == _number(b),
    "-ne": lambda a, b: _number(a) != _number(b),
    "-lt": lambda a, b: _number(a) < _number(b),
    "-le": lambda a, b: _number(a) <= _number(b),
    "-gt": lambda a, b: _number(a) > _number(b),
    "-ge": lambda a, b: _number(a) >= _number(b),
}


def _number(text: str) -> int:
    """Return what strtoul(3) would, for short texts: the number that a text begins with."""
    found = re.match(r"\s*([+-]?\d{1,18})", text, re.ASCII)
    return int(found.group(1)) if found else 0


def _test(shell: _Shell, words: list[str]) -> bool:
    """Evaluate test(1), in the order in which grub-core/commands/test.c tries what a word may be."""
    either, both, negate = False, True, False
    outer: list[tuple[bool, bool, bool]] = []
    at = 0
    while at < len(words):
        word, rest = words[at], words[at + 1 :]
        value: bool | None = None
        if len(rest) >= 2 and rest[0] in _STRING_TESTS:
            value, at = _STRING_TESTS[rest[0]](word, rest[1]), at + 3
        elif rest and word in ("-n", "-z"):
            value, at = (rest[0] != "") is (word == "-n"), at + 2
        elif rest and word in ("-d", "-e", "-f", "-s"):
            # An empty name is the device itself, a directory.
            place = shell.files.locate(rest[0], shell.machine, subvolumes=False) if rest[0] else "/"
            value, at = place is not None, at + 2
            if place is not None and word != "-e":
                value = shell.files.is_dir(place) is (word == "-d")
            if value and word == "-s":
                value = shell.files.size(place or "/") > 0
        else:
            at += 1
            if word == "!":
                negate = not negate
            elif word == "(":
                outer.append((either, both, negate))
                either, both, negate = False, True, False
            elif word == ")":
                if not outer:
                    return either or both
                value = either or both
                either, both, negate = outer.pop()
            elif word == "-o":
                either, both = either or both, True
            elif word != "-a":
                value = word != ""
        if value is not None:
            both = both and value is not negate
            negate = False
    return bool(words) and (either or both)


def _same(name: str | None, wanted: str) -> bool:
    """Compare a title or id with the first step of a path like "a>b"; ">>" stands for a ">" in a name."""
    if name is None:
        return False
    first = re.split(r"(?<!>)>(?!>)", wanted.replace(">>", "\0"))[0]
    return first.replace("\0", ">") == name


def _strtoul(text: str) -> int | None:
    """Return what (int) grub_strtoul(text, 0, 0) is: what a text begins with counts, 0 makes octal, 0x hexadecimal."""
    found = re.match(r"\s*(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))", text, re.ASCII)
    if not found:
        return None
    number = next(int(digits[:100], base) for digits, base in zip(found.groups(), (16, 8, 10)) if digits)
    if number >= 1 << 64:
        return -1
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def choose(menu: t.Sequence[Item], wanted: str | None, names_first: bool = False) -> tuple[Item, str | None]:
    """Return the entry that a value of the variable ``default`` means, and what is left of it for a submenu.

    grub-core/normal/menu.c get_entry_number(): a number from 0, else a title or id; what matches nothing is the first
    entry. ``names_first``: Fedora, RHEL and their kin look for ids and titles before they take a number, as the ids of
    their entries begin with a machine id.
    """
    if wanted is None:
        return menu[0], None
    rest = re.split(r"(?<!>)>(?!>)", wanted.replace(">>", "\0"), maxsplit=1)[1:]
    left = rest[0].replace("\0", ">>") if rest else None
    number = _strtoul(wanted)
    if number is None or names_first:
        named = [item for item in menu if _same(item.id, wanted)] if names_first else []
        named += [item for item in menu if _same(item.title, wanted) or (not names_first and _same(item.id, wanted))]
        if named:
            return named[0], left
    if number is not None and 0 <= number < len(menu):
        return menu[number], left
    return menu[0], left


def quoted(arguments: t.Iterable[str]) -> str:
    """Join arguments as grub-core/lib/cmdline.c does: blanks make quotes, quotes and backslashes are escaped."""
    line = []
    for argument in arguments:
        text = re.sub(r"(\\(?!x[0-9a-fA-F]{2})|['\"])", r"\\\1", argument)
        line.append('"%s"' % text if " " in text else text)
    return " ".join(line)


def run_entry(shell: _Shell, item: Item, left: str | None) -> Item:
    """Run the default entry, down through submenus, and return the one that starts a kernel."""
    for _level in range(MAX_DEPTH):
        shell.path = item.path
        shell.menu = []
        try:
            shell.run(item.body)
        except _Stop:
            pass
        if not (item.submenu or shell.menu) or shell.linux is not None:
            return item
        if not shell.menu:
            raise BootError("%s: the default entry '%s' is an empty submenu" % (item.path, item.title))
        item, left = choose(shell.menu, left or None, shell.names_first)
    raise BootError("%s: submenus nest too deeply" % item.path)


REGENERATE = "change GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub and run update-grub"
GRUBBY = "grubby --update-kernel=ALL --remove-args=... removes an argument from every entry"


def grub_entry(files: Files, machine: Machine, config: str) -> BootEntry:
    """Return the entry that GRUB boots by default with the configuration ``config``."""
    text = files.read(config)
    if text is None:
        raise BootError("Reading %s: no such file" % config)
    shell = _Shell(files, machine, config)
    try:
        shell.run(_Parser(text, config).statements())
    except _Stop:
        pass
    shell.depth = 0
    if shell.linux is None:
        if not shell.menu:
            return BootEntry("grub", source=config, problem="%s makes no menu entry" % config)
        item, left = choose(shell.menu, shell.env.get("default"), shell.names_first)
        item = run_entry(shell, item, left)
        if item.bls is not None:
            from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot_bls import grub_options

            options, parts = grub_options(item.bls, shell.env, shell.origin)
            # blscfg.c hands "linux PATH OPTIONS" and "initrd PATH ..." to GRUB's own parser: quotes and variables mean
            # what they mean there ("initrd /initramfs.img $tuned_initrd" of RHEL).
            shell.path = item.path
            arguments = shell.words(options)
            entry = BootEntry(
                "bls", item.path, item.bls.line, quoted(arguments), title=item.title, parts=tuple(parts), remedy=GRUBBY
            )
            early = shell.env.get("early_initrd", "").split()
            directory = os.path.dirname(item.bls.linux)
            initrds = [directory + "/" + name for name in early] + shell.words(" ".join(item.bls.initrd))
            return finish(files, machine, entry, item.bls.linux, initrds)
        title = item.title
    else:
        title = None
    linux = shell.linux
    if linux is None and shell.chain is not None and shell.chain[0].lower().endswith(".efi"):
        from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot_efi import uki_entry

        place = files.locate(shell.chain[0], machine)
        if place is not None:
            return uki_entry(files, place, title)
    if linux is None:
        return BootEntry(
            "grub",
            source=item.path,
            title=title,
            problem="The default entry '%s' of %s starts no Linux kernel by itself" % (title, item.path),
        )
    entry = BootEntry(
        "grub",
        linux.config,
        linux.line,
        quoted(linux.arguments),
        title=title,
        parts=tuple(linux.parts),
        remedy=REGENERATE if files.exists("/etc/default/grub") else "edit %s" % linux.config,
    )
    return finish(files, machine, entry, linux.path, shell.initrds)


__all__ = ("choose", "grub_entry", "parse", "quoted", "read_grubenv", "variables")
