# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The Kubernetes objects of a training job."""

from __future__ import annotations

import hashlib
import json
import typing as t

from .bundle import FILE, bundle
from .options import Job, JobError, read

Object = t.Dict[str, t.Any]

# On every object and pod of a job: the job's name.
JOB = "rdmaops.gpu-fabric/job"
# On the objects: what the job was made of. Pods cannot be changed afterwards, and operators do not look again.
SPEC = "rdmaops.gpu-fabric/job-spec"
# On pods of kind pods: how many there are.
SIZE = "rdmaops.gpu-fabric/job-size"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
# Beside the programs that the role training_image puts into an image.
BUNDLE = "/opt/rdmaops/job"
# What an image of the role training_image starts sshd with, and where it looks for keys.
ENTRYPOINT = "/usr/local/sbin/training-entrypoint"
KEYS = "/etc/training-ssh"

# The location of a kind's objects, and of pods in them: {kind: (apiVersion, kind, plural)}.
CUSTOM = {
    "mpijob": ("kubeflow.org/v2beta1", "MPIJob", "mpijobs"),
    "pytorchjob": ("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    "vcjob": ("batch.volcano.sh/v1alpha1", "Job", "jobs"),
}
GROUPS = {
    "volcano": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "scheduler-plugins": ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
}
# A gang is kept by the scheduler of that name, as its own charts call it.
_SCHEDULERS = {"volcano": "volcano", "scheduler-plugins": "scheduler-plugins-scheduler"}


def objects(options: t.Any) -> list[Object]:
    """Return the manifests of a job, whole and in the order in which they are made."""
    job = read(options)
    made = _MAKERS[job.kind](job)
    if _begins(job):
        # The program's sources are not part of the job's options: a newer release may have others.
        made.insert(0, _object(job, "v1", "ConfigMap", {"binaryData": {FILE: bundle()}}))
    digest = hashlib.sha256(json.dumps(_made_of(job), sort_keys=True).encode()).hexdigest()[:16]
    for one in made:
        if one["kind"] != "ConfigMap":
            one["metadata"]["annotations"] = {**one["metadata"].get("annotations", {}), SPEC: digest}
    return made


def references(kind: str, name: str, namespace: str, gang: str, pods: t.Sequence[str]) -> list[Object]:
    """Return what there may be of a job, for its removal: kinds and names."""
    found = [("v1", "ConfigMap", name)]
    # The operator of an MPIJob has a Secret of that name for itself.
    if kind != "mpijob":
        found.append(("v1", "Secret", name + "-ssh"))
    if kind == "pods":
        found += [("v1", "Pod", pod) for pod in pods] + [("v1", "Service", name)]
        if gang in GROUPS:
            found.append((*GROUPS[gang], name))
    elif kind in CUSTOM:
        found.append((CUSTOM[kind][0], CUSTOM[kind][1], name))
    else:
        raise JobError("Removing the job %s/%s: unknown kind %r" % (namespace, name, kind))
    return [
        {"apiVersion": version, "kind": what, "metadata": {"name": one, "namespace": namespace}}
        for version, what, one in found
    ]


def templates(manifests: t.Sequence[Object]) -> list[tuple[int, Object]]:
    """Return the pods that manifests request: how many of each, and what it is (metadata and spec)."""
    found: list[tuple[int, Object]] = []
    for one in manifests:
        spec = one.get("spec") or {}
        if one["kind"] == "Pod":
            found.append((1, one))
        elif one["kind"] == "MPIJob":
            found += [(part["replicas"], part["template"]) for part in spec["mpiReplicaSpecs"].values()]
        elif one["kind"] == "PyTorchJob":
            found += [(part["replicas"], part["template"]) for part in spec["pytorchReplicaSpecs"].values()]
        elif one["apiVersion"] == CUSTOM["vcjob"][0]:
            found += [(part["replicas"], part["template"]) for part in spec["tasks"]]
    return found


def _made_of(job: Job) -> t.Any:
    """Return the options that show in the objects: an option added by a later release is its default in older jobs."""
    unseen = {"require_digest"} | (
        set() if job.nccl_env == "pod" else {"nccl_env_options", "rdma_required", "rdma_wait"}
    )
    return {
        name: value
        for name, value in job._asdict().items()
        if name not in unseen and value != Job._field_defaults.get(name)
    }


def _object(job: Job, version: str, kind: str, content: Object, name: str = "") -> Object:
    meta: Object = {"name": name or job.name, "namespace": job.namespace, "labels": {**job.labels, JOB: job.name}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **content}


# --- one pod --------------------------------------------------------------------------------------------------------


def _begins(job: Job) -> bool:
    """Whether the pods begin with our program."""
    return job.nccl_env == "pod" or bool(job.master_hosts_variable)


def _begin(job: Job, argv: list[str]) -> list[str]:
    if not _begins(job):
        return argv
    config: Object = {}
    if job.nccl_env == "pod":
        config = {"nccl": job.nccl_env_options, "required": job.rdma_required, "wait": job.rdma_wait}
    if job.master_hosts_variable:
        config["master_from"] = job.master_hosts_variable
    return ["python3", "%s/%s" % (BUNDLE, FILE), json.dumps(config, sort_keys=True), *argv]


def _environment(job: Job, own: t.Mapping[str, t.Any]) -> list[Object]:
    """Return the environment; ``own`` is what the role sets: texts, or {fieldPath} of the pod."""
    twice = sorted(set(own) & set(job.env))
    if twice:
        raise JobError(
            "Creating the job: env has %s, which the role itself sets. Use master_addr, master_port or ompi instead. "
            "Nothing was applied" % ", ".join(twice)
        )
    made: list[Object] = []
    for name, value in {**own, **job.env}.items():
        if isinstance(value, str):
            made.append({"name": name, "value": value})
        else:
            made.append({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", **value}}})
    return made


def _ompi(job: Job) -> dict[str, str]:
    """Return Open MPI's parameters as it takes them from the environment, of mpirun and of every rank."""
    return {"OMPI_MCA_" + name: value for name, value in job.ompi.items()}


def _torch(job: Job, rank: t.Any, master: str) -> dict[str, t.Any]:
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
    return {**own, **_ompi(job)}


def _volumes(job: Job) -> tuple[list[Object], list[Object]]:
    """Return volumes and where they are mounted."""
    volumes, mounts = [], []
    for one in job.volumes:
        volumes.append({"name": one["name"], **_source(one)})
        mount = {"name": one["name"], "mountPath": one["mount_path"]}
        if one.get("sub_path"):
            mount["subPath"] = one["sub_path"]
        if one.get("read_only"):
            mount["readOnly"] = True
        mounts.append(mount)
    if job.shm_size:
        volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": job.shm_size}})
        mounts.append({"name": "dshm", "mountPath": "/dev/shm"})
    if _begins(job):
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


def _pod(job: Job, argv: list[str], own: t.Mapping[str, t.Any], *, trains: bool = True) -> Object:
    """Return metadata and spec of a pod."""
    labels = {**job.labels, JOB: job.name}
    annotations = dict(job.annotations)
    if trains and job.networks:
        annotations[NETWORKS] = ",".join(job.networks)
    if trains and job.gpu_topology:
        # What Alibaba Cloud's scheduler goes by on nodes labelled ack.node.gpu.schedule=topology.
        labels.update({"gpu-topology": job.name, "gpu-topology-replica": str(job.workers)})
    labels.update(_gang_labels(job))
    # PyTorchJob wants a container of this name (PyTorchJobDefaultContainerName).
    container: Object = {"name": "pytorch", "image": job.image, "imagePullPolicy": "IfNotPresent"}
    if argv:
        # A command replaces the image's entry point.
        container["command"] = [ENTRYPOINT, *argv] if job.ssh else argv
    if job.working_dir:
        container["workingDir"] = job.working_dir
    environment = _environment(job, own)
    if environment:
        container["env"] = environment
    if trains and job.pod_resources:
        container["resources"] = {"requests": job.pod_resources, "limits": job.pod_resources}
    security: Object = {}
    if trains and job.ipc_lock:
        security["capabilities"] = {"add": ["IPC_LOCK"]}
    if trains and job.privileged:
        security["privileged"] = True
    if security:
        container["securityContext"] = security
    volumes, mounts = _volumes(job)
    if mounts:
        container["volumeMounts"] = mounts
    # The program talks to its peers, not to the API server.
    spec: Object = {"automountServiceAccountToken": False, "containers": [container]}
    if volumes:
        spec["volumes"] = volumes
    if job.host_network:
        spec.update(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    if job.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in job.pull_secrets]
    if job.tolerations:
        spec["tolerations"] = job.tolerations
    if job.node_selector:
        spec["nodeSelector"] = job.node_selector
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    scheduler = job.scheduler_name or _SCHEDULERS.get("volcano" if job.kind == "vcjob" else job.gang, "")
    if scheduler:
        spec["schedulerName"] = scheduler
    if trains and job.spread:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_apart(job)]}}
    meta: Object = {"labels": labels}
    if annotations:
        meta["annotations"] = annotations
    return {"metadata": meta, "spec": spec}


