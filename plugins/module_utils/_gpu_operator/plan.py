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
from . import compare
from .cluster import POLICY
from .compare import Change, Key, Object
from .policy import policy_state

if t.TYPE_CHECKING:  # pragma: no cover
    from .._decision import Decision
    from .._helm.chart import Chart
    from .._helm.client import Release
    from .cluster import Cluster

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
    """What is asked for cannot be; nothing has been changed."""


class Definition(t.NamedTuple):
    """A CRD that is to be made (``live`` is None) or renewed."""

    name: str
    wanted: Object
    live: Object | None


class Custom(t.NamedTuple):
    """An object of a kind that the chart has the CRD of: its spec as the API server would keep it."""

    key: Key
    rendered: Object
    spec: Object


class Plan:
    """The comparison, and what the steps of the decision need of it."""

    def __init__(self, cluster: Cluster, chart: Chart, values: Object, namespace: str) -> None:
        self.cluster = cluster
        self.chart = chart
        self.values = values
        self.namespace = namespace
        self.base: Release | None = None
        self.definitions: list[Definition] = []
        self.hooked = False
        self.manifest_differs = False
        self.customs: list[Custom] = []
        self.before: dict[Key, Object | None] = {}
        self.after: dict[Key, Object | None] = {}
        self.drift: list[dict[str, t.Any]] = []
        self.lost: list[str] = []
        self.pruned: list[dict[str, t.Any]] = []
        self.pruned_after: list[dict[str, t.Any]] = []
        self.disruptive: list[str] = []
        self.warnings: list[str] = []
        self.policy_key: Key | None = None
        self.policy: dict[str, t.Any] | None = None

    def changed_objects(self) -> list[Key]:
        return [key for key in self.after if compare.changes(self.before[key], self.after[key])]

    def reasons(self, *, rolled_back: bool) -> list[str]:
        """Return why an upgrade is needed, in a few words each; none where there is nothing to do."""
        base = self.base
        if base is None:
            return []
        found = []
        if base.version != self.chart.version:
            found.append("from %s" % base.version)
        if base.values != self.values:
            paths = [one.path for one in compare.changes(base.values, self.values)]
            found.append("values %s" % _some(paths))
        if not rolled_back and base.status != "deployed":
            found.append("the last revision is %s" % base.status)
        if self.manifest_differs and not found:
            found.append("the chart's templates")
        drifted = sorted({one["object"] for one in self.drift})
        if drifted and not rolled_back:
            found.append("drift of %s" % _some(drifted))
        others = [str(key) for key in self.changed_objects() if str(key) not in drifted]
        if others and not found:
            found.append("live objects differ: %s" % _some(others))
        return found

    def show(self, decision: Decision, release: Release | None, chart: Chart, values: Object) -> None:
        """Put what changes into the decision's diff, secrets hidden."""
        stored = {"chart": "%s-%s" % (release.chart, release.version), "values": release.values} if release else {}
        wanted = {"chart": "%s-%s" % (chart.name, chart.version), "values": values}
        about = "helm release"
        decision.show(about, compare.text(compare.mask(stored, wanted)), compare.text(compare.mask(wanted, stored)))
        for definition in self.definitions:
            have, want = fields(definition.live), fields(definition.wanted)
            name = "CustomResourceDefinition %s (fields)" % definition.name
            if definition.live is not None:
                decision.show(name, "".join(sorted(have - want)), "".join(sorted(want - have)))
            else:
                decision.show(name, "", "%d fields\n" % len(want))
        for key in self.changed_objects():
            before = compare.clean(self.before[key] or {}) if self.before[key] else {}
            after = compare.clean(self.after[key] or {}) if self.after[key] else {}
            decision.show(
                str(key), compare.text(compare.mask(before, after)), compare.text(compare.mask(after, before))
            )

    def settle(self) -> None:
        """Wait until renewed CRDs are in force for what is about to be applied."""
        if not self.definitions or self.pruned_after:
            return
        for custom in self.customs:
            self.cluster.settle(custom.key, custom.rendered, functools.partial(_whole, custom))

    def landed(self) -> None:
        """Make sure that what was applied is what is live.

        helm 3 patches custom resources by the difference of its two manifests alone, and so does not see what others
        edited meanwhile; neither helm takes away what others added.
        """
        for custom in self.customs:
            live = self.cluster.read(custom.key)
            if live is None:
                raise PlanError("helm reported success, but there is no %s" % custom.key)
            patch = merge_patch(live.get("spec") or {}, custom.spec)
            if patch:
                doing = "Correcting the spec of the %s" % custom.key
                live = self.cluster.client.merge(self.cluster.path(custom.key), {"spec": patch}, doing)
            missed = compare.changes(live.get("spec") or {}, custom.spec, "spec")
            if missed:
                raise PlanError(
                    "helm reported success, but the %s differs from what was applied at %s: its CRD is older than the "
                    "chart (set upgrade_crds to true), or an admission webhook or another controller writes there"
                    % (custom.key, _some([one.path for one in missed]))
                )


