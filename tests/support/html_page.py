# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a page of HTML as a browser would: tags that are opened and closed in order, attributes, texts."""

from __future__ import annotations

import html.parser
import typing as t

# Elements without an end tag, of HTML (13.1.2) and of SVG as the pages use it.
VOID = ("br", "input", "line", "meta", "rect")


class Element(t.NamedTuple):
    tag: str
    attributes: dict[str, str | None]
    # The pieces of its text, those of its children included.
    texts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Page(html.parser.HTMLParser):
    """The elements of a page, in order. Comments and elements that are not closed fail."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.texts: list[str] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def tags(self) -> list[str]:
        return [element.tag for element in self.elements]

    @property
    def attributes(self) -> list[tuple[str, str | None]]:
        return [pair for element in self.elements for pair in element.attributes.items()]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def find(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for texts in (self.texts, *(element.texts for element in self._open)):
            texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    handle_pi = handle_comment
