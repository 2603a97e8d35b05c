# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One pod of a training job: its metadata and its specification."""

from __future__ import annotations

import json
import typing as t

from .bundle import FILE
from .options import MPI, Job, JobError

Object = t.Dict[str, t.Any]

# On every object and pod of a job: the job's name.
JOB = "rdmaops.gpu-fabric/job"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
# Beside the programs that the role training_image puts into an image.
BUNDLE = "/opt/rdmaops/job"
# What an image of the role training_image starts sshd with, and where it looks for keys.
ENTRYPOINT = "/usr/local/sbin/training-entrypoint"
KEYS = "/etc/training-ssh"

# The label by which an operator says which pod is the launcher.
ROLES = {"mpijob": "training.kubeflow.org/job-role", "mpijob-v1alpha1": "mpi_role_type"}
# A gang is kept by the scheduler of that name, as its own charts call it.
_SCHEDULERS = {"volcano": "volcano", "scheduler-plugins": "scheduler-plugins-scheduler"}


def needs_entrypoint(job: Job) -> bool:
    """Whether the pods begin with our program."""
    return job.nccl_env == "pod" or bool(job.master_hosts_variable)


def wrap_command(job: Job, argv: list[str]) -> list[str]:
    if not needs_entrypoint(job):
        return argv
    config: Object = {}
    if job.nccl_env == "pod":
        config = {"nccl": job.nccl_env_options, "required": job.rdma_required, "wait": job.rdma_wait}
    if job.master_hosts_variable:
        config["master_from"] = job.master_hosts_variable
    return ["python3", "%s/%s" % (BUNDLE, FILE), json.dumps(config, sort_keys=True), *argv]


