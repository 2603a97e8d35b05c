# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Text of any kind in a page of HTML."""

from __future__ import annotations

import html
import typing as t


def escape(value: t.Any) -> str:
    """Return text for a page.

    A carriage return would be read as a line feed (HTML, 13.2.3.5); NUL and lone surrogates are not characters there.
    """
    text = "".join("\ufffd" if one == "\0" or "\ud800" <= one <= "\udfff" else one for one in str(value))
    return html.escape(text, quote=True).replace("\r", "&#13;")


def isolated(value: t.Any) -> str:
    """Return a name by itself: what is written from right to left stays inside."""
    return "<bdi>%s</bdi>" % escape(value)


__all__ = ("escape", "isolated")