def _whole(custom: Custom, kept: Object) -> bool:
    return not compare.changes(kept.get("spec") or {}, custom.spec)


def _some(names: t.Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" and %d more" % (len(names) - _NAMES) if len(names) > _NAMES else "")


def merge_patch(live: Object, wanted: Object) -> Object:
    """Return the merge patch (RFC 7386) that makes one map of another."""
    patch: Object = {key: None for key in live if key not in wanted}
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            inner = merge_patch(live[key], value)
            if inner:
                patch[key] = inner
        elif key not in live or compare.changes(live[key], value):
            patch[key] = value
    return patch


def fields(definition: Object | None) -> set[str]:
    """Return the fields of a CRD's schemas, a line each."""
    found: set[str] = set()

    def walk(schema: t.Any, path: str) -> None:
        for name, one in (schema.get("properties") or {}).items():
            found.add("%s.%s\n" % (path, name))
            walk(one, "%s.%s" % (path, name))
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], path + "[]")

    for version in ((definition or {}).get("spec") or {}).get("versions") or []:
        walk((version.get("schema") or {}).get("openAPIV3Schema") or {}, str(version.get("name")))
    return found


def make(
    params: t.Mapping[str, t.Any],
    cluster: Cluster,
    chart: Chart,
    values: Object,
    rendered: str,
    base: Release | None,
    name: tuple[str, str],
    *,
    left: Release | None,
) -> Plan:
    """Compare what the chart makes, by a cluster that was discovered.

    ``base`` is the revision that is live, None on a fresh install; ``left`` what a killed helm left.
    """
    release, namespace = name
    plan = Plan(cluster, chart, values, namespace)
    plan.base = base
    fresh = base is None
    objects, hooks = compare.documents(rendered)
    plan.hooked = not fresh and any(_renews(one) for one in hooks)
    crds = _definitions(plan, definitions(chart, values), upgrade=params["upgrade_crds"])
    _kinds(plan, objects, crds, fresh=fresh, renewed=params["upgrade_crds"] or plan.hooked)
    stored = (
        {_identity(key): one for key, one in _keyed(cluster, compare.documents(base.manifest)[0], namespace)}
        if base
        else {}
    )
    wanted = {}
    for key, one in _keyed(cluster, objects, namespace):
        wanted[_identity(key)] = key
        sent = compare.prepared(one, release, namespace)
        live = cluster.read(key)
        if live is not None and base is None:
            _owned(key, live, release, namespace, left)
        _compare(plan, key, sent, live, stored.get(_identity(key)), crds)
    for identity, one in stored.items():
        if identity not in wanted and not compare.kept(one):
            key = cluster.key(one, namespace)
            plan.before[key], plan.after[key] = cluster.read(key), None
    if base:
        rendered_now = {_identity(key): one for key, one in _keyed(cluster, objects, namespace)}
        plan.manifest_differs = rendered_now != stored
    _pruned(plan, params)
    return plan


