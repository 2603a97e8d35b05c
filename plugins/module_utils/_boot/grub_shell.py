# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""GRUB's script language, run as GRUB runs it, but without a screen and without devices."""

from __future__ import annotations

import os
import re
import typing as t

from .bls import grub_entries
from .entry import Machine
from .files import BootError, Files
from .grub_syntax import MAX_DEPTH, Command, Parser, Word

MAX_STEPS = 50000

# grub-core/normal/main.c, features[]: what this GRUB can do, for configurations that also serve older ones.
FEATURES = (
    "200_final all_video_module chainloader_bpb default_font_path menuentry_id menuentry_options nativedisk_cmd ntldr "
    "platform_search_hint timeout_style"
)


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


class Stop(Exception):
    """The rest of this file, function or loop is not run."""


def variables(text: str, root: str, machine: Machine | None = None) -> dict[str, str]:
    """Run a script and return its variables."""
    shell = Shell(Files(root), machine or Machine(), "/boot/grub/grub.cfg")
    shell.run(Parser(text, shell.path).statements())
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


class Shell:
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
        command = Parser("command " + text.replace("\n", " "), self.path).statements()[0]
        return [field for word in command.words[1:] for field in self.expand(word)]

    def run(self, commands: list[Command]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BootError("%s: functions or files call each other endlessly" % self.path)
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
        except Stop as stop:
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
        body = command.parts if source is None else Parser(source, self.path).statements()
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
            raise Stop(name)
        elif name in self.functions:
            saved = {key: self.env.get(key) for key in "123456789"}
            self.env.update({str(number): value for number, value in enumerate(arguments[:9], 1)})
            try:
                self.run(self.functions[name])
            except Stop as stop:
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
        commands = Parser(text, place).statements()
        before = self.path
        self.path = place
        if name in ("configfile", "normal"):
            # A new menu, which takes the place of this one.
            self.menu = []
            self.env["config_file"], self.env["config_directory"] = place, os.path.dirname(place)
        try:
            self.run(commands)
        except Stop as stop:
            if stop.args[0] != "return":
                raise
        self.path = before
        if name in ("configfile", "normal"):
            raise Stop("exit")

    def blscfg(self, arguments: list[str]) -> None:
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


def _test(shell: Shell, words: list[str]) -> bool:
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


__all__ = ("Item", "Shell", "Stop", "read_grubenv", "variables")
