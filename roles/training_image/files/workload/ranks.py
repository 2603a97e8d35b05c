# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who this process is: its rank, how many there are, and where rank 0 listens."""

from __future__ import annotations

import argparse
import re
import typing as t

from common import WorkloadError

Environ = t.Mapping[str, str]

# torch.distributed's own default.
DEFAULT_PORT = 29500
LOOPBACK = "127.0.0.1"
# The volcano plugin "env" sets VC_<TASK>_HOSTS, a list with commas, for every task of a job.
HOSTS = re.compile(r"VC_\w+_HOSTS\Z")
USUAL_HOSTS = "VC_TASK1_HOSTS"


class Ranks(t.NamedTuple):
    """One process of a job; ``source`` is what set its rank."""

    rank: int
    world_size: int
    local_rank: int
    master_addr: str
    master_port: int
    source: str


class _Found(t.NamedTuple):
    source: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int | None


def discover(arguments: argparse.Namespace, environ: Environ) -> Ranks:
    """Return who this process is. Raises WorkloadError if that is not known, or not possible."""
    found = _who(arguments, environ)
    if found.world_size < 1:
        raise WorkloadError("A world size of %d (%s): it must be at least 1" % (found.world_size, found.source))
    if not 0 <= found.rank < found.world_size:
        raise WorkloadError(
            "Rank %d in a world of %d (%s): ranks go from 0 to %d"
            % (found.rank, found.world_size, found.source, found.world_size - 1)
        )
    local = found.local_rank if arguments.local_rank is None else arguments.local_rank
    if local < 0:
        raise WorkloadError("Local rank %d: local ranks go from 0" % local)
    port = arguments.master_port
    if port is None:
        port = _number(environ, "MASTER_PORT") if environ.get("MASTER_PORT") else DEFAULT_PORT
    # Port 0 means any: the others could not find it.
    if not 1 <= port <= 65535:
        raise WorkloadError("Port %d of rank 0 (--master-port, MASTER_PORT): ports go from 1 to 65535" % port)
    address = arguments.master_addr or environ.get("MASTER_ADDR") or _first_host(environ)
    if not address:
        if found.world_size not in (1, found.local_size):
            raise WorkloadError(
                "The host of rank 0 of %d is not known: set MASTER_ADDR or --master-addr (with mpirun:"
                " -x MASTER_ADDR=HOST)" % found.world_size
            )
        address = LOOPBACK
    return Ranks(found.rank, found.world_size, local, address, port, found.source)


def _who(arguments: argparse.Namespace, environ: Environ) -> _Found:
    if arguments.rank is not None or arguments.world_size is not None:
        if arguments.rank is None or arguments.world_size is None:
            missing = "--rank" if arguments.rank is None else "--world-size"
            raise WorkloadError("--rank and --world-size go together: %s is missing" % missing)
        return _Found("--rank", arguments.rank, arguments.world_size, _local(environ), None)
    # Under mpirun a job's own RANK and WORLD_SIZE, which every process of a pod shares, are not used; a torchrun that
    # mpirun started says it all, and sets LOCAL_RANK.
    if "LOCAL_RANK" not in environ and "OMPI_COMM_WORLD_RANK" in environ:
        size = environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
        return _Found(
            "OMPI_COMM_WORLD_RANK",
            _number(environ, "OMPI_COMM_WORLD_RANK"),
            _number(environ, "OMPI_COMM_WORLD_SIZE"),
            _number(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
            _number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE") if size else None,
        )
    if "RANK" in environ or "WORLD_SIZE" in environ:
        return _Found("RANK", _number(environ, "RANK"), _number(environ, "WORLD_SIZE"), _local(environ), None)
    return _Found("one process", 0, 1, _local(environ), 1)


def _local(environ: Environ) -> int:
    return _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else 0


def _number(environ: Environ, name: str) -> int:
    text = environ.get(name)
    if text is None:
        raise WorkloadError(
            "%s is not set, but what belongs to it is: whatever starts this process must set both" % name
        )
    if not re.fullmatch(r"[0-9]{1,9}", text.strip(), re.ASCII):
        raise WorkloadError("%s=%s is not a whole number" % (name, text))
    return int(text)


def _first_host(environ: Environ) -> str:
    lists = {name: text for name, text in environ.items() if HOSTS.match(name) and text.strip(" ,")}
    if USUAL_HOSTS in lists:
        chosen = lists[USUAL_HOSTS]
    elif len(lists) == 1:
        (chosen,) = lists.values()
    elif lists:
        raise WorkloadError(
            "The host of rank 0 is not known: %s all name hosts. Set MASTER_ADDR or --master-addr"
            % ", ".join(sorted(lists))
        )
    else:
        return ""
    return next(host.strip() for host in chosen.split(",") if host.strip())


# --- agreement ----------------------------------------------------------------------------------------------------


def refuse_other(
    rank: int, hello: dict[str, t.Any], zero: dict[str, t.Any], my_rank: int, mine: dict[str, t.Any]
) -> None:
    """Compare the options of a rank with those of rank 0, and rank 0 with this one. Raises WorkloadError."""
    for number, one in ((rank, hello), (my_rank, mine)):
        told, wanted = ({**entry, **entry["settings"]} for entry in (one, zero))
        for name in sorted(set(told) | set(wanted)):
            if name in ("settings", "host", "device") or told.get(name) == wanted.get(name):
                continue
            raise WorkloadError(
                "The ranks were not started alike: %s is %s for rank %d and %s for rank 0"
                % (name, told.get(name), number, wanted.get(name))
            )


def refuse_shared_gpu(places: t.Sequence[tuple[str, str]]) -> None:
    """Raises WorkloadError when two ranks would use one GPU, which NCCL refuses in its own words."""
    seen: dict[tuple[str, str], int] = {}
    for rank, place in enumerate(places):
        if place in seen:
            raise WorkloadError(
                "Ranks %d and %d would both use %s of %s: give each its own with --local-rank, or start them"
                " with torchrun" % (seen[place], rank, place[1], place[0])
            )
        seen[place] = rank


__all__ = ("DEFAULT_PORT", "Ranks", "discover", "refuse_other", "refuse_shared_gpu")