def _apart(job: Job) -> Object:
    # A launcher has no GPU and takes no other pod's place.
    wanted: list[Object] = [{"key": JOB, "operator": "In", "values": [job.name]}]
    if job.kind == "mpijob":
        wanted.append({"key": "training.kubeflow.org/job-role", "operator": "NotIn", "values": ["launcher"]})
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": wanted}}


def _gang_labels(job: Job) -> dict[str, str]:
    """Return the labels by which pods without an operator belong to their gang."""
    if job.kind != "pods":
        return {}
    if job.gang == "scheduler-plugins":
        return {"scheduling.x-k8s.io/pod-group": job.name}
    if job.gang == "ack":
        return {
            "pod-group.scheduling.sigs.k8s.io/name": job.name,
            "pod-group.scheduling.sigs.k8s.io/min-available": str(job.pods),
        }
    return {}


# --- the kinds ------------------------------------------------------------------------------------------------------


def _pods(job: Job) -> list[Object]:
    """Return single pods with fixed ranks, found by name through a Service without its own address."""
    service = {
        "clusterIP": "None",
        # A rank looks for the master before that is ready.
        "publishNotReadyAddresses": True,
        "selector": {JOB: job.name},
        "ports": [{"name": "master", "port": job.master_port, "protocol": "TCP", "targetPort": job.master_port}],
    }
    made = [_object(job, "v1", "Service", {"spec": service})]
    if job.gang in GROUPS:
        content: Object = {"minMember": job.pods}
        if job.gang == "volcano" and job.queue:
            content["queue"] = job.queue
        made.append(_object(job, *GROUPS[job.gang], {"spec": content}))
    for rank in range(job.workers):
        pod = _pod(job, _begin(job, job.command), _torch(job, str(rank), "%s-0.%s" % (job.name, job.name)))
        name = "%s-%d" % (job.name, rank)
        pod["spec"].update(restartPolicy="Never", hostname=name, subdomain=job.name)
        one = _object(job, "v1", "Pod", {"spec": pod["spec"]}, name)
        one["metadata"]["labels"] = pod["metadata"]["labels"]
        one["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), SIZE: str(job.workers)}
        if job.gang == "volcano":
            # KubeGroupNameAnnotationKey in volcano.sh/apis, scheduling/v1beta1.
            one["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = job.name
        made.append(one)
    return made


def _custom(job: Job, spec: Object) -> list[Object]:
    version, kind, _plural = CUSTOM[job.kind]
    one = _object(job, version, kind, {"spec": spec})
    if job.annotations:
        one["metadata"]["annotations"] = dict(job.annotations)
    return [one]


def _run_policy(job: Job) -> Object:
    """Return the policy of Kubeflow's operators: GPUs are free when the job has ended, logs of what has ended stay."""
    policy: Object = {"cleanPodPolicy": "Running"}
    if job.gang != "none":
        policy["schedulingPolicy"] = {"minAvailable": job.pods}
        if job.queue:
            policy["schedulingPolicy"]["queue"] = job.queue
    return policy


def _mpijob(job: Job) -> list[Object]:
    """Return a launcher that runs mpirun, and workers that run sshd."""
    slots = job.gpus or 1
    argv = job.command
    if job.mpirun:
        argv = ["mpirun", "--allow-run-as-root", "-np", str(slots * job.workers)]
        # Ranks come by ssh: they have nothing of the environment that their pod was given.
        for name in job.env:
            argv += ["-x", name]
        argv += job.mpirun_args + _begin(job, job.command)
    # Without a command the operator has workers run sshd (newWorker in mpi_job_controller.go).
    worker = {"replicas": job.workers, "restartPolicy": "Never", "template": _pod(job, [], _ompi(job))}
    launcher = {"replicas": 1, "restartPolicy": "OnFailure", "template": _pod(job, argv, _ompi(job), trains=False)}
    spec: Object = {
        "slotsPerWorker": slots,
        "runPolicy": _run_policy(job),
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
    }
    if job.gang == "none":
        # With a gang it would be a deadlock: the scheduler waits for the launcher, and the operator for the workers
        # (kubeflow/mpi-operator issue 608).
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    return _custom(job, spec)


def _pytorchjob(job: Job) -> list[Object]:
    """Return a master and workers, to whom the operator gives ranks and the master's address."""
    template = _pod(job, _begin(job, job.command), _ompi(job))
    spec = {
        "runPolicy": _run_policy(job),
        "nprocPerNode": job.nproc_per_node,
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "restartPolicy": "Never", "template": template},
            "Worker": {"replicas": job.workers - 1, "restartPolicy": "Never", "template": template},
        },
    }
    return _custom(job, spec)


