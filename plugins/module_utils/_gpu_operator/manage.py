# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.
"""The NVIDIA GPU Operator's release: compared with what is live, changed, and waited for."""

from __future__ import annotations

import functools
import os
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._helm import chart as helm_chart
from . import plan as operator_plan
from . import release as operator_release
from . import values as operator_values
from .cluster import GPU_CLUSTER, POLICY
from .compare import mask
from .model import Host, OperatorError, Params, State, failed, pod_list
from .policy import STEADY_S, wait_until_ready
from .release import CHART
from .removal import absent

if t.TYPE_CHECKING:  # pragma: no cover
    from .._helm.chart import Chart
    from .._helm.output import Release
    from .plan import Plan


def manage(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    if params["wait_timeout"] < 1 or params["pending_age"] < 0:
        raise OperatorError("wait_timeout must be at least 1 second, and pending_age at least 0")
    if params["state"] == "absent":
        return absent(params, check_mode, host)
    state = _observe(params, host)
    plan = _compare(params, state, host)
    decision = _decide(params, state, plan, host)
    pods = host.cluster.gpu_pods() if plan.disruptive else []
    if pods and not params["disrupt"]:
        raise OperatorError(
            "Changing %s takes the GPUs from the pods that use them: %s. Nothing was done. Delete these pods, or set "
            "disrupt to true" % (", ".join(plan.disruptive), pod_list(pods))
        )
    after = {"release": _expected(state, plan), **_by_stack(plan, None), "pruned": plan.pruned_after}
    if not check_mode:
        after.update(_act(params, state, plan, decision, host))
    return _report(state, plan, decision, pods, after)


def _observe(params: Params, host: Host) -> State:
    """Look at the chart, the release and the cluster; nothing is changed."""
    helm_version = "%d.%d.%d" % host.helm.version
    chart = _chart(params, host)
    listed, uninstalled = operator_release.find(host)
    values = operator_values.desired(params)
    unknown_values = _unknown_values(params, values, chart, host)
    name, namespace = (listed.name, listed.namespace) if listed else (params["name"], params["namespace"])
    host.cluster.discover()
    release = host.helm.release(name, namespace) if listed else None
    return State(
        helm_version=helm_version,
        chart=chart,
        values=values,
        unknown_values=unknown_values,
        name=name,
        namespace=namespace,
        release=release,
        recovery=operator_release.plan_recovery(params, release, host) if release else None,
        new_namespace=host.cluster.namespace(namespace) is None,
        in_history=any((each.name, each.namespace) == (name, namespace) for each in uninstalled),
    )


def _chart(params: Params, host: Host) -> Chart:
    """Return the chart, fetched once: everything that follows is about this very archive."""
    source = params["chart"]
    helm_chart.refuse_unverified(source, params["chart_repo_url"], params["chart_checksum"])
    local = os.path.expanduser(source)
    if params["chart_repo_url"] or source.startswith("oci://") or not os.path.exists(local):
        if source.startswith((".", "/", "~")):
            raise OperatorError(
                "Reading the chart %s: no such file or directory on the host that runs this task" % source
            )
        local = host.helm.pull(source, params["chart_repo_url"], params["chart_version"])
    helm_chart.verify(local, params["chart_checksum"])
    chart = helm_chart.read(os.path.abspath(local))
    _refuse_other_charts(params, chart)
    return chart


def _refuse_other_charts(params: Params, chart: Chart) -> None:
    source, version = params["chart"], params["chart_version"]
    if version and version.lstrip("v") != chart.version.lstrip("v") and not _is_range(version):
        raise OperatorError(
            "The chart %s has the version %s, and chart_version is %s. Correct one of the two"
            % (source, chart.version, version)
        )
    if chart.name != CHART or not _has_policy(chart):
        raise OperatorError(
            "The chart %s is %s %s%s: this module manages only the NVIDIA GPU Operator (chart gpu-operator). Nothing "
            "was done. For other charts, use kubernetes.core.helm"
            % (source, chart.name, chart.version, "" if chart.name != CHART else ", without NVIDIA's ClusterPolicy")
        )
    if chart.missing:
        raise OperatorError(
            "The chart %s lacks its subcharts %s. Run helm dependency build %s, or use the packed chart"
            % (source, ", ".join(chart.missing), source)
        )


def _is_range(version: str) -> bool:
    return any(sign in version for sign in "<>=~^*x| ,")


def _has_policy(chart: Chart) -> bool:
    return any("kind: ClusterPolicy" in text and "nvidia.com" in text for text in chart.templates.values())


def _unknown_values(params: Params, values: dict[str, t.Any], chart: Chart, host: Host) -> list[dict[str, str]]:
    if params["on_unknown_value"] == "ignore":
        return []
    unknown = operator_values.unknown(values, chart)
    if unknown:
        text = operator_values.explain(unknown, chart)
        if params["on_unknown_value"] == "fail":
            raise OperatorError(
                "The values contain keys that the chart would silently ignore: %s. Correct values, or set "
                "on_unknown_value to warn or ignore" % text
            )
        host.warn("Values that the chart ignores: %s" % text)
    return [value._asdict() for value in unknown]


def _compare(params: Params, state: State, host: Host) -> Plan:
    """Render the chart and compare it with the cluster."""
    rendered = host.helm.template(
        state.name,
        state.namespace,
        state.chart.path,
        state.values,
        upgrade=state.base is not None,
        kubernetes=host.cluster.version,
        api_versions=host.cluster.api_versions,
    )
    if state.new_namespace and not params["create_namespace"]:
        raise OperatorError(
            "Installing the helm release %s/%s: namespace %s does not exist. Create it, or set create_namespace to true"
            % (state.namespace, state.name, state.namespace)
        )
    plan = operator_plan.make(params, state, rendered, host.cluster)
    for text in plan.warnings:
        host.warn(text)
    return plan


def _decide(params: Params, state: State, plan: Plan, host: Host) -> Decision:
    chart, base = state.chart, state.base
    decision = Decision()
    if state.release and state.recovery:
        operator_release.add_recovery(state.recovery, state.release, params, decision, host)
    for definition in plan.definitions:
        decision.add(
            "%s the CustomResourceDefinition %s from the chart"
            % ("Upgrade" if definition.live else "Make", definition.name),
            functools.partial(host.cluster.apply_definition, definition.desired),
        )
    reasons = plan.reasons()
    if base is None:
        if state.new_namespace:
            decision.add("Create the namespace %s" % state.namespace, lambda: None)
        decision.add(
            "Install the helm release %s/%s of %s %s" % (state.namespace, state.name, chart.name, chart.version),
            lambda: _install(params, host, state, plan),
        )
    elif reasons:
        decision.add(
            "Upgrade the helm release %s/%s to %s %s: %s"
            % (state.namespace, state.name, chart.name, chart.version, "; ".join(reasons)),
            lambda: _upgrade(params, host, state, plan, base),
        )
    if decision.changed:
        plan.show(decision)
    return decision


def _install(params: Params, host: Host, state: State, plan: Plan) -> None:
    plan.wait_for_crds()
    host.helm.install(
        state.name,
        state.namespace,
        state.chart.path,
        state.values,
        create_namespace=params["create_namespace"],
        replace=state.in_history,
        validate=not plan.pruned_after,
        wait=params["wait_timeout"],
    )
    plan.verify_applied()


def _upgrade(params: Params, host: Host, state: State, plan: Plan, base: Release) -> None:
    plan.wait_for_crds()
    # With the chart's hook that renews the CRDs, new fields are not known when helm looks at them.
    validate = not (plan.hooked or plan.pruned_after)
    host.helm.upgrade(
        base,
        state.chart.path,
        state.values,
        validate=validate,
        pruned=bool(plan.pruned_after),
        wait=params["wait_timeout"],
    )
    plan.verify_applied()


def _act(params: Params, state: State, plan: Plan, decision: Decision, host: Host) -> dict[str, t.Any]:
    """Carry out the decision and wait for the stack. Return what is true afterwards, if it was looked at."""
    after: dict[str, t.Any] = {}
    try:
        decision.carry_out()
        if decision.changed:
            after["release"] = operator_release.entry(host.helm.release(state.name, state.namespace))
        if params["wait"] and plan.stack_key is not None:
            steady = STEADY_S if decision.changed else 0
            limit = params["wait_timeout"]
            after.update(_by_stack(plan, wait_until_ready(plan.stack_key, state.namespace, limit, steady, host)))
    except FabricError as exc:
        raise failed(exc, decision) from exc
    return after


def _by_stack(plan: Plan, report: dict[str, t.Any] | None) -> dict[str, t.Any]:
    """Return what the object of the stack reports, under the key of its kind."""
    kind = plan.stack_key.kind if plan.stack_key else None
    return {
        "cluster_policy": report if kind == POLICY[1] else None,
        "gpu_cluster": report if kind == GPU_CLUSTER[1] else None,
    }


def _expected(state: State, plan: Plan) -> dict[str, t.Any]:
    """Return the release as it is after the decision."""
    revision = 1
    if state.release and state.base:
        revision = state.release.revision + (state.recovery is not None) + bool(plan.reasons())
    return {
        "name": state.name,
        "namespace": state.namespace,
        "revision": revision,
        "status": "deployed",
        "chart": "%s-%s" % (state.chart.name, state.chart.version),
        "app_version": state.chart.app_version,
    }


def _report(
    state: State,
    plan: Plan,
    decision: Decision,
    pods: list[dict[str, str]],
    after: dict[str, t.Any],
) -> dict[str, t.Any]:
    return {
        **decision.result(),
        "release": operator_release.entry(state.release),
        "values": mask(state.values),
        "unknown_values": state.unknown_values,
        "drift": plan.drift,
        "pruned": plan.pruned,
        "disruptive": plan.disruptive,
        "gpu_pods": pods,
        "leftovers": [],
        **_by_stack(plan, plan.stack),
        "helm_version": state.helm_version,
        "resources": _resources(state, plan, decision),
        "after": after,
    }


def _resources(state: State, plan: Plan, decision: Decision) -> list[dict[str, t.Any]]:
    chart, release = state.chart, state.release
    configured = None
    if release:
        configured = {
            "chart": "%s-%s" % (release.chart, release.version),
            "values": mask(release.values),
            "status": release.status,
            "revision": release.revision,
        }
    entries = [
        resource(
            "helm_release",
            "%s/%s" % (state.namespace, state.name),
            desired={"chart": "%s-%s" % (chart.name, chart.version), "values": mask(state.values)},
            configured=configured,
            live={"drift": len(plan.drift), "pruned": len(plan.pruned)} if release else None,
            status=DRIFT if decision.changed else IN_SYNC,
        )
    ]
    entries += [
        resource(
            "custom_resource_definition",
            definition.name,
            desired="as in %s %s" % (chart.name, chart.version),
            live="older" if definition.live else None,
            status=DRIFT,
        )
        for definition in plan.definitions
    ]
    return entries


__all__ = ("manage",)
