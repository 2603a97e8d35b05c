# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The options of a training job, checked before anything is created from them."""

from __future__ import annotations

import re
import typing as t

from .._errors import FabricError
from .._rails.nccl_env import DEBUG, GID_INDEX, class_variables, socket_variables
from .._rails.ports import FAMILIES, RailsError

KINDS = ("pods", "mpijob", "mpijob-v1alpha1", "pytorchjob", "vcjob", "jobset", "trainjob")
# An operator's launcher starts the ranks by mpirun. v1alpha1 is the MPIJob of arena.
MPI = ("mpijob", "mpijob-v1alpha1")
# Those whose operator says where the master is.
_OPERATORS = (*MPI, "pytorchjob", "trainjob")
GANGS = ("none", "volcano", "scheduler-plugins", "ack", "kueue")
# Of kinds that not every gang is for: those that are, and why no other.
_KIND_GANGS = {
    "mpijob-v1alpha1": (("none", "ack"), "an MPIJob of v1alpha1 has no policy for a scheduler"),
    "vcjob": (("none", "volcano"), "a vcjob is scheduled by Volcano, which schedules gangs itself"),
    "jobset": (("none", "ack", "kueue"), "a JobSet has no policy for a scheduler"),
    "trainjob": (("none", "kueue"), "the scheduler of a TrainJob's pods is part of its runtime (podGroupPolicy)"),
}
RUNTIME_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
# What a patch of a runtime has no place for (PodSpecPatch and ContainerPatch in trainjob_types.go of trainer v2.3.0).
_OF_RUNTIME = ("host_network", "claims", "scheduler_name", "priority_class", "working_dir", "ssh")
NCCL = ("none", "pod")
# Of the filter nccl_env, and the choices of those that have some.
NCCL_OPTIONS: dict[str, tuple[str, ...]] = {
    "include": (),
    "exclude": (),
    "socket_ifname": (),
    "family": FAMILIES,
    "gid_index": GID_INDEX,
    "debug": DEBUG,
    "socket_family": FAMILIES,
    "socket_nthreads": (),
    "nsocks_perthread": (),
    "service_level": (),
    "traffic_class": (),
}
_SOCKETS = ("socket_ifname", "socket_family", "socket_nthreads", "nsocks_perthread")
_CLASSES = ("service_level", "traffic_class")
# Names of what the role itself mounts.
OWN_VOLUMES = ("dshm", "rdmaops", "training-ssh")
VOLUMES = ("claim", "host_path", "config_map", "secret", "nfs", "empty_dir")

# Pods are NAME-INDEX (of Volcano NAME-TASK-INDEX), and that is their host name: 63 characters (RFC 1123). What is left
# is for indexes and for the suffixes of operators (-launcher-xxxxx).
NAME_MAX = 45
_HOST_NAME_MAX = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# resource.Quantity in apimachinery, without signs.
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?\Z")
# IsExtendedResourceName in Kubernetes' helpers.go wants a domain; these are Kubernetes' own.
_OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_EXTENDED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
# [NAMESPACE/]NAME[@INTERFACE], the short form of the Network Plumbing Working Group's specification.
_NETWORK = re.compile(r"(?:([a-z0-9][-a-z0-9]*)/)?([a-z0-9][-a-z0-9.]*)(?:@([^\s,@/:]{1,15}))?\Z")


class JobError(FabricError):
    """No job can be created from the options."""


class Job(t.NamedTuple):
    """The options, each with its default."""

    kind: str
    name: str
    image: str
    command: list[str]
    namespace: str = "default"
    workers: int = 2
    gpus: int = 1
    gpu_resource: str = "nvidia.com/gpu"
    resources: dict[str, str] = {}
    require_digest: bool = True
    pull_secrets: list[str] = []
    working_dir: str = ""
    host_network: bool = False
    networks: list[str] = []
    claims: list[str] = []
    shm_size: str = ""
    ipc_lock: bool = True
    privileged: bool = False
    volumes: list[dict[str, t.Any]] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    scheduler_name: str = ""
    priority_class: str = ""
    tolerations: list[dict[str, t.Any]] = []
    node_selector: dict[str, str] = {}
    spread: bool = True
    gang: str = "none"
    queue: str = ""
    gpu_topology: bool = False
    task_name: str = "worker"
    runtime: str = "torch-distributed"
    runtime_kind: str = "ClusterTrainingRuntime"
    master_addr: str = ""
    master_hosts_variable: str = ""
    master_port: int = 29500
    nproc_per_node: str = "auto"
    mpirun: bool = True
    mpirun_args: list[str] = []
    ompi: dict[str, str] = {}
    env: dict[str, str] = {}
    nccl_env: str = "none"
    nccl_env_options: dict[str, t.Any] = {}
    rdma_required: bool = False
    rdma_wait: int = 120
    ssh: bool = False

    @property
    def pod_resources(self) -> dict[str, str]:
        """What one pod that trains gets."""
        own = {self.gpu_resource: str(self.gpus)} if self.gpus else {}
        return {**self.resources, **own}

    @property
    def pods(self) -> int:
        """All pods that must exist at once."""
        return self.workers + (1 if self.kind in MPI else 0)

    @property
    def slots(self) -> int:
        """Ranks of one pod of an MPIJob."""
        return int(self.nproc_per_node) if self.nproc_per_node.isdigit() else self.gpus or 1


