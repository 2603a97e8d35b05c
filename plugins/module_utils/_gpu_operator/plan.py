# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What has to change: the rendered chart against the stored release, the live objects and the CRDs."""

from __future__ import annotations

import functools
import typing as t

from .._errors import FabricError
from .._helm.chart import definitions
from .._kubernetes.client import ApiError
from . import compare, stack
from .cluster import DRIVER
from .compare import Change, Key, Object
from .policy import reported

if t.TYPE_CHECKING:  # pragma: no cover
    from .._decision import Decision
    from .cluster import Cluster
    from .model import Params, State

# Fields of a ClusterPolicy whose change makes the operator restart what holds a node's GPUs, or reconfigure GPUs:
# the driver's manager evicts GPU pods before it unloads the module, the toolkit restarts the container runtime, and
# MIG Manager stops GPU clients.
_DISRUPTIVE = (
    "spec.driver.",
    "spec.toolkit.",
    "spec.mig.",
    "spec.migManager.",
    "spec.gds.",
    "spec.gdrcopy.",
    "spec.sandboxWorkloads.",
    "spec.vgpuManager.",
    "spec.ccManager.",
    "spec.operator.defaultRuntime",
    "spec.operator.runtimeClass",
    "spec.cdi.",
    "spec.hostPaths.",
)
# How the driver is upgraded, and not what is run.
_HARMLESS = ("spec.driver.upgradePolicy.",)
_NAMES = 5


class PlanError(FabricError):
    """The desired state cannot be reached; nothing has been changed."""


class Definition(t.NamedTuple):
    """A CRD that is to be created (``live`` is None) or renewed."""

    name: str
    desired: Object
    live: Object | None


class Custom(t.NamedTuple):
    """An object of a kind that the chart has the CRD of: its spec as the API server would keep it."""

    key: Key
    rendered: Object
    spec: Object


class Plan:
    """The comparison, and what the steps of the decision need of it."""

    def __init__(self, cluster: Cluster, state: State) -> None:
        self.cluster = cluster
        self.state = state
        self.definitions: list[Definition] = []
        self.hooked = False
        self.manifest_differs = False
        self.customs: list[Custom] = []
        self.before: dict[Key, Object | None] = {}
        self.after: dict[Key, Object | None] = {}
        self.drift: list[dict[str, t.Any]] = []
        self.pruned: list[dict[str, t.Any]] = []
        self.pruned_after: list[dict[str, t.Any]] = []
        self.disruptive: list[str] = []
        self.warnings: list[str] = []
        # The ClusterPolicy or the GPUCluster of the chart, and what it reports.
        self.stack_key: Key | None = None
        self.stack: dict[str, t.Any] | None = None

    def changed_objects(self) -> list[Key]:
        return [key for key in self.after if compare.changes(self.before[key], self.after[key])]

    def reasons(self) -> list[str]:
        """Return why an upgrade is needed, in a few words each; none if there is nothing to do."""
        base, chart, values = self.state.base, self.state.chart, self.state.values
        if base is None:
            return []
        rolled_back = self.state.recovery is not None
        reasons = []
        if base.version != chart.version:
            reasons.append("from %s" % base.version)
        if base.values != values:
            reasons.append("values %s" % _some([change.path for change in compare.changes(base.values, values)]))
        if not rolled_back and base.status != "deployed":
            reasons.append("the last revision is %s" % base.status)
        if self.manifest_differs and not reasons:
            reasons.append("the chart's templates")
        drifted = sorted({entry["object"] for entry in self.drift})
        if drifted and not rolled_back:
            reasons.append("drift of %s" % _some(drifted))
        others = [str(key) for key in self.changed_objects() if str(key) not in drifted]
        if others and not reasons:
            reasons.append("live objects differ: %s" % _some(others))
        return reasons

    def show(self, decision: Decision) -> None:
        """Put what changes into the decision's diff, secrets hidden."""
        chart, release = self.state.chart, self.state.release
        stored = {"chart": "%s-%s" % (release.chart, release.version), "values": release.values} if release else {}
        desired = {"chart": "%s-%s" % (chart.name, chart.version), "values": self.state.values}
        decision.show(
            "helm release", compare.text(compare.mask(stored, desired)), compare.text(compare.mask(desired, stored))
        )
        for definition in self.definitions:
            before, after = fields(definition.live), fields(definition.desired)
            name = "CustomResourceDefinition %s (fields)" % definition.name
            if definition.live is not None:
                decision.show(name, "".join(sorted(before - after)), "".join(sorted(after - before)))
            else:
                decision.show(name, "", "%d fields\n" % len(after))
        for key in self.changed_objects():
            live, future = compare.clean(self.before[key]), compare.clean(self.after[key])
            decision.show(str(key), compare.text(compare.mask(live, future)), compare.text(compare.mask(future, live)))

    def wait_for_crds(self) -> None:
        """Wait until renewed CRDs are in force for what is about to be applied."""
        if not self.definitions or self.pruned_after:
            return
        for custom in self.customs:
            self.cluster.wait_for_crd(custom.key, custom.rendered, functools.partial(_is_complete, custom))

    def verify_applied(self) -> None:
        """Make sure that what was applied is what is live.

        helm 3 patches custom resources by the difference of its two manifests alone, and so does not see what others
        edited meanwhile; neither helm removes what others added.
        """
        for custom in self.customs:
            live = self.cluster.read(custom.key)
            if live is None:
                raise PlanError("helm reported success, but there is no %s" % custom.key)
            patch = merge_patch(live.get("spec") or {}, custom.spec)
            if patch:
                doing = "Correcting the spec of the %s" % custom.key
                live = self.cluster.client.merge(self.cluster.path(custom.key), {"spec": patch}, doing)
            missing = compare.changes(live.get("spec") or {}, custom.spec, "spec")
            if missing:
                raise PlanError(
                    "helm reported success, but the %s differs from what was applied at %s: its CRD is older than the "
                    "chart (set upgrade_crds to true), or an admission webhook or another controller writes there"
                    % (custom.key, _some([change.path for change in missing]))
                )


