# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators of training jobs on this machine, beside the API server: what their projects publish, unchanged.

In a cluster they are pods, and the API server reaches their webhooks by a Service. Here it reaches them by a URL, with a
certificate of the lab's authority.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import typing as t

import yaml

from . import certificates, kubeconfig, operator_definitions, ports, processes
from .progress import LabError

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane

Json = t.Any
# What controller-runtime logs when the API server may call (pkg/webhook/server.go).
SERVES = "Serving webhook server"
# Kinds of jobs that Kueue manages here, by the names in its configuration.
FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/mpijob", "pod", "trainer.kubeflow.org/trainjob")
# Of its webhooks those of these kinds: the API server refuses what a webhook does not answer for.
KUEUE_WEBHOOKS = ("clusterqueue", "cohort", "job", "jobset", "mpijob", "pod", "resourceflavor", "trainjob", "workload")
# Kueue reads the certificate of its metrics from /etc/kueue/metrics/certs (main.go): in a mount namespace of its own, an
# overlay adds that to /etc.
OWN_ETC = 'mount -t overlay overlay -o "lowerdir=$0:/etc" /etc && exec "$@"'


class Ports(t.NamedTuple):
    webhooks: int
    health: int


class Operator(t.NamedTuple):
    """How one is run: its configuration, and which webhooks of its module the API server has to call."""

    started: str
    options: t.Callable[[ControlPlane, pathlib.Path], list[str]]
    configuration: t.Callable[[pathlib.Path, Ports], Json] | None = None
    webhooks: str = ""
    webhook_names: tuple[str, ...] = ()
    # It reads files of /etc.
    own_etc: bool = False


def _mpi_options(plane: ControlPlane, _place: pathlib.Path) -> list[str]:
    return [f"-kubeConfig={plane.kubeconfig}", "-namespace=", "-lock-namespace=default", "-alsologtostderr"]


def _options(plane: ControlPlane, place: pathlib.Path) -> list[str]:
    return [f"--kubeconfig={plane.kubeconfig}", f"--config={place}/configuration.yaml"]


def _common(ports: Ports) -> Json:
    return {
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.health}"},
    }


def _jobset(place: pathlib.Path, ports: Ports) -> Json:
    return {
        **_common(ports),
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": ports.webhooks, "certDir": str(place / "certificates")},
    }


def _trainer(_place: pathlib.Path, ports: Ports) -> Json:
    return {
        **_common(ports),
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "certManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": ports.webhooks},
    }


def _kueue(place: pathlib.Path, ports: Ports) -> Json:
    return {
        **_common(ports),
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": ports.webhooks, "certDir": str(place / "certificates")},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        # An API server of its own.
        "featureGates": {"VisibilityOnDemand": False},
    }


OPERATORS = {
    # What Run() in mpi_job_controller.go prints when it has read the cluster's objects.
    "mpi-operator": Operator("Started workers", _mpi_options),
    "jobset": Operator(SERVES, _options, _jobset, "config/components/webhook/manifests.yaml"),
    "trainer-controller-manager": Operator(SERVES, _options, _trainer, "manifests/base/webhook/manifests.yaml"),
    "kueue": Operator(
        SERVES,
        _options,
        _kueue,
        "config/components/webhook/manifests.yaml",
        tuple(f"{letter}{kind}.kb.io" for kind in KUEUE_WEBHOOKS for letter in "mv"),
        own_etc=True,
    ),
}
# The name of an operator's definitions in versions.toml, if it is not the program's.
PROJECTS = {"trainer-controller-manager": "trainer"}


def up(plane: ControlPlane, program: str) -> None:
    """Define its kinds, and run it where it does not run."""
    if processes.find(program, plane.place):
        return
    operator = OPERATORS[program]
    project = PROJECTS.get(program, program)
    place = plane.place / "operators" / program
    place.mkdir(parents=True, exist_ok=True)
    limit = plane.settings["cluster"]["limits"]["health"]
    define(plane, project, limit)
    reserved = [ports.reserve(), ports.reserve()]
    numbers = Ports(*map(ports.number, reserved))
    if operator.configuration:
        give_certificates(plane, place)
        certificates.write(place / "configuration.yaml", json.dumps(operator.configuration(place, numbers)).encode())
    # Without certDir, controller-runtime looks for certificates in os.TempDir() (pkg/webhook/server.go).
    argv = ["env", f"TMPDIR={place}", str(plane.tool(program)), *operator.options(plane, place)]
    if operator.own_etc:
        argv = ["unshare", "--mount", "sh", "-c", OWN_ETC, str(place / "etc"), *argv]
    with contextlib.ExitStack() as stack:
        for port in reserved:
            stack.callback(port.close)
        processes.start_and_wait(argv, plane.place, plane.log(program), operator.started, limit, program)
    if operator.webhooks:
        path = operator_definitions.directory(project, plane.settings) / operator.webhooks
        apply(plane, project, webhooks(plane, operator, program, path.read_text(), numbers.webhooks))


def define(plane: ControlPlane, project: str, limit: int) -> None:
    files = [f"--filename={path}" for path in operator_definitions.fetch(project, plane.settings)]
    kubectl(plane, project, "apply", "--server-side", *files)
    wait = ("wait", "--for=condition=Established", f"--timeout={limit}s", *files)
    operator_definitions.until_established(lambda: kubectl(plane, project, *wait), limit)


def give_certificates(plane: ControlPlane, place: pathlib.Path) -> None:
    """Write the certificate of the webhooks wherever one of the programs looks for it."""
    key, certificate = plane.authority.server("webhooks", ["127.0.0.1"])
    for directory in ("certificates", "k8s-webhook-server/serving-certs", "etc/kueue/metrics/certs"):
        certificates.write(place / directory / "tls.crt", certificate)
        certificates.write(place / directory / "tls.key", key)


def webhooks(plane: ControlPlane, operator: Operator, program: str, text: str, port: int) -> list[Json]:
    """Return the webhooks of an operator's manifests, with a URL on this machine in place of the Service."""
    authority = kubeconfig.encoded(plane.authority.file.read_bytes())
    manifests = []
    for manifest in filter(None, yaml.safe_load_all(text)):
        rows = [
            row for row in manifest["webhooks"] if not operator.webhook_names or row["name"] in operator.webhook_names
        ]
        for row in rows:
            url = f"https://127.0.0.1:{port}{row['clientConfig']['service']['path']}"
            row["clientConfig"] = {"url": url, "caBundle": authority}
        kind = "mutating" if manifest["kind"].startswith("Mutating") else "validating"
        manifests.append({**manifest, "metadata": {"name": f"{program}-{kind}"}, "webhooks": rows})
    return manifests


def apply(plane: ControlPlane, project: str, manifests: t.Sequence[Json]) -> None:
    path = plane.place / "operators" / f"{project}-webhooks.yaml"
    certificates.write(path, yaml.safe_dump_all(manifests).encode())
    kubectl(plane, project, "apply", "--server-side", f"--filename={path}")


def kubectl(plane: ControlPlane, project: str, *words: str) -> None:
    limit = plane.settings["cluster"]["limits"]["health"]
    argv = [str(plane.tool("kubectl")), f"--kubeconfig={plane.kubeconfig}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit + 30, check=False)
    if done.returncode:
        raise LabError(f"defining the kinds of {project}: kubectl {words[0]}: {done.stderr.strip()}")


__all__ = ["OPERATORS", "up"]
