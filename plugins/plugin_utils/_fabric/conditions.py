# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as conditions of nodes."""

from __future__ import annotations

import typing as t

from .vocabulary import FAIL, PASS, UNKNOWN

Json = t.Dict[str, t.Any]
_STATUS = {
    PASS: ("True", "FabricCheckPassed"),
    FAIL: ("False", "FabricCheckFailed"),
    UNKNOWN: ("Unknown", "FabricCheckUnknown"),
}
# What is wrong between nodes, and how to tell whether a node of these rails is one of them.
_BETWEEN: dict[str, t.Callable[[Json, Json, set[int]], bool]] = {
    "rail": lambda suspect, _node, rails: suspect["rail"] in rails,
    "leaf": lambda suspect, node, rails: suspect["rail"] in rails and node["leaf"] in suspect["leaves"],
    "pair": lambda suspect, node, _rails: node["name"] in suspect["pair"],
}
# Of a node, which has more of them if it is bad on all rails.
_SENTENCES = 3


def _shared(report: t.Mapping[str, t.Any], node: Json) -> list[str]:
    """Return what is wrong between a node and others, so that none of them is to blame alone."""
    rails = {rail["rail"] for rail in node["rails"]}
    between = [suspect for suspect in report["suspects"] if suspect["kind"] in _BETWEEN]
    return [suspect["why"] for suspect in between if _BETWEEN[suspect["kind"]](suspect, node, rails)]


def _own(report: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any]) -> list[str]:
    """Return what is wrong with a node, or not known of it, the culprits first."""
    texts = [suspect["why"] for suspect in report["suspects"] if suspect["node"] == node["name"]]
    texts += [text for rail in node["rails"] for text in rail["problems"]]
    texts += [entry["error"] for entry in report["checks"] if entry["node"] == node["name"] and entry["error"]]
    texts += [*node["problems"], *node["busy"]]
    unknown = [entry for entry in report["pairs"] if entry["verdict"] == UNKNOWN]
    return texts + [entry["error"] for entry in unknown if node["name"] in (entry["client"], entry["server"])]


def conditions(report: t.Mapping[str, t.Any], names: t.Mapping[str, str]) -> list[Json]:
    """Return what the module node_condition sets. A node that is not to blame for a failure is not called broken.

    :param names: what the cluster calls a host; one that is missing or empty has its own name.
    """
    rows = []
    for node in report["nodes"]:
        verdict, texts = node["verdict"], _own(report, node)
        if verdict != FAIL:
            shared = _shared(report, node)
            verdict, texts = (UNKNOWN if shared else verdict), texts + shared
        if verdict == UNKNOWN and not texts:
            texts = ["it was not measured, or not to the end"]
        status, reason = _STATUS[verdict]
        why = "" if verdict == PASS else "; ".join(list(dict.fromkeys(texts))[:_SENTENCES])
        name = names.get(node["name"]) or node["name"]
        rows.append({"node": name, "status": status, "reason": reason, "why": why})
    return rows


__all__ = ("conditions",)
