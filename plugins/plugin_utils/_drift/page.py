# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.
"""A drift report as one HTML page, which needs nothing else: no network, no script, no font."""

from __future__ import annotations

import typing as t

from ...module_utils._decision import DRIFT, IN_SYNC, UNKNOWN
from .._html import escape, isolated
from .report import STATUSES, counted, totals
from .text import TITLES, shown

Json = t.Dict[str, t.Any]

# Objects in sync beyond this many are counted, not listed: a browser takes seconds over a larger page.
MAX_IN_SYNC = 4000

# What the filter is called, and the statuses that it shows.
_FILTERS = (
    ("wrong", "Not in sync", (DRIFT, UNKNOWN)),
    ("drift", "Drift", (DRIFT,)),
    ("unknown", "Unknown", (UNKNOWN,)),
    ("in_sync", "In sync", (IN_SYNC,)),
    ("all", "All", STATUSES),
)

# Blue and orange differ in every kind of colour blindness; what each colour means is in the text too.
_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1a1f26;--soft:#5b6672;--line:#d5dbe1;--panel:#f5f7f9;
--ok:#2f7fc1;--okt:#fff;--bad:#c84a05;--badt:#fff;--u:#e4e7ea;--uh:#b9c0c7;--ut:#2b333b;--add:#1d5f9e;--del:#a63c02}
@media (prefers-color-scheme:dark){:root{--back:#12161b;--text:#e6eaee;--soft:#9aa6b2;--line:#323b45;--panel:#1a2027;
--ok:#4b9ade;--okt:#06131f;--bad:#e0591a;--badt:#1c0700;--u:#2a3139;--uh:#414b56;--ut:#dfe5ea;--add:#7db9ee;
--del:#f2a26b}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:100rem;background:var(--back);color:var(--text);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif}
h1{font-size:1.35rem;margin:0}h2{font-size:1.1rem;margin:1.6rem 0 .5rem;overflow-wrap:anywhere}
p{margin:.3rem 0}.soft{color:var(--soft)}
.banner{border:1px solid var(--line);border-left:.6rem solid var(--uh);border-radius:.4rem;background:var(--panel);
padding:1rem 1.2rem}
.banner.in_sync{border-left-color:var(--ok)}.banner.drift{border-left-color:var(--bad)}
.banner ul{margin:.7rem 0 0;padding-left:1.2rem}.banner li{margin:.2rem 0;overflow-wrap:anywhere}
.facts{display:flex;flex-wrap:wrap;gap:.2rem 1.6rem;margin:.6rem 0 0;color:var(--soft)}.facts b{color:var(--text)}
.tag{display:inline-block;padding:0 .5rem;border-radius:.3rem;font-weight:600;white-space:nowrap}
.tag.in_sync{background:var(--ok);color:var(--okt)}.tag.drift{background:var(--bad);color:var(--badt)}
.tag.unknown{color:var(--ut);background:var(--u) repeating-linear-gradient(45deg,transparent 0 4px,var(--uh) 4px 6px)}
.tag.unknown b{background:var(--u);padding:0 .2rem;border-radius:.2rem;font-weight:600}
.grid{display:flex;flex-wrap:wrap;gap:.35rem;margin:.6rem 0}
.grid a{display:flex;gap:.5rem;align-items:baseline;padding:.15rem .5rem;border:1px solid var(--line);
border-left:.35rem solid var(--uh);border-radius:.3rem;color:inherit;text-decoration:none;font-size:.87rem;
max-width:24rem;overflow:hidden}
.grid a.in_sync{border-left-color:var(--ok)}.grid a.drift{border-left-color:var(--bad)}
.grid a:hover,.grid a:focus{background:var(--panel)}.grid span{overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}.grid small{white-space:nowrap;color:var(--soft)}
.filter{position:absolute;opacity:0;pointer-events:none}
.bar{position:sticky;top:0;z-index:1;display:flex;flex-wrap:wrap;gap:.4rem;padding:.6rem 0;margin-top:1rem;
background:var(--back);border-bottom:1px solid var(--line)}
.bar label{padding:.2rem .8rem;border:1px solid var(--line);border-radius:1rem;cursor:pointer;font-size:.9rem}
.list{width:100%;border-collapse:collapse;font-size:.87rem;table-layout:fixed}
.list th,.list td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:anywhere}
.list thead th{color:var(--soft);font-weight:600;border-bottom-width:2px}
.list .s{width:6.5rem}.list .o{width:26%}.list .t{width:22%}
.values{display:grid;grid-template-columns:max-content 1fr;gap:0 .7rem;margin:0}.values dt{color:var(--soft)}
.values dd{margin:0;font-family:ui-monospace,"Liberation Mono","DejaVu Sans Mono",monospace;font-size:.95em;
white-space:pre-wrap}
.values .set{font-weight:700}
pre{margin:.3rem 0;padding:.5rem;background:var(--panel);border:1px solid var(--line);border-radius:.3rem;
overflow:auto;max-height:30rem;font:.85em/1.35 ui-monospace,"Liberation Mono","DejaVu Sans Mono",monospace}
pre ins{color:var(--add);text-decoration:none}pre del{color:var(--del);text-decoration:none}
summary{cursor:pointer;color:var(--soft)}
.none{display:none}
main section:target{display:block!important}main section:target tr{display:table-row!important}
section{scroll-margin-top:4rem;break-inside:avoid-page}
footer{margin:2rem 0 0;padding-top:.7rem;border-top:1px solid var(--line);color:var(--soft);font-size:.85rem}
@media print{body{padding:0;max-width:none;font-size:11px}.bar{display:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""

_SAYS = {
    IN_SYNC: "Everything that was checked is in the desired state.",
    UNKNOWN: "Nothing is known to have drifted, but not everything could be checked.",
    DRIFT: "Something is not, or was not, in the desired state.",
}


def page(report: Json) -> str:
    """Return the page."""
    counts = totals(report)
    chosen = "wrong" if counts[DRIFT] + counts[UNKNOWN] else "all"
    ranked = sorted(report["hosts"].items(), key=lambda one: -STATUSES.index(one[1]["status"]))
    radios = "".join(
        '<input class="filter" type="radio" name="filter" id="f-%s"%s>' % (name, " checked" if name == chosen else "")
        for name, _title, _statuses in _FILTERS
    )
    labels = "".join(
        '<label for="f-%s">%s <b>%d</b></label>' % (name, title, sum(counts[status] for status in statuses))
        for name, title, statuses in _FILTERS
    )
    room = [MAX_IN_SYNC]
    sections = [_section(number, host, entry, room) for number, (host, entry) in enumerate(ranked)]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>Drift: %s</title>" % TITLES[report["verdict"]],
        "<style>%s%s</style></head><body>" % (_STYLE, _filter_style()),
        _banner(report, counts),
        '<h2>Hosts</h2><div class="grid">%s</div>' % "".join(_link(*one) for one in enumerate(ranked)),
        radios,
        '<div class="bar" role="group" aria-label="Which objects are shown">%s</div>' % labels,
        '<main>%s<p class="nothing none">No such objects.</p></main>' % "\n".join(sections),
        "<footer>rdmaops.gpu_fabric drift, report schema %s, started %s</footer>"
        % (escape(report["schema"]), escape(report["started"])),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _filter_style() -> str:
    rules = []
    for name, _title, statuses in _FILTERS:
        at = "#f-%s:checked~" % name
        rules.append('%s.bar label[for="f-%s"]{background:var(--text);color:var(--back)}' % (at, name))
        rules.append('#f-%s:focus-visible~.bar label[for="f-%s"]{outline:2px solid var(--ok)}' % (name, name))
        hidden = [status for status in STATUSES if status not in statuses]
        if hidden:
            rules.append(",".join("%smain tr.%s" % (at, status) for status in hidden) + "{display:none}")
            rules.append("%smain section%s{display:none}" % (at, "".join(":not(.has-%s)" % one for one in statuses)))
            rules.append(
                "%smain:not(:has(%s)) .nothing{display:block}" % (at, ",".join("section.has-%s" % o for o in statuses))
            )
    return "\n".join(rules)


def _tag(status: str) -> str:
    text = TITLES[status]
    return '<span class="tag %s">%s</span>' % (status, "<b>%s</b>" % text if status == UNKNOWN else text)


def _banner(report: Json, counts: t.Mapping[str, int]) -> str:
    verdict = report["verdict"]
    facts = [
        ("Started", report["started"]),
        ("Finished", report.get("finished") or "not known"),
        ("Mode", "check" if report["check_mode"] else "applied"),
        ("Hosts", len(report["hosts"])),
        ("Objects", ", ".join("%d %s" % (counts[one], TITLES[one]) for one in reversed(STATUSES) if counts[one])),
    ]
    left = "".join("<li>%s</li>" % isolated(why) for why in report["incomplete"][:100])
    if left:
        left = "<p>The run is not complete:</p><ul>%s</ul>" % left
    return '<header class="banner %s"><h1>Drift: %s</h1><p>%s</p>%s<div class="facts">%s</div></header>' % (
        verdict, _tag(verdict), _SAYS[verdict] if report["hosts"] else "Nothing was checked.", left,
        "".join("<span>%s <b>%s</b></span>" % (name, escape("none" if v == "" else v)) for name, v in facts),
    )  # fmt: skip


def _link(number: int, pair: tuple[str, Json]) -> str:
    host, entry = pair
    counts = counted(entry["objects"])
    said = ", ".join("%d %s" % (counts[one], TITLES[one]) for one in reversed(STATUSES) if counts[one])
    return '<a class="%s" href="#h%d" title="%s: %s"><span>%s</span><small>%s</small></a>' % (
        entry["status"], number, escape(host), said, isolated(host), said,
    )  # fmt: skip


def _section(number: int, host: str, entry: Json, room: list[int]) -> str:
    counts = counted(entry["objects"])
    rows = []
    left = 0
    for status in reversed(STATUSES):
        for one in entry["objects"]:
            if one["status"] != status:
                continue
            if status == IN_SYNC:
                room[0] -= 1
                if room[0] < 0:
                    left += 1
                    continue
            rows.append(_row(one))
    if left:
        rows.append('<tr class="in_sync"><td></td><td colspan="3">and %d in sync, in the JSON report</td></tr>' % left)
    return (
        '<section id="h%d" class="%s"><h2>%s %s</h2><table class="list"><thead><tr>'
        '<th class="s" scope="col">Status</th><th class="o" scope="col">Object</th>'
        '<th scope="col">What was seen</th><th class="t" scope="col">Task</th></tr></thead>'
        "<tbody>%s</tbody></table></section>"
    ) % (
        number, " ".join("has-%s" % one for one in STATUSES if counts[one]), isolated(host), _tag(entry["status"]),
        "\n".join(rows),
    )  # fmt: skip


def _row(one: Json) -> str:
    kind = one["kind"]
    what = "%s<br>%s" % ('<span class="soft">%s</span>' % escape(kind), isolated(one["name"]))
    if one["item"] is not None and one["item"] != one["name"]:
        what += " (%s)" % isolated(one["item"])
    if one["delegated_to"]:
        what += '<br><span class="soft">on %s</span>' % isolated(one["delegated_to"])
    task = '<span class="soft">none</span>' if one["task"] is None else isolated(one["task"])
    if one["role"]:
        task += '<br><span class="soft">%s</span>' % escape(one["role"])
    return '<tr class="%s"><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>' % (
        one["status"], _tag(one["status"]), what, _seen(one), task,
    )  # fmt: skip


def _seen(one: Json) -> str:
    parts = []
    if one["why"]:
        parts.append("<p>%s</p>" % isolated(one["why"]))
    values = [one[name] for name in ("desired", "live", "configured", "next_boot")]
    if any(value is not None for value in values):
        known = (
            ("wanted", one["desired"], "nothing"),
            ("live", one["live"], "unknown"),
            ("configured", one["configured"], None),
            ("next boot", one["next_boot"], None),
        )
        items = [
            "<dt>%s</dt><dd%s>%s</dd>"
            % (title, ' class="set"' if title == "wanted" else "", escape(empty if value is None else shown(value)))
            for title, value, empty in known
            if value is not None or empty is not None
        ]
        parts.append('<dl class="values">%s</dl>' % "".join(items))
    if one["repaired"]:
        parts.append("<p>repaired by this run</p>")
    if one["diff"]:
        parts.append("<details><summary>diff</summary><pre>%s</pre></details>" % _diff(one["diff"]))
    return "".join(parts) or '<span class="soft">%s</span>' % ("differs" if one["status"] == DRIFT else "–")


def _diff(text: t.Any) -> str:
    lines = []
    for line in str(text).splitlines():
        mark = {"+": "ins", "-": "del"}.get(line[:1])
        lines.append("<%s>%s</%s>" % (mark, escape(line), mark) if mark else escape(line))
    return "\n".join(lines)


__all__ = ("MAX_IN_SYNC", "page")