def _identity(key: Key) -> tuple[str, str, str, str]:
    """What an object keeps when its kind moves to another version."""
    return (key.api_version.rpartition("/")[0], key.kind, key.namespace, key.name)


def _keyed(cluster: Cluster, objects: t.Iterable[Object], namespace: str) -> list[tuple[Key, Object]]:
    return [(cluster.key(one, namespace), one) for one in objects]


def _renews(hook: Object) -> bool:
    """Whether a hook is the chart's own Job that renews the CRDs before an upgrade (operator.upgradeCRD)."""
    return (
        hook.get("kind") == "Job"
        and "pre-upgrade" in str(compare.notes(hook).get("helm.sh/hook"))
        and "crd" in str(hook["metadata"]["name"]).lower()
    )


class _Crd(t.NamedTuple):
    """A CRD of the chart, and the one that is live."""

    wanted: Object
    live: Object | None


def _definitions(plan: Plan, found: list[Object], *, upgrade: bool) -> dict[tuple[str, str], _Crd]:
    """Read the live CRDs of those in the chart, and note which are to be renewed. Keys are group and kind."""
    crds = {}
    for wanted in found:
        name = str(wanted["metadata"]["name"])
        live = plan.cluster.definition(name)
        spec = wanted["spec"]
        crds[(str(spec["group"]), str(spec["names"]["kind"]))] = _Crd(wanted, live)
        plan.cluster.learn(wanted)
        if upgrade and (live is None or compare.changes(live["spec"], compare.merge(None, spec, live["spec"]))):
            plan.definitions.append(Definition(name, wanted, live))
    return crds


def _kinds(
    plan: Plan, objects: t.Iterable[Object], crds: t.Mapping[tuple[str, str], _Crd], *, fresh: bool, renewed: bool
) -> None:
    """Refuse what the API server has no kind for, before anything is done."""
    for one in objects:
        key = (str(one.get("apiVersion")), str(one["kind"]))
        crd = crds.get((key[0].rpartition("/")[0], key[1]))
        if key not in plan.cluster.kinds:
            raise PlanError(
                "The chart creates a %s of %s, and the API server does not know this kind (and the chart does not have "
                "its CRD). Install its CRD first, or disable it in values (a ServiceMonitor, for example, needs the "
                "Prometheus Operator)" % (key[1], key[0])
            )
        if crd is not None and crd.live is None and not fresh and not renewed:
            raise PlanError(
                "The release exists, and the CustomResourceDefinition %s of its %s is missing: helm installs CRDs only "
                "with a new release. Set upgrade_crds to true" % (crd.wanted["metadata"]["name"], key[1])
            )