def _is_complete(custom: Custom, stored: Object) -> bool:
    return not compare.changes(stored.get("spec") or {}, custom.spec)


def _some(names: t.Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" and %d more" % (len(names) - _NAMES) if len(names) > _NAMES else "")


def merge_patch(live: Object, desired: Object) -> Object:
    """Return the merge patch (RFC 7386) that turns one map into another."""
    patch: Object = {key: None for key in live if key not in desired}
    for key, value in desired.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            inner = merge_patch(live[key], value)
            if inner:
                patch[key] = inner
        elif key not in live or compare.changes(live[key], value):
            patch[key] = value
    return patch


def fields(definition: Object | None) -> set[str]:
    """Return the fields of a CRD's schemas, a line each."""
    paths: set[str] = set()

    def walk(schema: t.Any, path: str) -> None:
        for name, field in (schema.get("properties") or {}).items():
            paths.add("%s.%s\n" % (path, name))
            walk(field, "%s.%s" % (path, name))
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], path + "[]")

    for version in ((definition or {}).get("spec") or {}).get("versions") or []:
        walk((version.get("schema") or {}).get("openAPIV3Schema") or {}, str(version.get("name")))
    return paths


def make(params: Params, state: State, rendered: str, cluster: Cluster) -> Plan:
    """Compare what the chart creates with a cluster whose kinds are known."""
    plan = Plan(cluster, state)
    base = state.base
    objects, hooks = compare.documents(rendered)
    stack.check(state, objects, cluster)
    plan.hooked = base is not None and any(_renews_crds(hook) for hook in hooks)
    crds = _definitions(plan, definitions(state.chart, state.values), upgrade=params["upgrade_crds"])
    _kinds(plan, objects, crds, renewed=params["upgrade_crds"] or plan.hooked)
    stored = _by_identity(plan, compare.documents(base.manifest)[0]) if base else {}
    desired = _by_identity(plan, objects)
    for identity, document in desired.items():
        key = cluster.key(document, state.namespace)
        live = cluster.read(key)
        if live is not None and base is None:
            _refuse_foreign(state, key, live)
        sent = compare.prepared(document, state.name, state.namespace)
        _compare(plan, key, sent, live, stored.get(identity), crds)
    for identity, document in stored.items():
        if identity not in desired and not compare.has_keep_policy(document):
            key = cluster.key(document, state.namespace)
            plan.before[key], plan.after[key] = cluster.read(key), None
            # The operator removes the driver, the plugins and the DRA driver with the object that asked for them.
            if plan.before[key] is not None and (key.api_version, key.kind) in (*stack.STACKS, DRIVER):
                plan.disruptive.append("%s (deleted)" % key)
    plan.manifest_differs = base is not None and desired != stored
    _pruned(plan, params)
    return plan


