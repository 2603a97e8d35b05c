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


Params = t.Mapping[str, t.Any]


class State(t.NamedTuple):
    """The desired attachments, those in the cluster by their keys, and what follows: to apply, and to prune."""

    desired: list[Attachment]
    live: dict[str, Live]
    plans: list[Plan]
    obsolete: list[str]
    # The attachments of the owner that were found, in the namespaces of the set.
    existing: list[Live]
    # Whether the API server has NetworkAttachmentDefinitions.
    installed: bool


def manage(params: Params, check_mode: bool, connect: t.Callable[[], Client]) -> dict[str, t.Any]:
    """Look, lint, decide and, out of check mode, act. Return what the module returns."""
    check_options(params)
    report = Report(params["ignore_lint"])
    desired = [read(options, params, report) for options in params["attachments"]]
    pods = expected(params["expected_pods"], desired)
    cluster = Cluster(connect())
    state = _observe(params, desired, cluster)
    _lint(params, state, pods, cluster, report)
    if report.errors:
        raise AttachmentError(_refusal(params["owner"], report), _findings(report))
    if desired and not state.installed and not check_mode:
        raise AttachmentError(
            "Applying the attachments of %s: %s does not know NetworkAttachmentDefinitions. Install Multus first, "
            "whose manifest installs the CRD %s.k8s.cni.cncf.io (the role rdmaops.gpu_fabric.secondary_network does)"
            % (params["owner"], cluster.client.host, PLURAL),
            _findings(report),
        )
    changes = _Changes(params, check_mode, cluster.client, report)
    for plan in state.plans:
        changes.apply(plan, state.installed)
    users, unknown = _users(params, state, cluster)
    in_use = [key for key in state.obsolete if users.get(key) or unknown]
    for key in state.obsolete:
        if key not in in_use:
            changes.delete(state.live[key])
    if not check_mode:
        changes.carry_out()
    return {
        **changes.decision.result(),
        **_findings(report),
        "owner": params["owner"],
        "attachments": [
            {"namespace": item.namespace, "name": item.name, "config": item.config, "resource_name": item.resource_name}
            for item in desired
        ],
        "existing": [_object(item) for item in state.existing],
        "kept": [
            {
                "namespace": state.live[key].attachment.namespace,
                "name": state.live[key].attachment.name,
                "used_by": users.get(key, []),
                "unknown": unknown,
            }
            for key in in_use
        ],
        # In use: it is still to be deleted. Kept because that could not be checked: unknown.
        "resources": _resources(state, {key for key in in_use if not users.get(key)}),
    }


def _observe(params: Params, desired: list[Attachment], cluster: Cluster) -> State:
    """Compare the set with the cluster. With prune, look also where attachments of the set's owner may be left."""
    namespaces = {attachment.namespace for attachment in desired} or {params["namespace"]}
    if params["prune"]:
        namespaces |= {params["namespace"], *params["prune_namespaces"]}
    rows = cluster.attachments(namespaces)
    live = {item.key: item for item in map(live_of, rows or [])}
    plans = [plan_of(attachment, live.get(attachment.key), params["owner"]) for attachment in desired]
    keys = {attachment.key for attachment in desired}
    existing = [
        item
        for _key, item in sorted(live.items())
        if item.owner == params["owner"] and item.attachment.namespace in namespaces
    ]
    return State(
        desired=desired,
        live=live,
        plans=[plan for plan in plans if plan],
        obsolete=[item.key for item in existing if item.key not in keys] if params["prune"] else [],
        existing=existing,
        installed=rows is not None,
    )


