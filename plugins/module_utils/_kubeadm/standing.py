# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A verdict on the kubeadm that left its mark on a host, from the host's membership.

The plan applies it to all hosts, and the module kubeadm again on the host, under its lock.
"""

from __future__ import annotations

import typing as t

from .node import CONF_DIR, STARTED
from .work import at_work

Member = t.Mapping[str, t.Any]

# No mark; its process runs; unknown; a control plane that must not be touched; interrupted.
UNMARKED, AT_WORK, UNCLEAR, WORKS, BROKEN = "unmarked", "at work", "unclear", "works", "broken off"
_CONTROL_PLANE = {"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"}


def leftovers(member: Member) -> list[str]:
    """Return what kubeadm has left on a host, in words."""
    words = {
        "kubelet": "kubelet.conf",
        "bootstrapping": "bootstrap-kubelet.conf",
        "admin": "admin.conf",
        "authority": "pki/ca.crt",
        "manifests": "manifests",
        "etcd": "data of etcd",
    }
    return [text for name, text in words.items() if member.get(name)]


def begun(member: Member) -> str | None:
    """Return the action of kubeadm whose mark is on a host."""
    return member["started"]["action"] if member["started"] else None


def standing(member: Member) -> tuple[str, str]:
    """Return the verdict on the kubeadm that left its mark, and a sentence if it is a refusal."""
    mark = member["started"]
    if not mark:
        return UNMARKED, ""
    if mark["at_work"]:
        return AT_WORK, at_work(mark if mark["pid"] else None)
    if mark["at_work"] is None:
        return UNCLEAR, (
            "%s names no process, so that it cannot be said whether kubeadm %s is still at work. Look for it "
            "(pgrep -a kubeadm), and remove that file where there is none" % (STARTED, mark["action"])
        )
    # The data of a joining member is a copy of the others'.
    own = mark["action"] == "init" and member["etcd"]
    if mark["answers"] or (own and {*member["manifests"], *member["parked"]} >= _CONTROL_PLANE):
        return WORKS, ""
    if mark["answers"] is None:
        return UNCLEAR, (
            "kubeadm %s has not come to its end, and whether the API server of this host is ready cannot be judged. "
            "kubectl --kubeconfig=%s/admin.conf get --raw=/readyz shows it. Nothing is cleaned before that is known"
            % (mark["action"], CONF_DIR)
        )
    return BROKEN, ""


__all__ = ("AT_WORK", "BROKEN", "UNCLEAR", "UNMARKED", "WORKS", "begun", "leftovers", "standing")