_Identity = t.Tuple[str, str, str, str]


def _by_identity(plan: Plan, documents: t.Iterable[Object]) -> dict[_Identity, Object]:
    """Return objects by what they keep when their kind moves to another version."""
    keys = ((plan.cluster.key(document, plan.state.namespace), document) for document in documents)
    return {(key.api_version.rpartition("/")[0], key.kind, key.namespace, key.name): document for key, document in keys}


def _renews_crds(hook: Object) -> bool:
    """Whether a hook is the chart's own Job that renews the CRDs before an upgrade (operator.upgradeCRD)."""
    return (
        hook.get("kind") == "Job"
        and "pre-upgrade" in str(compare.annotations_of(hook).get("helm.sh/hook"))
        and "crd" in str(hook["metadata"]["name"]).lower()
    )


class _Crd(t.NamedTuple):
    """A CRD of the chart, and the one that is live."""

    desired: Object
    live: Object | None


def _definitions(plan: Plan, documents: list[Object], *, upgrade: bool) -> dict[tuple[str, str], _Crd]:
    """Read the live CRDs of those in the chart, and note which are to be renewed. Keys are group and kind."""
    crds = {}
    for desired in documents:
        name = str(desired["metadata"]["name"])
        live = plan.cluster.definition(name)
        spec = desired["spec"]
        crds[(str(spec["group"]), str(spec["names"]["kind"]))] = _Crd(desired, live)
        plan.cluster.learn(desired)
        if upgrade and (live is None or compare.changes(live["spec"], compare.merge(None, spec, live["spec"]))):
            plan.definitions.append(Definition(name, desired, live))
    return crds


def _kinds(plan: Plan, objects: t.Iterable[Object], crds: t.Mapping[tuple[str, str], _Crd], *, renewed: bool) -> None:
    """Refuse what the API server has no kind for, before anything is done."""
    for document in objects:
        version, kind = str(document.get("apiVersion")), str(document["kind"])
        crd = crds.get((version.rpartition("/")[0], kind))
        if (version, kind) not in plan.cluster.kinds:
            raise PlanError(
                "The chart creates a %s of %s, and the API server does not know this kind (and the chart does not have "
                "its CRD). Install its CRD first, or disable it in values (a ServiceMonitor, for example, needs the "
                "Prometheus Operator)" % (kind, version)
            )
        if crd is not None and crd.live is None and plan.state.base is not None and not renewed:
            raise PlanError(
                "The release exists, and the CustomResourceDefinition %s of its %s is missing: helm installs CRDs only "
                "with a new release. Set upgrade_crds to true" % (crd.desired["metadata"]["name"], kind)
            )


def _refuse_foreign(state: State, key: Key, live: Object) -> None:
    """Refuse an object that exists and is not this release's: helm would, in the middle of its work."""
    name, namespace = compare.release_of(live)
    if (name, namespace) == (state.name, state.namespace) or state.release is not None:
        return
    owner = "of the helm release %s/%s, which is gone" % (namespace, name) if name else "created without helm"
    raise PlanError(
        "Installing the helm release %s/%s: there is already a %s, %s. Delete it, or hand it over: set the label "
        "app.kubernetes.io/managed-by=Helm and the annotations meta.helm.sh/release-name=%s and "
        "meta.helm.sh/release-namespace=%s" % (state.namespace, state.name, key, owner, state.name, state.namespace)
    )