def _lint(params: Params, state: State, pods: t.Mapping[str, int], cluster: Cluster, report: Report) -> None:
    desired, live = state.desired, state.live
    keys = {attachment.key for attachment in desired}
    if "others" in cluster.why:
        report.skip("range_overlap", cluster.why["others"])
    nodes = cluster.nodes() if desired else {}
    targets = _targets(params, nodes, cluster) if desired else []
    around = Surroundings(
        others=[item.attachment for key, item in live.items() if key not in keys and key not in state.obsolete],
        nodes=nodes,
        targets=targets,
        pod_networks=cluster.pod_networks(nodes) if desired else [],
        service_networks=cluster.service_networks() if desired else [],
        node_info=params["node_info"],
        expected_pods=pods,
        settled={item.key for item in desired if item.key in live and same(item.config, live[item.key])},
        why=cluster.why,
    )
    lint.check(desired, around, report)
    if around.service_networks and "range_overlaps_services" in cluster.why:
        report.skip("range_overlaps_services", cluster.why["range_overlaps_services"])
    for attachment in desired:
        owner = live[attachment.key].owner if attachment.key in live else None
        if owner not in (None, params["owner"]) and not params["force"]:
            report.add(
                "owned_by_other",
                attachment.key,
                "it belongs to the set %s" % owner,
                "another name, or force to take it over into %s" % params["owner"],
            )
    _namespaces(state, cluster, report)
    _in_use(state.plans, cluster, report)


def _targets(params: Params, nodes: t.Mapping[str, Object] | None, cluster: Cluster) -> list[str] | None:
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


def _namespaces(state: State, cluster: Cluster, report: Report) -> None:
    known = {item.attachment.namespace for item in state.live.values()} | {"default", "kube-system"}
    exists: dict[str, bool | None] = dict.fromkeys(known, True)
    for plan in state.plans:
        name = plan.attachment.namespace
        if name not in exists:
            exists[name] = cluster.namespace(name)
        if exists[name] is None:
            report.skip("namespace_missing", cluster.why["namespace_missing"], attachment=plan.attachment.key)
        elif not exists[name]:
            report.add(
                "namespace_missing",
                plan.attachment.key,
                "the namespace %s does not exist" % name,
                "create it first (kubectl create namespace %s), or give another one" % name,
            )


def _in_use(plans: t.Sequence[Plan], cluster: Cluster, report: Report) -> None:
    """Refuse to change a range whose addresses are in use: whereabouts would allocate them again."""
    changing = [plan for plan in plans if plan.live is not None and "config" in plan.changes]
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
        addresses = cni_pools.orphaned_allocations(pools, spans)
        if addresses:
            report.add(
                "range_in_use",
                plan.attachment.key,
                "its range changes while addresses are in use: %s" % ", ".join(addresses[:20]),
                "delete these pods first; if they are long gone, free their addresses with the pool audit of the role "
                "rdmaops.gpu_fabric.secondary_network",
            )


def _findings(report: Report) -> dict[str, t.Any]:
    return {
        "lint": [finding._asdict() for finding in report.findings],
        "not_checked": [skipped._asdict() for skipped in report.not_checked],
    }


def _refusal(owner: str, report: Report) -> str:
    errors = report.errors
    ignorable = sorted({finding.code for finding in errors if CODES[finding.code]})
    hint = ""
    if ignorable:
        hint = "\nIf this is intended, turn it into a warning: ignore_lint: [%s]" % ", ".join(ignorable)
    return "Checking the attachments of %s: %d %s, nothing was applied.\n%s%s" % (
        owner,
        len(errors),
        "error" if len(errors) == 1 else "errors",
        "\n".join("- %s." % (str(finding),) for finding in errors),
        hint,
    )


def _users(params: Params, state: State, cluster: Cluster) -> tuple[dict[str, list[str]], list[str]]:
    """Return who uses attachments that prune would delete, and which kinds could not be read and why."""
    if not state.obsolete or params["prune_in_use"]:
        return {}, []
    return cluster.users(state.obsolete)


def _object(live: Live) -> dict[str, t.Any]:
    """Return what the module shows of an object that was found, in the API's own shape."""
    meta = live.body["metadata"]
    shown = {name: meta.get(name) or {} for name in ("labels", "annotations")}
    return {
        "metadata": {"namespace": meta.get("namespace"), "name": meta.get("name"), **shown},
        "spec": {"config": live.text},
    }


def _resources(state: State, unknown: t.Container[str]) -> list[dict[str, t.Any]]:
    changing = {plan.attachment.key for plan in state.plans}
    rows: list[tuple[str, dict[str, t.Any] | None, bool]] = [
        (item.key, _value(item.config, item.resource_name), item.key in changing) for item in state.desired
    ]
    rows += [(key, None, True) for key in state.obsolete]
    entries = []
    for key, desired, differs in rows:
        live = state.live.get(key)
        value = _value(live.config, live.resource_name, live.text) if live else None
        status = UNKNOWN if key in unknown else DRIFT if differs else IN_SYNC
        entry = resource("network_attachment", key, desired=desired, configured=value, live=value, status=status)
        entries.append(entry)
    return entries


