# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Programs of a node of Kubernetes: run with a time limit, and their output without secrets."""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from .. import _command
from .work import Work

Run = t.Callable[[t.Sequence[str]], t.Optional[t.Tuple[int, str, str]]]

# A bootstrap token, wherever it is printed (BootstrapTokenPattern in k8s.io/cluster-bootstrap).
TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
# kubeadm join reads the Node of its name once, for 10 s, before it touches the kubelet; its own time limits are not for
# this request (cmd/kubeadm/app/cmd/phases/join/kubelet.go and util/kubeconfig/kubeconfig.go of Kubernetes 1.37).
NODE_UNREAD = re.compile(r"cannot get Node .*deadline exceeded")
_LINES = 12
_NOISE = re.compile(r"^\s*$|^\[[a-z-]+\] |^To see the stack trace|^\t?\[WARNING|^W\d{4} |^I\d{4} ")


def runner(directories: t.Sequence[str], limit: int, work: Work | None = None) -> Run:
    """Return a function that runs a program of the system's or these directories, with a time limit.

    A program inherits the lock of the work that it belongs to.
    """
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    path = os.pathsep.join([*directories, system])

    def run(argv: t.Sequence[str]) -> tuple[int, str, str] | None:
        program = shutil.which(argv[0], path=path)
        if program is None:
            return None
        environment = {"PATH": path, "HOME": os.environ.get("HOME", "/root")}
        # The site's proxy, for pulling images.
        environment.update({name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")})
        try:
            return _command.run(
                [program, *argv[1:]],
                limit,
                env=environment,
                handles=work.handles if work else (),
                started=work.started if work else None,
            )
        except _command.TimedOut as exc:
            return 124, exc.out, exc.err + "\nnot done after %d s, and ended" % limit

    return run


def error_lines(out: str, err: str, secrets: t.Iterable[str] = ()) -> str:
    """Return the lines with the error, without tokens."""
    text = err if err.strip() else out
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line) or "[ERROR" in line]
    output = " / ".join(lines[-_LINES:]) or " / ".join(text.split("\n")[-3:]).strip()
    for secret in secrets:
        if secret:
            output = output.replace(secret, "(hidden)")
    return TOKEN.sub("(hidden)", output)


def advice(text: str) -> str:
    """Return advice on a failure of kubeadm."""
    hints = [
        ("could not find a JWS signature", "The token has expired or was deleted: run again, which makes a new one"),
        (
            "cluster CA found in cluster-info ConfigMap is invalid",
            "The API server at the endpoint belongs to another cluster: look at kubernetes_control_plane_endpoint",
        ),
        (
            "a Node with name",
            "A node of that name is in the cluster: give this one another kubernetes_node_name, or delete the Node",
        ),
        ("ImagePull", "Load the images, or set kubernetes_image_repository to a registry that the host reaches"),
        ("connection refused", "Look at the API server of the control-plane endpoint, and at the way to it"),
        (
            "i/o timeout",
            "The control-plane endpoint does not answer this host: look at addresses, routes and firewalls",
        ),
        (
            NODE_UNREAD.pattern,
            "The API server did not answer within the 10 s that kubeadm gives it: look at its load, and run again",
        ),
        ("context deadline exceeded", "Look at the kubelet of this host: journalctl -u kubelet"),
        ("not done after", "Raise kubernetes_timeout, or look at the kubelet of this host: journalctl -u kubelet"),
    ]
    return next(
        (hint for pattern, hint in hints if re.search(pattern, text)),
        "Look at the kubelet of this host: journalctl -u kubelet",
    )


__all__ = ("NODE_UNREAD", "TOKEN", "Run", "advice", "error_lines", "runner")
