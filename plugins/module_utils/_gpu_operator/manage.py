# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The NVIDIA GPU Operator's release: found under any name, compared with what is live, changed, and waited for."""

from __future__ import annotations

import functools
import os
import time
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .._errors import FabricError
from .._helm import chart as helm_chart
from .._helm import client
from . import plan as gpu_operator_plan
from . import values as gpu_operator_values
from .cluster import POLICY, Cluster
from .compare import HIDDEN, mask
from .policy import policy_state

if t.TYPE_CHECKING:  # pragma: no cover
    from .._helm.chart import Chart
    from .._helm.client import Helm, Listed, Release
    from .plan import Plan

Params = t.Mapping[str, t.Any]

CHART = "gpu-operator"
GROUP = "nvidia.com"
# The operator answers a changed ClusterPolicy within a second by leaving the state ready; a state ready that it had
# before the change says nothing, and the status has no generation to tell.
_STEADY = 5
_POLL = 2


class OperatorError(FabricError):
    """The release is not as it should be; ``result`` says what had been begun by then."""

    result: dict[str, t.Any] = {}


class Host:
    """The edges."""

    def __init__(self, helm: Helm, cluster: Cluster, warn: t.Callable[[str], None]) -> None:
        self.helm = helm
        self.cluster = cluster
        self.warn = warn

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def running(self, name: str, namespace: str) -> list[int]:
        return client.running(name, namespace)


