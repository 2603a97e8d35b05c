# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The operator's release in the cluster: found under any name, and recovered if a killed helm left it pending."""

from __future__ import annotations

import typing as t

from .model import Host, OperatorError, Params, Recovery

if t.TYPE_CHECKING:  # pragma: no cover
    from .._decision import Decision
    from .._helm.output import Listed, Release

CHART = "gpu-operator"


def find(host: Host) -> tuple[Listed | None, list[Listed]]:
    """Return the cluster's release of the chart, and those that were uninstalled with their history kept."""
    releases = [release for release in host.helm.releases() if release.chart == CHART]
    uninstalled = [release for release in releases if release.status == "uninstalled"]
    live = [release for release in releases if release.status != "uninstalled"]
    if len(live) > 1:
        raise OperatorError(
            "There are %d releases of the chart gpu-operator: %s. Two operators fight over the same nodes and the same "
            "ClusterPolicy: uninstall all but one (helm uninstall NAME -n NAMESPACE)"
            % (
                len(live),
                ", ".join("%s in the namespace %s (%s)" % (each.name, each.namespace, each.status) for each in live),
            )
        )
    return (live[0] if live else None), uninstalled


def entry(release: Release | None) -> dict[str, t.Any] | None:
    """Return a release as the module reports it."""
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


def plan_recovery(params: Params, release: Release, host: Host) -> Recovery | None:
    """Return how a pending release is recovered; refuse if that is not allowed, or if helm may be at work on it."""
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
        return Recovery(None)
    history = host.helm.history(release.name, release.namespace)
    deployed = [revision.number for revision in history if revision.status in ("deployed", "superseded")]
    if not deployed:
        return Recovery(None)
    return Recovery(host.helm.release(release.name, release.namespace, max(deployed)))


def add_recovery(recovery: Recovery, release: Release, params: Params, decision: Decision, host: Host) -> None:
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


__all__ = ("CHART", "add_recovery", "entry", "find", "plan_recovery")
