# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a training job is to each operator: pods of ours, or one object of the operator's kind."""

from __future__ import annotations

import typing as t

from .options import Job
from .pod import JOB, ROLES, Object, filled, open_mpi, pod_template, torch, wrap_command

# On pods of kind pods: how many there are.
SIZE = "rdmaops.gpu-fabric/job-size"
# Where the MPI Operator lists the workers (configMountPath and hostfileName in mpi_job_controller.go).
HOSTS = "/etc/mpi/hostfile"
# DNS may not have the names of all workers yet when the launcher starts, for a minute at most.
_WAIT_FOR_NAMES = (
    "for host in $(cut -d ' ' -f 1 %s); do "
    'for try in $(seq 60); do getent hosts "$host" >/dev/null && break; sleep 1; done; done; exec "$@"' % HOSTS
)

# The location of a kind's objects: {kind: (apiVersion, kind, plural)}.
CUSTOM = {
    "mpijob": ("kubeflow.org/v2beta1", "MPIJob", "mpijobs"),
    "mpijob-v1alpha1": ("kubeflow.org/v1alpha1", "MPIJob", "mpijobs"),
    "pytorchjob": ("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    "vcjob": ("batch.volcano.sh/v1alpha1", "Job", "jobs"),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    "trainjob": ("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
}
GROUPS = {
    "volcano": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "scheduler-plugins": ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
}
# Kueue's names for a queue, and for pods that it admits together (constants/constants.go and
# jobs/pod/constants/constants.go in pkg/controller of kueue v0.17.0).
QUEUE = "kueue.x-k8s.io/queue-name"
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
# Kueue keeps a pod that has ended or is deleted for another to take its place, unless the pod says that none will.
POD_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
# What a Job of mode Indexed gives each of its pods (JobCompletionIndexAnnotation in k8s.io/api/batch/v1).
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# The replicated job and the container that Trainer gives a TrainJob's image and command (constants.Node of v2.3.0).
NODE = "node"
# Whose patch of a runtime it is: DOMAIN/NAME (IsDomainPrefixedPath in Validate() of its plugins/jobset/jobset.go).
PATCHER = "rdmaops.gpu-fabric/training-job"
# What a patch of a runtime may say of a pod and of a container (PodSpecPatch and ContainerPatch in trainjob_types.go).
_POD_PATCH = ("volumes", "imagePullSecrets", "nodeSelector", "affinity", "tolerations")
_CONTAINER_PATCH = ("volumeMounts", "securityContext")
# Between the names of an MPIJob and of a worker; of v1alpha1 also the StatefulSet of workers, and the Service that it
# names (newWorker in pkg/controllers/v1alpha1/mpi_job_controller.go, kubeflow/mpi-operator at 111dffd).
WORKERS = "-worker"


def api_object(job: Job, version: str, kind: str, content: Object, name: str = "") -> Object:
    meta: Object = {"name": name or job.name, "namespace": job.namespace, "labels": {**job.labels, JOB: job.name}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **content}


def _service(job: Job, name: str, selector: dict[str, str]) -> Object:
    """Return a Service without its own address: pods whose subdomain is its name have names in DNS."""
    spec = {
        "clusterIP": "None",
        # A rank looks for the master before that is ready.
        "publishNotReadyAddresses": True,
        "selector": selector,
        "ports": [{"name": "master", "port": job.master_port, "protocol": "TCP", "targetPort": job.master_port}],
    }
    return api_object(job, "v1", "Service", {"spec": spec}, name)


def _pods(job: Job) -> list[Object]:
    """Return single pods with fixed ranks, found by name through a Service without its own address."""
    manifests = [_service(job, job.name, {JOB: job.name})]
    if job.gang in GROUPS:
        content: Object = {"minMember": job.pods}
        if job.gang == "volcano" and job.queue:
            content["queue"] = job.queue
        manifests.append(api_object(job, *GROUPS[job.gang], {"spec": content}))
    for rank in range(job.workers):
        template = pod_template(
            job, wrap_command(job, job.command), torch(job, str(rank), "%s-0.%s" % (job.name, job.name))
        )
        name = "%s-%d" % (job.name, rank)
        template["spec"].update(restartPolicy="Never", hostname=name, subdomain=job.name)
        pod = api_object(job, "v1", "Pod", {"spec": template["spec"]}, name)
        pod["metadata"]["labels"] = template["metadata"]["labels"]
        pod["metadata"]["annotations"] = {**template["metadata"].get("annotations", {}), SIZE: str(job.workers)}
        if job.gang == "kueue":
            pod["metadata"]["labels"].update({QUEUE: job.queue, POD_GROUP: job.name})
            pod["metadata"]["annotations"].update({POD_GROUP_SIZE: str(job.workers), POD_RETRIABLE: "false"})
        if job.gang == "volcano":
            # KubeGroupNameAnnotationKey in volcano.sh/apis, scheduling/v1beta1.
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = job.name
        manifests.append(pod)
    return manifests


def _custom(job: Job, spec: Object) -> list[Object]:
    version, kind, _plural = CUSTOM[job.kind]
    manifest = api_object(job, version, kind, {"spec": spec})
    if job.gang == "kueue":
        manifest["metadata"]["labels"][QUEUE] = job.queue
    if job.annotations:
        manifest["metadata"]["annotations"] = dict(job.annotations)
    return [manifest]


def _run_policy(job: Job) -> Object:
    """Return the policy of Kubeflow's operators: GPUs are free when the job has ended, logs of what has ended stay."""
    policy: Object = {"cleanPodPolicy": "Running"}
    if job.gang in GROUPS:
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
    return argv + job.mpirun_args + wrap_command(job, job.command)


def _master(job: Job, service: str) -> dict[str, str]:
    """Return where rank 0 is, on the first worker: mpirun does not say it, and torch.distributed needs it."""
    return {"MASTER_ADDR": "%s%s-0.%s" % (job.name, WORKERS, service), "MASTER_PORT": str(job.master_port)}


def _arena_mpijob(job: Job) -> list[Object]:
    """Return one template, as the chart mpijob of arena does: its operator makes launcher and workers of it.

    Fields are those of the definition that arena brings (kubeflow/arena at 0cc88e2, kubeflow.org_mpijobs_v1.yaml). The
    launcher reaches the workers by kubectl exec, and finds them by variables of the operator.

    The workers are a StatefulSet, whose pods have the name of a Service as their subdomain (initIdentity in Kubernetes'
    stateful_set_utils.go). The operator does not create this Service; with it, worker 0, on which mpirun starts rank 0,
    has a name (ShouldSetHostname in controller_utils.go).
    """
    workers = job.name + WORKERS
    service = _service(job, workers, {JOB: job.name, ROLES[job.kind]: "worker"})
    template = pod_template(job, _mpirun(job, _arena_mapping(job), _master(job, workers)), open_mpi(job))
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
    argv = ["sh", "-c", _WAIT_FOR_NAMES, "sh", *_mpirun(job, ["--hostfile", HOSTS], _master(job, job.name))]
    # Without a command the operator has workers run sshd (newWorker in mpi_job_controller.go).
    worker = pod_template(job, [], open_mpi(job))
    launcher = pod_template(job, argv, open_mpi(job), trains=False)
    spec: Object = {
        "slotsPerWorker": job.slots,
        # A restarted launcher would run all ranks from the start, and retry a wrong command for minutes.
        "runPolicy": {**_run_policy(job), "backoffLimit": 0},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            "Worker": {"replicas": job.workers, "restartPolicy": "Never", "template": worker},
        },
    }
    if job.gang not in GROUPS:
        # With a gang it would be a deadlock: the scheduler waits for the launcher, and the operator for the workers
        # (kubeflow/mpi-operator issue 608).
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    return _custom(job, spec)


