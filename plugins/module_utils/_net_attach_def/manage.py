# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A set of NetworkAttachmentDefinitions: read, linted, compared by meaning, applied, pruned."""

from __future__ import annotations

import typing as t

from .._cni import config as cni
from .._cni import lint
from .._cni import pools as cni_pools
from .._cni.lint_model import CODES, Attachment, Report, Surroundings
from .._decision import DRIFT, IN_SYNC, UNKNOWN, Decision, resource
from .._kubernetes.client import MANAGER, ApiError, path
from .attachment_set import (
    OWNER,
    RESOURCE,
    AttachmentError,
    Live,
    Plan,
    check_options,
    expected,
    live_of,
    plan_of,
    read,
    same,
)
from .cluster import API, PLURAL, Cluster, schedulable

if t.TYPE_CHECKING:  # pragma: no cover
    from .._kubernetes.client import Client, Object


def manage(params: t.Mapping[str, t.Any], check_mode: bool, connect: t.Callable[[], Client]) -> dict[str, t.Any]:
    """Look, lint, decide and, out of check mode, act. Return what the module returns."""
    check_options(params)
    report = Report(params["ignore_lint"])
    wanted = [read(one, params, report) for one in params["attachments"]]
    pods = expected(params["expected_pods"], wanted)
    cluster = Cluster(connect())
    namespaces = _namespaces_of(params, wanted)
    rows = cluster.attachments(namespaces)
    present = rows is not None
    live = {one.key: one for one in map(live_of, rows or [])}
    plans = [plan for plan in (plan_of(one, live.get(one.key), params["owner"]) for one in wanted) if plan]
    _lint(params, wanted, pods, live, plans, cluster, report)
    found: dict[str, t.Any] = {
        "lint": [dict(one._asdict()) for one in report.findings],
        "not_checked": [dict(one._asdict()) for one in report.not_checked],
    }
    if report.errors:
        raise AttachmentError(_refusal(params["owner"], report), found)
    if not present and not check_mode:
        raise AttachmentError(
            "Applying the attachments of %s: %s does not know NetworkAttachmentDefinitions. Install Multus first, "
            "whose manifest installs the CRD %s.k8s.cni.cncf.io (the role rdmaops.gpu_fabric.secondary_network does)"
            % (params["owner"], cluster.client.host, PLURAL),
            found,
        )
    return _act(params, check_mode, cluster, wanted, live, plans, report, found, present)


def _namespaces_of(params: t.Mapping[str, t.Any], wanted: t.Sequence[Attachment]) -> set[str]:
    """Return the namespaces of the set; with prune also those in which attachments of its owner are looked for."""
    found = {one.namespace for one in wanted}
    return {*found, params["namespace"], *params["prune_namespaces"]} if params["prune"] else found


def _going(params: t.Mapping[str, t.Any], wanted: t.Sequence[Attachment], live: t.Mapping[str, Live]) -> set[str]:
    """Return what prune deletes: the owner's attachments in the set's namespaces that are not wanted."""
    if not params["prune"]:
        return set()
    own, namespaces = {one.key for one in wanted}, _namespaces_of(params, wanted)
    return {
        key
        for key, one in live.items()
        if one.owner == params["owner"] and one.attachment.namespace in namespaces and key not in own
    }


