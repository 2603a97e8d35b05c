# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A comparison of two results as one HTML page, which needs nothing else: no network, no script, no font."""

from __future__ import annotations

import html
import re
import typing as t

if t.TYPE_CHECKING:
    from compare import Comparison

# Blue and orange differ in every kind of colour blindness.
_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1a1f26;--soft:#5b6672;--line:#d5dbe1;--panel:#f5f7f9;--one:#c84a05;
--two:#2f7fc1}
@media (prefers-color-scheme:dark){:root{--back:#12161b;--text:#e6eaee;--soft:#9aa6b2;--line:#323b45;--panel:#1a2027;
--one:#e0591a;--two:#4b9ade}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:60rem;background:var(--back);color:var(--text);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif}
h1{font-size:1.35rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .6rem}
.banner{border:1px solid var(--line);border-left:.6rem solid var(--two);border-radius:.4rem;background:var(--panel);
padding:1rem 1.2rem}
.banner p{margin:.5rem 0 0}.banner.noise,.banner.unknown{border-left-color:var(--line)}
.banner.slower{border-left-color:var(--one)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.28rem .6rem;text-align:right;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
tbody th,thead th:first-child{text-align:left;font-weight:400;white-space:pre}
.others td{text-align:left}
svg{width:100%;height:auto;font:13px sans-serif}svg text{fill:var(--text)}
.one{fill:var(--one)}.two{fill:var(--two)}.whisker{stroke:var(--text);stroke-width:1.5}
.dot{fill:var(--back);stroke:var(--text);opacity:.75}
footer{margin:2rem 0 0;padding-top:.7rem;border-top:1px solid var(--line);color:var(--soft);font-size:.85rem}
"""
_NOTE = (
    "Behind +- are 1.96 standard deviations of the measurements within each run. What varies from run to run (other"
    " nodes, other neighbours) they do not show: repeat the runs before you rely on a small difference."
)
_WIDTH = 800
_BAR = 46
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


def escape(value: t.Any) -> str:
    """Return a value as text of the page. Not every base image has a template engine (PyTorch 1.13 requires none)."""
    # NUL and lone surrogates are not characters of HTML; a carriage return would be read as a line feed (13.2.3.5).
    return html.escape(_NO_CHARACTER.sub("\ufffd", str(value)), quote=True).replace("\r", "&#13;")


def page(found: Comparison) -> str:
    """Return the page."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>%s against %s</title>" % (escape(found.names[1]), escape(found.names[0])),
        "<style>%s</style></head><body>" % _STYLE,
        '<header class="banner %s"><h1>%s</h1><p>%s.</p></header>'
        % (found.difference.verdict, escape(found.title), escape(found.sentence)),
        "<h2>Images per second and %s</h2>" % found.device,
        _bars(found),
        _table(found),
        _others(found),
        "<footer>%s</footer></body></html>" % _NOTE,
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _bars(found: Comparison) -> str:
    """Return a bar for each mean, with all measurements on it."""
    most = max(one.max for one in found.per_device)
    lines = ['<svg viewBox="0 0 %d %d" role="img" aria-label="%s">' % (_WIDTH, 4 * _BAR, escape(found.sentence))]
    for number, (name, one, result) in enumerate(zip(found.names, found.per_device, found.results)):
        top = number * 2 * _BAR
        lines.append('<text x="0" y="%d">%s: %.1f</text>' % (top + _BAR // 2, escape(name), one.mean))
        lines.append(
            '<rect class="%s" x="0" y="%d" width="%.1f" height="%d" rx="3"/>'
            % (("one", "two")[number], top + _BAR * 2 // 3, one.mean / most * (_WIDTH - 10), _BAR)
        )
        middle = top + _BAR * 2 // 3 + _BAR // 2
        lines += [
            '<circle class="dot" cx="%.1f" cy="%d" r="4"><title>%.1f</title></circle>'
            % (rate / most * (_WIDTH - 10), middle, rate)
            for rate in result["samples"]
        ]
    return "\n".join([*lines, "</svg>"])


def _table(found: Comparison) -> str:
    head = "".join("<th>%s</th>" % escape(name) for name in ("", *found.names, "difference"))
    rows = [
        "<tr><th>%s</th>%s</tr>" % (escape(row[0]), "".join("<td>%s</td>" % escape(cell) for cell in row[1:]))
        for row in found.rows
    ]
    return "<table><thead><tr>%s</tr></thead><tbody>\n%s\n</tbody></table>" % (head, "\n".join(rows))


def _others(found: Comparison) -> str:
    if not found.differing:
        return ""
    rows = ["<tr><th>%s</th><td>%s</td><td>%s</td></tr>" % tuple(map(escape, entry)) for entry in found.differing]
    head = "".join("<th>%s</th>" % escape(name) for name in ("", *found.names))
    return (
        '<h2>Other differences</h2>\n<table class="others"><thead><tr>%s</tr></thead><tbody>\n%s\n</tbody></table>'
        % (head, "\n".join(rows))
    )


__all__ = ("page",)