def _refuse(option: str, text: str) -> t.NoReturn:
    raise JobError("Creating the job: %s %s. Nothing was applied" % (option, text))


def _text(option: str, value: t.Any) -> str:
    # A template of a number or of a word such as true gives a value of another type.
    if isinstance(value, (dict, list, tuple)) or value is None:
        _refuse(option, "is %r; it must be a string" % (value,))
    if isinstance(value, bool):
        _refuse(option, "is %r, which YAML reads as true or false; quote it" % value)
    return str(value)


def _whole(option: str, value: t.Any) -> int:
    if isinstance(value, bool) or not re.match(r"\d+\Z", str(value)):
        _refuse(option, "is %r; it must be a whole number, not below 0" % (value,))
    return int(value)


def _truth(option: str, value: t.Any) -> bool:
    truth = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(str(value).lower())
    if truth is None:
        _refuse(option, "is %r; it must be true or false" % (value,))
    return truth


def _texts(option: str, value: t.Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        _refuse(option, "is %r; it must be a list" % (value,))
    return [_text("%s[%d]" % (option, number), entry) for number, entry in enumerate(value)]


def _mapping(option: str, value: t.Any) -> dict[str, str]:
    return {str(key): _text("%s.%s" % (option, key), entry) for key, entry in _any(option, value).items()}


def _mappings(option: str, value: t.Any) -> list[dict[str, t.Any]]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, t.Mapping) for entry in value):
        _refuse(option, "is %r; it must be a list of dictionaries" % (value,))
    return [dict(entry) for entry in value]


def _any(option: str, value: t.Any) -> dict[str, t.Any]:
    if not isinstance(value, t.Mapping):
        _refuse(option, "is %r; it must be a dictionary" % (value,))
    return dict(value)


_READ: dict[type, t.Callable[[str, t.Any], t.Any]] = {
    str: _text,
    int: _whole,
    bool: _truth,
    list: _texts,
    dict: _mapping,
}
_SPECIAL: dict[str, t.Callable[[str, t.Any], t.Any]] = {
    "command": _texts,
    "volumes": _mappings,
    "tolerations": _mappings,
    "nccl_env_options": _any,
}


def read(options: t.Any) -> Job:
    """Return the options with their types; refuse invalid ones, whatever the API server would do with them."""
    if not isinstance(options, t.Mapping):
        _refuse("the input", "is %r; it must be a dictionary of options" % (options,))
    unknown = sorted(set(options) - set(Job._fields))
    if unknown:
        _refuse(", ".join(unknown), "is not an option of a job; there are: %s" % ", ".join(Job._fields))
    missing = [name for name in ("kind", "name", "image", "command") if options.get(name) in (None, "", [])]
    if missing:
        _refuse(" and ".join(missing), "is missing")
    values = {}
    for name, value in options.items():
        convert = _SPECIAL.get(name) or _READ[type(Job._field_defaults.get(name, ""))]
        values[name] = convert(name, value)
    job = Job(**values)
    _check_names(job)
    _check_numbers(job)
    _check_network(job)
    for number, volume in enumerate(job.volumes):
        _check_volume("volumes[%d]" % number, volume)
    _check_nccl(job)
    _check_master(job)
    _check_kind(job)
    return job


