# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Reports as pages of HTML, by the templates beside this file and in the packages below."""

from __future__ import annotations

import os
import re
import typing as t

import jinja2

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


def render(template: str, **values: t.Any) -> str:
    """Return a page. All values are text on it, whatever they contain."""
    text = _ENVIRONMENT.get_template(template).render(values)
    # NUL and lone surrogates are not characters of HTML; a carriage return would be read as a line feed (13.2.3.5).
    return _NO_CHARACTER.sub("\ufffd", text).replace("\r", "&#13;")


__all__ = ("render",)