def _owned(key: Key, live: Object, release: str, namespace: str, left: Release | None) -> None:
    """Refuse objects that are there already and are not this release's: helm would, in the middle of its work."""
    notes = compare.notes(live)
    owner = (notes.get("meta.helm.sh/release-name"), notes.get("meta.helm.sh/release-namespace"))
    if owner == (release, namespace) or left is not None:
        return
    whose = "of the helm release %s/%s, which is gone" % (owner[1], owner[0]) if owner[0] else "created without helm"
    raise PlanError(
        "Installing the helm release %s/%s: there is already a %s, %s. Delete it, or hand it over: set the label "
        "app.kubernetes.io/managed-by=Helm and the annotations meta.helm.sh/release-name=%s and "
        "meta.helm.sh/release-namespace=%s" % (namespace, release, key, whose, release, namespace)
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
    old = compare.prepared(stored, *_release_of(sent)) if stored else None
    if crd is None:
        after = sent if live is None else compare.merge(old, sent, live)
        intact = live if live is None or old is None else compare.merge(old, old, live)
    else:
        # The CRDs of a fresh install are the chart's, where there are none yet.
        now = crd.live if crd.live is not None else crd.wanted
        renewed = (
            crd.live is None or plan.hooked or any(one.name == now["metadata"]["name"] for one in plan.definitions)
        )
        future = crd.wanted if renewed else now
        spec = _kept_spec(sent, now, key, plan.pruned)
        spec = _kept_spec(sent, future, key, plan.pruned_after)
        plan.customs.append(Custom(key, sent, spec))
        after = {**(sent if live is None else compare.merge(_less_spec(old), _less_spec(sent), live)), "spec": spec}
        intact = live
        if live is not None and old is not None:
            intact = {**compare.merge(_less_spec(old), _less_spec(old), live), "spec": _kept_spec(old, now, key, [])}
    if live is None and old is not None:
        plan.drift.append({"object": str(key), "path": "", "live": None, "desired": "present"})
    for change in compare.changes(live, intact) if live is not None else []:
        shown = compare.mask_change(change, key.kind)
        plan.drift.append({"object": str(key), "path": shown.path, "live": shown.before, "desired": shown.after})
    plan.before[key], plan.after[key] = live, after
    if (key.api_version, key.kind) == POLICY:
        plan.policy_key = key
        plan.policy = policy_state(live, key.name) if live is not None else None
    if live is not None and crd is not None:
        paths = [one.path for one in compare.changes(live, after) if _disrupts(one, key.kind)]
        plan.disruptive += ["%s %s" % (key, path) for path in paths]


def _disrupts(change: Change, kind: str) -> bool:
    if kind == "NVIDIADriver":
        return change.path.startswith("spec.")
    return change.path.startswith(_DISRUPTIVE) and not change.path.startswith(_HARMLESS)


def _release_of(sent: Object) -> tuple[str, str]:
    notes = compare.notes(sent)
    return str(notes["meta.helm.sh/release-name"]), str(notes["meta.helm.sh/release-namespace"])


def _less_spec(one: Object | None) -> Object | None:
    return None if one is None else {key: value for key, value in one.items() if key not in ("spec", "status")}


def _kept_spec(one: Object, definition: Object, key: Key, lost: list[dict[str, t.Any]]) -> Object:
    """Return the spec that the API server keeps of an object; note what it drops."""
    schema = compare.schema_of(definition, key.api_version)
    found: list[tuple[str, t.Any]] = []
    inner = ((schema or {}).get("properties") or {}).get("spec")
    spec = t.cast(Object, compare.prune(one.get("spec") or {}, inner, "spec", found))
    for path, value in found:
        shown = compare.mask_change(Change(path, None, value), key.kind)
        lost.append(
            {"object": str(key), "path": path, "value": shown.after, "crd": str(definition["metadata"]["name"])}
        )
    return spec


def _pruned(plan: Plan, params: t.Mapping[str, t.Any]) -> None:
    if plan.pruned_after:
        text = "%s: %s" % (plan.pruned_after[0]["crd"], _some([one["path"] for one in plan.pruned_after]))
        if params["on_pruned"] == "fail":
            raise PlanError(
                "The API server would drop fields of the objects of the chart %s %s, because the "
                "CustomResourceDefinition does not have them, and the operator would never see them. It is older than "
                "the chart, or a different one: %s. Set upgrade_crds to true, or on_pruned to warn"
                % (plan.chart.name, plan.chart.version, text)
            )
        plan.warnings.append("Fields that the API server drops because they are not in its CRD %s" % text)
    if plan.definitions or plan.hooked or plan.pruned_after:
        return  # the old schema says nothing of what will be taken
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


def show_removal(decision: Decision, release: Release) -> None:
    """Put what an uninstall removes into the diff."""
    for one in compare.documents(release.manifest)[0]:
        metadata = one.get("metadata") or {}
        namespace = metadata.get("namespace")
        name = "%s %s%s" % (one["kind"], namespace + "/" if namespace else "", metadata.get("name"))
        if not compare.kept(one):
            decision.show(name, compare.text(compare.mask(one)), "")


__all__ = ("Custom", "Definition", "Plan", "PlanError", "fields", "make", "merge_patch", "show_removal")
