# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""GRUB's script language: its words and statements (grub-core/script/yylex.l and parser.y)."""

from __future__ import annotations

import re
import typing as t

from .files import BootError

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


class Command(t.NamedTuple):
    """One statement: a simple command, or a compound one whose ``kind`` tells what ``parts`` are."""

    kind: str
    line: int
    words: list[Word]
    parts: list[t.Any]


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


class Parser:
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
    """Parse a script; BootError names file and line of what is not valid."""
    return Parser(text, path).statements()


__all__ = ("MAX_DEPTH", "Command", "Parser", "Word", "parse")