def _value(config: cni.Config | None, resource_name: str | None, text: str = "") -> dict[str, t.Any]:
    return {"config": config if config is not None else text, "resource_name": resource_name}


class _Changes:
    """The decision, and what of it has been done when it fails."""

    def __init__(self, params: Params, check_mode: bool, client: Client, report: Report) -> None:
        self.params, self.check_mode, self.client, self.report = params, check_mode, client, report
        self.decision = Decision()
        self.done: list[str] = []

    def apply(self, plan: Plan, installed: bool) -> None:
        """Add an object to the decision, after the API server has accepted it in a dry run, if it can."""
        attachment, live = plan.attachment, plan.live
        key = attachment.key
        new = plan.changes == ["create"]
        action = "%s the attachment %s" % ("Create" if new else "Change", key)
        if not new:
            action += " (%s)" % ", ".join(plan.changes)
        at = path(API, PLURAL, attachment.namespace, attachment.name)
        ours = live is not None and live.owner == self.params["owner"]
        force = self.params["force"] or (self.params["force_conflicts"] and ours)
        stays = installed and not self._lacks_namespace(key) and self._rehearse(plan, at, force)

        def step() -> None:
            _apply(self.client, at, plan.body, "Applying the attachment %s" % key, force)
            if stays:
                removal = {"metadata": {"annotations": {RESOURCE: None}}}
                self.client.merge(at, removal, "Removing the resource name of the attachment %s" % key)
            self.done.append(action)

        self.decision.add(action, step)
        owner = self.params["owner"]
        before = "" if live is None else _text(attachment.name, live.config, live.text, live.resource_name, live.owner)
        self.decision.show(key, before, _text(attachment.name, attachment.config, "", attachment.resource_name, owner))

    def _lacks_namespace(self, key: str) -> bool:
        """Whether the namespace is still to be created, which only check mode allows."""
        codes = [finding.code for finding in self.report.findings if finding.attachment == key]
        return self.check_mode and "namespace_missing" in codes

    def _rehearse(self, plan: Plan, at: str, force: bool) -> bool:
        """Return whether a resource name that is not desired stays after the object has been applied."""
        doing = "Checking whether the attachment %s can be applied" % plan.attachment.key
        try:
            return _stays(plan, _apply(self.client, at, plan.body, doing, force, dry_run=True), force)
        except ApiError as exc:
            # A drift run may have rights to read only; it still reports what differs.
            if not (self.check_mode and exc.status == 403):
                raise
            self.report.skip("apply", str(exc), attachment=plan.attachment.key)
            return False

    def delete(self, live: Live) -> None:
        meta = live.body["metadata"]
        action = "Delete the attachment %s" % live.key
        at = path(API, PLURAL, str(meta["namespace"]), str(meta["name"]))

        def step() -> None:
            try:
                self.client.delete(at, "Deleting the attachment %s" % live.key, uid=str(meta.get("uid") or ""))
            except ApiError as exc:
                if not exc.missing:
                    raise
            self.done.append(action)

        self.decision.add(action, step)
        before = _text(str(meta["name"]), live.config, live.text, live.resource_name, live.owner)
        self.decision.show(live.key, before, "")

    def carry_out(self) -> None:
        try:
            self.decision.carry_out()
        except ApiError as exc:
            text = str(exc)
            if self.done:
                text += ". Done before that: %s" % "; ".join(self.done)
            result = {**_findings(self.report), "changed": bool(self.done), "actions": list(self.done)}
            raise AttachmentError(text, result) from exc


def _text(name: str, config: cni.Config | None, text: str, resource_name: str | None, owner: str | None) -> str:
    """Return what a diff shows of an attachment."""
    value = {"owner": owner, "resource_name": resource_name, "config": cni.normal(config, name) if config else text}
    return cni.pretty(value)


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
    """Whether a resource name that is not desired would stay, because another manager owns it."""
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


__all__ = ("OWNER", "RESOURCE", "AttachmentError", "manage")