def _environment(job: Job, own: t.Mapping[str, t.Any]) -> list[Object]:
    """Return the environment; ``own`` is what the role sets: strings, or {fieldPath} of the pod."""
    twice = sorted(set(own) & set(job.env))
    if twice:
        raise JobError(
            "Creating the job: env has %s, which the role itself sets. Use master_addr, master_port or ompi instead. "
            "Nothing was applied" % ", ".join(twice)
        )
    variables: list[Object] = []
    for name, value in {**own, **job.env}.items():
        if isinstance(value, str):
            variables.append({"name": name, "value": value})
        else:
            variables.append({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", **value}}})
    return variables


def open_mpi(job: Job) -> dict[str, str]:
    """Return Open MPI's parameters as it takes them from the environment, of mpirun and of every rank."""
    return {"OMPI_MCA_" + name: value for name, value in job.ompi.items()}


def torch(job: Job, rank: t.Any, master: str) -> dict[str, t.Any]:
    """Return what torch.distributed reads (env://), and torchrun as its arguments' defaults (PET_*)."""
    own = {
        "MASTER_PORT": str(job.master_port),
        "WORLD_SIZE": str(job.workers),
        "RANK": rank,
        "PET_MASTER_PORT": str(job.master_port),
        "PET_NNODES": str(job.workers),
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": job.nproc_per_node,
    }
    if not job.master_hosts_variable:
        own.update(MASTER_ADDR=job.master_addr or master, PET_MASTER_ADDR=job.master_addr or master)
    return {**own, **open_mpi(job)}


def _volumes(job: Job) -> tuple[list[Object], list[Object]]:
    """Return volumes and where they are mounted."""
    volumes, mounts = [], []
    for volume in job.volumes:
        volumes.append({"name": volume["name"], **_source(volume)})
        mount = {"name": volume["name"], "mountPath": volume["mount_path"]}
        if volume.get("sub_path"):
            mount["subPath"] = volume["sub_path"]
        if volume.get("read_only"):
            mount["readOnly"] = True
        mounts.append(mount)
    if job.shm_size:
        volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": job.shm_size}})
        mounts.append({"name": "dshm", "mountPath": "/dev/shm"})
    if needs_entrypoint(job):
        volumes.append({"name": "rdmaops", "configMap": {"name": job.name}})
        mounts.append({"name": "rdmaops", "mountPath": BUNDLE, "readOnly": True})
    if job.ssh:
        secret = {"secretName": job.name + "-ssh", "defaultMode": 0o400}
        volumes.append({"name": "training-ssh", "secret": secret})
        mounts.append({"name": "training-ssh", "mountPath": KEYS, "readOnly": True})
    return volumes, mounts


def _source(volume: t.Mapping[str, t.Any]) -> Object:
    if volume.get("claim") is not None:
        return {"persistentVolumeClaim": {"claimName": volume["claim"]}}
    if volume.get("host_path") is not None:
        return {"hostPath": {"path": volume["host_path"], "type": "Directory"}}
    if volume.get("config_map") is not None:
        return {"configMap": {"name": volume["config_map"]}}
    if volume.get("secret") is not None:
        return {"secret": {"secretName": volume["secret"]}}
    if volume.get("nfs") is not None:
        return {"nfs": {"server": volume["nfs"]["server"], "path": volume["nfs"]["path"]}}
    return {"emptyDir": dict(volume["empty_dir"])}


def filled(manifest: Object) -> Object:
    """Return a part of a manifest without the keys whose value is empty."""
    return {key: value for key, value in manifest.items() if value}


def pod_template(job: Job, argv: list[str], own: t.Mapping[str, t.Any], *, trains: bool = True) -> Object:
    """Return metadata and spec of a pod."""
    volumes, mounts = _volumes(job)
    spec = {
        # The program talks to its peers, not to the API server.
        "automountServiceAccountToken": False,
        "containers": [_container(job, argv, own, mounts, trains)],
        **filled(
            {
                "volumes": volumes,
                "resourceClaims": [{"name": name, "resourceClaimTemplateName": name} for name in job.claims if trains],
                "hostNetwork": job.host_network,
                "dnsPolicy": "ClusterFirstWithHostNet" if job.host_network else "",
                "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
                "tolerations": job.tolerations,
                "nodeSelector": job.node_selector,
                "priorityClassName": job.priority_class,
                "schedulerName": job.scheduler_name
                or _SCHEDULERS.get("volcano" if job.kind == "vcjob" else job.gang, ""),
                "affinity": _anti_affinity(job) if trains and job.spread else {},
            }
        ),
    }
    return {"metadata": _pod_metadata(job, trains), "spec": spec}


def _pod_metadata(job: Job, trains: bool) -> Object:
    labels = {**job.labels, JOB: job.name}
    annotations = dict(job.annotations)
    if trains and job.networks:
        annotations[NETWORKS] = ",".join(job.networks)
    if trains and job.gpu_topology:
        # What Alibaba Cloud's scheduler goes by on nodes labelled ack.node.gpu.schedule=topology.
        labels.update({"gpu-topology": job.name, "gpu-topology-replica": str(job.workers)})
    labels.update(_gang_labels(job) if trains else {})
    return filled({"labels": labels, "annotations": annotations})


def _container(job: Job, argv: list[str], own: t.Mapping[str, t.Any], mounts: list[Object], trains: bool) -> Object:
    amounts = job.pod_resources if trains else {}
    claims = [{"name": name} for name in job.claims if trains]
    security = {
        "capabilities": {"add": ["IPC_LOCK"]} if job.ipc_lock else {},
        "privileged": job.privileged,
    }
    return filled(
        {
            # PyTorchJob requires a container of this name (PyTorchJobDefaultContainerName).
            "name": "pytorch",
            "image": job.image,
            "imagePullPolicy": "IfNotPresent",
            # A command replaces the image's entry point.
            "command": [ENTRYPOINT, *argv] if argv and job.ssh else argv,
            "workingDir": job.working_dir,
            "env": _environment(job, own),
            "resources": filled({"requests": amounts, "limits": amounts, "claims": claims}),
            "securityContext": filled(security) if trains else {},
            "volumeMounts": mounts,
        }
    )


def _anti_affinity(job: Job) -> Object:
    # A launcher has no GPU and takes no other pod's place.
    expressions: list[Object] = [{"key": JOB, "operator": "In", "values": [job.name]}]
    if job.kind in MPI:
        expressions.append({"key": ROLES[job.kind], "operator": "NotIn", "values": ["launcher"]})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": expressions}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _gang_labels(job: Job) -> dict[str, str]:
    """Return the labels by which pods belong to their gang, where no operator says it."""
    if job.gang == "ack":
        # As arena puts them on the pods of an MPIJob (kubeflow/arena at 24c332d): the workers, and not the launcher.
        return {
            "pod-group.scheduling.sigs.k8s.io/name": job.name,
            "pod-group.scheduling.sigs.k8s.io/min-available": str(job.workers),
        }
    if job.gang == "scheduler-plugins" and job.kind == "pods":
        return {"scheduling.x-k8s.io/pod-group": job.name}
    return {}


__all__ = (
    "JOB",
    "NETWORKS",
    "ROLES",
    "Object",
    "filled",
    "needs_entrypoint",
    "open_mpi",
    "pod_template",
    "torch",
    "wrap_command",
)
