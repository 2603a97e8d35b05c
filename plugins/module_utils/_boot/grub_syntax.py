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
    """One statement: a simple command, or a compound one; ``parts`` depends on ``kind``."""

    kind: str
    line: int
    words: list[Word]
    parts: list[t.Any]


def _pieces(kind: str, value: str) -> Word:
    """Return the pieces of a word that a token is."""
    if kind in ("braced", "var"):
        return [("var", value, False)]
    if kind != "double":
        return [("text", value, kind != "text")]
    word: Word = [("text", "", True)]
    for piece in _INSIDE.finditer(value):
        inner = piece.lastgroup or ""
        if inner in ("braced", "var"):
            word.append(("var", piece.group(inner), True))
        elif inner != "skip":
            word.append(("text", piece.group(inner), True))
    return word


def _lex(text: str, path: str) -> list[tuple[int, str | Word]]:
    """Cut a script into separators (";", "{", "}") and words, each with its line."""
    tokens: list[tuple[int, str | Word]] = []
    word: Word = []
    at, line, size = 0, 1, len(text)
    while at < size:
        if text[at] == "#" and not word:
            at = text.find("\n", at)
            if at < 0:
                break
        token = _TOKEN.match(text, at)
        if token is None:
            raise BootError("%s:%d: a quotation mark is not closed" % (path, line))
        kind = token.lastgroup or ""
        if kind not in ("blank", "newline", "end", "brace"):
            word += _pieces(kind, token.group(kind))
        elif word:
            tokens.append((line, word))
            word = []
        if kind == "brace":
            tokens.append((line, token.group()))
        elif kind in ("newline", "end"):
            tokens.append((line, ";"))
        line += text.count("\n", at, token.end())
        at = token.end()
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

    def fail(self, problem: str) -> t.NoReturn:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][0] if self.tokens else 1
        raise BootError("%s:%d: %s" % (self.path, line, problem))

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
        if word == "if":
            return Command("if", line, [], self.branches())
        if word in ("while", "until", "for"):
            return self.loop(word, line)
        if word == "{":
            return Command("if", line, [], [(None, self.block("}"))])
        parts: list[t.Any] = []
        words = self.words()
        name = words[0][0][1] if words else ""
        if name == "function" and len(words) > 1:
            self.take("{")
            self.at -= 1
        # grub-core/script/parser.y: a block is an argument, of any command and at any place.
        while self.keyword() == "{":
            parts = self.block("}")
            words += self.words()
        kind = name if name in ("menuentry", "submenu", "function", "hiddenentry") else "simple"
        return Command(kind, line, words, parts)

    def block(self, end: str) -> list[Command]:
        """Read what is between two keywords, and both of them."""
        self.at += 1
        commands = self.statements(end)
        self.at += 1
        return commands

    def branches(self) -> list[tuple[list[Command] | None, list[Command]]]:
        """Read an ``if``: conditions, None for ``else``, each with its statements."""
        parts: list[tuple[list[Command] | None, list[Command]]] = []
        while self.keyword() in ("if", "elif"):
            condition = self.block("then")
            parts.append((condition, self.statements("elif", "else", "fi")))
        if self.keyword() == "else":
            parts.append((None, self.block("fi")))
        else:
            self.at += 1
        return parts

    def loop(self, kind: str, line: int) -> Command:
        words: list[Word] = []
        condition: list[Command] = []
        if kind == "for":
            self.at += 1
            words = self.words()
            self.take("do")
            self.at -= 1
        else:
            self.at += 1
            condition = self.statements("do")
        return Command(kind, line, words, [condition, self.block("done")])

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