def _lint(
    params: t.Mapping[str, t.Any],
    wanted: t.Sequence[Attachment],
    pods: t.Mapping[str, int],
    live: t.Mapping[str, Live],
    plans: t.Sequence[Plan],
    cluster: Cluster,
    report: Report,
) -> None:
    own = {one.key for one in wanted}
    going = _going(params, wanted, live)
    if "others" in cluster.why:
        report.skip("range_overlap", cluster.why["others"])
    nodes = cluster.nodes() if wanted else {}
    targets = _targets(params, nodes, cluster) if wanted else []
    settled = {one.key for one in wanted if one.key in live and same(one.config, live[one.key])}
    around = Surroundings(
        others=[one.attachment for key, one in live.items() if key not in own and key not in going],
        nodes=nodes,
        targets=targets,
        pod_networks=cluster.pod_networks(nodes) if wanted else [],
        service_networks=cluster.service_networks() if wanted else [],
        node_info=params["node_info"],
        expected_pods=pods,
        settled=settled,
        why=cluster.why,
    )
    lint.check(wanted, around, report)
    if around.service_networks and "range_overlaps_services" in cluster.why:
        report.skip("range_overlaps_services", cluster.why["range_overlaps_services"])
    for one in wanted:
        found = live.get(one.key)
        if found is not None and found.owner not in (None, params["owner"]) and not params["force"]:
            report.add(
                "owned_by_other",
                one.key,
                "it belongs to the set %s" % found.owner,
                "another name, or force to take it over into %s" % params["owner"],
            )
    _namespaces(plans, live, cluster, report)
    _in_use(plans, cluster, report)


def _targets(params: t.Mapping[str, t.Any], nodes: t.Mapping[str, Object] | None, cluster: Cluster) -> list[str] | None:
    names = params["target_nodes"]
    if params["node_selector"]:
        names = cluster.selected(params["node_selector"])
        if names == []:
            raise AttachmentError(
                "Checking the options: no node has the labels %s of node_selector" % params["node_selector"]
            )
        return names
    if names:
        unknown = sorted(set(names) - set(nodes)) if nodes is not None else []
        if unknown:
            raise AttachmentError(
                "Checking the options: target_nodes names %s, and the cluster has %s. Give names of Node objects"
                % (", ".join(unknown), ", ".join(sorted(nodes or [])) or "no nodes")
            )
        return t.cast("list[str]", names)
    if params["node_info"]:
        return sorted(params["node_info"])
    return None if nodes is None else schedulable(nodes)


def _namespaces(plans: t.Sequence[Plan], live: t.Mapping[str, Live], cluster: Cluster, report: Report) -> None:
    known = {one.attachment.namespace for one in live.values()} | {"default", "kube-system"}
    there: dict[str, bool | None] = {}
    for plan in plans:
        name = plan.attachment.namespace
        if name in known:
            continue
        if name not in there:
            there[name] = cluster.namespace(name)
        if there[name] is None:
            report.skip("namespace_missing", cluster.why["namespace_missing"], attachment=plan.attachment.key)
        elif not there[name]:
            report.add(
                "namespace_missing",
                plan.attachment.key,
                "the namespace %s does not exist" % name,
                "create it first (kubectl create namespace %s), or give another one" % name,
            )


def _in_use(plans: t.Sequence[Plan], cluster: Cluster, report: Report) -> None:
    """Refuse to change a range of which addresses are given out: whereabouts would give them out again."""
    changing = [plan for plan in plans if plan.live is not None and "config" in plan.what]
    if not changing:
        return
    moved = [(plan, spans) for plan in changing for spans in [cni_pools.leaving(plan.live, plan.attachment)] if spans]
    if not moved:
        return
    pools = cluster.pools()
    for plan, spans in moved:
        if pools is None:
            report.add(
                "range_in_use",
                plan.attachment.key,
                "its range changes, and it could not be checked whether addresses of the old one are in use (%s)"
                % cluster.why["range_in_use"],
                "the right to list ippools.whereabouts.cni.cncf.io",
            )
            continue
        taken = cni_pools.taken(pools, spans)
        if taken:
            report.add(
                "range_in_use",
                plan.attachment.key,
                "its range changes while addresses are in use: %s" % ", ".join(taken[:20]),
                "delete these pods first; if they are long gone, free their addresses with the pool audit of the role "
                "rdmaops.gpu_fabric.secondary_network",
            )


