# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fabric report as one HTML page, which needs nothing else: no network, no script, no font."""

from __future__ import annotations

import collections
import math
import typing as t

from .._html import escape, isolated
from . import gpus
from .vocabulary import BANDWIDTHS, FAIL, PASS, TESTS, UNKNOWN, VERDICTS, bound, percent, speed

Json = t.Mapping[str, t.Any]

# Blue and orange differ in every kind of colour blindness; what each cell means is in its text too.
_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1a1f26;--soft:#5b6672;--line:#d5dbe1;--panel:#f5f7f9;
--p1:#a9cdec;--p2:#6ba8dc;--p3:#2f7fc1;--p1t:#0b2239;--p2t:#0b2239;--p3t:#fff;--f1:#f2a23a;--f2:#c84a05;--f1t:#2b1700;
--f2t:#fff;--u:#e4e7ea;--uh:#b9c0c7;--ut:#2b333b}
@media (prefers-color-scheme:dark){:root{--back:#12161b;--text:#e6eaee;--soft:#9aa6b2;--line:#323b45;--panel:#1a2027;
--p1:#1f4a73;--p2:#2b6ca6;--p3:#4b9ade;--p1t:#e6f1fb;--p2t:#fff;--p3t:#06131f;--f1:#d98a22;--f2:#e0591a;--f1t:#1c0f00;
--f2t:#1c0700;--u:#2a3139;--uh:#414b56;--ut:#dfe5ea}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:100rem;background:var(--back);color:var(--text);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif}
h1{font-size:1.35rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .6rem}h3{font-size:1rem;margin:0 0 .4rem}
p{margin:.3rem 0}.soft{color:var(--soft)}
.banner{border:1px solid var(--line);border-left:.6rem solid var(--uh);border-radius:.4rem;background:var(--panel);
padding:1rem 1.2rem}
.banner.pass{border-left-color:var(--p3)}.banner.fail{border-left-color:var(--f2)}
.banner ul{margin:.7rem 0 0;padding-left:1.2rem}.banner li{margin:.25rem 0;overflow-wrap:anywhere}
.badge{display:inline-block;padding:.05rem .6rem;border-radius:.3rem;font-weight:600}
.facts{display:flex;flex-wrap:wrap;gap:.2rem 1.6rem;margin:.6rem 0 0;color:var(--soft)}.facts b{color:var(--text)}
.pass{background-color:var(--p3);color:var(--p3t)}.fail{background-color:var(--f2);color:var(--f2t)}
.unknown{color:var(--ut);background-color:var(--u);
background-image:repeating-linear-gradient(45deg,transparent 0 4px,var(--uh) 4px 6px)}
.banner.pass,.banner.fail,.banner.unknown{background:var(--panel);color:var(--text)}
.p1{background-color:var(--p1);color:var(--p1t)}.p2{background-color:var(--p2);color:var(--p2t)}
.p3{background-color:var(--p3);color:var(--p3t)}.f1{background-color:var(--f1);color:var(--f1t);font-weight:700}
.f2{background-color:var(--f2);color:var(--f2t);font-weight:700}
.legend{display:flex;flex-wrap:wrap;gap:.4rem .9rem;align-items:center;margin:.4rem 0 1rem;font-size:.87rem}
.legend span span{display:inline-block;min-width:2.6rem;text-align:center;padding:.05rem .3rem;margin-right:.35rem;
border-radius:.2rem}
.few{display:flex;flex-wrap:wrap;gap:.5rem 4rem}.few .rail{break-inside:avoid}
.maps{display:flex;flex-wrap:wrap;gap:1rem 2.2rem;align-items:flex-start}
figure{margin:0 0 1.2rem;max-width:100%;overflow-x:auto;break-inside:avoid}
figcaption{font-weight:600;margin:0 0 .35rem}figcaption span{font-weight:400}
table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums}
.map{border-spacing:2px;font-size:.8rem}
.map td{width:2.55rem;min-width:2.55rem;height:1.75rem;padding:0 .15rem;text-align:center;border-radius:.2rem;
white-space:nowrap}
.map th{font-weight:500;padding:0 .4rem;text-align:right;max-width:16rem;overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}
.map thead th{padding:0 .1rem .2rem;text-align:center;vertical-align:bottom}
.map .up{max-width:none}
.map .up span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:10rem;overflow:hidden;text-overflow:ellipsis;
display:inline-block}
.map .self{background:var(--line);opacity:.55}.map .none{color:var(--soft)}
.map.middle{font-size:.75rem}.map.middle td{width:2.05rem;min-width:2.05rem;height:1.6rem;padding:0}
.map.dense{border-spacing:1px;font-size:.66rem}.map.dense td{width:1.62rem;min-width:1.62rem;height:1.3rem;padding:0;
border-radius:.1rem}
.unknown b{background:var(--u);padding:0 .2rem;border-radius:.2rem;font-weight:600}
.list{width:100%;font-size:.87rem}
.list th,.list td{padding:.28rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:break-word;max-width:22rem}
.list thead th{color:var(--soft);font-weight:600;white-space:nowrap;border-bottom-width:2px}
.list .number{text-align:right;white-space:nowrap}.list .link{white-space:nowrap}
.list tbody th{font-weight:600;max-width:18rem}
.list td.why{max-width:40rem}.why p,.list th p{font-size:.8rem;font-weight:400}
.list .tag{display:inline-block;padding:0 .45rem;border-radius:.25rem;font-size:.8rem;font-weight:600}
.wide{overflow-x:auto}
footer{margin:2rem 0 0;padding-top:.7rem;border-top:1px solid var(--line);color:var(--soft);font-size:.85rem}
@media print{body{padding:0;max-width:none;font-size:11px}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.wide,figure{overflow:visible}.list tr{break-inside:avoid}h2,h3,figcaption{break-after:avoid}}
@media print and (prefers-color-scheme:dark){:root{color-scheme:light}}
"""

_TITLES = {PASS: "pass", UNKNOWN: "unknown", FAIL: "fail"}
_SAYS = {
    PASS: "Every requested measurement was made, and is good.",
    UNKNOWN: "Nothing is known to be bad, but not everything that was requested was measured.",
    FAIL: "Something is bad; the reasons show what and where.",
}


def page(report: Json) -> str:
    """Return the page."""
    nodes = report["nodes"]
    order = [node["name"] for node in nodes]
    order += sorted({entry[end] for entry in report["pairs"] for end in ("client", "server")} - set(order))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>Fabric check: %s</title>" % escape(report["verdict"]),
        "<style>%s</style></head><body>" % _STYLE,
        _banner(report, order),
        _maps(report, order),
        _checks(report["checks"]),
        _gpus(report),
        _ports(nodes),
        _skipped(report["skipped"]),
        "<footer>rdmaops.gpu_fabric fabric_check, report schema %s, started %s</footer>"
        % (escape(report["schema"]), escape(report["started"])),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _banner(report: Json, order: list[str]) -> str:
    verdict = report["verdict"]
    counts = collections.Counter(entry["verdict"] for entry in report["pairs"])
    said = ", ".join("%d %s" % (counts[one], _TITLES[one]) for one in reversed(VERDICTS) if counts[one]) or "none"
    rails = {entry["rail"] for entry in report["pairs"]}
    rails |= {port["rail"] for node in report["nodes"] for port in node["rails"]}
    facts = [
        ("Started", report["started"] or "not known"),
        ("Nodes", len(order)),
        ("Rails", len(rails)),
        ("Measurements", said),
        ("Limit", bound(report["min_share"]) + " of the link's rate"),
    ]
    items = "".join("<li>%s</li>" % isolated(reason) for reason in report["reasons"])
    return (
        '<header class="banner %s"><h1>Fabric check: <span class="badge %s"><b>%s</b></span></h1><p>%s</p>%s'
        '<div class="facts">%s</div></header>'
    ) % (
        verdict, verdict, escape(_TITLES[verdict]), _SAYS[verdict], "<ul>%s</ul>" % items if items else "",
        "".join("<span>%s <b>%s</b></span>" % (name, escape(value)) for name, value in facts),
    )  # fmt: skip


# --- the maps -----------------------------------------------------------------------------------------------------


def _maps(report: Json, order: list[str]) -> str:
    entries = report["pairs"]
    if not entries:
        return '<h2>Measurements</h2><p class="soft">None.</p>'
    limit = report["min_share"]
    rails = sorted({entry["rail"] for entry in entries})
    parts = ["<h2>Measurements</h2>", _legend(limit, {entry["test"] for entry in entries})]
    pairs = {(entry["client"], entry["server"]) for entry in entries}
    names = [name for name in order if any(name in pair for pair in pairs)]
    tests = [test for test in TESTS if any(entry["test"] == test for entry in entries)]
    if len(names) > 8 and len(pairs) * 5 < len(names) * (len(names) - 1):
        # Of a ring most of a square would be empty.
        ranked = sorted(pairs, key=lambda pair: (names.index(pair[0]), names.index(pair[1])))
        maps = [_strip(test, ranked, rails, [e for e in entries if e["test"] == test], limit) for test in tests]
        return "\n".join(parts + ['<div class="maps">', *maps, "</div>"])
    parts.append('<p class="soft">The client is on the left, the server on top.</p>')
    parts.append('<div class="%s">' % ("few" if len(names) <= 4 else "many"))
    for rail in rails:
        own = [entry for entry in entries if entry["rail"] == rail]
        parts.append('<section class="rail"><h3>Rail %d</h3><div class="maps">' % rail)
        for test in tests:
            of_test = [entry for entry in own if entry["test"] == test]
            if of_test:
                parts.append(_square(rail, test, names, of_test, limit))
        parts.append("</div></section>")
    parts.append("</div>")
    return "\n".join(parts)


def _legend(limit: float, tests: t.Collection[str]) -> str:
    steps = [limit, limit + (1 - limit) / 3, limit + (1 - limit) * 2 / 3]
    items = []
    if set(BANDWIDTHS) & set(tests):
        items = [
            ("f2", "!", "below %s" % bound(limit / 2)),
            ("f1", "!", "below the limit, %s" % bound(limit)),
            ("p1", "", "from %s" % percent(steps[0], 0)),
            ("p2", "", "from %s" % percent(steps[1], 0)),
            ("p3", "", "from %s of the link's rate" % percent(steps[2], 0)),
        ]
        if limit >= 0.995:
            items = items[:2] + [("p3", "", "the link's rate")]
    items += [
        ("pass", "ok", "pass"),
        ("fail", "fail", "fail"),
        ("unknown", "<b>?</b>", "unknown"),
        ("none", "·", "not requested"),
    ]
    texts = ["<span><span class='%s'>%s</span>%s</span>" % (name, mark or "&nbsp;", says) for name, mark, says in items]
    return '<div class="legend">%s</div>' % "".join(texts)


def _caption(title: str, entries: list[Json]) -> str:
    counts = collections.Counter(entry["verdict"] for entry in entries)
    said = ", ".join("%d %s" % (counts[one], _TITLES[one]) for one in reversed(VERDICTS) if counts[one])
    rates = [entry["gbps"] for entry in entries if entry["gbps"] is not None]
    if rates:
        low, high = speed(min(rates)), speed(max(rates))
        said += "; %s Gb/s" % (low if low == high else "%s to %s" % (low, high))
    return '<figcaption>%s <span class="soft">%s</span></figcaption>' % (escape(title), said)


def _square(rail: int, test: str, names: list[str], entries: list[Json], limit: float) -> str:
    cells = {(entry["client"], entry["server"]): entry for entry in entries}
    upright = len(names) > 4 or any(len(name) > 8 for name in names)
    shown = '<th class="%s" scope="col" title="%%s"><span>%%s</span></th>' % ("up" if upright else "flat")
    head = "".join(shown % (escape(name), isolated(name)) for name in names)
    rows = []
    for client in names:
        row = '<th scope="row" title="%s">%s</th>' % (escape(client), isolated(client))
        for server in names:
            row += '<td class="self"></td>' if client == server else _cell(cells.get((client, server)), limit)
        rows.append("<tr>%s</tr>" % row)
    size = "" if len(names) <= 8 else " middle" if len(names) <= 16 else " dense"
    return (
        '<figure>%s<table class="map%s" aria-label="rail %d, %s"><thead><tr><td></td>%s</tr></thead>'
        "<tbody>%s</tbody></table></figure>"
    ) % (_caption(test, entries), size, rail, escape(test), head, "\n".join(rows))


def _strip(test: str, pairs: list[tuple[str, str]], rails: list[int], entries: list[Json], limit: float) -> str:
    cells = {(entry["client"], entry["server"], entry["rail"]): entry for entry in entries}
    head = "".join('<th scope="col">%d</th>' % rail for rail in rails)
    rows = []
    for client, server in pairs:
        row = '<th scope="row">%s → %s</th>' % (isolated(client), isolated(server))
        row += "".join(_cell(cells.get((client, server, rail)), limit) for rail in rails)
        rows.append("<tr>%s</tr>" % row)
    return (
        '<figure>%s<table class="map" aria-label="%s"><thead><tr><th scope="col">client → server, by rail</th>%s</tr>'
        "</thead><tbody>%s</tbody></table></figure>"
    ) % (_caption(test, entries), escape(test), head, "\n".join(rows))


def _cell(entry: Json | None, limit: float) -> str:
    if entry is None:
        return '<td class="none">·</td>'
    verdict, share = entry["verdict"], entry["share"]
    title = "%s → %s, rail %s, %s: %s" % (
        entry["client"], entry["server"], entry["rail"], entry["test"], _TITLES[verdict],
    )  # fmt: skip
    if entry["gbps"] is not None:
        title += ", %s Gb/s" % speed(entry["gbps"])
    if share is not None:
        title += ", %s of %g Gb/s" % (percent(share), entry["expected_gbps"])
    if entry["quiet"]:
        title += ", quiet beside the rail"
    elif entry["traffic"] and entry["traffic"]["why"]:
        title += ", beside the rail: " + entry["traffic"]["why"]
    if entry["error"] and entry["error"] not in title:
        title += ", " + entry["error"]
    name, text = verdict, {PASS: "ok", FAIL: "fail", UNKNOWN: "<b>?</b>"}[verdict]
    if share is not None and verdict != UNKNOWN:
        text = "%d" % min(math.floor(share * 100 + 1e-6), 999)
        if verdict == FAIL:
            name = "f2" if share < limit / 2 else "f1"
            text += "!"
        else:
            step = (share - limit) / (1 - limit) * 3 if limit < 1 else 3
            name = "p%d" % min(3, 1 + int(step))
    return '<td class="%s" title="%s">%s</td>' % (name, escape(title), text)


# --- the lists ----------------------------------------------------------------------------------------------------


def _ports(nodes: t.Sequence[Json]) -> str:
    rows = []
    for node in nodes:
        ports = node["rails"]
        notes = ["pod " + node["pod"]] if node["pod"] else []
        notes += list(node["problems"]) + ["left alone: " + why for why in node["busy"]]
        if not node["reachable"]:
            notes.insert(0, "not reachable")
        first = '<th scope="rowgroup" rowspan="%d">%s %s%s</th>' % (
            max(len(ports), 1), isolated(node["name"]), _tag(node["verdict"]),
            "".join('<p class="soft">%s</p>' % isolated(note) for note in notes),
        )  # fmt: skip
        lines = [_port(port) for port in ports] or ['<td colspan="10" class="soft">no port was seen</td>']
        rows.append("<tbody><tr>%s%s</tr>%s</tbody>" % (first, lines[0], "".join("<tr>%s</tr>" % o for o in lines[1:])))
    columns = ("Node", "Rail", "Device", "Netdev", "State", "Rate", "MTU", "RDMA MTU", "GID index", "Link", "Port")
    right = ("Rail", "Rate", "MTU", "RDMA MTU", "GID index")
    head = "".join('<th scope="col"%s>%s</th>' % (' class="number"' if c in right else "", c) for c in columns)
    if not rows:
        return '<h2>Nodes and ports</h2><p class="soft">None.</p>'
    return (
        '<h2>Nodes and ports</h2><div class="wide"><table class="list"><thead><tr>%s</tr></thead>%s</table></div>'
    ) % (head, "\n".join(rows))


def _gpus(report: Json) -> str:
    entry = report["nccl"]
    items = "".join("<p>%s</p>" % isolated(line) for line in gpus.lines(report))
    why = "<p>%s</p>" % isolated(entry["error"]) if entry and entry["error"] else ""
    return "<h2>GPUs</h2>%s%s" % (items, why)


def _checks(checks: t.Sequence[Json]) -> str:
    if not checks:
        return ""
    rows = [
        '<tr><th scope="row">%s</th><td>%s</td><td class="number">%s</td><td>%s</td>'
        '<td class="why">%s<p>%s</p></td></tr>'
        % (
            escape(entry["test"]), isolated(entry["node"]), entry["rail"], isolated(entry["device"] or "–"),
            _tag(entry["verdict"]), isolated(entry["error"] or ""),
        )
        for entry in checks
    ]  # fmt: skip
    head = '<th scope="col">Test</th><th scope="col">Node</th><th class="number" scope="col">Rail</th>'
    head += '<th scope="col">Device</th><th scope="col">Verdict</th>'
    return (
        '<h2>Tests of one end</h2><div class="wide"><table class="list"><thead><tr>%s</tr></thead>'
        "<tbody>%s</tbody></table></div>"
    ) % (head, "\n".join(rows))


def _port(port: Json) -> str:
    device = port["device"]
    if device and port["port"] not in (None, 1):
        device = "%s port %s" % (device, port["port"])
    rate = None if port["rate_gbps"] is None else "%g Gb/s" % port["rate_gbps"]
    link = ", ".join(str(one) for one in (port["link_layer"], port["protocol"]) if one)
    cells = [
        ("number", port["rail"]), ("", device), ("", port["netdev"]), ("", port["state"]), ("number", rate),
        ("number", port["netdev_mtu"]), ("number", port["active_mtu"]), ("number", port["gid_index"]),
        ("link", link or None),
    ]  # fmt: skip
    empty = '<span class="soft">–</span>'
    row = "".join(
        "<td%s>%s</td>" % (' class="%s"' % name if name else "", empty if value is None else isolated(value))
        for name, value in cells
    )
    why = "".join("<p>%s</p>" % isolated(one) for one in port["problems"])
    return row + '<td class="why">%s%s</td>' % (_tag(port["verdict"]) if port["verdict"] else "", why)


def _tag(verdict: str) -> str:
    text = _TITLES[verdict]
    return '<span class="tag %s">%s</span>' % (verdict, "<b>%s</b>" % text if verdict == UNKNOWN else text)


def _skipped(skipped: t.Sequence[Json]) -> str:
    if not skipped:
        return '<h2>Not measured</h2><p class="soft">Nothing was left out.</p>'
    groups: dict[str, list[str]] = {}
    for entry in skipped:
        groups.setdefault(entry["why"], []).append(entry["what"])
    rows = []
    for why, what in groups.items():
        shown = "".join("<div>%s</div>" % isolated(one) for one in what[:10])
        if len(what) > 10:
            rest = "".join("<div>%s</div>" % isolated(one) for one in what[10:])
            shown += "<details><summary>and %d more</summary>%s</details>" % (len(what) - 10, rest)
        rows.append('<tr><td class="number">%d</td><td>%s</td><td>%s</td></tr>' % (len(what), isolated(why), shown))
    return (
        '<h2>Not measured</h2><div class="wide"><table class="list"><thead><tr>'
        '<th class="number" scope="col">Number</th>'
        '<th scope="col">Why</th><th scope="col">What</th></tr></thead><tbody>%s</tbody></table></div>'
    ) % "\n".join(rows)


__all__ = ("page",)