def manage(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    """Look, decide and, out of check mode, act. Return what the module returns."""
    if params["wait_timeout"] < 1 or params["pending_age"] < 0:
        raise OperatorError("wait_timeout must be at least 1 second, and pending_age at least 0")
    if params["state"] == "absent":
        return _absent(params, check_mode, host)
    return _present(params, check_mode, host)


def _chart(params: Params, host: Host) -> Chart:
    """Return the chart, fetched once: everything that follows is about this very archive."""
    given = params["chart"]
    helm_chart.refuse_unverified(given, params["chart_repo_url"], params["chart_checksum"])
    local = os.path.expanduser(given)
    if params["chart_repo_url"] or given.startswith("oci://") or not os.path.exists(local):
        if given.startswith((".", "/", "~")):
            raise OperatorError(
                "Reading the chart %s: no such file or directory on the host that runs this task" % given
            )
        local = host.helm.pull(given, params["chart_repo_url"], params["chart_version"])
    helm_chart.verify(local, params["chart_checksum"])
    chart = helm_chart.read(os.path.abspath(local))
    wanted = params["chart_version"]
    if wanted and wanted.lstrip("v") != chart.version.lstrip("v") and not _is_range(wanted):
        raise OperatorError(
            "The chart %s has the version %s, and chart_version is %s. Correct one of the two"
            % (given, chart.version, wanted)
        )
    if chart.name != CHART or not _has_policy(chart):
        raise OperatorError(
            "The chart %s is %s %s%s: this module manages only the NVIDIA GPU Operator (chart gpu-operator). Nothing "
            "was done. For other charts, use kubernetes.core.helm"
            % (given, chart.name, chart.version, "" if chart.name != CHART else ", without NVIDIA's ClusterPolicy")
        )
    if chart.missing:
        raise OperatorError(
            "The chart %s lacks its subcharts %s. Run helm dependency build %s, or use the packed chart"
            % (given, ", ".join(chart.missing), given)
        )
    return chart


def _is_range(version: str) -> bool:
    return any(sign in version for sign in "<>=~^*x| ,")


def _has_policy(chart: Chart) -> bool:
    return any("kind: ClusterPolicy" in text and GROUP in text for text in chart.templates.values())


def _find(host: Host) -> tuple[Listed | None, list[Listed]]:
    """Return the cluster's release of the chart, and those that were uninstalled with their history kept."""
    found = [one for one in host.helm.releases() if one.chart == CHART]
    alive = [one for one in found if one.status != "uninstalled"]
    if len(alive) > 1:
        raise OperatorError(
            "There are %d releases of the chart gpu-operator: %s. Two operators fight over the same nodes and the same "
            "ClusterPolicy: uninstall all but one (helm uninstall NAME -n NAMESPACE)"
            % (
                len(alive),
                ", ".join("%s in the namespace %s (%s)" % (one.name, one.namespace, one.status) for one in alive),
            )
        )
    return (alive[0] if alive else None), [one for one in found if one.status == "uninstalled"]


def _unknown(params: Params, values: dict[str, t.Any], chart: Chart, host: Host) -> list[dict[str, str]]:
    if params["on_unknown_value"] == "ignore":
        return []
    found = gpu_operator_values.unknown(values, chart)
    if found:
        text = gpu_operator_values.explain(found, chart)
        if params["on_unknown_value"] == "fail":
            raise OperatorError(
                "The values contain keys that the chart would silently ignore: %s. Correct values, or set "
                "on_unknown_value to warn or ignore" % text
            )
        host.warn("Values that the chart ignores: %s" % text)
    return [one._asdict() for one in found]


class _Recovery(t.NamedTuple):
    """How a pending release is got going: by a rollback to ``base``, or by uninstalling it."""

    base: Release | None


def _recovery(params: Params, release: Release, host: Host) -> _Recovery | None:
    if not release.pending:
        return None
    age = int(host.now()) - release.deployed
    about = "The helm release %s/%s is %s, revision %d, since %d s" % (
        release.namespace,
        release.name,
        release.status,
        release.revision,
        age,
    )
    if params["on_pending"] != "recover":
        raise OperatorError(
            "%s. helm sets this state when it begins and changes it when it ends, so either helm is running now or it "
            "was killed; helm then refuses every further change. Wait, or set on_pending to recover: once no helm "
            "works on it and it is older than pending_age (%d s), it is rolled back to the last deployed revision, or "
            "uninstalled if there is none, and then changed to the requested state" % (about, params["pending_age"])
        )
    busy = host.running(release.name, release.namespace)
    if busy:
        raise OperatorError(
            "%s, and a helm on this host (PID %s) is working on a release of this name and namespace, in this cluster "
            "or another. Wait until it exits" % (about, ", ".join(map(str, busy)))
        )
    if age < params["pending_age"]:
        raise OperatorError(
            "%s: another host may still be working on it. It is recovered once it is older than pending_age (%d s); if "
            "you know that no other host is working on it, lower that" % (about, params["pending_age"])
        )
    if release.status in ("pending-install", "uninstalling"):
        return _Recovery(None)
    history = host.helm.history(release.name, release.namespace)
    deployed = [one.number for one in history if one.status in ("deployed", "superseded")]
    if not deployed:
        return _Recovery(None)
    return _Recovery(host.helm.release(release.name, release.namespace, max(deployed)))


def _recover(recovery: _Recovery, release: Release, params: Params, decision: Decision, host: Host) -> None:
    about = "%s/%s (%s, revision %d)" % (release.namespace, release.name, release.status, release.revision)
    base = recovery.base
    if base is None:
        decision.add(
            "Uninstall what a killed helm left of the release %s" % about,
            lambda: host.helm.uninstall(release.name, release.namespace, wait=params["wait_timeout"]),
        )
    else:
        revision = base.revision
        decision.add(
            "Roll the release %s back to revision %d, which a killed helm left" % (about, revision),
            lambda: host.helm.rollback(base, revision, wait=params["wait_timeout"]),
        )


def _present(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    version = host.helm.version
    chart = _chart(params, host)
    listed, buried = _find(host)
    values = gpu_operator_values.desired(params)
    unknown = _unknown(params, values, chart, host)
    name, namespace = (listed.name, listed.namespace) if listed else (params["name"], params["namespace"])
    host.cluster.discover()
    render = functools.partial(
        host.helm.template,
        name,
        namespace,
        chart.path,
        values,
        kubernetes=host.cluster.version,
        api_versions=host.cluster.api_versions,
    )
    release = host.helm.release(name, namespace) if listed else None
    rendered = render(upgrade=listed is not None)
    recovery = _recovery(params, release, host) if release else None
    base = recovery.base if recovery else release
    if release and base is None:  # what is there is uninstalled first
        rendered = render(upgrade=False)
    new_namespace = host.cluster.namespace(namespace) is None
    if new_namespace and not params["create_namespace"]:
        raise OperatorError(
            "Installing the helm release %s/%s: namespace %s does not exist. Create it, or set create_namespace to true"
            % (namespace, name, namespace)
        )
    plan = gpu_operator_plan.make(params, host.cluster, chart, values, rendered, base, (name, namespace), left=release)
    for text in plan.warnings:
        host.warn(text)
    decision = Decision()
    if release and recovery:
        _recover(recovery, release, params, decision, host)
    for definition in plan.definitions:
        decision.add(
            "%s the CustomResourceDefinition %s from the chart"
            % ("Upgrade" if definition.live else "Make", definition.name),
            functools.partial(host.cluster.apply_definition, definition.wanted),
        )
    reasons = plan.reasons(rolled_back=recovery is not None)
    if base is None:
        if new_namespace:
            decision.add("Create the namespace %s" % namespace, lambda: None)
        decision.add(
            "Install the helm release %s/%s of %s %s" % (namespace, name, chart.name, chart.version),
            lambda: _install(params, host, plan, (name, namespace), buried),
        )
    elif reasons:
        decision.add(
            "Upgrade the helm release %s/%s to %s %s: %s"
            % (namespace, name, chart.name, chart.version, "; ".join(reasons)),
            lambda: _upgrade(params, host, plan, base),
        )
    if decision.changed:
        plan.show(decision, release, chart, values)
    pods = host.cluster.gpu_pods() if plan.disruptive else []
    result = {
        **decision.result(),
        "release": _about(release),
        "values": mask(values),
        "unknown_values": unknown,
        "drift": plan.drift,
        "pruned": plan.pruned,
        "disruptive": plan.disruptive,
        "gpu_pods": pods,
        "leftovers": [],
        "cluster_policy": plan.policy,
        "helm_version": "%d.%d.%d" % version,
        "resources": _resources(release, chart, values, plan, decision, (name, namespace)),
    }
    if pods and not params["disrupt"]:
        raise OperatorError(
            "Changing %s takes the GPUs from the pods that use them: %s. Nothing was done. Delete these pods, or set "
            "disrupt to true" % (", ".join(plan.disruptive), pod_list(pods))
        )
    after = {
        "name": name,
        "namespace": namespace,
        "revision": _next_revision(release, base, recovery, bool(reasons)),
        "status": "deployed",
        "chart": "%s-%s" % (chart.name, chart.version),
        "app_version": chart.app_version,
    }
    if check_mode:
        return {**result, "after": {"release": after, "cluster_policy": None, "pruned": plan.pruned_after}}
    _carry_out(decision)
    policy = None
    try:
        if decision.changed:
            after = t.cast("dict[str, t.Any]", _about(host.helm.release(name, namespace)))
        if params["wait"]:
            policy = _wait(params, host, plan, _STEADY if decision.changed else 0)
    except FabricError as exc:
        raise _failed(exc, decision.actions if decision.changed else []) from exc
    return {**result, "after": {"release": after, "cluster_policy": policy, "pruned": plan.pruned_after}}


def _next_revision(release: Release | None, base: Release | None, recovery: _Recovery | None, upgrade: bool) -> int:
    if base is None or release is None:
        return 1
    return release.revision + bool(recovery) + upgrade


def pod_list(pods: t.Sequence[t.Mapping[str, str]]) -> str:
    """Return pods as a sentence names them."""
    texts = ["%(namespace)s/%(name)s on %(node)s (%(holds)s)" % one for one in pods[:10]]
    return ", ".join(texts) + (" and %d more" % (len(pods) - 10) if len(pods) > 10 else "")


def _about(release: Release | None) -> dict[str, t.Any] | None:
    if release is None:
        return None
    return {
        "name": release.name,
        "namespace": release.namespace,
        "revision": release.revision,
        "status": release.status,
        "chart": "%s-%s" % (release.chart, release.version),
        "app_version": release.app_version,
    }


def _resources(
    release: Release | None,
    chart: Chart,
    values: dict[str, t.Any],
    plan: Plan,
    decision: Decision,
    name: tuple[str, str],
) -> list[dict[str, t.Any]]:
    desired = {"chart": "%s-%s" % (chart.name, chart.version), "values": mask(values)}
    configured = None
    if release:
        stored = {"chart": "%s-%s" % (release.chart, release.version), "values": mask(release.values)}
        configured = {**stored, "status": release.status, "revision": release.revision}
    entries = [
        resource(
            "helm_release",
            "%s/%s" % (name[1], name[0]),
            desired=desired,
            configured=configured,
            live={"drift": len(plan.drift), "pruned": len(plan.pruned)} if release else None,
            status=DRIFT if decision.changed else IN_SYNC,
        )
    ]
    entries += [
        resource(
            "custom_resource_definition",
            one.name,
            desired="as in %s %s" % (chart.name, chart.version),
            live="older" if one.live else None,
            status=DRIFT,
        )
        for one in plan.definitions
    ]
    return entries


def _carry_out(decision: Decision) -> None:
    try:
        decision.carry_out()
    except FabricError as exc:
        raise _failed(exc, decision.actions) from exc


def _failed(exc: FabricError, begun: list[str]) -> OperatorError:
    """Return an error that says what had been begun: part of it may have been done."""
    error = OperatorError(str(exc))
    error.result = {"changed": bool(begun), "actions": list(begun)}
    return error


def _install(params: Params, host: Host, plan: Plan, name: tuple[str, str], buried: list[Listed]) -> None:
    plan.settle()
    host.helm.install(
        name[0],
        name[1],
        plan.chart.path,
        plan.values,
        create_namespace=params["create_namespace"],
        replace=any((one.name, one.namespace) == name for one in buried),
        validate=not plan.pruned_after,
        wait=params["wait_timeout"],
    )
    plan.landed()


def _upgrade(params: Params, host: Host, plan: Plan, base: Release) -> None:
    plan.settle()
    # With the chart's hook that renews the CRDs, new fields are not known when helm looks at them.
    validate = not (plan.hooked or plan.pruned_after)
    host.helm.upgrade(
        base,
        plan.chart.path,
        plan.values,
        validate=validate,
        pruned=bool(plan.pruned_after),
        wait=params["wait_timeout"],
    )
    plan.landed()


def _wait(params: Params, host: Host, plan: Plan, steady: int) -> dict[str, t.Any] | None:
    """Wait until the ClusterPolicy is ready, and has been for a while."""
    if plan.policy_key is None:
        return None
    limit = params["wait_timeout"]
    began = host.now()
    since: float | None = None
    while True:
        found = host.cluster.read(plan.policy_key)
        state = policy_state(found, plan.policy_key.name)
        now = host.now()
        if found is not None and state["state"] == "ready":
            since = now if since is None else since
            if now - since >= steady:
                return state
        else:
            since = None
        if now - began >= limit:
            raise OperatorError(
                "Waiting for the ClusterPolicy %s to be ready: after %d s its state is %s%s. The release is in place. "
                "Look at the pods of the operator's namespace (kubectl get pods -n %s), raise wait_timeout, or set "
                "wait to false"
                % (
                    plan.policy_key.name,
                    limit,
                    "missing" if found is None else state["state"] or "not set (does the operator run?)",
                    ", and the operator says: " + state["message"] if state["message"] else "",
                    plan.namespace,
                )
            )
        host.sleep(min(_POLL, max(0.1, steady)))


def _absent(params: Params, check_mode: bool, host: Host) -> dict[str, t.Any]:
    version = host.helm.version
    listed, _buried = _find(host)
    release = host.helm.release(listed.name, listed.namespace) if listed else None
    host.cluster.discover()
    decision = Decision()
    if release:
        if release.status != "uninstalling":
            _recovery(params, release, host)  # a pending release is removed under the same conditions
        about = "%s/%s" % (release.namespace, release.name)
        decision.add(
            "Uninstall the helm release %s of %s %s" % (about, release.chart, release.version),
            lambda: host.helm.uninstall(release.name, release.namespace, wait=params["wait_timeout"]),
        )
        gpu_operator_plan.show_removal(decision, release)
    pods = host.cluster.gpu_pods() if release else []
    result = {
        **decision.result(),
        "release": _about(release),
        "values": {},
        "unknown_values": [],
        "drift": [],
        "pruned": [],
        "disruptive": ["the whole release"] if release else [],
        "gpu_pods": pods,
        "cluster_policy": None,
        "helm_version": "%d.%d.%d" % version,
        "resources": [
            resource(
                "helm_release",
                "%s/%s" % (release.namespace, release.name)
                if release
                else "%s/%s" % (params["namespace"], params["name"]),
                desired=None,
                configured={"chart": "%s-%s" % (release.chart, release.version), "status": release.status}
                if release
                else None,
                live=None,
                status=DRIFT if release else IN_SYNC,
            )
        ],
    }
    if pods and not params["disrupt"]:
        raise OperatorError(
            "Uninstalling the GPU Operator takes the GPUs from the pods that use them: %s. Nothing was done. Delete "
            "these pods, or set disrupt to true" % pod_list(pods)
        )
    mine = {one["metadata"]["name"] for one in host.cluster.policies() if release and _belongs(one, release)}
    if not check_mode:
        _carry_out(decision)
    left = _leftovers(host, mine if check_mode else set())
    return {**result, "leftovers": left, "after": {"release": None, "cluster_policy": None, "pruned": []}}


def _belongs(one: t.Mapping[str, t.Any], release: Release) -> bool:
    notes = one["metadata"].get("annotations") or {}
    return (notes.get("meta.helm.sh/release-name"), notes.get("meta.helm.sh/release-namespace")) == (
        release.name,
        release.namespace,
    )


def _leftovers(host: Host, removed: set[str]) -> list[str]:
    """Return what helm leaves: CRDs always (and with them what others made of them), ClusterPolicies of others."""
    left = ["CustomResourceDefinition %s" % name for name in host.cluster.definitions(GROUP)]
    names = {one["metadata"]["name"] for one in host.cluster.policies()} - removed
    return left + ["%s %s" % (POLICY[1], name) for name in sorted(names)]


__all__ = (
    "CHART",
    "HIDDEN",
    "Host",
    "OperatorError",
    "manage",
    "pod_list",
)