def _refusal(owner: str, report: Report) -> str:
    errors = report.errors
    ignorable = sorted({one.code for one in errors if CODES[one.code]})
    lines = ["- %s." % (str(one),) for one in errors]
    end = ""
    if ignorable:
        end = "\nIf this is intended, turn it into a warning: ignore_lint: [%s]" % ", ".join(ignorable)
    return "Checking the attachments of %s: %d %s, nothing was applied.\n%s%s" % (
        owner,
        len(errors),
        "error" if len(errors) == 1 else "errors",
        "\n".join(lines),
        end,
    )


def _shown(config: cni.Config | None, text: str, resource_name: str | None, owner: str | None, name: str) -> str:
    value = {"owner": owner, "resource_name": resource_name, "config": cni.normal(config, name) if config else text}
    return cni.pretty(value)


def _value(config: cni.Config | None, resource_name: str | None, text: str = "") -> dict[str, t.Any]:
    return {"config": config if config is not None else text, "resource_name": resource_name}


def _act(
    params: t.Mapping[str, t.Any],
    check_mode: bool,
    cluster: Cluster,
    wanted: t.Sequence[Attachment],
    live: t.Mapping[str, Live],
    plans: t.Sequence[Plan],
    report: Report,
    found: dict[str, t.Any],
    present: bool,
) -> dict[str, t.Any]:
    decision = Decision()
    done: list[str] = []
    changing = {plan.attachment.key for plan in plans}
    resources = []
    for one in wanted:
        now = live.get(one.key)
        resources.append(
            resource(
                "network_attachment",
                one.key,
                desired=_value(one.config, one.resource_name),
                configured=None if now is None else _value(now.config, now.resource_name, now.text),
                live=None if now is None else _value(now.config, now.resource_name, now.text),
                status=DRIFT if one.key in changing else IN_SYNC,
            )
        )
    for plan in plans:
        _add(plan, params, check_mode and not present, cluster, decision, done, report, check_mode)
    kept = _prune(params, wanted, live, cluster, decision, done, resources) if params["prune"] else []
    found["lint"] = [dict(one._asdict()) for one in report.findings]
    found["not_checked"] = [dict(one._asdict()) for one in report.not_checked]
    if not check_mode:
        try:
            decision.carry_out()
        except ApiError as exc:
            text = str(exc)
            if done:
                text += ". Done before that: %s" % "; ".join(done)
            raise AttachmentError(text, {**found, "changed": bool(done), "actions": list(done)}) from exc
    return {
        **decision.result(),
        **found,
        "owner": params["owner"],
        "attachments": [
            {"namespace": one.namespace, "name": one.name, "config": one.config, "resource_name": one.resource_name}
            for one in wanted
        ],
        "kept": kept,
        "resources": resources,
    }


def _add(
    plan: Plan,
    params: t.Mapping[str, t.Any],
    unborn: bool,
    cluster: Cluster,
    decision: Decision,
    done: list[str],
    report: Report,
    check_mode: bool,
) -> None:
    """Add an object to the decision, after the API server has accepted it in a dry run."""
    one, now = plan.attachment, plan.live
    new = plan.what == ["create"]
    action = "%s the attachment %s" % ("Create" if new else "Change", one.key)
    if not new:
        action += " (%s)" % ", ".join(plan.what)
    at = path(API, PLURAL, one.namespace, one.name)
    ours = now is not None and now.owner == params["owner"]
    force = params["force"] or (params["force_conflicts"] and ours)
    extra = False
    unborn = unborn or (
        check_mode and any(row.code == "namespace_missing" for row in report.findings if row.attachment == one.key)
    )
    if not unborn:
        doing = "Checking whether the attachment %s can be applied" % one.key
        try:
            answer = _apply(cluster.client, at, plan.body, doing, force, dry_run=True)
            extra = _stays(plan, answer, force)
        except ApiError as exc:
            # A drift run may read and no more; it still reports what differs.
            if not (check_mode and exc.status == 403):
                raise
            report.skip("apply", str(exc), attachment=one.key)

    def step() -> None:
        _apply(cluster.client, at, plan.body, "Applying the attachment %s" % one.key, force)
        if extra:
            gone = {"metadata": {"annotations": {RESOURCE: None}}}
            cluster.client.merge(at, gone, "Removing the resource name of the attachment %s" % one.key)
        done.append(action)

    decision.add(action, step)
    before = "" if now is None else _shown(now.config, now.text, now.resource_name, now.owner, one.name)
    decision.show(one.key, before, _shown(one.config, "", one.resource_name, params["owner"], one.name))