def _pytorchjob(job: Job) -> list[Object]:
    """Return a master and workers, to whom the operator gives ranks and the master's address."""
    template = pod_template(job, wrap_command(job, job.command), open_mpi(job))
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
    template = pod_template(job, wrap_command(job, job.command), torch(job, rank, master))
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


def _jobset(job: Job) -> list[Object]:
    """Return one Job whose pods have an index, which is their rank; the JobSet gives them names in DNS."""
    # Pods are JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX, in the domain of a Service that has the JobSet's name
    # (GetSubdomain() and GenPodName() of jobset v0.12.0).
    master = "%s-%s-0-0.%s" % (job.name, job.task_name, job.name)
    template = pod_template(job, wrap_command(job, job.command), torch(job, {"fieldPath": _INDEX}, master))
    template["spec"]["restartPolicy"] = "Never"
    batch = {
        "parallelism": job.workers,
        "completions": job.workers,
        "completionMode": "Indexed",
        # A pod that is started again finds no peers: they wait for the one that has ended.
        "backoffLimit": 0,
        "template": template,
    }
    spec = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": job.task_name, "replicas": 1, "template": {"spec": batch}}],
    }
    return _custom(job, spec)


def _trainjob(job: Job) -> list[Object]:
    """Return what differs from a runtime, which has the pod; Trainer makes a JobSet of both.

    It sets torchrun's variables (plugins/torch/torch.go), and a job may not.
    """
    template = pod_template(job, wrap_command(job, job.command), open_mpi(job))
    (container,) = template["spec"]["containers"]
    trainer = filled(
        {
            "image": container["image"],
            "command": container["command"],
            "env": container.get("env"),
            "numNodes": job.workers,
            "numProcPerNode": int(job.nproc_per_node) if job.nproc_per_node.isdigit() else 0,
            "resourcesPerNode": container.get("resources"),
        }
    )
    patch = {key: template["spec"][key] for key in _POD_PATCH if key in template["spec"]}
    details = {key: container[key] for key in _CONTAINER_PATCH if key in container}
    if details:
        patch["containers"] = [{"name": NODE, **details}]
    pods = {"template": {"spec": {"template": {"metadata": template["metadata"], "spec": patch}}}}
    spec = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": job.runtime_kind, "name": job.runtime},
        "trainer": trainer,
        "runtimePatches": [
            {
                "manager": PATCHER,
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": NODE, **pods}]}}},
            }
        ],
    }
    return _custom(job, spec)


def patched_pod(spec: Object) -> tuple[int, Object]:
    """Return how many pods a TrainJob is, and what it says of one."""
    trainer = spec["trainer"]
    (patch,) = [patch for patch in spec["runtimePatches"] if patch["manager"] == PATCHER]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]
    more = (pod["spec"].get("containers") or [{}])[0]
    container = {
        "name": NODE,
        **more,
        **filled({"image": trainer["image"], "command": trainer["command"], "env": trainer.get("env")}),
        "resources": trainer.get("resourcesPerNode") or {},
    }
    return trainer["numNodes"], {"metadata": pod["metadata"], "spec": {**pod["spec"], "containers": [container]}}


MAKERS: dict[str, t.Callable[[Job], list[Object]]] = {
    "pods": _pods,
    "mpijob": _mpijob,
    "mpijob-v1alpha1": _arena_mpijob,
    "pytorchjob": _pytorchjob,
    "vcjob": _vcjob,
    "jobset": _jobset,
    "trainjob": _trainjob,
}

__all__ = (
    "CUSTOM",
    "GROUPS",
    "MAKERS",
    "NODE",
    "POD_GROUP",
    "QUEUE",
    "SIZE",
    "WORKERS",
    "api_object",
    "patched_pod",
)