def _check_names(job: Job) -> None:
    for option, choices in (("kind", KINDS), ("gang", GANGS), ("nccl_env", NCCL), ("runtime_kind", RUNTIME_KINDS)):
        value = getattr(job, option)
        if value not in choices:
            _refuse(option, "is %r; there are: %s" % (value, ", ".join(choices)))
    for option, most in (("name", NAME_MAX), ("namespace", 63), ("task_name", 15)):
        value = getattr(job, option)
        if not _LABEL.match(value) or len(value) > most:
            _refuse(
                option,
                "is %r; it must be a DNS label (RFC 1123): lower case letters, digits and '-', a letter or digit at "
                "both ends, at most %d characters, as pod names are derived from it" % (value, most),
            )
    # A Service's name begins with a letter (RFC 1035), and there is one of the job's name.
    if not job.name[0].isalpha():
        _refuse("name", "is %r; it must begin with a letter, as a Service has this name" % job.name)
    if job.require_digest and not _DIGEST.match(job.image):
        _refuse(
            "image",
            "is %r; without a digest two pods may run different programs. Give it as NAME@sha256:DIGEST, or set "
            "require_digest to false" % job.image,
        )
    for name in (*job.env, *filter(None, [job.master_hosts_variable])):
        if not _VARIABLE.match(name):
            _refuse("env", "has %r, which is not a valid name of an environment variable" % name)


def _check_numbers(job: Job) -> None:
    if job.workers < 1:
        _refuse("workers", "is 0; a job has at least one pod that trains")
    if not 1 <= job.master_port <= 65535:
        _refuse("master_port", "is %d; a port is 1 to 65535" % job.master_port)
    for name, amount in job.resources.items():
        if name not in _OWN_RESOURCES and not _EXTENDED.match(name) and not name.startswith("hugepages-"):
            _refuse("resources", "has %r; extended resources are DOMAIN/NAME, such as rdma/rdma" % name)
        match = _QUANTITY.match(amount)
        if not match:
            _refuse("resources", "has %s: %r, which is not a quantity such as 1, 500m or 16Gi" % (name, amount))
        if not float(match.group(1)):
            _refuse("resources", "has %s: %s; a resource of zero is none: leave it out" % (name, amount))
        if "/" in name and not amount.isdigit():
            _refuse("resources", "has %s: %s; extended resources are whole numbers" % (name, amount))
    if job.gpus and job.gpu_resource in job.resources:
        _refuse(
            "resources", "has %s, which gpus and gpu_resource set. Leave it out, or set gpus to 0" % job.gpu_resource
        )
    if job.shm_size and not _QUANTITY.match(job.shm_size):
        _refuse("shm_size", "is %r, which is not a quantity such as 16Gi" % job.shm_size)


def _check_network(job: Job) -> None:
    for text in job.networks:
        if not _NETWORK.match(text):
            _refuse("networks", "has %r; an entry is [NAMESPACE/]NAME[@INTERFACE]" % text)
    if job.networks and job.host_network:
        _refuse(
            "host_network",
            "and networks are mutually exclusive: a pod on the host network gets no attachments. Choose one of the two",
        )
    for name in job.claims:
        if not _LABEL.match(name):
            _refuse("claims", "has %r; an entry is the name of a ResourceClaimTemplate, a DNS label" % name)
    if job.claims and job.host_network:
        _refuse("host_network", "and claims are mutually exclusive: no card moves to a pod on the host network")


def _check_volume(option: str, volume: t.Mapping[str, t.Any]) -> None:
    unknown = sorted(set(volume) - {"name", "mount_path", "sub_path", "read_only", *VOLUMES})
    if unknown:
        _refuse(option, "has %s, which is not a key of a volume" % ", ".join(unknown))
    sources = [name for name in VOLUMES if volume.get(name) is not None]
    if len(sources) != 1:
        _refuse(option, "must have exactly one of %s; it has %s" % (", ".join(VOLUMES), ", ".join(sources) or "none"))
    if not _LABEL.match(str(volume.get("name", ""))) or str(volume["name"]) in OWN_VOLUMES:
        _refuse(
            option,
            "has the name %r; it must be a DNS label, and not %s" % (volume.get("name"), " or ".join(OWN_VOLUMES)),
        )
    nfs = volume.get("nfs")
    if nfs is not None and (not isinstance(nfs, t.Mapping) or set(nfs) != {"server", "path"}):
        _refuse(option, "has nfs %r; it has a server and a path" % (nfs,))
    if not str(volume.get("mount_path", "")).startswith("/"):
        _refuse(option, "has the mount_path %r; it must be an absolute path" % volume.get("mount_path"))