def _compare(
    plan: Plan,
    key: Key,
    sent: Object,
    live: Object | None,
    stored: Object | None,
    crds: t.Mapping[tuple[str, str], _Crd],
) -> None:
    crd = crds.get((key.api_version.rpartition("/")[0], key.kind))
    old = compare.prepared(stored, plan.state.name, plan.state.namespace) if stored else None
    # What is there once ``sent`` has been applied, and what would be there if only ``old`` had been.
    if crd is None:
        after = sent if live is None else compare.merge(old, sent, live)
        intact = live if live is None or old is None else compare.merge(old, old, live)
    else:
        after, intact = _custom(plan, key, sent, live, old, crd)
    if live is None and old is not None:
        plan.drift.append({"object": str(key), "path": "", "live": None, "desired": "present"})
    for change in compare.changes(live, intact) if live is not None else []:
        masked = compare.mask_change(change, key.kind)
        plan.drift.append({"object": str(key), "path": masked.path, "live": masked.before, "desired": masked.after})
    plan.before[key], plan.after[key] = live, after
    if (key.api_version, key.kind) in stack.STACKS:
        plan.stack_key = key
        plan.stack = reported(live, key.name) if live is not None else None
    if live is not None and crd is not None:
        paths = [change.path for change in compare.changes(live, after) if _disrupts(change, key.kind)]
        plan.disruptive += ["%s %s" % (key, path) for path in paths]


def _custom(
    plan: Plan, key: Key, sent: Object, live: Object | None, old: Object | None, crd: _Crd
) -> tuple[Object, Object | None]:
    """Return what is there afterwards, and what would be there without drift, of an object whose CRD is the chart's."""
    # The CRDs of a new release are the chart's, if there are none yet.
    now = crd.live if crd.live is not None else crd.desired
    renewed = crd.live is None or plan.hooked or now["metadata"]["name"] in [item.name for item in plan.definitions]
    _spec_kept(sent, now, key, plan.pruned)
    spec = _spec_kept(sent, crd.desired if renewed else now, key, plan.pruned_after)
    plan.customs.append(Custom(key, sent, spec))
    if live is None:
        return {**sent, "spec": spec}, None
    after = {**compare.merge(_spec_removed(old), _spec_removed(sent), live), "spec": spec}
    if old is None:
        return after, live
    return after, {
        **compare.merge(_spec_removed(old), _spec_removed(old), live),
        "spec": _spec_kept(old, now, key, []),
    }


def _disrupts(change: Change, kind: str) -> bool:
    if kind == "NVIDIADriver":
        return change.path.startswith("spec.")
    return change.path.startswith(_DISRUPTIVE) and not change.path.startswith(_HARMLESS)


def _spec_removed(document: Object | None) -> Object | None:
    if document is None:
        return None
    return {key: value for key, value in document.items() if key not in ("spec", "status")}


def _spec_kept(document: Object, definition: Object, key: Key, lost: list[dict[str, t.Any]]) -> Object:
    """Return the spec that the API server keeps of an object; note what it drops."""
    schema = compare.schema_of(definition, key.api_version)
    dropped: list[tuple[str, t.Any]] = []
    inner = ((schema or {}).get("properties") or {}).get("spec")
    spec = t.cast(Object, compare.prune(document.get("spec") or {}, inner, "spec", dropped))
    for path, value in dropped:
        masked = compare.mask_change(Change(path, None, value), key.kind)
        lost.append(
            {"object": str(key), "path": path, "value": masked.after, "crd": str(definition["metadata"]["name"])}
        )
    return spec


def _pruned(plan: Plan, params: Params) -> None:
    if plan.pruned_after:
        text = "%s: %s" % (plan.pruned_after[0]["crd"], _some([field["path"] for field in plan.pruned_after]))
        if params["on_pruned"] == "fail":
            raise PlanError(
                "The API server would drop fields of the objects of the chart %s %s, because the "
                "CustomResourceDefinition does not have them, and the operator would never see them. It is older than "
                "the chart, or a different one: %s. Set upgrade_crds to true, or on_pruned to warn"
                % (plan.state.chart.name, plan.state.chart.version, text)
            )
        plan.warnings.append("Fields that the API server drops because they are not in its CRD %s" % text)
    if plan.definitions or plan.hooked or plan.pruned_after:
        return  # the old schema does not show what will be accepted
    for custom in plan.customs:
        if not compare.changes(plan.before[custom.key], plan.after[custom.key]):
            continue
        if plan.cluster.served(custom.key):
            try:
                plan.cluster.try_out(custom.key, custom.rendered)
            except ApiError as exc:
                if exc.status != 403:
                    raise PlanError("%s. Correct values" % exc) from exc
                plan.warnings.append("Cannot determine whether the API server accepts the %s: %s" % (custom.key, exc))


__all__ = ("Custom", "Definition", "Plan", "PlanError", "fields", "make", "merge_patch")
