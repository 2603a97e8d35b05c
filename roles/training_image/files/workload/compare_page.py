# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A comparison of two results as one HTML page, which needs nothing else: no network, no script, no font."""

from __future__ import annotations

import re
import typing as t

import jinja2

if t.TYPE_CHECKING:
    from compare import Comparison

# Blue and orange differ in every kind of colour blindness.
_TEMPLATE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ comparison.names[1] }} against {{ comparison.names[0] }}</title>
<style>
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
</style></head><body>
<header class="banner {{ comparison.difference.verdict }}">
<h1>{{ comparison.title }}</h1><p>{{ comparison.sentence }}.</p></header>
<h2>Images per second and {{ comparison.device }}</h2>
<svg viewBox="0 0 800 {{ 4 * bar }}" role="img" aria-label="{{ comparison.sentence }}">
{% for kind, name, summary, result in bars %}
{% set top = loop.index0 * 2 * bar %}
<text x="0" y="{{ top + bar // 2 }}">{{ name }}: {{ "%.1f" | format(summary.mean) }}</text>
<rect class="{{ kind }}" x="0" y="{{ top + bar * 2 // 3 }}" width="{{ width(summary.mean) }}" height="{{ bar }}"
 rx="3"/>
{% for rate in result.samples %}
<circle class="dot" cx="{{ width(rate) }}" cy="{{ top + bar * 2 // 3 + bar // 2 }}" r="4">
<title>{{ "%.1f" | format(rate) }}</title></circle>
{% endfor %}
{% endfor %}
</svg>
<table><thead><tr><th></th>
{% for name in comparison.names %}
<th>{{ name }}</th>
{% endfor %}
<th>difference</th></tr></thead><tbody>
{% for row in comparison.rows %}
<tr><th>{{ row[0] }}</th><td>{{ row[1] }}</td><td>{{ row[2] }}</td><td>{{ row[3] }}</td></tr>
{% endfor %}
</tbody></table>
{% if comparison.differing %}
<h2>Other differences</h2>
<table class="others"><thead><tr><th></th>
{% for name in comparison.names %}
<th>{{ name }}</th>
{% endfor %}
</tr></thead><tbody>
{% for row in comparison.differing %}
<tr><th>{{ row[0] }}</th><td>{{ row[1] }}</td><td>{{ row[2] }}</td></tr>
{% endfor %}
</tbody></table>
{% endif %}
<footer>Behind +- are 1.96 standard deviations of the measurements within each run. What varies from run to run (other
nodes, other neighbours) they do not show: repeat the runs before you rely on a small difference.</footer></body></html>
"""
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


def page(comparison: Comparison) -> str:
    """Return the page. A bar for each mean has all measurements on it."""
    most = max(summary.max for summary in comparison.per_device)
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = environment.from_string(_TEMPLATE).render(
        comparison=comparison,
        bars=list(zip(("one", "two"), comparison.names, comparison.per_device, comparison.results)),
        bar=46,
        width=lambda rate: "%.1f" % (rate / most * 790),
    )
    # NUL and lone surrogates are not characters of HTML; a carriage return would be read as a line feed (13.2.3.5).
    return _NO_CHARACTER.sub("\ufffd", text).replace("\r", "&#13;")


__all__ = ("page",)