def _vcjob(job: Job) -> list[Object]:
    """Return one task, whose pods Volcano numbers and whose hosts it lists in VC_<TASK>_HOSTS."""
    # What Volcano's controller gives every pod (TaskIndex in its labels.go), and the host names of its plugin svc.
    rank = {"fieldPath": "metadata.annotations['volcano.sh/task-index']"}
    master = "%s-%s-0.%s" % (job.name, job.task_name, job.name)
    template = _pod(job, _begin(job, job.command), _torch(job, rank, master))
    template["spec"]["restartPolicy"] = "Never"
    spec: Object = {
        "schedulerName": "volcano",
        "minAvailable": job.pods,
        "maxRetry": 1,
        "plugins": {"env": [], "svc": []},
        "policies": [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}],
        "tasks": [
            {
                "name": job.task_name,
                "replicas": job.workers,
                "minAvailable": job.workers,
                "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
                "template": template,
            },
        ],
    }
    if job.queue:
        spec["queue"] = job.queue
    return _custom(job, spec)


_MAKERS: dict[str, t.Callable[[Job], list[Object]]] = {
    "pods": _pods,
    "mpijob": _mpijob,
    "pytorchjob": _pytorchjob,
    "vcjob": _vcjob,
}

__all__ = ("CUSTOM", "GROUPS", "JOB", "NETWORKS", "SIZE", "SPEC", "objects", "references", "templates")