def _apply(client: Client, at: str, body: Object, doing: str, force: bool, *, dry_run: bool = False) -> Object:
    try:
        return client.apply(at, body, doing, force=force, dry_run=dry_run)
    except ApiError as exc:
        if exc.status == 409:
            raise ApiError(
                "%s. Set force_conflicts to true to take these fields over from their manager" % exc,
                exc.status,
                exc.reason,
            ) from None
        raise


def _stays(plan: Plan, answer: Object, force: bool) -> bool:
    """Whether a resource name that is not wanted would stay, because another manager owns it."""
    if plan.attachment.resource_name is not None:
        return False
    if RESOURCE not in ((answer.get("metadata") or {}).get("annotations") or {}):
        return False
    if force:
        return True
    field = "f:%s" % RESOURCE
    managers = sorted(
        {
            str(row.get("manager"))
            for row in (plan.live.body["metadata"].get("managedFields") or [] if plan.live else [])
            if field in (((row.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {})
        }
        - {MANAGER}
    )
    raise AttachmentError(
        "Changing the attachment %s: the annotation %s belongs to %s and cannot be removed. Set force_conflicts to "
        "true to remove it anyway, or give the same resource_name"
        % (plan.attachment.key, RESOURCE, ", ".join(managers) or "another manager")
    )


def _prune(
    params: t.Mapping[str, t.Any],
    wanted: t.Sequence[Attachment],
    live: t.Mapping[str, Live],
    cluster: Cluster,
    decision: Decision,
    done: list[str],
    resources: list[dict[str, t.Any]],
) -> list[dict[str, t.Any]]:
    """Add the deletion of what is the owner's and not wanted; return what is kept, and why."""
    going = sorted(_going(params, wanted, live))
    if not going:
        return []
    users: dict[str, list[str]] = {}
    unknown: list[str] = []
    if not params["prune_in_use"]:
        users, unknown = cluster.users(going)
    kept = []
    for key in going:
        one = live[key]
        keep = bool(users.get(key) or unknown)
        if keep:
            kept.append(
                {
                    "namespace": one.attachment.namespace,
                    "name": one.attachment.name,
                    "used_by": users.get(key, []),
                    "unknown": unknown,
                }
            )
        else:
            _delete(key, one, cluster.client, decision, done)
        value = _value(one.config, one.resource_name, one.text)
        # Kept because it is named: it is still to go. Kept because it could not be checked: not known.
        status = UNKNOWN if keep and not users.get(key) else DRIFT
        resources.append(resource("network_attachment", key, desired=None, configured=value, live=value, status=status))
    return kept


def _delete(key: str, one: Live, client: Client, decision: Decision, done: list[str]) -> None:
    meta = one.body["metadata"]
    action = "Delete the attachment %s" % key
    at = path(API, PLURAL, str(meta["namespace"]), str(meta["name"]))

    def step() -> None:
        try:
            client.delete(at, "Deleting the attachment %s" % key, uid=str(meta.get("uid") or ""))
        except ApiError as exc:
            if not exc.missing:
                raise
        done.append(action)

    decision.add(action, step)
    decision.show(key, _shown(one.config, one.text, one.resource_name, one.owner, str(meta["name"])), "")


__all__ = ("OWNER", "RESOURCE", "AttachmentError", "manage")