def _check_nccl(job: Job) -> None:
    for name, value in job.nccl_env_options.items():
        if name not in NCCL_OPTIONS:
            _refuse("nccl_env_options", "has %s; there are: %s" % (name, ", ".join(NCCL_OPTIONS)))
        choices = NCCL_OPTIONS[name]
        if choices and value not in choices:
            _refuse("nccl_env_options", "has %s: %r; there are: %s" % (name, value, ", ".join(choices)))
    try:
        socket_variables(**{name: job.nccl_env_options.get(name) for name in _SOCKETS})
        class_variables(**{name: job.nccl_env_options.get(name) for name in _CLASSES})
    except RailsError as exc:
        _refuse("nccl_env_options", "cannot be used. %s" % exc)


def _check_master(job: Job) -> None:
    if job.kind in _OPERATORS and (job.master_addr or job.master_hosts_variable):
        _refuse(
            "master_addr and master_hosts_variable", "do not apply to a %s: its operator sets the master" % job.kind
        )
    if job.master_addr and job.master_hosts_variable:
        _refuse("master_addr and master_hosts_variable", "are mutually exclusive")


def _check_mpijob(job: Job) -> None:
    if job.nccl_env == "pod" and not job.mpirun:
        _refuse(
            "nccl_env",
            "is pod, and mpirun is false: the environment is built where the ranks run, so the role must write "
            "mpirun's command. Set mpirun to true and command to the program of a rank, or nccl_env to none",
        )
    if job.mpirun and job.command[0].rpartition("/")[2] == "torchrun":
        _refuse(
            "command",
            "starts torchrun, and mpirun starts the ranks of an MPI job: each would train alone. Set it to the program "
            "of a rank (python3 and its file), or kind to another one",
        )
    if job.ssh:
        _refuse("ssh", "is true; the operator of an MPIJob has its own way from the launcher to the workers")


def _check_pytorchjob(job: Job) -> None:
    if job.workers < 2:
        _refuse("workers", "is 1; a PyTorchJob has a master and at least one more worker. Use the kind pods")


def _check_vcjob(job: Job) -> None:
    if job.scheduler_name not in ("", "volcano"):
        _refuse("scheduler_name", "is %r; a vcjob is scheduled by volcano" % job.scheduler_name)


def _check_jobset(job: Job) -> None:
    # A pod's host name is JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX (GenPodName() in placement.go of jobset v0.12.0).
    longest = "%s-%s-0-%d" % (job.name, job.task_name, job.workers - 1)
    if len(longest) > _HOST_NAME_MAX:
        _refuse(
            "name and task_name",
            "are too long together: a pod's host name would be %s, and has at most %d characters"
            % (longest, _HOST_NAME_MAX),
        )


def _check_trainjob(job: Job) -> None:
    options = [option for option in _OF_RUNTIME if getattr(job, option)]
    if options:
        _refuse(
            " and ".join(options),
            "cannot be set for a TrainJob, because its runtime has them. Set them in the runtime %s" % job.runtime,
        )
    # RFC 1123, as the names of most objects.
    if not re.match(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z", job.runtime):
        _refuse("runtime", "is %r; it must be the name of a %s" % (job.runtime, job.runtime_kind))


_CHECKS: dict[str, t.Callable[[Job], None]] = {
    "mpijob": _check_mpijob,
    "mpijob-v1alpha1": _check_mpijob,
    "pytorchjob": _check_pytorchjob,
    "vcjob": _check_vcjob,
    "jobset": _check_jobset,
    "trainjob": _check_trainjob,
}


def _check_kind(job: Job) -> None:
    gangs, why = _KIND_GANGS.get(job.kind, (GANGS, ""))
    if job.gang not in gangs:
        _refuse("gang", "is %s; %s. Choose one of: %s" % (job.gang, why, ", ".join(gangs)))
    if job.gang == "kueue" and not job.queue:
        _refuse("queue", "is empty; the gang kueue needs the name of a LocalQueue")
    if job.kind in _CHECKS:
        _CHECKS[job.kind](job)


__all__ = (
    "GANGS",
    "KINDS",
    "MPI",
    "NAME_MAX",
    "NCCL",
    "NCCL_OPTIONS",
    "RUNTIME_KINDS",
    "VOLUMES",
    "Job",
    "JobError",
    "read",
)
