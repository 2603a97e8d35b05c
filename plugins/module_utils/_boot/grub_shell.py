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
from .grub_test import evaluate

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
    """Runs a script and keeps the menu that it creates, or the kernel that it loads."""

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
            self.count_step(command)
            if command.kind == "simple":
                self.simple(command)
            elif command.kind == "if":
                self.branch(command)
            elif command.kind == "function":
                self.functions["".join(self.expand(command.words[1])) if command.words[1:] else ""] = command.parts
            elif command.kind in ("menuentry", "submenu", "hiddenentry"):
                self.add(command)
            else:
                self.loop(command)
        self.depth -= 1

    def count_step(self, command: Command) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise BootError("%s:%d: more than %d steps" % (self.path, command.line, MAX_STEPS))

    def branch(self, command: Command) -> None:
        for condition, body in command.parts:
            if condition is not None:
                self.run(condition)
            if condition is None or self.status == 0:
                self.run(body)
                break

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
                self.count_step(command)
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

    def simple(self, command: Command) -> None:
        words = [field for word in command.words for field in self.expand(word)]
        self.status = 0
        if not words:
            return
        name = words[0]
        if re.match(r"[A-Za-z_][A-Za-z0-9_]*=", name):
            self.assign(command, ["set", *words])
        elif name.startswith("xen_module"):
            self.load_module(command, words)
        elif name.startswith("extract_entries"):
            self.source(command, words)
        elif name in _COMMANDS:
            _COMMANDS[name](self, command, words)
        elif name in self.functions:
            self.call(words)

    def assign(self, command: Command, words: list[str]) -> None:
        # The first argument only (grub_core_cmd_set() in grub-core/kern/corecmd.c): the rest is a value's that was
        # not quoted.
        name, equals, value = "".join(words[1:2]).partition("=")
        if equals:
            self.env[name] = value
            self.origin[name] = (self.path, command.line)

    def unset(self, _command: Command, words: list[str]) -> None:
        for name in words[1:]:
            self.env.pop(name, None)

    def test(self, _command: Command, words: list[str]) -> None:
        arguments = words[1:-1] if words[0] == "[" else words[1:]
        self.status = 0 if evaluate(self.files, self.machine, arguments) else 1

    def fail(self, _command: Command, _words: list[str]) -> None:
        self.status = 1

    def sleep(self, _command: Command, words: list[str]) -> None:
        # No key is pressed meanwhile.
        self.status = 1 if "--interruptible" in words[1:] else 0

    def stop(self, _command: Command, words: list[str]) -> None:
        raise Stop(words[0])

    def call(self, words: list[str]) -> None:
        """Run a function of the script, which has its arguments in $1 to $9."""
        saved = {key: self.env.get(key) for key in "123456789"}
        self.env.update({str(number): value for number, value in enumerate(words[1:10], 1)})
        try:
            self.run(self.functions[words[0]])
        except Stop as stop:
            if stop.args[0] != "return":
                raise
        for key, value in saved.items():
            if value is None:
                self.env.pop(key, None)
            else:
                self.env[key] = value

    def load(self, command: Command, words: list[str]) -> None:
        if len(words) < 2:
            return
        parts = [(self.path, command.line, " ".join(words[2:]))]
        for word in command.words[2:]:
            parts += [
                self.origin[text] + (self.env[text],)
                for kind, text, _quoted in word
                if kind == "var" and text in self.origin and text in self.env
            ]
        self.linux = Linux(words[1], words[2:], command.line, self.path, parts)

    def load_initrds(self, _command: Command, words: list[str]) -> None:
        self.initrds = [word for word in words[1:] if not word.startswith("--")]

    def load_module(self, command: Command, words: list[str]) -> None:
        """Load a module of Xen: multiboot or xen_hypervisor loads the hypervisor, its first module is the kernel."""
        words = [word for word in words if word != "--nounzip"]
        if self.linux is None:
            self.load(command, words)
        else:
            self.initrds += words[1:2]

    def load_next_loader(self, command: Command, words: list[str]) -> None:
        self.chain = ("".join(words[1:][-1:]), command.line)

    def load_env(self, _command: Command, words: list[str]) -> None:
        path = self.env.get("prefix", "") + "/grubenv"
        names = []
        arguments = words[1:]
        while arguments:
            word = arguments.pop(0)
            if word in ("-f", "--file"):
                path = arguments.pop(0) if arguments else path
            elif word.startswith("--file="):
                path = word[7:]
            elif not word.startswith("-"):
                names.append(word)
        place = self.files.locate(path, self.machine, subvolumes=False)
        text = self.files.read(place) if place else None
        if text is None or place is None:
            self.status = 1
            return
        for name, (value, line) in read_grubenv(text).items():
            if not names or name in names:
                self.env[name] = value
                self.origin[name] = (place, line)

    def source(self, _command: Command, words: list[str]) -> None:
        place = self.files.locate(words[1], self.machine, subvolumes=False) if words[1:] else None
        text = self.files.read(place) if place and not self.files.is_dir(place) else None
        if text is None or place is None:
            self.status = 1
            return
        commands = Parser(text, place).statements()
        before = self.path
        self.path = place
        new_menu = words[0] in ("configfile", "normal")
        if new_menu:
            self.menu = []
            self.env["config_file"], self.env["config_directory"] = place, os.path.dirname(place)
        try:
            self.run(commands)
        except Stop as stop:
            if stop.args[0] != "return":
                raise
        self.path = before
        if new_menu:
            raise Stop("exit")

    def blscfg(self, _command: Command, words: list[str]) -> None:
        self.names_first = True
        only = words[1] if len(words) == 2 and not words[1].startswith(("(", "-", "/")) else None
        for entry in grub_entries(self.files, self.env.get("blsdir")):
            default = self.env.get("default") in (entry.id, entry.title)
            if only in (None, entry.id) or (only == "default" and default) or (only == "non-default" and not default):
                self.menu.append(Item(entry.title or entry.linux, entry.id, [], entry.path, False, entry))


_COMMANDS: dict[str, t.Callable[[Shell, Command, list[str]], None]] = {
    "set": Shell.assign,
    **dict.fromkeys(("[", "test"), Shell.test),
    **dict.fromkeys(("linux", "linuxefi", "linux16", "linux32", "linuxloader", "kernel"), Shell.load),
    **dict.fromkeys(("initrd", "initrdefi", "initrd16"), Shell.load_initrds),
    **dict.fromkeys(("module", "module2"), Shell.load_module),
    "load_env": Shell.load_env,
    "unset": Shell.unset,
    **dict.fromkeys(("source", ".", "configfile", "normal"), Shell.source),
    **dict.fromkeys(("blscfg", "bls_import"), Shell.blscfg),
    "chainloader": Shell.load_next_loader,
    **dict.fromkeys(("false", "keystatus", "regexp"), Shell.fail),
    "sleep": Shell.sleep,
    **dict.fromkeys(("return", "exit", "break", "continue"), Shell.stop),
}


__all__ = ("Item", "Shell", "Stop", "read_grubenv", "variables")
