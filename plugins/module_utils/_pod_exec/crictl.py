# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Programs in a pod's container by crictl on its node, for sites whose accounts may not exec by the API server."""

from __future__ import annotations

import json
import os
import typing as t

from .. import _command
from .run import ContainerError
from .stream import Program, Stream

_LIMIT_S = 30


class CrictlExec:
    """A container in which a program is run by a command before it, such as ``crictl exec ID``."""

    def __init__(self, text: str, address: str | None, before: t.Sequence[str]) -> None:
        self.text, self.address, self._before = text, address, before

    def open(self, argv: t.Sequence[str]) -> Stream:
        try:
            return Program([*self._before, *argv], os.environ)
        except OSError as exc:
            raise ContainerError("Running %s: %s" % (self._before[0], exc.strerror)) from exc


def _crictl(*arguments: str) -> t.Any:
    """What crictl prints as JSON."""
    argv = ["crictl", *arguments, "--output", "json"]
    doing = "Querying the container runtime with '%s'" % " ".join(argv)
    try:
        done = _command.run(argv, _LIMIT_S)
        if done.status:
            output = " ".join(done.err.split())[-300:]
            raise ContainerError("%s: it exited with status %d: %s" % (doing, done.status, output))
        return json.loads(done.out)
    except FileNotFoundError:
        raise ContainerError(
            "%s: crictl is not installed (package cri-tools). Install it on the node, or choose exec: api" % doing
        ) from None
    except _command.TimedOut:
        raise ContainerError("%s: no answer within %d s" % (doing, _LIMIT_S)) from None
    except ValueError:
        raise ContainerError("%s: the answer is not JSON" % doing) from None


def sandbox_in(listed: t.Mapping[str, t.Any], namespace: str, name: str) -> str:
    """The ID of the pod's sandbox, of what ``crictl pods`` lists; it matches names as regular expressions."""
    ids = [
        sandbox["id"]
        for sandbox in listed.get("items") or []
        if (sandbox["metadata"]["namespace"], sandbox["metadata"]["name"]) == (namespace, name)
    ]
    if len(ids) != 1:
        raise ContainerError(
            "The container runtime of this node has %s pod %s/%s that is ready. Make sure that it runs on this node, "
            "and wait until it is Running" % ("no" if not ids else "more than one", namespace, name)
        )
    return str(ids[0])


def container_in(listed: t.Mapping[str, t.Any], pod: str, container: str | None) -> tuple[str, str]:
    """ID and name of a running container, of what ``crictl ps`` lists; without a name the one that was made first."""
    running = sorted(
        (int(entry["createdAt"]), entry["id"], entry["metadata"]["name"]) for entry in listed.get("containers") or []
    )
    for _created, ident, name in running:
        if container in (None, name):
            return ident, name
    names = ", ".join(sorted(name for _created, _ident, name in running)) or "none"
    raise ContainerError(
        "The pod %s has no running container%s. Running are: %s"
        % (pod, " named " + container if container else "", names)
    )


def find(pod: str, container: str | None) -> CrictlExec:
    """The running container of a pod of this node."""
    namespace, _slash, name = pod.partition("/")
    sandbox = sandbox_in(_crictl("pods", "--state", "ready", "--namespace", namespace), namespace, name)
    ident, called = container_in(_crictl("ps", "--state", "running", "--pod", sandbox), pod, container)
    network = _crictl("inspectp", sandbox)["status"].get("network") or {}
    text = "container %s of the pod %s" % (called, pod)
    return CrictlExec(text, network.get("ip") or None, ["crictl", "exec", ident])


__all__ = ("CrictlExec", "container_in", "find", "sandbox_in")
