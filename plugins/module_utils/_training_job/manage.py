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
from .options import MPI, Job, JobError, read

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
# Where the MPI Operator lists the workers (configMountPath and hostfileName in mpi_job_controller.go).
HOSTS = "/etc/mpi/hostfile"

# The location of a kind's objects, and of pods in them: {kind: (apiVersion, kind, plural)}.
CUSTOM = {
    "mpijob": ("kubeflow.org/v2beta1", "MPIJob", "mpijobs"),
    "mpijob-v1alpha1": ("kubeflow.org/v1alpha1", "MPIJob", "mpijobs"),
    "pytorchjob": ("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    "vcjob": ("batch.volcano.sh/v1alpha1", "Job", "jobs"),
}
GROUPS = {
    "volcano": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "scheduler-plugins": ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
}
# The label by which an operator says which pod is the launcher.
_ROLES = {"mpijob": "training.kubeflow.org/job-role", "mpijob-v1alpha1": "mpi_role_type"}
# Between the names of an MPIJob and of a worker; of v1alpha1 also the StatefulSet of workers, and the Service that it
# names (newWorker in pkg/controllers/v1alpha1/mpi_job_controller.go, kubeflow/mpi-operator at 111dffd).
_WORKERS = "-worker"
# A gang is kept by the scheduler of that name, as its own charts call it.
_SCHEDULERS = {"volcano": "volcano", "scheduler-plugins": "scheduler-plugins-scheduler"}


def objects(options: t.Any) -> list[Object]:
    """Return the manifests of a job, whole and in the order in which they are created."""
    job = read(options)
    manifests = _MAKERS[job.kind](job)
    if _needs_entrypoint(job):
        # The program's sources are not part of the job's options: a newer release may have others.
        manifests.insert(0, _object(job, "v1", "ConfigMap", {"binaryData": {FILE: bundle()}}))
    digest = hashlib.sha256(json.dumps(_visible_options(job), sort_keys=True).encode()).hexdigest()[:16]
    for manifest in manifests:
        if manifest["kind"] != "ConfigMap":
            meta = manifest["metadata"]
            meta["annotations"] = {**meta.get("annotations", {}), SPEC: digest}
    return manifests


def references(kind: str, name: str, namespace: str, gang: str, pods: t.Sequence[str]) -> list[Object]:
    """Return what there may be of a job, for its removal: kinds and names."""
    resources = [("v1", "ConfigMap", name)]
    # The operator of an MPIJob has a Secret of that name for itself.
    if kind not in MPI:
        resources.append(("v1", "Secret", name + "-ssh"))
    if kind == "mpijob-v1alpha1":
        resources.append(("v1", "Service", name + _WORKERS))
    if kind == "pods":
        resources += [("v1", "Pod", pod) for pod in pods] + [("v1", "Service", name)]
        if gang in GROUPS:
            resources.append((*GROUPS[gang], name))
    elif kind in CUSTOM:
        resources.append((CUSTOM[kind][0], CUSTOM[kind][1], name))
    else:
        raise JobError("Removing the job %s/%s: unknown kind %r" % (namespace, name, kind))
    return [
        {"apiVersion": version, "kind": object_kind, "metadata": {"name": object_name, "namespace": namespace}}
        for version, object_kind, object_name in resources
    ]


def templates(manifests: t.Sequence[Object]) -> list[tuple[int, Object]]:
    """Return the pods that manifests request: how many of each, and what it is (metadata and spec)."""
    pods: list[tuple[int, Object]] = []
    for manifest in manifests:
        spec = manifest.get("spec") or {}
        if manifest["kind"] == "Pod":
            pods.append((1, manifest))
        elif manifest["apiVersion"] == CUSTOM["mpijob-v1alpha1"][0]:
            pods.append((spec["replicas"], spec["template"]))
        elif manifest["kind"] == "MPIJob":
            pods += [(part["replicas"], part["template"]) for part in spec["mpiReplicaSpecs"].values()]
        elif manifest["kind"] == "PyTorchJob":
            pods += [(part["replicas"], part["template"]) for part in spec["pytorchReplicaSpecs"].values()]
        elif manifest["apiVersion"] == CUSTOM["vcjob"][0]:
            pods += [(part["replicas"], part["template"]) for part in spec["tasks"]]
    return pods


def _visible_options(job: Job) -> t.Any:
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


def _needs_entrypoint(job: Job) -> bool:
    """Whether the pods begin with our program."""
    return job.nccl_env == "pod" or bool(job.master_hosts_variable)


def _wrap_command(job: Job, argv: list[str]) -> list[str]:
    if not _needs_entrypoint(job):
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
    if _needs_entrypoint(job):
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


def _filled(manifest: Object) -> Object:
    """Return a part of a manifest without the keys whose value is empty."""
    return {key: value for key, value in manifest.items() if value}


def _pod(job: Job, argv: list[str], own: t.Mapping[str, t.Any], *, trains: bool = True) -> Object:
    """Return metadata and spec of a pod."""
    volumes, mounts = _volumes(job)
    spec = {
        # The program talks to its peers, not to the API server.
        "automountServiceAccountToken": False,
        "containers": [_container(job, argv, own, mounts, trains)],
        **_filled(
            {
                "volumes": volumes,
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
    return _filled({"labels": labels, "annotations": annotations})


def _container(job: Job, argv: list[str], own: t.Mapping[str, t.Any], mounts: list[Object], trains: bool) -> Object:
    resources = job.pod_resources if trains else {}
    security = {
        "capabilities": {"add": ["IPC_LOCK"]} if job.ipc_lock else {},
        "privileged": job.privileged,
    }
    return _filled(
        {
            # PyTorchJob requires a container of this name (PyTorchJobDefaultContainerName).
            "name": "pytorch",
            "image": job.image,
            "imagePullPolicy": "IfNotPresent",
            # A command replaces the image's entry point.
            "command": [ENTRYPOINT, *argv] if argv and job.ssh else argv,
            "workingDir": job.working_dir,
            "env": _environment(job, own),
            "resources": {"requests": resources, "limits": resources} if resources else {},
            "securityContext": _filled(security) if trains else {},
            "volumeMounts": mounts,
        }
    )


def _anti_affinity(job: Job) -> Object:
    # A launcher has no GPU and takes no other pod's place.
    expressions: list[Object] = [{"key": JOB, "operator": "In", "values": [job.name]}]
    if job.kind in MPI:
        expressions.append({"key": _ROLES[job.kind], "operator": "NotIn", "values": ["launcher"]})
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


# --- the kinds ------------------------------------------------------------------------------------------------------


def _service(job: Job, name: str, selector: dict[str, str]) -> Object:
    """Return a Service without its own address: pods whose subdomain is its name have names in DNS."""
    spec = {
        "clusterIP": "None",
        # A rank looks for the master before that is ready.
        "publishNotReadyAddresses": True,
        "selector": selector,
        "ports": [{"name": "master", "port": job.master_port, "protocol": "TCP", "targetPort": job.master_port}],
    }
    return _object(job, "v1", "Service", {"spec": spec}, name)


def _pods(job: Job) -> list[Object]:
    """Return single pods with fixed ranks, found by name through a Service without its own address."""
    manifests = [_service(job, job.name, {JOB: job.name})]
    if job.gang in GROUPS:
        content: Object = {"minMember": job.pods}
        if job.gang == "volcano" and job.queue:
            content["queue"] = job.queue
        manifests.append(_object(job, *GROUPS[job.gang], {"spec": content}))
    for rank in range(job.workers):
        template = _pod(job, _wrap_command(job, job.command), _torch(job, str(rank), "%s-0.%s" % (job.name, job.name)))
        name = "%s-%d" % (job.name, rank)
        template["spec"].update(restartPolicy="Never", hostname=name, subdomain=job.name)
        pod = _object(job, "v1", "Pod", {"spec": template["spec"]}, name)
        pod["metadata"]["labels"] = template["metadata"]["labels"]
        pod["metadata"]["annotations"] = {**template["metadata"].get("annotations", {}), SIZE: str(job.workers)}
        if job.gang == "volcano":
            # KubeGroupNameAnnotationKey in volcano.sh/apis, scheduling/v1beta1.
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = job.name
        manifests.append(pod)
    return manifests


def _custom(job: Job, spec: Object) -> list[Object]:
    version, kind, _plural = CUSTOM[job.kind]
    manifest = _object(job, version, kind, {"spec": spec})
    if job.annotations:
        manifest["metadata"]["annotations"] = dict(job.annotations)
    return [manifest]


def _run_policy(job: Job) -> Object:
    """Return the policy of Kubeflow's operators: GPUs are free when the job has ended, logs of what has ended stay."""
    policy: Object = {"cleanPodPolicy": "Running"}
    if job.gang not in ("none", "ack"):
        policy["schedulingPolicy"] = {"minAvailable": job.pods}
        if job.queue:
            policy["schedulingPolicy"]["queue"] = job.queue
    return policy


def _mpirun(job: Job, arguments: list[str], variables: t.Mapping[str, str]) -> list[str]:
    """Return the launcher's command."""
    if not job.mpirun:
        return job.command
    argv = ["mpirun", "--allow-run-as-root", *arguments, "-np", str(job.slots * job.workers)]
    # Ranks have nothing of the environment that their pod was given, as they are started from the launcher.
    exports = ["%s=%s" % (name, value) for name, value in variables.items() if name not in job.env]
    for name in [*exports, *job.env]:
        argv += ["-x", name]
    return argv + job.mpirun_args + _wrap_command(job, job.command)


def _master(job: Job, service: str) -> dict[str, str]:
    """Return where rank 0 is, on the first worker: mpirun does not say it, and torch.distributed needs it."""
    return {"MASTER_ADDR": "%s%s-0.%s" % (job.name, _WORKERS, service), "MASTER_PORT": str(job.master_port)}


def _arena_mpijob(job: Job) -> list[Object]:
    """Return one template, as the chart mpijob of arena does: its operator makes launcher and workers of it.

    Fields are those of the definition that arena brings (kubeflow/arena at 0cc88e2, kubeflow.org_mpijobs_v1.yaml). The
    launcher reaches the workers by kubectl exec, and finds them by variables of the operator.

    The workers are a StatefulSet, whose pods have the name of a Service as their subdomain (initIdentity in Kubernetes'
    stateful_set_utils.go). The operator does not create this Service; with it, worker 0, on which mpirun starts rank 0,
    has a name (ShouldSetHostname in controller_utils.go).
    """
    workers = job.name + _WORKERS
    service = _service(job, workers, {JOB: job.name, _ROLES[job.kind]: "worker"})
    template = _pod(job, _mpirun(job, _arena_mapping(job), _master(job, workers)), _ompi(job))
    template["spec"]["restartPolicy"] = "Never"
    # kubectl in the launcher uses the token of the account that the operator makes for it.
    del template["spec"]["automountServiceAccountToken"]
    spec = {"replicas": job.workers, "cleanPodPolicy": "Running", "backoffLimit": 0, "template": template}
    return [service, *_custom(job, spec)]


def _arena_mapping(job: Job) -> list[str]:
    """Return mpirun's mapping.

    The operator lists a worker with one slot for each of its GPUs (newConfigMap), and mpirun fills the first worker
    first.
    """
    own = any(argument.endswith("-map-by") for argument in job.mpirun_args)
    return [] if own or not job.nproc_per_node.isdigit() else ["--map-by", "ppr:%d:node" % job.slots]


def _mpijob(job: Job) -> list[Object]:
    """Return a launcher that runs mpirun, and workers that run sshd."""
    # The operator names the file to Open MPI 4 only (OMPI_MCA_orte_default_hostfile).
    argv = _mpirun(job, ["--hostfile", HOSTS], _master(job, job.name))
    # Without a command the operator has workers run sshd (newWorker in mpi_job_controller.go).
    worker = {"replicas": job.workers, "restartPolicy": "Never", "template": _pod(job, [], _ompi(job))}
    launcher = {"replicas": 1, "restartPolicy": "OnFailure", "template": _pod(job, argv, _ompi(job), trains=False)}
    spec: Object = {
        "slotsPerWorker": job.slots,
        "runPolicy": _run_policy(job),
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
    }
    if job.gang in ("none", "ack"):
        # With a gang it would be a deadlock: the scheduler waits for the launcher, and the operator for the workers
        # (kubeflow/mpi-operator issue 608).
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    return _custom(job, spec)


def _pytorchjob(job: Job) -> list[Object]:
    """Return a master and workers, to whom the operator gives ranks and the master's address."""
    template = _pod(job, _wrap_command(job, job.command), _ompi(job))
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
    template = _pod(job, _wrap_command(job, job.command), _torch(job, rank, master))
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
    "mpijob-v1alpha1": _arena_mpijob,
    "pytorchjob": _pytorchjob,
    "vcjob": _vcjob,
}

__all__ = ("CUSTOM", "GROUPS", "JOB", "NETWORKS", "SIZE", "SPEC", "objects", "references", "templates")
